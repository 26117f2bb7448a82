"""What the operator may set, and what is said about a mistake."""

import pytest
from pydantic import ValidationError

from tasks.shared.settings import Settings, describe


def mistakes(values):
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(values)
    return describe("box", caught.value)


def test_the_production_profile_passes_its_own_checks(production):
    settings = Settings.model_validate(production)
    assert settings.safe_utilization == 0.89
    assert settings.model_dir == "/var/lib/vllm/models/ternary-27b"


def test_the_rehearsal_profile_passes(rehearsal):
    assert Settings.model_validate(rehearsal).accelerator == "cpu"


def test_settings_cannot_be_changed_later(make):
    with pytest.raises(ValidationError):
        make().port = 9000


def test_a_misspelt_key_is_answered_with_the_nearest_name(production):
    assert mistakes(production | {"max_num_seq": 8}) == [
        "  box: max_num_seq: no such setting; did you mean max_num_seqs?"
    ]


def test_a_missing_key_is_named(production):
    del production["port"]
    (line,) = mistakes(production)
    assert line.startswith("  box: port: must be set")


def test_every_mistake_is_listed_at_once(production):
    found = mistakes(production | {"port": 80, "gpus": 0, "modle": "x", "wsl2": "yes"})
    assert [line.split(":")[1].split(" =")[0].strip() for line in found] == [
        "wsl2",
        "gpus",
        "port",
        "modle",
    ]


def test_a_mistake_names_the_value_and_what_is_expected(production):
    (line,) = mistakes(production | {"port": 80})
    assert line == "  box: port = 80: must be greater than or equal to 1024"


# Each pair: what must be refused, its twin that must pass, and a word of the reason.
REFUSED = [
    ("vllm_version", "0.31", "0.31.0", "pattern"),
    ("vllm_version", "9.9.9", "0.31.0", "0.31.0"),
    ("accelerator", "rocm", "cuda", "cuda"),
    ("gpus", True, 2, "whole number"),
    ("gpus", "2", 2, "whole number"),
    ("gpu_memory_utilization", 0.95, 0.89, "at most 0.89"),
    ("gpu_memory_utilization", 1.5, None, "less than 1"),
    ("model", "/srv/model", "host:/srv/model", "host:/folder"),
    ("model", "host:srv/model", "host:/srv/model", "absolute"),
    ("model", "host:/srv/../etc", "host:/srv/etc", ".."),
    ("model", "host:/srv/a b", "host:/srv/a_b", "letters"),
    ("model", "hf:owner/name", f"hf:owner/name@{'a' * 40}", "40 digits"),
    ("model", "hf:owner/name@main", f"hf:owner/name@{'0' * 40}", "40 digits"),
    ("model", "control:/no/such/folder", "host:/no/such/folder", "no such folder"),
    ("served_model_name", 'a"b', "a-b", "pattern"),
    ("served_model_name", 7, "7", "in quotes"),
    ("kv_ssd_dir", "kv", "/kv", "absolute"),
    ("kv_ssd_dir", "/kv\n[Service]", "/kv", "letters"),
    ("port", 65536, 65535, "65535"),
    ("mtp_tokens", -1, 0, "0"),
    ("max_num_batched_tokens", 8, 16, "max_num_seqs"),
    ("kv_ram_gib", 0.0, 0.5, "kv_ssd_gb"),
    ("extra_serve_args", {"--port": 1}, {"seed": 1}, "without the leading dashes"),
    ("extra_serve_args", {"port": 1}, {"seed": 1}, "port"),
    ("extra_env", {"A B": "1"}, {"A_B": "1"}, "environment variable"),
    ("extra_env", {"A": "1\nB=2"}, {"A": "1"}, "one line"),
    ("extra_env", {"MAX_JOBS": "8"}, {"OTHER": "8"}, "MAX_JOBS"),
    ("extra_env", {"VLLM_API_KEY": "k"}, {"VLLM_LOGGING_LEVEL": "DEBUG"}, "VLLM_API_KEY"),
    ("extra_serve_args", {"api-key": "k"}, {"seed": 1}, "api-key"),
    ("extra_serve_args", {"config": "/x"}, {"seed": 1}, "config"),
    ("extra_serve_args", {"no-enable-prefix-caching": True}, {"seed": 1}, "prefix-caching"),
    ("extra_serve_args", {"hf-token": "t"}, {"seed": 1}, "hf-token"),
    ("extra_serve_args", {"seed": None}, {"seed": 1}, "seed = None"),
    ("extra_serve_args", {"lora-modules": [{"name": "a"}]}, {"lora-modules": ["a=b"]}, "lora"),
    ("find_links", "/wheels", ["/wheels"], "list"),
    ("hf_endpoint", "mirror", "https://mirror", "pattern"),
]


@pytest.mark.parametrize(("key", "bad", "good", "reason"), REFUSED)
def test_what_is_refused_and_its_twin_that_passes(production, key, bad, good, reason):
    (line,) = mistakes(production | {key: bad})
    assert line.startswith("  box: ")
    assert reason in line
    assert key in line
    Settings.model_validate(production | {key: good})


def test_a_control_folder_must_be_a_complete_model(production, tmp_path):
    (line,) = mistakes(production | {"model": f"control:{tmp_path}"})
    assert "config.json is missing" in line


def test_a_key_file_that_others_can_read_is_refused(production, tmp_path):
    key = tmp_path / "key"
    key.write_text("0123456789abcdef\n")
    key.chmod(0o640)
    (line,) = mistakes(production | {"api_key_file": str(key)})
    assert "chmod 600" in line
    key.chmod(0o600)
    Settings.model_validate(production | {"api_key_file": str(key)})


def test_a_server_to_adopt_is_named_by_its_unit_or_by_its_process_id(make, production):
    """`--data adopt=1234` is a number by the time it is read."""
    assert make(adopt=1234).adopt == "1234"
    assert make(adopt="my-llm.service").adopt == "my-llm.service"
    for bad in (True, 1.5, ["a"]):
        (line,) = mistakes(production | {"adopt": bad})
        assert "adopt" in line
