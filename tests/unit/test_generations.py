"""When two generations are the same, and what a deploy does on a host in a given state."""

import json

import pytest

from tasks.shared.facts.hostkit import GenerationState, HostState
from tasks.shared.generation import generations
from tasks.shared.generation.steps import Step, next_step, no_way_back
from tasks.shared.release import patches, releases
from tasks.shared.settings import Settings


def wanted(settings, **changes):
    parts = {"weights": "w", "unit": "u", "key_digest": "k"} | changes
    return generations.wanted(settings, releases.wanted(settings), **parts)


def test_the_same_settings_are_the_same_generation(make):
    assert wanted(make()) == wanted(make())


@pytest.mark.parametrize(
    "changes",
    [{"max_num_seqs": 8}, {"extra_env": {"A": "1"}}, {"port": 8001}, {"python_hash_seed": 1}],
)
def test_a_changed_setting_is_another_generation_of_the_same_release(make, changes):
    one, two = wanted(make()), wanted(make(**changes))
    assert one.digest != two.digest
    assert one.files["release"] == two.files["release"]


@pytest.mark.parametrize("changes", [{"weights": "x"}, {"unit": "x"}, {"key_digest": "x"}])
def test_weights_unit_and_key_belong_to_a_generation(make, changes):
    assert wanted(make()).digest != wanted(make(), **changes).digest


def test_the_environment_names_its_generation(make):
    generation = wanted(make())
    assert f'GENERATION_DIGEST="{generation.digest}"\n' in generation.files["vllm.env"]
    assert json.loads(generation.files["generation.json"])["digest"] == generation.digest


@pytest.mark.parametrize(
    ("changes", "key", "value"),
    [
        ({}, "thinks", False),
        ({"reasoning_parser": "qwen3"}, "thinks", True),
        ({}, "kv_offload", True),
        ({"kv_ram_gib": 0, "kv_ssd_gb": 0}, "kv_offload", False),
        ({}, "weights", "w"),
        ({"model": f"hf:a/b@{'0' * 40}"}, "weights", None),
    ],
)
def test_the_note_says_how_the_model_is_to_be_asked_and_what_to_look_at(make, changes, key, value):
    assert json.loads(wanted(make(**changes)).note)[key] == value


def test_a_note_that_is_lost_is_all_that_its_folder_lacks(make):
    generation = wanted(make())
    note, others = generation.note, generation.files_but_note
    assert others | {generations.NOTE: note} == generation.files
    assert generations.NOTE not in others


def test_settings_that_do_not_reach_the_server_make_no_new_generation(make):
    assert wanted(make()).digest == wanted(make(force="yes")).digest


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({}, "other weights"),
        ({"mamba_ssm_cache_dtype": "float16"}, "w"),
        ({"python_hash_seed": 1}, "w"),
    ],
)
def test_kv_of_something_else_is_never_read(make, changes, weights):
    assert generations.kv_fingerprint(make(), "w") != generations.kv_fingerprint(
        make(**changes), weights
    )


def test_kv_outlives_a_change_of_what_it_does_not_depend_on(make):
    assert generations.kv_fingerprint(make(), "w") == generations.kv_fingerprint(
        make(max_num_seqs=8, kv_ram_gib=4), "w"
    )


VERIFIED = GenerationState(digest="a", verified=True)
NEW = GenerationState(digest="b")

STATES = [
    ("a fresh host", HostState(), Step.START),
    ("the server was stopped", HostState(active="inactive", current=1), Step.START),
    ("systemd gave up", HostState(active="failed", current=1), Step.START),
    (
        "the wanted one serves",
        HostState(active="active", sub="running", running=2, current=2, answering=True),
        Step.NOTHING,
    ),
    (
        "the wanted one is loading",
        HostState(active="active", sub="running", running=2, current=2),
        Step.NOTHING,
    ),
    (
        "another one serves",
        HostState(active="active", sub="running", running=1, current=1, answering=True),
        Step.RESTART_NEEDED,
    ),
    (
        "a good one is loading after a boot",
        HostState(
            active="active", sub="running", running=1, current=1, generations={1: VERIFIED, 2: NEW}
        ),
        Step.RESTART_NEEDED,
    ),
    (
        "one that never answered is trying",
        HostState(
            active="active", sub="running", running=1, current=1, generations={1: NEW, 2: NEW}
        ),
        Step.START,
    ),
    (
        "a crash loop of one that never answered waits for its next try",
        HostState(active="activating", sub="auto-restart", current=1, generations={1: NEW}),
        Step.START,
    ),
    (
        "a good one that has just died waits for its next start",
        HostState(active="activating", sub="auto-restart", current=1, generations={1: VERIFIED}),
        Step.RESTART_NEEDED,
    ),
    (
        "the wanted one waits for its next start",
        HostState(active="activating", sub="auto-restart", current=2, generations={2: VERIFIED}),
        Step.START,
    ),
    (
        "the note of the one that runs is damaged",
        HostState(active="active", sub="running", running=1, current=None, generations={2: NEW}),
        Step.RESTART_NEEDED,
    ),
]


@pytest.mark.parametrize(("state", "step"), [s[1:] for s in STATES], ids=[s[0] for s in STATES])
def test_what_a_deploy_does(state, step):
    assert next_step(state, 2) is step


def test_a_release_is_named_by_what_goes_in(production):
    def name(**changes):
        return releases.wanted(Settings.model_validate(production | changes)).name

    assert name() == name(max_num_seqs=8)
    assert name() == name(find_links=["/wheels"])
    assert name() != name(accelerator="cpu")
    assert name().startswith("0.31.0-")


def test_a_changed_patch_is_another_release(production, monkeypatch):
    settings = Settings.model_validate(production)
    before = releases.wanted(settings)
    monkeypatch.setattr(patches, "texts", lambda settings: {"0001-a.patch": "changed"})
    assert releases.wanted(settings).name != before.name


def test_only_the_cpu_build_says_cpu_in_its_version(make):
    """vLLM decides by that which platform it runs on."""
    cuda, cpu = (releases.wanted(make(accelerator=name)) for name in ("cuda", "cpu"))
    assert cuda.installed_version == f"0.31.0+patched.{cuda.name.partition('-')[2]}"
    assert cpu.installed_version == f"0.31.0+cpu.patched.{cpu.name.partition('-')[2]}"


SERVED = HostState(
    active="active",
    running=3,
    current=3,
    previous=1,
    generations={1: VERIFIED, 2: NEW, 3: VERIFIED},
)


@pytest.mark.parametrize(
    ("state", "to", "why"),
    [
        (SERVED, None, None),
        (SERVED, 1, None),
        (SERVED, 2, "generation 2 has never served: name one that has served: "),
        (SERVED, 9, "there is no generation 9: name one that has served: "),
        (SERVED.model_copy(update={"previous": None}), None, "there is no generation before 3: "),
        (SERVED.model_copy(update={"previous": 3}), None, "there is no generation before 3: "),
    ],
)
def test_a_way_back_leads_only_to_what_has_served(state, to, why):
    found = no_way_back(state, to)
    assert (found is None) == (why is None)
    assert (found or "").startswith(why or "")
