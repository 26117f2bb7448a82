"""What is claimed of vLLM itself: a killed engine, a stopped one, and a unit hardened too far."""

import functools
import time

import pytest

from . import deploys

HOSTKIT = "python3 -IB /opt/vllm/hostkit"
DROP_IN = "/run/systemd/system/vllm.service.d/too-far.conf"


def run(command, host):
    return deploys.on_host(command, host=host)


wait_for = functools.partial(deploys.wait_for, seconds=120)


def signal_engine(host, signal):
    """To the process that vLLM calls EngineCore."""
    run(f"pkill -{signal} -u vllm -f VLLM::EngineCore", host)


@pytest.fixture
def serving(deployed):
    """The real engine serves, before the test and after it."""
    run(f"{HOSTKIT} probe", deployed)
    yield deployed
    run(f"rm -f {DROP_IN}; systemctl daemon-reload", deployed)
    if run(f"{HOSTKIT} probe >/dev/null 2>&1 && echo yes || true", deployed) != "yes":
        run("systemctl stop vllm; systemctl reset-failed vllm; systemctl start vllm", deployed)
        run(f"{HOSTKIT} verify --deadline 200", deployed)


def test_a_killed_engine_is_a_failure_and_the_server_comes_back_with_clean_shared_memory(serving):
    """vLLM ends with status 0 then, as after a stop that was asked for."""
    before = deploys.latest_failure(serving)["number"]
    main_pid = "systemctl show vllm -p MainPID --value"
    pid = run(main_pid, serving)
    run("install -o vllm -m 600 /dev/null /dev/shm/psm_left; touch /dev/shm/psm_of_root", serving)
    signal_engine(serving, "KILL")
    wait_for("its record", lambda: deploys.latest_failure(serving)["number"] == before + 1)
    failure = deploys.latest_failure(serving)
    assert (failure["class"], failure["result"]) == ("engine-died", "success")
    wait_for("the sweep", lambda: run("ls /dev/shm", serving) == "psm_of_root")
    run("rm /dev/shm/psm_of_root", serving)
    # 0 while systemd waits before it starts the next one.
    wait_for("the next start", lambda: run(main_pid, serving) not in ("0", pid))
    run(f"{HOSTKIT} verify --deadline 200", serving)
    assert "Paris" in deploys.ask("What is the capital of France?", host=serving)


def harden(host, directive):
    run(f"mkdir -p {DROP_IN.rpartition('/')[0]}", host)
    deploys.on_host(f"cat >{DROP_IN}", host=host, stdin=f"[Service]\n{directive}\n")
    run("systemctl daemon-reload; systemctl restart vllm", host)


@pytest.mark.campaign
def test_a_server_that_is_healthy_and_cannot_answer_is_found_out(serving):
    """MemoryDenyWriteExecute=: /health is 200, and the first completion kills the engine."""
    harden(serving, "MemoryDenyWriteExecute=yes")
    wait_for("/health", lambda: deploys.hostkit_state(serving)["answering"])
    said = run(f"{HOSTKIT} probe 2>&1; true", serving)
    assert "answered 500" in said or "did not answer" in said


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("directive", "told"),
    [
        ("RestrictAddressFamilies=\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "sandbox"),
        ("SystemCallFilter=~@resources", "sandbox"),
        ("ProcSubset=pid", "sandbox"),
    ],
)
def test_a_unit_that_is_hardened_too_far_is_known_by_its_failure(serving, directive, told):
    before = deploys.latest_failure(serving)["number"]
    harden(serving, directive)
    wait_for("its failure", lambda: deploys.latest_failure(serving)["number"] == before + 1)
    assert deploys.latest_failure(serving)["class"] == told


@pytest.mark.campaign
def test_a_stopped_engine_is_a_hang_and_a_long_prompt_is_none(serving):
    watch = f"{HOSTKIT} watch-progress --after 5"
    run(watch, serving)
    client = deploys.start_long_request(serving)
    try:
        for _ in range(3):
            assert "hangs" not in run(watch, serving)
            time.sleep(3)
        assert client.poll() is None, "the request ended too early to tell"
        signal_engine(serving, "STOP")
        try:
            run(watch, serving)
            time.sleep(6)
            assert "hangs: 1 requests" in run(watch, serving)
            assert deploys.request(serving, "/health")[0] == 200
        finally:
            signal_engine(serving, "CONT")
        assert deploys.latest_failure(serving)["class"] == "hang"
    finally:
        client.kill()
        client.wait()
