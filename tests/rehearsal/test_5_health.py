"""What the host does when nobody looks: start limit, gate, failures, hangs; with the stand-in."""

import json
import re
import shlex
import time
from pathlib import Path

import pytest

from tasks.shared import templates
from tasks.shared.settings import Settings
from tests.unit.conftest import values_of

from . import deploys, switching

HOSTKIT = "python3 -IB /opt/vllm/hostkit"
BURST = 3  # group_data/all.py


def run(command, host):
    return deploys.on_host(command, host=host)


def show(host, name):
    return run(f"systemctl show vllm -p {name} --value", host)


def hostkit(host, *words):
    return run(f"{HOSTKIT} {' '.join(words)}", host)


def variant(host, **env):
    """A generation like the current one, its server told these variables besides; its number."""
    return switching.variant(host, deploys.hostkit_state(host)["current"], **env)


@pytest.fixture(scope="module")
def usual(standin_host):
    """The stand-in's usual generation."""
    return deploys.hostkit_state(standin_host)["current"]


@pytest.fixture
def serving(standin_host, usual):
    """The usual generation serves, before the test and after it."""
    kept = f"/opt/vllm/generations/{usual}/generation.json"
    run(f"cp -p {kept} /srv/note", standin_host)
    yield standin_host
    run(f"cp -p /srv/note {kept}; systemctl stop vllm", standin_host)
    hostkit(standin_host, "activate", str(usual))
    hostkit(standin_host, "verify", "--deadline", "30")


RELOADS = "systemd-run --quiet --collect --unit=reloads sh -c " + shlex.quote(
    "while :; do systemctl daemon-reload; sleep 1; done"
)


@pytest.mark.parametrize("reloaded", [False, True], ids=["undisturbed", "with-daemon-reloads"])
def test_a_service_that_fails_at_once_is_started_as_often_as_the_limit_says(serving, reloaded):
    """systemd 252 forgets its own count at each daemon-reload."""
    number = variant(serving, STANDIN_FAULT="exit")
    if reloaded:
        run(RELOADS, serving)
    try:
        hostkit(serving, "activate", str(number))
        deploys.wait_for("the end of the starts", lambda: show(serving, "ActiveState") == "failed")
        time.sleep(3)
        assert show(serving, "ActiveState") == "failed"
    finally:
        if reloaded:
            run("systemctl stop reloads", serving)
    log = run("journalctl -u vllm -o cat --no-pager", serving)
    assert log.count(f"hostkit: generation {number}, release") == BURST
    if reloaded:
        assert f"this is start {BURST + 1} within" in "\n".join(log.splitlines()[-8:])


def test_the_first_failure_is_kept_told_and_shown_and_no_later_one(serving, tmp_path):
    address = tmp_path / "address"
    address.write_text("http://127.0.0.1:8901/S3CRET\n")
    address.chmod(0o600)
    data = ("--data", f"notify_file={address}")
    plan = deploys.pyinfra("deploy.py", "--dry", "--diff", *data, host=serving)
    assert "Write who is told of failures" in plan.stdout + plan.stderr
    assert "S3CRET" not in plan.stdout + plan.stderr
    assert deploys.pyinfra("deploy.py", "-y", *data, host=serving).returncode == 0
    assert deploys.deploy_json(*data, host=serving).success == 0
    before = deploys.latest_failure(serving)["number"]
    script = (Path(__file__).parent / "scripts/webhook.py").read_text()
    run(
        f"systemd-run --quiet --collect --unit=webhook python3 -c {shlex.quote(script)} 8901 "
        "/srv/told",
        serving,
    )
    try:
        number = variant(serving, STANDIN_FAULT="exit")
        hostkit(serving, "activate", str(number))
        deploys.wait_for("the end of the starts", lambda: show(serving, "ActiveState") == "failed")
        told = json.loads(
            deploys.wait_for("the webhook", lambda: run("cat /srv/told || true", serving))
        )
    finally:
        run("systemctl stop webhook; rm -f /srv/told", serving)
    failure = deploys.latest_failure(serving)
    assert failure["number"] == before + 1
    assert failure["cause"] == "RuntimeError: the stand-in was told to fail"
    assert len(failure["later"]) == BURST - 1
    assert failure["generation"] == number
    assert "the stand-in was told to fail" in told["text"]
    kept = f"/var/lib/vllm/health/failures/{failure['number']}"
    assert "the stand-in was told to fail" in run(f"cat {kept}/journal.log", serving)
    key = deploys.api_key(serving)
    assert run(f"grep -rl -e {key} -e S3CRET {kept} || true", serving) == ""
    assert run(f"stat -c %a {kept}", serving) == "700"

    shown = deploys.pyinfra("tasks/verify.py", "--dry", host=serving).stderr
    assert "The server failed at" in shown
    assert "To do: " in shown
    hostkit(serving, "failures", "--seen")
    assert "The server failed" not in deploys.pyinfra("deploy.py", "--dry", host=serving).stderr
    assert deploys.pyinfra("deploy.py", "-y", host=serving).returncode == 0
    assert run("ls /etc/vllm", serving) == "secrets.env"


def test_a_clean_exit_that_nobody_asked_for_is_noticed_and_the_server_started_again(serving):
    """As vLLM does, the stand-in ends with status 0 when its engine was killed."""
    before = deploys.latest_failure(serving)["number"]
    run("install -o vllm -m 600 /dev/null /dev/shm/psm_left; touch /dev/shm/psm_of_root", serving)
    engine = run("pgrep -u vllm -f 'vllm.standin engine'", serving)
    run(f"kill -9 {engine}", serving)
    deploys.wait_for("its record", lambda: deploys.latest_failure(serving)["number"] == before + 1)
    assert deploys.latest_failure(serving)["class"] == "engine-died"
    assert deploys.latest_failure(serving)["result"] == "success"
    deploys.wait_for("the next start", lambda: show(serving, "NRestarts") == "1")
    hostkit(serving, "verify", "--deadline", "30")
    assert run("ls /dev/shm", serving) == "psm_of_root"
    run("rm /dev/shm/psm_of_root", serving)


def test_an_exit_that_nobody_asked_for_is_recorded_within_ten_seconds(serving):
    """Its main process is told to end, as systemd would, and ends with status 0."""
    before = deploys.latest_failure(serving)["number"]
    run(f"kill -TERM {show(serving, 'MainPID')}", serving)
    deploys.wait_for("its record", lambda: deploys.latest_failure(serving)["number"] == before + 1)
    failure = deploys.latest_failure(serving)
    assert (failure["class"], failure["result"]) == ("unasked-exit", "success")
    # What systemd said of the unit when the record was made.
    unit = f"/var/lib/vllm/health/failures/{failure['number']}/unit.txt"
    exited = f'date +%s -d "$(sed -n s/^ExecMainExitTimestamp=//p {unit})"'
    assert 0 <= failure["at"] - int(run(exited, serving)) <= 10
    deploys.wait_for("the next start", lambda: show(serving, "NRestarts") == "1")


def test_a_stop_that_was_asked_for_is_no_failure(serving):
    before = deploys.latest_failure(serving)["number"]
    run("systemctl restart vllm", serving)
    run("systemctl stop vllm", serving)
    assert deploys.latest_failure(serving)["number"] == before


def test_the_server_is_to_be_the_last_to_go_when_memory_runs_out(serving):
    """Asked of systemd, which goes on without where a container allows no score below 0."""
    assert show(serving, "OOMScoreAdjust") == "-500"
    assert run("systemctl show vllm-guard -p OOMScoreAdjust --value", serving) == "-1000"


def test_what_is_left_in_shared_memory_is_swept_and_a_foreign_file_is_not(serving):
    """Also what RemoveIPC= does not see: a file of the user whose last process ended long ago."""
    run("systemctl stop vllm", serving)
    run("install -o vllm -m 600 /dev/null /dev/shm/vllm_offload_1-2.mmap", serving)
    run("install -o nobody /dev/null /dev/shm/psm_foreign", serving)
    assert hostkit(serving, "sweep", "--dry-run") == "vllm_offload_1-2.mmap (0 bytes)"
    run("systemctl start vllm", serving)
    assert "vllm_offload" not in run("ls /dev/shm", serving)
    assert "psm_foreign" in run("ls /dev/shm", serving)
    run("rm /dev/shm/psm_foreign", serving)


def needs(host, **changes):
    """Change what the current generation is said to need."""
    script = (
        "import json, sys; file = '/opt/vllm/current/generation.json'; "
        "note = json.load(open(file)); note['needs'].update(json.loads(sys.argv[1])); "
        "json.dump(note, open(file, 'w'))"
    )
    run(f"python3 -c {shlex.quote(script)} {shlex.quote(json.dumps(changes))}", host)


def refusal(host):
    lines = run("journalctl -u vllm -o cat --no-pager -n 60", host).splitlines()
    return next((line for line in reversed(lines) if line.startswith("hostkit: refused")), "")


def test_a_start_waits_for_a_gpu_that_is_not_free_and_comes_by_itself(serving):
    """nvidia-smi is imitated; systemd tries again (75), and the start succeeds once it is free."""
    run("systemctl stop vllm", serving)
    busy, free = "0, GPU-a, 12227, 5827", "0, GPU-a, 12227, 11800"
    folder = "/usr/lib/wsl/lib"
    run(f"mkdir -p {folder} && printf '#!/bin/sh\\ncat /srv/gpus\\n' >{folder}/nvidia-smi", serving)
    run(f"chmod +x {folder}/nvidia-smi; echo {busy} >/srv/gpus", serving)
    try:
        needs(serving, gpus=1, gpu_memory_utilization=0.89, wait_s=1)
        run("systemctl start vllm", serving)
        said = deploys.wait_for("a refusal", lambda: "refused for now" in refusal(serving))
        assert said
        assert "GPU 0: 5827 MiB of 12227 MiB are free, 10882 MiB are needed" in refusal(serving)
        run(f"echo {free} >/srv/gpus", serving)
        hostkit_verified = f"{HOSTKIT} probe >/dev/null 2>&1 && echo yes || true"
        deploys.wait_for("the server", lambda: run(hostkit_verified, serving))
    finally:
        run(f"rm -rf {folder} /srv/gpus", serving)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"open_files": 10_000_000}, "open files are allowed and 10000000 needed"),
        ({"locked_bytes": 1 << 50}, "bytes of locked memory are allowed"),
    ],
)
def test_a_limit_that_the_container_caps_is_refused_and_not_tried_again(serving, changes, told):
    run("systemctl stop vllm", serving)
    needs(serving, **changes)
    run("systemctl start vllm || true", serving)
    deploys.wait_for("the end", lambda: show(serving, "ActiveState") == "failed")
    assert told in refusal(serving)
    assert show(serving, "ExecMainStatus") == "78"


def test_what_systemd_makes_of_the_environment_file_is_asked_of_systemd(serving):
    """A line that was appended by hand wins over the setting, and its comment is part of it."""
    number = deploys.hostkit_state(serving)["current"]
    file = f"/opt/vllm/generations/{number}/vllm.env"
    hostkit(serving, "check-switch", str(number), "--force")
    run(f"cp -p {file} /srv/env; echo 'MAX_JOBS=8   # more' >>{file}", serving)
    command = f"{HOSTKIT} check-switch {number} --force 2>&1; true"
    try:
        said = run(command, serving)
        assert "systemd hands over MAX_JOBS='8   # more', meant is '1'" in said
        run("systemctl restart vllm || true", serving)
        deploys.wait_for("the end", lambda: show(serving, "ActiveState") == "failed")
        assert "MAX_JOBS='8   # more'" in refusal(serving)
    finally:
        run(f"cp -p /srv/env {file}", serving)
    assert run(command, serving) == ""


NASTY = {"A": '{"a": "b c"}', "B": "x # y", "C": "$HOME `id` \\n", "D": "it's", "E": " = "}


def test_values_that_shells_would_spoil_arrive_as_they_were_meant(serving):
    data = ("--data", f"extra_env={json.dumps(NASTY)}")
    assert deploys.pyinfra("deploy.py", "-y", *data, host=serving).returncode == 0
    number = max(map(int, deploys.hostkit_state(serving)["generations"]))
    hostkit(serving, "check-switch", str(number), "--force")


def test_a_process_of_an_earlier_server_is_refused_by_its_number(serving):
    run("systemctl stop vllm", serving)
    sleeps = "/opt/vllm/current/release/venv/bin/python -c 'import time; time.sleep(600)'"
    release = run("readlink -f /opt/vllm/current/release", serving)
    command = sleeps.replace("/opt/vllm/current/release", release)
    run(f"systemd-run --quiet --collect --unit=orphan --uid=vllm {command}", serving)
    try:
        needs(serving, wait_s=0)
        run("systemctl start vllm", serving)
        deploys.wait_for("a refusal", lambda: "of an earlier server is left" in refusal(serving))
        pid = run("systemctl show orphan -p MainPID --value", serving)
        assert f"process {pid} of an earlier server" in refusal(serving)
    finally:
        run("systemctl stop orphan", serving)
    deploys.wait_for("the server", lambda: deploys.hostkit_state(serving)["answering"])


@pytest.fixture
def unwatched(serving):
    """Nobody looks by himself meanwhile."""
    run("systemctl stop vllm-watch.timer vllm-watch.service", serving)
    yield serving
    run("systemctl start vllm-watch.timer", serving)


def test_a_hang_is_told_and_ended_only_when_that_is_wanted(unwatched):
    """The stand-in takes requests, says 200 at /health, and never works on them."""
    host = unwatched
    number = variant(host, STANDIN_FAULT="stuck")
    hostkit(host, "activate", str(number))
    deploys.wait_for("the server", lambda: deploys.hostkit_state(host)["answering"])
    watch = ("watch-progress", "--after", "2")
    before = deploys.latest_failure(host)["number"]
    body = {"model": "standin", "prompt": "1", "max_tokens": 5}
    client = deploys.start_request(host, "/v1/completions", body, deploys.api_key(host))
    running = re.compile(r"vllm:num_requests_running\S* [1-9]")
    deploys.wait_for("the request", lambda: running.search(deploys.request(host, "/metrics")[1]))
    try:
        hostkit(host, *watch)
        pid = show(host, "MainPID")
        time.sleep(2)
        assert re.search(r"hangs: \d+ requests are under way", hostkit(host, *watch))
        assert show(host, "MainPID") == pid
        found = deploys.latest_failure(host)
        assert (found["class"], found["number"]) == ("hang", before + 1)
        run("rm /run/vllm/progress.json", host)
        hostkit(host, *watch)
        time.sleep(2)
        hostkit(host, *watch, "--restart")
        deploys.wait_for("a new server", lambda: show(host, "NRestarts") == "1")
        assert deploys.latest_failure(host)["number"] == before + 1
    finally:
        client.kill()
        client.wait()


def test_the_timer_looks_by_itself_and_is_gone_when_nobody_is_to_look(serving):
    assert run("systemctl is-enabled vllm-watch.timer", serving) == "enabled"
    assert run("systemctl is-active vllm-watch.timer", serving) == "active"
    units = "vllm-watch.timer vllm-watch.service"
    assert run(f"systemd-analyze verify {units} 2>&1", serving) == ""
    run("systemctl start vllm-watch.service", serving)
    this = "$(systemctl show vllm-watch -p InvocationID --value)"
    assert run(f"journalctl -o cat _SYSTEMD_INVOCATION_ID={this} --no-pager -q", serving) == ""
    off = ("--data", "hang_after_s=0")
    assert deploys.deploy_json(*off, host=serving).success == 1
    assert run("ls /etc/systemd/system | grep vllm-watch || true", serving) == ""
    assert run("systemctl list-timers --all --no-legend | grep vllm-watch || true", serving) == ""
    assert deploys.deploy_json(*off, host=serving).success == 0
    assert deploys.deploy_json(host=serving).success == 1
    assert run("systemctl is-active vllm-watch.timer", serving) == "active"


@pytest.mark.parametrize("wsl2", [True, False])
def test_the_unit_of_the_production_profile_is_hardened_and_understood(serving, wsl2):
    production = Settings.model_validate(values_of("group_data/all.py") | {"wsl2": wsl2})
    deploys.on_host(
        "mkdir -p /srv/units && cat >/srv/units/vllm.service",
        stdin=templates.unit(production),
        host=serving,
    )
    unit = "/srv/units/vllm.service"
    scores = run(f"systemd-analyze security --offline=true --no-pager {unit}", serving)
    exposure = float(scores.splitlines()[-1].split("vllm.service:")[1].split()[0])
    assert exposure <= 2.0
    assert run(f"systemd-analyze verify {unit} 2>&1", serving) == ""
    assert run("systemctl is-enabled vllm", serving) == "enabled"
