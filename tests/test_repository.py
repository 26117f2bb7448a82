"""Rules that every tracked or new file of this repository keeps."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
LONGEST_FILE = 400
GENERATED = re.compile(r"^(requirements|files/locks)/.*\.txt$|\.patch$|^files/compat/[^/]+/names$")

# Written in pieces, since this file is checked too.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "deb.debian" + ".org",
    "security.debian" + ".org",
    "archive.ubuntu" + ".com",
    "security.ubuntu" + ".com",
    "ports.ubuntu" + ".com",
]
MACHINE_PATHS = [
    re.compile(rf"(?<![\w./$}}-]){folder}\b")
    for folder in (
        "/wo" + "rk",
        "/fa" + "rm",
        "/tmp/la" + "b",
        "/opt/whe" + "els",
        "/opt/py" + "pi",
    )
]


@cache
def files() -> tuple[Path, ...]:
    """Every file that git has or would add; fails without git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    paths = [REPOSITORY / name for name in listed.split("\0") if name]
    return tuple(path for path in paths if path.is_file())


def name(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def text(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def numbered_lines() -> Iterator[tuple[str, str]]:
    for path in files():
        for number, line in enumerate(text(path).splitlines(), 1):
            yield f"{name(path)}:{number}", line


def executed_files() -> list[Path]:
    """What pyinfra executes: deploy.py and the tasks."""
    return [path for path in files() if re.fullmatch(r"deploy\.py|tasks/\w+\.py", name(path))]


def test_the_files_are_known() -> None:
    assert {"config.py", "tests/test_repository.py"} <= {name(path) for path in files()}
    assert executed_files()


def registries(line: str) -> list[str]:
    return [host for host in REGISTRY_HOSTS if host in line.lower()]


def machine_paths(line: str) -> list[str]:
    return [match[0] for path in MACHINE_PATHS if (match := path.search(line))]


def test_no_file_names_a_package_registry() -> None:
    assert [f"{at}: {line}" for at, line in numbered_lines() if registries(line)] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert [f"{at}: {line}" for at, line in numbered_lines() if machine_paths(line)] == []


def test_the_checks_of_lines_see_what_they_look_for() -> None:
    assert registries("--index-url https://" + "PyPI" + ".org/simple")
    assert not registries("https://download.pytorch.org/whl/cpu")
    assert machine_paths("cd /wo" + "rk/main")
    assert machine_paths('"/fa' + 'rm"')
    assert not machine_paths("the tests/wo" + "rk and /wo" + "rker")


def test_only_the_requirements_lock_anything() -> None:
    assert [name(path) for path in files() if path.name == "uv.lock"] == []


def test_every_file_can_be_read_in_one_go() -> None:
    long = {
        name(path): length
        for path in files()
        if not GENERATED.search(name(path))
        and (length := len(text(path).splitlines())) >= LONGEST_FILE
    }
    assert long == {}


def locks() -> list[Path]:
    return [
        path for path in files() if re.match(r"(requirements|files/locks)/.*\.txt$", name(path))
    ]


def test_every_locked_requirement_has_a_version_and_a_hash() -> None:
    assert {"requirements/control.txt", "requirements/dev.txt"} <= {name(p) for p in locks()}
    bad = []
    for lock in locks():
        for line in text(lock).replace("\\\n", " ").splitlines():
            requirement = line.strip()
            if not requirement or requirement.startswith("#"):
                continue
            if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", requirement):
                bad.append(f"{name(lock)}: {requirement[:60]}")
    assert bad == []


def test_the_locks_give_no_index_and_no_options() -> None:
    options = [
        f"{name(lock)}: {line}"
        for lock in locks()
        for line in text(lock).splitlines()
        if line.startswith("-") or "://" in line
    ]
    assert options == []


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each local name of an import, and the module that it comes from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.split(".")[0], alias.name


def unnamed_operations(source: str) -> list[int]:
    """The lines of `source` that call an operation without name=.

    An operation is what comes out of pyinfra.operations or tasks.shared.operations, called as
    itself or as an attribute of its module.
    """
    tree = ast.parse(source)
    modules = {
        local
        for local, origin in imported_names(tree)
        if origin.startswith(("pyinfra.operations.", "tasks.shared.operations."))
        and not origin.startswith("pyinfra.operations.util")
    }
    unnamed = []
    for statement in tree.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Call):
                continue
            target = node.func
            while isinstance(target, ast.Attribute):
                target = target.value
            if (
                isinstance(target, ast.Name)
                and target.id in modules
                and not any(keyword.arg == "name" for keyword in node.keywords)
            ):
                unnamed.append(node.lineno)
    return unnamed


def test_every_operation_of_a_task_has_a_name() -> None:
    """pyinfra labels an unnamed operation with its arguments, secrets included."""
    unnamed = [
        f"{name(path)}:{line}"
        for path in executed_files()
        for line in unnamed_operations(text(path))
    ]
    assert unnamed == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("from pyinfra.operations import files\nfiles.put(src='a')", [2]),
        ("from pyinfra.operations import files\nfiles.put(name='Put', src='a')", []),
        ("from pyinfra.operations import apt as a\nif 1:\n    x = a.packages(['x'])", [3]),
        ("from tasks.shared.operations import secrets\nsecrets.file(path='a')", [2]),
        ("from tasks.shared.operations.secrets import secret_file\nsecret_file('a')", [2]),
        ("from pyinfra.operations.util import any_changed\nany_changed()", []),
        ("print('a')", []),
    ],
)
def test_the_check_for_names_sees_an_unnamed_operation(source: str, lines: list[int]) -> None:
    assert unnamed_operations(source) == lines


def test_only_the_settings_read_host_data() -> None:
    readers = {
        name(path)
        for path in files()
        if re.match(r"(deploy|inventory|config)\.py$|(tasks|templates|group_data)/", name(path))
        and re.search(r"\.data\b", text(path))
    }
    # These look at what is pyinfra's own in it: passwords, and the environment of commands.
    pyinfras = {f"tasks/shared/run/{name}.py" for name in ("ssh", "sudo", "environment")}
    assert readers - pyinfras <= {"tasks/shared/settings.py"}


def test_the_inventory_has_no_list_but_hosts() -> None:
    """pyinfra takes every public list or tuple for a group of hosts, and connects to them."""
    namespace: dict[str, object] = {}
    inventory = REPOSITORY / "inventory.py"
    exec(compile(text(inventory), inventory, "exec"), {"__file__": str(inventory)}, namespace)
    groups = {
        key
        for key, value in namespace.items()
        if not key.startswith("_") and isinstance(value, list | tuple)
    }
    assert groups == {"hosts"}


def test_every_link_of_a_page_leads_to_a_file() -> None:
    dead = [
        f"{name(page)}: {link}"
        for page in files()
        if page.suffix == ".md"
        for link in re.findall(r"\]\((?!https?://)([^)#]+)", text(page))
        if not (page.parent / link).is_file()
    ]
    assert dead == []


def test_no_file_of_tests_asks_for_hosts_that_two_workers_have() -> None:
    """tests/conftest.py keeps each host's tests on one worker by the fixtures that a file names."""
    both = [
        name(file)
        for file in files()
        if re.fullmatch(r"tests/rehearsal/test_\w+\.py", name(file))
        and re.search(r"\b(fresh_host|deployed)\b", text(file))
        and re.search(r"\bstandin_host\b", text(file))
    ]
    assert both == []
