"""Each state of a host that is refused or warned of, and beside it the twin that passes."""

import pytest

from tasks.shared.facts.access import Access
from tasks.shared.facts.machine import Machine
from tasks.shared.host_checks import access, blocking, findings, judge, storage
from tests.unit.host_states import PASSES, REFUSED, WARNED
from tests.unit.machines import MOUNTS, changed, good


def judged(machine, settings):
    """What is not in order, as (level, what)."""
    return [(f.level, f.what) for f in judge(machine, settings) if f.level != "ok"]


def only(machine, settings):
    (finding,) = [f for f in judge(machine, settings) if f.level != "ok"]
    return finding


def everything(finding):
    return " ".join((finding.found, finding.wanted, finding.remedy))


@pytest.mark.parametrize(
    ("changes", "own", "what", "words"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
def test_a_state_that_fails_later_is_refused_with_the_remedy(changes, own, what, words, make):
    settings = make(**own)
    found = list(judge(changed(**changes), settings))
    (finding,) = [f for f in found if f.what == what]
    assert finding.level == "refusal"
    assert [word for word in words if word not in everything(finding)] == []
    assert finding.remedy


@pytest.mark.parametrize(
    ("changes", "own", "what", "words"),
    [case[1:] for case in WARNED],
    ids=[case[0] for case in WARNED],
)
def test_a_state_that_hurts_is_warned_of_and_stops_nothing(changes, own, what, words, make):
    finding = only(changed(**changes), make(**own))
    assert (finding.level, finding.what) == ("warning", what)
    assert [word for word in words if word not in everything(finding)] == []


@pytest.mark.parametrize(
    ("changes", "own"), [case[1:] for case in PASSES], ids=[case[0] for case in PASSES]
)
def test_a_state_that_is_in_order_passes(changes, own, make):
    assert judged(changed(**changes), make(**own)) == []


def test_a_machine_that_is_in_order_is_told_all_that_was_looked_at(make):
    found = judge(good(), make())
    assert {each.what for each in found} == {
        *("architecture", "root", "distribution", "python", "glibc", "kernel", "clock"),
        *("systemd", "wsl.conf", "WSL", ".wslconfig memory", "keep-alive", "network"),
        *("driver packages", "apt sources", "CUDA toolkit", "GPUs", "gpu_memory_mib"),
        *(f"GPU {n}{of}" for n in (0, 1) for of in ("", " driver", " memory", " PCIe")),
        *("RAM", "/dev/shm", "disk", "disk of the SSD tier", "drive C:", "kv_ssd_dir", "model"),
        *("port 8000", "port 9090", "port 9091", "other vLLM"),
    }


def test_the_cpu_build_wants_neither_a_gpu_nor_cuda_nor_windows(make):
    settings = make(accelerator="cpu", wsl2=False, gpus=1, kv_ram_gib=0.0, kv_ssd_gb=0)
    plain = Machine(pid1="systemd", arch="x86_64", user="0", os="debian 12", python="3.11.2")
    assert judged(plain, settings) == []
    assert [what for _, what in judged(changed(python="3.12.3"), settings)] == ["python", "kernel"]


def test_a_driver_is_a_linux_machines_own(make):
    settings = make(wsl2=False)
    host = changed(
        kernel="6.12.1", packages="ii  nvidia-driver-580 580\n", libcuda="/usr/lib/x/libcuda.so.1"
    )
    assert judged(host, settings) == []


def test_systemd_on_a_linux_machine_is_not_wsls_to_cure(make):
    finding = only(changed(pid1="init", kernel="6.12.1"), make(wsl2=False))
    assert (finding.what, finding.cured_by) == ("systemd", "")
    assert "wsl2 = True" in finding.remedy


def test_a_plain_machine_without_anything_is_told_everything_in_one_screen(make):
    machine = Machine(pid1="systemd", arch="x86_64", user="0", os="debian 12", kernel="6.1.0")
    found = judge(machine, make())
    lines = findings.table(found)
    assert len(lines) < 40
    assert {"kernel", "GPUs", "CUDA toolkit"} <= {f.what for f in found if f.level == "refusal"}


def test_what_the_deploy_cures_is_to_do_and_no_refusal_in_its_table(make):
    found = list(judge(changed(pid1="init", wsl_conf=None, nvcc=""), make()))
    lines = [text for text, _ in findings.table(findings.left_to_do(found), with_ok=False)]
    assert any(line.split()[:2] == ["to", "do"] and "CUDA toolkit" in line for line in lines)
    assert any("this run does it: tasks/cuda.py" in line for line in lines)
    assert "2 to do, 0 warnings, 0 refusals" in lines[-1]
    alone = [text for text, _ in findings.table(found, with_ok=False)]
    assert "2 refusals" in alone[-1]
    assert "to do" not in " ".join(alone)


def test_the_table_ends_with_what_is_refused(make):
    found = judge(changed(arch="aarch64", clock_ahead_s=120.0), make())
    lines = [text for text, _ in findings.table(found)]
    assert lines[-1].endswith("ok, 1 warning, 1 refusal")
    assert "refusal  architecture" in lines[-3]
    assert "use another machine" in lines[-2]
    short = [text for text, _ in findings.table(found, with_ok=False)]
    assert short[-2:] == lines[-2:]
    assert len(short) == 5


def test_a_line_of_the_table_has_what_was_found_what_is_wanted_and_the_remedy():
    found = [
        findings.refusal("port", "taken", "free", "end it", cured_by="tasks/x.py"),
        findings.ok("root", "yes"),
        findings.warning("RAM", "8 GiB", "16 GiB", "add some"),
    ]
    lines = [line.split() for line, _ in findings.table(found)]
    assert lines == [
        ["ok", "root", "yes"],
        ["warning", "RAM", "8", "GiB;", "wanted:", "16", "GiB"],
        ["add", "some"],
        ["refusal", "port", "taken;", "wanted:", "free"],
        ["end", "it", "(tasks/x.py", "does", "it)"],
        ["1", "ok,", "1", "warning,", "1", "refusal"],
    ]
    assert [color for _, color in findings.table(found, with_ok=False)] == [
        *("yellow", "yellow", "red", "red", None)
    ]


def test_what_a_later_task_cures_stops_neither_it_nor_a_plan(make):
    found = judge(changed(pid1="init", wsl_conf=None, nvcc=""), make())
    assert [f.what for f in blocking(found, cures_follow=False)] == ["systemd", "CUDA toolkit"]
    assert blocking(found, cures_follow=True) == []
    found = judge(changed(pid1="init", wsl_conf=None, arch="aarch64"), make())
    assert [f.what for f in blocking(found, cures_follow=True)] == ["architecture"]


@pytest.mark.parametrize(
    ("found", "level", "words"),
    [
        (Access("0"), "ok", "not needed"),
        (Access("1000", "Sudo version 1.9.15p5", True), "ok", "1.9.15p5"),
        (Access("1000", "Sudo version 1.9.15p5"), "ok", "passes the question on"),
        (Access("1000"), "refusal", "apt-get install sudo"),
        (Access("1000", "sudo-rs 0.2.8", True), "refusal", "update-alternatives"),
        (Access("1000", "sudo-rs 0.2.13", True), "ok", "0.2.13"),
        (Access("1000", "sudo-rs 0.2.13"), "warning", "sudo.ws"),
    ],
)
def test_sudo_must_be_one_that_pyinfra_understands(found, level, words):
    (finding,) = access.judge(found)
    assert finding.level == level
    assert words in everything(finding)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/x", "ext4"),
        ("/mnt/c", "9p"),
        ("/mnt/c/a/b", "9p"),
        ("/mnt/cd", "ext4"),
        ("/mnt/my disk/a", "9p"),
        ("/dev/shm", "tmpfs"),
    ],
)
def test_the_file_system_under_a_path_is_that_of_the_nearest_mount(path, kind):
    assert storage.file_system(path, MOUNTS) == kind
    assert storage.file_system(path, "") == ""


def test_every_threshold_has_a_source():
    for name, entry in findings._thresholds().items():
        assert len(entry["source"]) > 20, name
    assert good().has_systemd
