"""Imported by tasks, never run: decisions (pure functions), facts/ and operations/ (effects)."""

import sys
from pathlib import Path

# hostkit's own checks are asked here too: what the host would refuse is refused before it is sent.
_hostkit = str(Path("files/hostkit").absolute())
if _hostkit not in sys.path:
    sys.path.append(_hostkit)
