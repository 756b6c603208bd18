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


def peak_of_tree(pid: int) -> float:
    """The peaks of a process and of all that it started, added up; MB, on Linux alone."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, total_peak = [pid], 0.0
    while found:
        one = found.pop()
        total_peak += peak(one) or 0.0
        found += parents.get(one, [])
    return total_peak


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
