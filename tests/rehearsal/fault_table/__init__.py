"""Faults that come over a host that serves, by kind; endure.py runs one of them."""

from .damaged import DAMAGED
from .disk import DISK
from .downloads import DOWNLOADS
from .engine import ENGINE
from .fault import Fault
from .host import HOST
from .links import LINKS
from .model import MODEL
from .network import NETWORK
from .release import RELEASE
from .systemd import SYSTEMD
from .tier import TIER

FAULTS: tuple[Fault, ...] = (
    *LINKS,
    *DAMAGED,
    *SYSTEMD,
    *DISK,
    *RELEASE,
    *MODEL,
    *NETWORK,
    *DOWNLOADS,
    *ENGINE,
    *TIER,
    *HOST,
)
