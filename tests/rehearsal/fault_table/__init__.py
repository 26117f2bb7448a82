"""Faults that come over a host that serves, by kind; endure.py runs one of them."""

from .damaged import DAMAGED
from .disk import DISK
from .fault import Fault
from .links import LINKS
from .model import MODEL
from .systemd import SYSTEMD

FAULTS: tuple[Fault, ...] = (
    *LINKS,
    *DAMAGED,
    *SYSTEMD,
    *DISK,
    *MODEL,
)
