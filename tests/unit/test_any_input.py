"""Whatever a file, a tool or an operator says: no traceback, and never "in order" by mistake.

Texts are made of pieces that the real ones have, so that they come close to being right.
"""

import contextlib
import dataclasses
import json
import math
import tomllib

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from hostkit.generation import startlog
from hostkit.health import fingerprints
from hostkit.host import gpus
from hostkit.host.process import Failure
from hostkit.model import modelconfig
from hostkit.release import openpgp
from hostkit.serving import server
from tasks.shared import host_checks, templates
from tasks.shared.engine import formats, serving
from tasks.shared.facts import machine
from tasks.shared.host_checks.gpus import parse as parse_gpus
from tasks.shared.release import patches
from tasks.shared.settings import Settings, describe
from tasks.shared.wsl import wslconf
from tests.unit import machines
from tests.unit.conftest import values_of

settings.register_profile("here", derandomize=True, database=None, deadline=None, max_examples=150)
settings.load_profile("here")

ODD = ["", "\0", "²", "٣", "\x85", "\u2028", "\ufeff", "\udc80", "NaN", "-1", "1e999", "9" * 400]


def made_of(*pieces, most=12):
    """Texts out of such pieces, odd ones, and any others between them."""
    one = st.one_of(st.sampled_from([*pieces, *ODD]), st.text(max_size=8))
    return st.lists(one, max_size=most).map("".join)


def refusal(kind, call):
    """What a call was refused with; None when it was not."""
    try:
        call()
    except kind as error:
        return str(error)
    return None


CONF = made_of(
    *("[boot]", "[ boot ]", "[wsl2]", "[BOOT", "systemd", "Systemd", "memory", "=", " = ", "true"),
    *("false", "24GB", "#", ";", '"', "\n", "\r\n", "\r", "\t", "  ", "[boot]\nsystemd=true\n"),
    most=20,
)
WANTED = {"boot": {"systemd": "true"}, "wsl2": {"memory": "24GB"}}


@given(
    st.one_of(st.binary(max_size=60), CONF.map(lambda t: t.encode("utf-16-le", "surrogatepass")))
)
def test_a_file_of_windows_is_written_as_it_was_read(content):
    found = wslconf.decode(content)
    if "\r\n" not in found.text and content.count(b"\r") == 0:
        assert wslconf.rewritten(found, found.text) == content


@given(CONF)
def test_an_edited_conf_says_what_is_wanted_and_all_that_it_said_before(text):
    before = wslconf.parse(text)
    if told := refusal(ValueError, lambda: wslconf.updated(text, WANTED)):
        assert told.startswith("cannot be edited: ")
        assert "\n" not in told
        return
    new = wslconf.updated(text, WANTED)
    after = wslconf.parse(new)
    assert (after["boot.systemd"].lower(), after["wsl2.memory"].lower()) == ("true", "24gb")
    ours = ("boot.systemd", "wsl2.memory")
    assert {k: v for k, v in after.items() if k not in ours} == {
        k: v for k, v in before.items() if k not in ours
    }
    assert wslconf.updated(new, WANTED) == new


GPU_LINES = made_of(
    *("0", "1", ", ", ",", "NVIDIA GeForce RTX 5070", "12.0", "12227", "11800", "[N/A]", "581.80"),
    *("\n", '"', "No devices were found", "0, NVIDIA GeForce RTX 5070, 12.0, 12227, 11800, 16, "),
    machines.GPUS,
    most=20,
)
SAID = {
    "gpus": GPU_LINES,
    "os": made_of("ubuntu", " ", "24.04", "debian", "12"),
    "kernel": made_of("6.6", ".", "114", "-microsoft-standard-WSL2", "5.15"),
    "python": made_of("3", ".", "11", "12"),
    "glibc": made_of("2", ".", "39"),
    "meminfo": made_of("MemTotal:", " ", "24660248", " kB", "\n", "MemAvailable: "),
    "mounts": made_of("/dev/sdd / ext4 rw 0 0\n", "\\040", "\\134", "\\9", " ", "/", "9p", "\n"),
    "packages": made_of("ii ", "cuda-drivers", " ", "580", "\n", "cuda-toolkit-13-0", "rc "),
    "apt_sources": made_of("/etc/apt/sources.list", ":", "deb ", "https://x", "\n"),
    "nvcc": made_of("release ", "13.0", ",", "Cuda compilation tools", "\n"),
    "wsl_conf": CONF.map(lambda text: text.encode("utf-8", "surrogatepass")),
    "wslconfigs": st.binary(max_size=40).map(lambda content: {"me": content}),
    "wsl_version": st.one_of(
        st.binary(max_size=40), CONF.map(lambda t: t.encode("utf-8", "replace"))
    ),
    "wslpath": made_of("\\\\wsl.localhost\\", "Ubuntu", "\\"),
    "unit": made_of("active", "inactive"),
    "user": made_of("0", "1000"),
}


@pytest.fixture(scope="module")
def profile():
    return Settings.model_validate(values_of("group_data/all.py"))


@pytest.mark.parametrize("what", SAID)
def test_whatever_a_machine_says_of_itself_is_judged(profile, what):
    @given(SAID[what])
    def judged(said):
        found = host_checks.judge(dataclasses.replace(machines.good(), **{what: said}), profile)
        assert all(each.what and "\n" not in each.remedy for each in found)
        if what == "gpus" and len(parse_gpus(said)) < profile.gpus:
            assert host_checks.blocking(found, cures_follow=False)
        if what == "user" and said != "0":
            assert host_checks.blocking(found, cures_follow=False)

    judged()


@given(
    st.lists(
        made_of("pid1", "now", "place", "listener", "vllm", "=", ":", "MTIz", "OTk="), max_size=8
    )
)
@example(["now=²"])
@example(["place:bW9kZWwKL3gK2bI="])
def test_whatever_the_script_prints_is_read(lines):
    machine.parse(lines, asked_at=0.0)


@given(GPU_LINES)
def test_a_gpu_of_which_nothing_is_known_is_not_free(text):
    if told := refusal(gpus.Unreadable, lambda: gpus.parse(text)):
        assert "\n" not in told
        return
    found = gpus.parse(text)
    occupied = gpus.occupied(found, 0.89)
    unknown = [gpu for gpu in found if gpu.free_mib is None or gpu.total_mib is None]
    assert len(occupied) >= len(unknown)


METRICS = made_of(
    *("vllm:num_requests_running", "vllm:num_requests_waiting", "{", "}", 'engine="0"', " ", "\n"),
    *("0.0", "1.0", "+Inf", "# HELP ", "vllm:num_requests_running{} 0.0\n"),
    "vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\n",
    most=16,
)


THERE = server.Server(1, 1, "http://127.0.0.1:1", "m", "0.31.0")


def in_flight(answer):
    """What the server's metrics are taken for; None when they are not believed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_get", lambda *_args, **_options: answer)
        try:
            return server.requests_in_flight(THERE)
        except Failure:
            return None


@given(METRICS)
@example("vllm:num_requests_running NaN\nvllm:num_requests_waiting 0.0\n")
@example("vllm:num_requests_running 0.0\nvllm:num_requests_waiting +Inf\n")
@example("vllm:num_requests_running x\nvllm:num_requests_waiting 0.0\n")
@example("vllm:num_requests_running -1.0\nvllm:num_requests_waiting 1.0\n")
@example("vllm:num_requests_running 0.0\n")
def test_a_server_whose_metrics_cannot_be_read_is_not_idle(text):
    if in_flight(text) == 0:
        lines = [line for line in text.split("\n") if line[:5] == "vllm:" and " " in line]
        told = dict(line.rpartition(" ")[::2] for line in lines)
        assert len(told) >= 2
        assert all(float(value) < 1 for value in told.values() if value)


def test_its_twin_is_idle():
    text = 'vllm:num_requests_running{engine="0"} 0.0\nvllm:num_requests_waiting 0.0\n'
    assert in_flight(text) == 0
    assert in_flight(text.replace(" 0.0\n", " 2.0\n")) == 4


JOURNAL = st.lists(
    made_of(
        *("(EngineCore pid=7) ", "ERROR 11-29 10:00:00 [core.py:1] ", "ValueError", ": ", "Error"),
        *(
            "Loading weights took",
            "hostkit: refused: ",
            "error: ",
            "oom-kill:",
            "CUDA out of memory",
        ),
        *("libcudart.so.13: cannot open shared object file", "undefined symbol", "A." * 20),
    ),
    max_size=6,
)


@given(JOURNAL)
def test_whatever_a_server_writes_last_is_told_in_one_line(lines):
    assert startlog.phase(lines)
    assert startlog.last_error(lines)
    assert len(startlog.last_error(lines)) <= 500
    kind = fingerprints.classify(lines)
    assert kind.name
    assert kind.remedy
    if not any(lines):
        assert kind == fingerprints.UNKNOWN


PATCH = made_of(
    *(
        "diff --git a/vllm/x.py b/vllm/x.py\n",
        "index 1234567..89abcde 100644\n",
        "--- a/vllm/x.py\n",
    ),
    *(
        "+++ b/vllm/x.py\n",
        "@@ -1 +1 @@\n",
        "-old\n",
        "+new\n",
        "-- \n2.39\n",
        "\n",
        "rename from x\n",
    ),
)


@given(PATCH, PATCH)
def test_two_patches_have_the_same_hash_only_if_they_do_the_same(one, two):
    def hunks(text):
        try:
            return patches.hunks_sha256(text)
        except ValueError:
            return None

    def changed(text):
        lines = text.splitlines()
        start = next((n for n, line in enumerate(lines) if line.startswith("diff --git ")), None)
        return [] if start is None else [x for x in lines[start:] if x[:1] in "+@"]

    if hunks(one) and hunks(one) == hunks(two):
        assert changed(one) == changed(two)


SERIES = made_of(
    *(
        "[[patch]]\n",
        'name = "0001-x.patch"\n',
        'title = "x"\n',
        'upstream = "none"\n',
        'why = "x"\n',
    ),
    *(
        'until = ""\n',
        'until = "0.9.1"\n',
        "[patch.files]\n",
        '"vllm/x.py" = {}\n',
        "= ",
        "[",
        "patch = 1\n",
    ),
    most=16,
)


@given(text=SERIES)
@example(text="patch = 1\n")
@example(text="[[patches]]\n")
def test_a_series_that_is_wrong_is_refused(tmp_path_factory, text):
    folder = tmp_path_factory.getbasetemp() / "vllm-0.31.0"
    folder.mkdir(exist_ok=True)
    (folder / "series.toml").write_text(text, "utf-8", "replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patches, "PATCHES", folder.parent)
        try:
            assert patches.series("0.31.0") == []
        except ValueError:
            return
    assert "[[patch]]" not in text or "#" in text or tomllib.loads(text).get("patch") is None


VALUES = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12)),
        st.sampled_from(
            [*ODD, "0.31.0", "hf:a/b", "host:/srv/m", "127.0.0.1", "$(id)", "a\nb", "%h"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=4,
)
NAMES = st.sampled_from([*Settings.model_fields, "vllm_versoin", ""])


@given(changes=st.dictionaries(NAMES, VALUES, min_size=1, max_size=3))
def test_settings_are_refused_in_lines_or_can_be_told(changes):
    values = values_of("group_data/all.py") | changes
    try:
        valid = Settings.model_validate(values)
    except ValidationError as error:
        for line in describe("host", error):
            assert line.startswith("  host: ")
        return
    config = serving.serve_config(valid, "x")
    assert yaml.safe_load(formats.serve_yaml(config)) == config
    assert templates.unit(valid)
    assert formats.env_file(serving.environment(valid, "x")).count("\n") == len(
        serving.environment(valid, "x")
    )


ANSWERS = st.dictionaries(
    st.sampled_from(["version", "usage", "choices", "server_load", "error"]),
    st.one_of(
        VALUES,
        st.fixed_dictionaries({"completion_tokens": VALUES}),
        st.lists(st.fixed_dictionaries({"message": VALUES, "text": VALUES}), max_size=2),
    ),
)


@given(
    st.one_of(
        ANSWERS.map(json.dumps), ANSWERS.map(json.dumps).map(lambda t: t[:9]), VALUES.map(str)
    )
)
@example('{"version": "0.31.0", "usage": []}')
@example('{"choices": [{"message": {}}], "server_load": "x"}')
def test_whatever_a_server_answers_it_is_right_or_told_in_one_line(answer):
    questions = (
        lambda: server.probe(THERE),
        lambda: server.chat(THERE, "?"),
        lambda: server.complete(THERE, "?", 1),
        lambda: server.load(THERE),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "_get", lambda *_args, **_options: answer)
        for ask in questions:
            assert "\n" not in (refusal(server.NotAnswering, ask) or "")


CONFIGS = st.dictionaries(
    st.sampled_from(
        [
            *("max_position_embeddings", "model_max_length", "seq_length", "rope_scaling"),
            *("rope_parameters", "text_config", "quantization_config", "compression_config"),
            *("quantization", "rope_type", "factor", "quant_method", "bits", "group_size"),
        ]
    ),
    VALUES,
    max_size=5,
)


@given(CONFIGS, CONFIGS)
@example({"max_position_embeddings": math.inf}, {})
@example({"rope_scaling": []}, {"max_position_embeddings": 8})
def test_whatever_a_model_says_of_itself_is_read(tmp_path_factory, config, text):
    folder = tmp_path_factory.getbasetemp() / "model"
    folder.mkdir(exist_ok=True)
    for each in (config, config | {"text_config": text}, text | {"rope_scaling": config}):
        (folder / "config.json").write_text(json.dumps(each), "utf-8")
        for line in modelconfig.misfits(folder, max_model_len=131072, methods=["gptq"]):
            assert "\n" not in line
        modelconfig.foreign_format(folder, each)


@given(st.binary(max_size=80))
@example(openpgp._BEGIN + b"\n\n=")
def test_what_is_no_key_is_refused(content):
    with contextlib.suppress(ValueError):
        assert openpgp.fingerprints(content) is not None
