"""`python -m tests.rehearsal.fault_table` writes FAULTS.md."""

from .table import FILE, render

FILE.write_text(render(), "utf-8")
