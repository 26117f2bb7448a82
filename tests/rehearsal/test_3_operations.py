"""Each operation on a real host: predicts a change, changes, and then has nothing to do.

What it did is read back with plain tools over SSH.
"""

import functools

import pytest
from pyinfra.api.exceptions import PyinfraError

from tasks.shared.operations import apt, trees, units, users
from tasks.shared.operations.secrets import secret_file
from tasks.shared.trees import Link

from . import deploys
from .operations import CHANGES, NOTHING, run_operation


@pytest.fixture(scope="module", autouse=True)
def _clean(fresh_host):
    deploys.on_host("rm -rf /srv/*; dpkg --purge hello 2>/dev/null; true", host=fresh_host)


@pytest.fixture
def run(fresh_host):
    """Run one operation; returns (predicted a change, made a change)."""
    return functools.partial(run_operation, fresh_host)


def test_a_folder_appears_and_follows_its_content(run, fresh_host):
    tree = {"a.txt": "one\n", "sub/b.txt": "ä\n", "link": Link("/etc/hostname")}
    path = "/srv/test folder"
    assert run(trees.folder, path=path, tree=tree) == CHANGES
    assert run(trees.folder, path=path, tree=tree) == NOTHING
    assert deploys.on_host(f"cat '{path}/sub/b.txt'", host=fresh_host) == "ä"
    assert deploys.on_host(f"readlink '{path}/link'", host=fresh_host) == "/etc/hostname"
    assert deploys.on_host(f"stat -c '%a %U' '{path}/a.txt'", host=fresh_host) == "644 root"

    del tree["a.txt"]
    assert run(trees.folder, path=path, tree=tree) == CHANGES
    assert run(trees.folder, path=path, tree=tree) == NOTHING
    assert deploys.on_host(f"cd '{path}' && find . -type f", host=fresh_host) == "./sub/b.txt"


def test_a_half_uploaded_folder_is_no_obstacle(run, fresh_host):
    deploys.on_host("mkdir -p /srv/half.new/rest && touch /srv/half.new/old", host=fresh_host)
    assert run(trees.folder, path="/srv/half", tree={"new": "x\n"}) == CHANGES
    assert deploys.on_host("ls /srv/half; ls -d /srv/half.new 2>&1; true", host=fresh_host) == (
        "new\nls: cannot access '/srv/half.new': No such file or directory"
    )


def test_a_program_is_replaced_in_one_step_and_its_last_version_kept(run, fresh_host):
    versions = []
    for text in ("one\n", "two\n", "three\n"):
        assert run(trees.program, path="/srv/program", tree={"__main__.py": text}) == CHANGES
        assert run(trees.program, path="/srv/program", tree={"__main__.py": text}) == NOTHING
        versions.append(deploys.on_host("readlink /srv/program", host=fresh_host))
        assert deploys.on_host("cat /srv/program/__main__.py", host=fresh_host) == text.strip()
    kept = deploys.on_host("ls -d /srv/program.d/*", host=fresh_host).split()
    assert sorted(kept) == sorted(versions[1:])


def test_a_program_whose_modules_moved_keeps_none_of_them_at_its_old_place(run, fresh_host):
    """Python would take whichever of two that have one name it finds first."""
    flat = {"__main__.py": "from kit import release\n", "kit/release.py": "print('flat')\n"}
    folders = {
        "__main__.py": "from kit.release import wheel\n",
        "kit/release/__init__.py": "",
        "kit/release/wheel.py": "print('folders')\n",
    }
    for tree, said in ((flat, "flat"), (folders, "folders"), (flat, "flat")):
        assert run(trees.program, path="/srv/moved", tree=tree) == CHANGES
        assert deploys.on_host("python3 -IB /srv/moved", host=fresh_host) == said
        files = deploys.on_host("cd /srv/moved/ && find -type f -printf '%P\\n'", host=fresh_host)
        assert sorted(files.split()) == sorted(tree)
        assert run(trees.program, path="/srv/moved", tree=tree) == NOTHING


def test_a_service_user_cannot_log_in_and_one_that_was_changed_is_put_right(run, fresh_host):
    arguments = {"user": "somebody", "home": "/srv/some body"}
    deploys.on_host("userdel somebody 2>/dev/null; groupadd -f somebody", host=fresh_host)
    for _ in range(2):
        assert run(users.service_user, **arguments) == CHANGES
        assert run(users.service_user, **arguments) == NOTHING
        user = deploys.on_host("getent passwd somebody; id -Gn somebody", host=fresh_host)
        assert user.split(":", 5)[5] == "/srv/some body:/usr/sbin/nologin\nsomebody"
        assert int(user.split(":")[2]) < 1000
        deploys.on_host("usermod --shell /bin/sh somebody", host=fresh_host)
    deploys.on_host("userdel somebody", host=fresh_host)


def test_a_secret_file_is_private_and_written_once(run, fresh_host):
    arguments = {"path": "/srv/secret", "content": 'A="b"\nß $x\n'}
    assert run(secret_file, **arguments) == CHANGES
    assert run(secret_file, **arguments) == NOTHING
    assert deploys.on_host("cat /srv/secret", host=fresh_host) == 'A="b"\nß $x'
    assert deploys.on_host("stat -c '%a %U %G' /srv/secret", host=fresh_host) == "600 root root"


def test_a_secret_without_a_newline_gets_one(run, fresh_host):
    arguments = {"path": "/srv/token", "content": "token"}
    assert run(secret_file, **arguments) == CHANGES
    assert run(secret_file, **arguments) == NOTHING
    assert deploys.on_host("wc -l </srv/token", host=fresh_host) == "1"


@pytest.mark.parametrize(
    "damage", ["chmod 640 /srv/s", "chown nobody /srv/s", "echo >>/srv/s", "rm /srv/s"]
)
def test_a_secret_file_that_was_touched_is_written_again(run, fresh_host, damage):
    arguments = {"path": "/srv/s", "content": "secret\n"}
    run(secret_file, **arguments)
    deploys.on_host(damage, host=fresh_host)
    assert run(secret_file, **arguments) == CHANGES
    assert run(secret_file, **arguments) == NOTHING
    assert deploys.on_host("stat -c '%a %U' /srv/s; cat /srv/s", host=fresh_host) == (
        "600 root\nsecret"
    )


def test_packages_are_installed_once(run, fresh_host):
    assert run(apt.installed, packages=["hello"]) == CHANGES
    assert run(apt.installed, packages=["hello"]) == NOTHING
    assert deploys.on_host("hello", host=fresh_host) == "Hello, world!"


@pytest.mark.parametrize(
    "damage",
    [
        "touch /etc/systemd/system/vllm.service",
        "echo '# by hand' >>/etc/systemd/system/vllm.service; systemctl daemon-reload",
    ],
)
def test_the_current_generations_unit_is_kept_in_force(run, deployed, damage):
    assert run(units.in_force) == NOTHING
    deploys.on_host(damage, host=deployed)
    assert run(units.in_force) == CHANGES
    assert run(units.in_force) == NOTHING
    unit = "/etc/systemd/system/vllm.service"
    assert deploys.on_host(f"cmp {unit} /opt/vllm/current/vllm.service", host=deployed) == ""
    shown = deploys.on_host("systemctl show vllm -p NeedDaemonReload --value", host=deployed)
    assert shown == "no"


def test_a_lock_that_another_apt_holds_is_waited_for(run, fresh_host):
    """A stand-in for another apt holds the lock of the lists for eight seconds."""
    deploys.on_host("dpkg --purge hello 2>/dev/null; true", host=fresh_host)
    hold = (
        "import fcntl, time; file = open('/var/lib/apt/lists/lock', 'w'); "
        "fcntl.lockf(file, fcntl.LOCK_EX); time.sleep(8)"
    )
    deploys.on_host(
        f'systemd-run --quiet --collect --unit=holder python3 -c "{hold}"', host=fresh_host
    )
    assert run(apt.installed, packages=["hello"]) == CHANGES
    assert deploys.on_host("hello", host=fresh_host) == "Hello, world!"


def test_an_installation_that_was_interrupted_is_brought_to_its_end(run, fresh_host):
    deploys.on_host("dpkg --purge hello 2>/dev/null; true", host=fresh_host)
    deploys.on_host(
        "cd /tmp && apt-get -qq download hello && dpkg --unpack hello_*.deb && rm hello_*.deb && "
        "touch /var/lib/dpkg/updates/0000",
        host=fresh_host,
    )
    assert run(apt.installed, packages=["hello"]) == CHANGES
    assert deploys.on_host("dpkg -s hello | grep Status", host=fresh_host) == (
        "Status: install ok installed"
    )


def test_a_package_that_does_not_exist_is_a_failure(run, fresh_host):
    with pytest.raises(PyinfraError):
        run(apt.installed, packages=["no-such-package-here"])
