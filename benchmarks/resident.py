"""Resident memory of this process, in bytes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def start_of_peak() -> int:
    """Resident bytes now; where the system can, its record of the peak starts anew."""
    if not STATUS.exists():
        return peak()
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """Most resident bytes since the start of the peak, or of the process."""
    # Linux lets a child inherit its parent's ru_maxrss, so the process's own record
    # goes first.
    if STATUS.exists():
        return _status("VmHWM")
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _status(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024
