"""The guards of config.py, seen by a user of the real pyinfra command."""

import contextlib
import os
import pty
import shlex
import shutil
import signal
import socket
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.shared.run import guards
from tasks.shared.run.guards import check_python

REPOSITORY = Path(__file__).parents[2]
PYINFRA = Path(sysconfig.get_path("scripts")) / "pyinfra"
ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("PYINFRA_")}
LONGEST_RUN_S = 60

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with our config.py and tasks, three inventories and two deploy files."""
    shutil.copy(REPOSITORY / "config.py", tmp_path)
    shutil.copytree(REPOSITORY / "tasks", tmp_path / "tasks")
    (tmp_path / "inventory.py").write_text('hosts = ["@local"]\n')
    (tmp_path / "pair.py").write_text('hosts = ["@fake/one", "@fake/two"]\n')
    (tmp_path / "empty.py").write_text("hosts = []\n")
    for name, command in (("touch", "touch ran"), ("slow", "touch ran; sleep 45; touch finished")):
        (tmp_path / f"{name}.py").write_text(
            "from pyinfra.operations import server\n"
            f'server.shell(name="Run a command", commands=["{command}"])\n'
        )
    return tmp_path


@pytest.fixture
def run(repository: Path) -> Run:
    """Run pyinfra to its end, with nobody to answer its prompts."""

    def run_pyinfra(
        *arguments: str,
        cwd: Path = repository,
        env: dict[str, str] | None = None,
        own_session: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYINFRA, *arguments],
            cwd=cwd,
            env=ENVIRONMENT | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST_RUN_S,
            check=False,
            start_new_session=own_session,
        )

    return run_pyinfra


@pytest.fixture
def start(repository: Path) -> Iterator[Start]:
    """Start pyinfra in a session of its own, which is killed in the end; it talks on stderr."""
    started: list[subprocess.Popen[str]] = []

    def start_pyinfra(*arguments: str, terminal: int | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [PYINFRA, *arguments],
            cwd=repository,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE if terminal is None else terminal,
            stdout=subprocess.DEVNULL if terminal is None else terminal,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start_pyinfra
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """What the process printed up to `text`; killed if it takes too long."""
    assert process.stderr
    deadline = threading.Timer(LONGEST_RUN_S, process.kill)
    deadline.start()
    printed = ""
    while text not in printed:
        character = process.stderr.read(1)
        assert character, f"ended before it printed {text!r}: {printed}"
        printed += character
    deadline.cancel()
    return printed


def assert_refused(
    result: subprocess.CompletedProcess[str], repository: Path, *expected: str
) -> None:
    """Exit status 1, one last line with the texts, no traceback, no log file, nothing done."""
    last_line = result.stdout.rstrip().splitlines()[-1]
    assert result.returncode == 1, result.stdout
    assert all(text in last_line for text in expected), result.stdout
    assert "Traceback" not in result.stdout
    assert not (repository / "pyinfra-debug.log").exists()
    assert not (repository / "ran").exists()


def test_a_run_with_yes_does_its_work(run: Run, repository: Path) -> None:
    result = run("inventory.py", "touch.py", "--yes")
    assert result.returncode == 0, result.stdout
    assert (repository / "ran").exists()


@pytest.mark.parametrize(
    ("flags", "env"),
    [
        (["--dry", "-y"], {}),
        (["--yes", "--dry"], {}),
        (["--dry"], {"PYINFRA_YES": "1"}),
        (["--dry", "--json", "-y"], {}),
    ],
)
def test_a_dry_run_that_would_plan_nothing_is_refused(
    run: Run, repository: Path, flags: list[str], env: dict[str, str]
) -> None:
    result = run("inventory.py", "touch.py", *flags, env=env)
    assert_refused(result, repository, "--dry", "--yes", "PYINFRA_YES", "drop one of them")


@pytest.mark.parametrize("env", [{}, {"PYINFRA_YES": "0"}, {"PYINFRA_YES": ""}])
def test_a_dry_run_shows_the_plan_and_does_nothing(
    run: Run, repository: Path, env: dict[str, str]
) -> None:
    result = run("inventory.py", "touch.py", "--dry", env=env)
    assert result.returncode == 0, result.stdout
    assert "1 (@local)" in result.stdout
    assert not (repository / "ran").exists()


@pytest.mark.parametrize("inventory", ["inventry.py", "hosts/inventory.py", "./inventory"])
def test_a_misspelt_inventory_file_is_refused(run: Run, repository: Path, inventory: str) -> None:
    result = run(inventory, "touch.py", "-y")
    assert_refused(result, repository, f"inventory {inventory}", "no such file")


def test_a_folder_as_inventory_is_refused(run: Run, repository: Path) -> None:
    assert_refused(run("tasks", "touch.py", "-y"), repository, "inventory tasks", "is a folder")


@pytest.mark.parametrize("inventory", ["empty.py", "no-such-host.invalid"])
def test_an_inventory_without_hosts_is_refused(run: Run, repository: Path, inventory: str) -> None:
    result = run(inventory, "touch.py", "-y")
    assert_refused(result, repository, f"inventory {inventory}", "has no hosts")


@pytest.mark.parametrize("inventory", ["@local", "@fake/one,@fake/two"])
def test_host_names_are_an_inventory_too(run: Run, inventory: str) -> None:
    result = run(inventory, "touch.py", "-y")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "flags",
    [
        ["--limit", "@fake/three"],
        ["--limit", "@fake/one", "--limit", "@fake/three"],
        ["--exclude", "@fake/three"],
    ],
)
def test_a_limit_or_exclude_that_matches_no_host_is_refused(
    run: Run, repository: Path, flags: list[str]
) -> None:
    result = run("pair.py", "touch.py", "-y", *flags)
    assert_refused(result, repository, f"{flags[-2]} @fake/three", "@fake/one, @fake/two")


@pytest.mark.parametrize(
    "flags",
    [["--exclude", "@fake/*"], ["--exclude", "pair"], ["--limit", "*one", "--exclude", "*one"]],
)
def test_an_exclude_that_leaves_no_host_is_refused(
    run: Run, repository: Path, flags: list[str]
) -> None:
    assert_refused(run("pair.py", "touch.py", "-y", *flags), repository, "leave no host")


@pytest.mark.parametrize(
    ("flags", "hosts"),
    [
        (["--limit", "@fake/one"], {"@fake/one"}),
        (["--limit", "*two"], {"@fake/two"}),
        (["--limit", "hosts"], {"@fake/one", "@fake/two"}),
        (["--exclude", "@fake/one"], {"@fake/two"}),
    ],
)
def test_a_limit_or_exclude_that_leaves_hosts_runs_on_them_alone(
    run: Run, flags: list[str], hosts: set[str]
) -> None:
    result = run("pair.py", "touch.py", "-y", *flags)
    assert result.returncode == 0, result.stdout
    assert {h for h in ("@fake/one", "@fake/two") if f"[{h}] Success" in result.stdout} == hosts


@pytest.mark.parametrize("task", ["tuch.py", "tasks/touch.py"])
def test_a_misspelt_task_file_is_refused(run: Run, repository: Path, task: str) -> None:
    assert_refused(run("inventory.py", task, "-y"), repository, f"No deploy file: {task}")


def test_another_working_directory_is_refused(run: Run, repository: Path) -> None:
    result = run(
        "../inventory.py", "../touch.py", "--config", "../config.py", cwd=repository / "tasks"
    )
    assert_refused(result, repository, "repository's own folder", "cd ")


def test_chdir_to_the_repository_works(run: Run, repository: Path) -> None:
    folder = repository / "tasks"
    result = run("inventory.py", "touch.py", "-y", "--chdir", str(repository), cwd=folder)
    assert result.returncode == 0, result.stdout
    assert (repository / "ran").exists()


def test_a_prompt_that_nobody_answers_ends_the_run_with_advice(run: Run, repository: Path) -> None:
    result = run("inventory.py", "touch.py")
    assert_refused(result, repository, "nobody answers", "-y", "--dry")


def test_a_closed_standard_input_ends_the_run_with_advice(repository: Path) -> None:
    shell = subprocess.run(
        ["sh", "-c", f'"{PYINFRA}" inventory.py touch.py <&- 2>&1'],
        cwd=repository,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LONGEST_RUN_S,
        check=False,
    )
    assert_refused(shell, repository, "nobody answers", "-y", "--dry")


def answer(start: Start, keys: bytes) -> tuple[int, str]:
    """Press `keys` on a terminal at pyinfra's prompt."""
    keyboard, terminal = pty.openpty()
    process = start("inventory.py", "touch.py", terminal=terminal)
    os.close(terminal)
    read_until(process, "Press enter to execute...")
    os.write(keyboard, keys)
    _, printed = process.communicate(timeout=LONGEST_RUN_S)
    os.close(keyboard)
    return process.returncode, printed


def test_enter_on_a_terminal_goes_ahead(start: Start, repository: Path) -> None:
    status, printed = answer(start, b"\n")
    assert status == 0, printed
    assert (repository / "ran").exists()


@pytest.mark.parametrize(
    ("keys", "line"), [(b"no\n", "declined with 'no'"), (b"\x04", "nobody answers")]
)
def test_any_other_answer_on_a_terminal_ends_the_run(
    start: Start, repository: Path, keys: bytes, line: str
) -> None:
    status, printed = answer(start, keys)
    assert_refused(subprocess.CompletedProcess([], status, printed), repository, line)


def assert_interrupted(process: subprocess.Popen[str]) -> None:
    _, printed = process.communicate(timeout=LONGEST_RUN_S)
    assert process.returncode == 130, printed
    assert "Interrupted" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["pyinfra alone", "as a terminal does"])
def test_ctrl_c_ends_a_running_operation_with_130(
    start: Start, repository: Path, send: Callable[[int, int], None]
) -> None:
    process = start("inventory.py", "slow.py", "-y")
    read_until(process, "Starting operation")
    while not (repository / "ran").exists():
        assert process.poll() is None
        time.sleep(0.01)
    send(process.pid, signal.SIGINT)
    assert_interrupted(process)
    assert not (repository / "finished").exists(), "it waited for the operation"


def test_ctrl_c_at_the_prompt_ends_with_130(start: Start, repository: Path) -> None:
    process = start("inventory.py", "touch.py")
    read_until(process, "Press enter to execute...")
    process.send_signal(signal.SIGINT)
    assert_interrupted(process)
    assert not (repository / "ran").exists()


def test_ctrl_c_while_connecting_ends_with_130(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LONGEST_RUN_S)
        port = silent.getsockname()[1]
        process = start("127.0.0.1", "touch.py", "-y", "--ssh-port", str(port))
        connection, _ = silent.accept()
        with connection:
            process.send_signal(signal.SIGINT)
            assert_interrupted(process)


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 9), (3, 13, 0)])
def test_a_supported_python_is_accepted(version: tuple[int, ...]) -> None:
    check_python(version)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 14, 0)])
def test_another_python_is_refused_by_name(version: tuple[int, ...]) -> None:
    with pytest.raises(SystemExit, match=rf"Python 3\.{version[1]}\.\d+ .*3\.11 to 3\.13"):
        check_python(version)


@pytest.mark.parametrize("version", ["3.9.2", "4.0.0"])
def test_another_pyinfra_is_refused_by_name(run: Run, repository: Path, version: str) -> None:
    metadata = repository / f"earlier/pyinfra-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: pyinfra\nVersion: {version}\n"
    )
    result = run("inventory.py", "touch.py", "-y", env={"PYTHONPATH": "earlier"})
    assert_refused(result, repository, f"pyinfra {version} runs this; 3.10", ".venv/bin/pyinfra")


def test_the_command_for_another_task_is_called_as_this_run_was(monkeypatch):
    options = {
        "inventory": "my hosts.py",
        "data": ("max_num_seqs=3", 'extra_env={"A": "b c"}'),
        "limit": ("box",),
        "exclude": (),
        "sudo": True,
        "ssh_user": "me",
        "ssh_password": "never shown",
    }
    monkeypatch.setattr(guards, "_command_line", options)
    monkeypatch.setattr("sys.argv", [".venv/bin/pyinfra", "my hosts.py", "deploy.py"])
    command = guards.command_for("tasks/restart_vllm.py")
    assert shlex.split(command) == [
        *(".venv/bin/pyinfra", "my hosts.py", "tasks/restart_vllm.py", "--data", "max_num_seqs=3"),
        *("--data", 'extra_env={"A": "b c"}', "--limit", "box", "--ssh-user", "me", "--sudo"),
    ]


def test_without_options_the_command_is_the_short_one(monkeypatch):
    monkeypatch.setattr(guards, "_command_line", {"inventory": "inventory.py"})
    monkeypatch.setattr("sys.argv", ["pyinfra"])
    assert guards.command_for("tasks/x.py") == "pyinfra inventory.py tasks/x.py"


def test_the_command_names_a_program_of_this_folder_by_its_short_path(monkeypatch):
    monkeypatch.setattr(guards, "_command_line", {"inventory": "inventory.py"})
    monkeypatch.setattr("sys.argv", [str(Path.cwd() / ".venv/bin/pyinfra")])
    assert guards.command_for("tasks/x.py") == ".venv/bin/pyinfra inventory.py tasks/x.py"
