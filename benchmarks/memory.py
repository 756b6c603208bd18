"""Resident memory of a process in MB: now, and its peak since the last reset."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path


def _status(pid: int | str, field: str) -> float | None:
    """A field of Linux's /proc/<pid>/status in MB, or None where there is none."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return None


def current(pid: int | str = "self") -> float | None:
    """Resident memory now; of this process, the highest so far where the system has no /proc."""
    now = _status(pid, "VmRSS")
    return _highest_of_self() if now is None and pid == "self" else now


def peak(pid: int | str = "self") -> float | None:
    """Highest resident memory since the last reset."""
    highest = _status(pid, "VmHWM")
    return _highest_of_self() if highest is None and pid == "self" else highest


def reset_peak() -> None:
    """Start measuring the peak of this process anew, where the system allows it."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def total() -> float:
    """Memory of the machine in MB."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6


def _highest_of_self() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
