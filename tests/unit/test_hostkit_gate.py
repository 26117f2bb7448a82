"""The gate before a start: each refusal, and its twin that passes. nvidia-smi is imitated."""

import os
import resource
import socket

import pytest

from hostkit.generation import gate, handover, resources
from hostkit.host import good, gpus, mounts, paths, sweep, units
from hostkit.host.process import Failure

CLEAN = "0, GPU-a, 12227, 11800\n1, GPU-b, 12227, 11832\n"
ONE_DIRTY = "0, GPU-a, 12227, 11800\n1, GPU-b, 12227, 5827\n"
NEEDS = {"gpus": 2, "gpu_memory_utilization": 0.89}


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """Gives the imitated nvidia-smi its answer and exit status."""
    program = tmp_path / "nvidia-smi"
    monkeypatch.setattr(gpus, "_PROGRAMS", (tmp_path / "not-here", program))

    def answer(text, status=0):
        (tmp_path / "answer").write_text(text)
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\nexit {status}\n")
        program.chmod(0o755)

    return answer


def test_two_free_gpus_pass(nvidia_smi):
    nvidia_smi(CLEAN)
    resources.free_gpus(NEEDS, None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (ONE_DIRTY, r"^GPU 1: 5827 MiB of 12227 MiB are free, 10882 MiB are needed$"),
        (CLEAN.replace("11832", "[N/A]"), "GPU 1: nvidia-smi does not say what is free"),
        (CLEAN.replace(", 11832", ""), "cannot read what nvidia-smi says: 1, GPU-b, 12227"),
        ("", "lists no GPU"),
        (CLEAN.splitlines()[0], "1 GPUs are there, 2 are needed"),
    ],
)
def test_a_gpu_that_is_not_free_or_not_readable_is_refused_by_its_number(nvidia_smi, answer, told):
    nvidia_smi(answer)
    with pytest.raises(Failure, match=told):
        resources.free_gpus(NEEDS, None)


def test_a_driver_that_does_not_answer_is_not_free_memory(nvidia_smi):
    nvidia_smi("Failed to initialize NVML: GPU access blocked", status=9)
    with pytest.raises(Failure, match="GPU access blocked"):
        resources.free_gpus(NEEDS, None)


def test_a_host_without_nvidia_smi_says_where_it_was_looked_for(nvidia_smi):
    with pytest.raises(Failure, match=r"not-here or .*nvidia-smi: is the NVIDIA driver installed"):
        resources.free_gpus(NEEDS, None)


def test_only_the_gpus_that_the_server_is_given_have_to_be_free(nvidia_smi):
    nvidia_smi(ONE_DIRTY)
    one = NEEDS | {"gpus": 1}
    resources.free_gpus(one, None)
    resources.free_gpus(one, "GPU-a")
    for visible in ("1", "GPU-b"):
        with pytest.raises(Failure, match="GPU 1: 5827"):
            resources.free_gpus(one, visible)
    with pytest.raises(Failure, match="names GPU 7"):
        resources.free_gpus(one, "7")


def test_a_server_without_a_gpu_asks_for_none():
    resources.free_gpus({}, None)


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """Makes processes in an imitated /proc, where the service's user is 990."""
    monkeypatch.setattr(units, "PROC", tmp_path)
    monkeypatch.setattr(sweep, "service_uid", lambda: 990)

    def process(pid, uid, command):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        (tmp_path / f"{pid}/cmdline").write_bytes(command.encode().replace(b" ", b"\0"))

    return process


ENGINE = f"{paths.RELEASES}/r/venv/bin/python -c spawn_main"


@pytest.mark.parametrize("command", ["VLLM::Worker_TP1", ENGINE])
def test_a_process_that_an_earlier_server_left_is_refused_by_its_number(proc, command):
    proc(41, 990, ENGINE)
    proc(42, 990, command)
    with pytest.raises(Failure, match=r"process 42 of an earlier server is left: "):
        resources.no_orphans(own=41)


def test_other_processes_are_no_orphans(proc):
    proc(41, 990, ENGINE)
    proc(43, 990, "/usr/bin/python3 -IB /opt/vllm/hostkit prune")
    proc(44, 0, ENGINE)
    resources.no_orphans(own=41)


def test_a_port_that_somebody_holds_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failure, match=rf"port {port} is held by process {os.getpid()} \("):
            resources.free_port(port)
    resources.free_port(port)


def test_a_ram_tier_that_does_not_fit_into_shared_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "SHM", tmp_path)
    with pytest.raises(Failure, match=r"MiB free, 1073741824 MiB are needed: lower kv_ram_gib"):
        resources.shared_memory({"shm_bytes": 2**50})
    resources.shared_memory({"shm_bytes": 1})


def test_limits_that_something_around_the_unit_caps_are_refused(monkeypatch):
    given = {resource.RLIMIT_NOFILE: 1024, resource.RLIMIT_MEMLOCK: 8 << 20}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (given[kind], given[kind]))
    with pytest.raises(Failure, match="1024 open files are allowed and 8192 needed"):
        resources.limits({"open_files": 8192})
    with pytest.raises(Failure, match="8388608 bytes of locked memory are allowed"):
        resources.limits({"locked_bytes": 2 << 30})
    resources.limits({"open_files": 1024, "locked_bytes": 0})
    given[resource.RLIMIT_MEMLOCK] = resource.RLIM_INFINITY
    resources.limits({"locked_bytes": 2 << 30})


MOUNTINFO = """\
20 1 8:32 / / rw,relatime shared:1 - ext4 /dev/sdc rw
21 20 0:40 / /mnt/c rw - 9p C:\\134 rw,aname=drvfs
22 20 8:48 / /mnt/my\\040ssd rw - ext4 /dev/sdd rw
23 20 0:30 / /tmp rw - tmpfs tmpfs rw
24 20 8:32 /var/lib/vllm/kv /var/lib/vllm/kv rw - ext4 /dev/sdc rw
25 22 8:48 /kv /mnt/my\\040ssd/kv rw - ext4 /dev/sdd rw
26 20 8:64 /@ /mnt/btrfs rw - btrfs /dev/sde rw
27 26 8:64 /@/kv /mnt/btrfs/kv rw - btrfs /dev/sde rw
"""


@pytest.mark.parametrize(
    ("path", "point", "kind"),
    [
        ("/srv", "/", "ext4"),
        ("/mnt/c/kv", "/mnt/c", "9p"),
        ("/mnt/cc", "/", "ext4"),
        ("/mnt/my ssd/x", "/mnt/my ssd", "ext4"),
        # What a unit's ReadWritePaths= makes of a folder is not another disk.
        ("/var/lib/vllm/kv/abc", "/", "ext4"),
        ("/mnt/my ssd/kv/abc", "/mnt/my ssd", "ext4"),
        ("/mnt/btrfs/kv", "/mnt/btrfs", "btrfs"),
    ],
)
def test_the_mount_of_a_path_is_the_same_inside_and_outside_of_the_unit(path, point, kind):
    assert mounts.find(path, MOUNTINFO) == mounts.Mount(point, kind)


@pytest.fixture
def kv(tmp_path, monkeypatch):
    """A KV folder, and a way to say which file system it lies on."""
    folder = tmp_path / "ssd/kv"
    folder.mkdir(parents=True)
    monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "mountinfo")
    monkeypatch.setattr(good, "FILE", tmp_path / "health/good.json")

    def lies_on(point, kind):
        (tmp_path / "mountinfo").write_text(
            f"1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 8:1 / {point} rw - {kind} /dev/sdb rw\n"
        )
        return {"kv_dir": str(folder)}

    return lies_on


@pytest.mark.parametrize("kind", ["9p", "drvfs", "tmpfs", "overlay", "fuse.sshfs", "nfs4"])
def test_a_kv_folder_on_no_real_disk_is_refused(kv, tmp_path, kind):
    with pytest.raises(Failure, match=rf"KV folder .* is on {tmp_path}/ssd, .*\({kind}\)"):
        resources.kv_folder(kv(f"{tmp_path}/ssd", kind))
    resources.kv_folder(kv(f"{tmp_path}/ssd", "ext4"))


def test_a_kv_folder_whose_disk_is_not_mounted_any_more_is_refused(kv, tmp_path):
    needs = kv(f"{tmp_path}/ssd", "ext4")
    good.mark("a1", 1, needs["kv_dir"])
    resources.kv_folder(needs)
    kv("/elsewhere", "ext4")
    with pytest.raises(Failure, match=rf"lies on / and was on {tmp_path}/ssd when it last served"):
        resources.kv_folder(needs)


def test_a_disk_that_was_mounted_since_is_welcome(kv, tmp_path):
    needs = kv("/elsewhere", "ext4")
    good.mark("a1", 1, needs["kv_dir"])
    kv(f"{tmp_path}/ssd", "ext4")
    resources.kv_folder(needs)


def test_a_kv_folder_that_is_gone_is_refused(kv, tmp_path):
    needs = kv(f"{tmp_path}/ssd", "ext4")
    (tmp_path / "ssd/kv").rmdir()
    with pytest.raises(Failure, match="is not there"):
        resources.kv_folder(needs)


def test_what_passes_by_itself_is_waited_for_and_no_longer(monkeypatch):
    answers = [Failure("GPU 0"), Failure("GPU 0"), None]

    def occupied():
        answer = answers.pop(0)
        if answer:
            raise answer

    monkeypatch.setattr(gate, "POLL_S", 0.0)
    gate._wait(occupied, deadline=float("inf"))
    assert answers == []
    answers[:] = [Failure("GPU 0")] * 2
    with pytest.raises(gate.NotNow, match="GPU 0"):
        gate._wait(occupied, deadline=0.0)


WANTED = {"MAX_JOBS": "1", "KV": '{"a": 1}'}


@pytest.mark.parametrize(
    ("handed_over", "told"),
    [
        ({"KV": '{"a": 1}'}, "hands over no MAX_JOBS"),
        (WANTED | {"MAX_JOBS": "1   # note"}, r"MAX_JOBS='1   # note', meant is '1'"),
        (WANTED | {"KV": "{a: 1}"}, "KV='{a: 1}'"),
    ],
)
def test_a_variable_that_does_not_arrive_as_it_was_meant_is_refused(tmp_path, handed_over, told):
    with pytest.raises(Failure, match=told):
        handover.compare(handed_over, WANTED, tmp_path / "vllm.env")
    handover.compare(WANTED | {"PATH": "/bin"}, WANTED, tmp_path / "vllm.env")


def test_systemd_is_asked_again_only_when_the_file_has_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(handover, "_CHECKED", tmp_path / "checked")
    asked = []

    def read(file):
        asked.append(file)
        return WANTED

    monkeypatch.setattr(handover, "read", read)
    file = tmp_path / "vllm.env"
    for text in ("MAX_JOBS=1\n", "MAX_JOBS=1\n", "MAX_JOBS=1 \n"):
        file.write_text(text)
        handover.check(file, WANTED)
    assert len(asked) == 2
    with pytest.raises(Failure):
        handover.check(file, WANTED | {"MORE": "1"})
