"""What is wrong with a host's settings, a line for each mistake."""

import difflib
import re
from collections.abc import Iterable

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pyinfra.api.arguments import all_argument_meta
from pyinfra.connectors.ssh import connector_data_meta

from tasks.shared import texts

_EXPECTATIONS = {
    "missing": "must be set: it is in group_data/all.py as delivered",
    "string_type": "must be text; on the command line write it in quotes: '\"007\"'",
    "bool_type": "must be True or False",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "list_type": 'must be a list; on the command line: \'NAME=["one", "two"]\'',
    "dict_type": 'must be a mapping; on the command line: \'NAME={"key": "value"}\'',
}


def unknown_arguments(host_name: str, told: Iterable[str]) -> list[str]:
    """A line for each of a host's keys that pyinfra passes over: _… is none of its arguments."""
    return [
        f"  {host_name}: {key}: pyinfra has no such argument; {_hint(key, all_argument_meta)}"
        for key in told
        if key.startswith("_") and key not in all_argument_meta
    ]


def describe(host_name: str, error: ValidationError, names: Iterable[str]) -> list[str]:
    """A line per mistake in a `Settings`: host, key, value found, what is expected.

    `names` are those of all settings.
    """
    known = [*names, *all_argument_meta, *connector_data_meta]
    return [_describe_one(host_name, problem, known) for problem in error.errors()]


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else "see group_data/all.py for all names"


def _describe_one(host_name: str, problem: ErrorDetails, known: Iterable[str]) -> str:
    location = [str(part) for part in problem["loc"] if part not in ("str", "int", "float")]
    key = ".".join(location)
    kind = problem["type"]
    if kind == "extra_forbidden":
        return f"  {host_name}: {key}: no such setting; {_hint(location[0], known)}"
    if kind == "missing":
        return f"  {host_name}: {key}: {_EXPECTATIONS[kind]}"
    message = re.sub(r"^(Value error, |(Input|String|List|Dictionary) should )", "", problem["msg"])
    if kind != "value_error":
        message = f"must {message}"
    expectation = _EXPECTATIONS.get(kind, message).replace("NAME", key)
    if not location:
        return f"  {host_name}: {expectation}"
    found = texts.without_passwords(repr(problem["input"]))
    return f"  {host_name}: {key} = {found}: {expectation}"
