"""hostkit works where nothing is installed but the distribution's Python, 3.10 or newer.

`make lint` checks the same with mypy for Python 3.10: no newer function, no newer syntax.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PROGRAM = Path("files/hostkit")
# Not in Python 3.10 yet.
NEWER = {"tomllib", "annotationlib", "compression", "concurrent.interpreters"}


def imported(source: str) -> Iterator[str]:
    """The names of all modules that a program imports, wherever in it."""
    for node in ast.walk(ast.parse(source, feature_version=(3, 10))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def foreign(source: str) -> list[str]:
    """Those of them that only a package or a newer Python brings."""
    own = {"hostkit", *sys.stdlib_module_names} - NEWER
    return [name for name in imported(source) if name in NEWER or name.split(".")[0] not in own]


def test_it_imports_nothing_but_the_standard_library_of_python_3_10():
    files = [PROGRAM / "__main__.py", *(PROGRAM / "hostkit").rglob("*.py")]
    assert len(files) > 50
    found = {str(file): names for file in files if (names := foreign(file.read_text("utf-8")))}
    assert found == {}


def test_what_would_have_to_be_installed_is_seen_wherever_it_is_imported():
    assert foreign("def f():\n    import yaml") == ["yaml"]
    assert foreign("from requests.adapters import X") == ["requests.adapters"]
    assert foreign("import tomllib") == ["tomllib"]
    assert foreign("import json, os.path\nfrom hostkit.host import units") == []
