"""The fault table names what is there."""

import re
from pathlib import Path

import pytest

from tests.rehearsal.fault_table import FAULTS, table
from tests.rehearsal.fault_table.elsewhere import ELSEWHERE

REHEARSAL = Path(table.FILE).parent
NAMES = [fault.name for fault in FAULTS] + [row.name for row in ELSEWHERE]


def test_each_fault_has_a_name_of_its_own():
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("row", ELSEWHERE, ids=[row.test for row in ELSEWHERE])
def test_a_test_that_it_names_is_there(row):
    text = (REHEARSAL / f"test_{row.file}.py").read_text("utf-8")
    assert re.search(rf"^def {row.test}\(", text, re.MULTILINE)


def test_the_document_has_every_fault():
    text = table.FILE.read_text("utf-8")
    for name in NAMES:
        assert f"| {name} |" in text, "python -m tests.rehearsal.fault_table"
