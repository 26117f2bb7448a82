"""hostkit's folders stand in an order, and each uses only itself and those before it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hostkit

PACKAGE = Path("files/hostkit/hostkit")
ORDER = re.findall(r"\w+", (hostkit.__doc__ or "").split("those before it:")[1])

UPWARDS = {
    ("kv/prune.py", "metrics.figures"): "says what it removed",
    ("health/doctor.py", "metrics.figures"): "says what was removed",
    ("measure/loadsteps.py", "lifecycle.switch"): "serves each generation on trial",
}
"""What a module uses of a later folder, and for what."""


def used(source: str) -> Iterator[tuple[str, str]]:
    """Folder and module of each import from hostkit."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hostkit."):
            folder, *module = str(node.module).split(".")[1:]
            for name in module or [each.name for each in node.names]:
                yield folder, name


def upwards(file: str, source: str) -> Iterator[str]:
    """What a file uses of folders that come after its own."""
    own = ORDER.index(file.split("/")[0])
    for folder, module in used(source):
        if ORDER.index(folder) > own:
            yield f"{folder}.{module}"


def test_every_folder_has_its_place_and_says_what_it_holds():
    folders = [path for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert sorted(ORDER) == sorted(path.name for path in folders)
    for folder in folders:
        (docstring,) = ast.parse((folder / "__init__.py").read_text("utf-8")).body
        assert isinstance(docstring, ast.Expr), folder.name
        assert list(folder.glob("[!_]*.py")), folder.name


def test_only_the_command_line_lies_beside_the_folders():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "cli.py"}


def test_a_folder_uses_only_itself_and_those_before_it():
    found = {
        (str(file.relative_to(PACKAGE)), module)
        for file in PACKAGE.glob("*/*.py")
        for module in upwards(str(file.relative_to(PACKAGE)), file.read_text("utf-8"))
    }
    assert found == UPWARDS.keys()


def test_an_import_of_a_later_folder_is_seen_wherever_it_stands():
    assert list(upwards("kv/a.py", "from hostkit.health import failures, state as s")) == [
        "health.failures",
        "health.state",
    ]
    assert list(upwards("kv/a.py", "def f():\n    from hostkit.health.state import x")) == [
        "health.state"
    ]
    assert list(upwards("health/a.py", "from hostkit.kv import prune\nimport json")) == []
