"""A model from a Hugging Face repository, by the release's own client, from an imitated hub."""

import pytest

from . import deploys
from .canaries import Canary, search_host, spied
from .host import smollm2, state
from .imitations import hub

TOKEN = "hf_canary0123456789"


@pytest.fixture
def token_file(deployed):
    path = state.load(deployed).folder / "hf_token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    return path


def provide(host, endpoint, token_file, *options):
    return deploys.pyinfra(
        "tasks/model.py",
        "-y",
        "--diff",
        "-vvv",
        "--debug",
        *options,
        "--data",
        f"model=hf:{hub.REPOSITORY}@{hub.COMMIT}",
        "--data",
        f"hf_endpoint={endpoint}",
        "--data",
        f"hf_token_file={token_file}",
        host=host,
    )


def folders(host):
    return deploys.on_host("ls -A /var/lib/vllm/models", host=host).split()


def test_a_repository_is_downloaded_at_its_commit_once(deployed, token_file):
    folder = f"someone--smollm2-{hub.COMMIT[:12]}"
    with hub.serve(smollm2.folder(), TOKEN) as endpoint:
        done = provide(deployed, endpoint, token_file)
        assert done.returncode == 0, done.stderr
        assert f"downloading {hub.REPOSITORY}" in done.stderr
    assert folder in folders(deployed)
    assert f"{folder}.new" not in folders(deployed)
    ours = deploys.on_host(
        "sha256sum <$(ls -d /var/lib/vllm/models/SmolLM2*)/model.safetensors", host=deployed
    )
    theirs = deploys.on_host(
        f"sha256sum </var/lib/vllm/models/{folder}/model.safetensors", host=deployed
    )
    assert ours == theirs
    assert TOKEN not in done.stderr

    again = provide(deployed, endpoint, token_file)
    assert again.returncode == 0, "the hub is gone, and must not be asked"
    assert "] Success" not in again.stderr


@pytest.mark.parametrize(
    "name", ["model.safetensors", pytest.param("tokenizer.json", marks=pytest.mark.campaign)]
)
def test_a_file_with_one_changed_byte_is_refused_and_fetched_again(deployed, token_file, name):
    deploys.on_host("rm -rf /var/lib/vllm/models/someone--*", host=deployed)
    with hub.serve(smollm2.folder(), TOKEN) as endpoint:
        hub.Hub.damaged.add(name)
        try:
            refused = provide(deployed, endpoint, token_file)
        finally:
            hub.Hub.damaged.clear()
        assert refused.returncode == 1
        assert f"{name} came with another content than the repository states" in refused.stderr
        assert f"someone--smollm2-{hub.COMMIT[:12]}" not in folders(deployed)
        again = provide(deployed, endpoint, token_file)
    assert again.returncode == 0, again.stderr
    assert f"someone--smollm2-{hub.COMMIT[:12]}" in folders(deployed)


@pytest.mark.campaign
def test_the_token_of_a_download_is_shown_to_nobody(deployed, token_file):
    token = Canary("token", TOKEN, ("/etc/vllm/hf_token",))
    deploys.on_host("rm -rf /var/lib/vllm/models/someone--*", host=deployed)
    with hub.serve(smollm2.folder(), TOKEN) as endpoint, spied(deployed, [token]) as spy:
        done = provide(deployed, endpoint, token_file)
    assert done.returncode == 0, done.stderr
    assert {name for name, *_ in spy.hits} == {"bait"}
    found = search_host(deployed, [token], [])
    assert {what for _, what in found.of("token")} == {"/etc/vllm/hf_token 600 0:0"}


def test_a_repository_that_one_may_not_read_is_refused_with_the_reason(deployed, token_file):
    token_file.write_text("hf_wrong0123456789")
    before = deploys.hostkit_state(deployed)
    deploys.on_host("rm -rf /var/lib/vllm/models/someone--*", host=deployed)
    with hub.serve(smollm2.folder(), TOKEN) as endpoint:
        done = provide(deployed, endpoint, token_file)
    assert done.returncode == 1
    assert "401" in done.stderr or "gated" in done.stderr.lower()
    assert "Traceback" not in done.stderr
    assert not [name for name in folders(deployed) if name == f"someone--smollm2-{hub.COMMIT[:12]}"]
    assert deploys.hostkit_state(deployed) == before


def test_a_model_that_is_too_short_is_refused_before_its_weights_are_downloaded(
    deployed, token_file
):
    deploys.on_host("rm -rf /var/lib/vllm/models/someone--*", host=deployed)
    with hub.serve(smollm2.folder(), TOKEN) as endpoint:
        done = provide(deployed, endpoint, token_file, "--data", "max_model_len=9000")
    assert done.returncode == 1
    assert "max_model_len = 9000 is beyond the model's own 8192 tokens" in done.stderr
    arrived = deploys.on_host("ls /var/lib/vllm/models/someone--*", host=deployed).split()
    assert "config.json" in arrived
    assert "model.safetensors" not in arrived
