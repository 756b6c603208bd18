"""The machine and the versions that a result came from."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from . import memory
from .data import ROOT

PACKAGES = (
    "sparsecluster", "scikit-learn", "sparsekmeans", "python-graphblas", "suitesparse-graphblas",
    "scikit-learn-intelex", "faiss-cpu", "numpy", "scipy", "threadpoolctl",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """Everything that a reader needs to judge the figures."""
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "simd": simd(),
        "caches": caches(),
        "memory_gb": round(memory.total() / 1000, 1),
        "load_at_start": round(os.getloadavg()[0], 2),
        "system": platform.platform(terse=True),
        "python": sys.version.split()[0],
        "revision": revision(),
        "packages": versions(),
    }


def one_line(machine: dict[str, Any]) -> str:
    """The machine in a line, for under a table."""
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores ({caches}; {' '.join(machine['simd'])}), "
        f"{machine['memory_gb']} GB, Python {machine['python']}, {machine['date'][:10]}"
    )


def _cpuinfo(field: str) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(field):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""


def busy_seconds() -> float | None:
    """Processor seconds that all processes (and other guests of the host) used since the start."""
    try:
        first = Path("/proc/stat").read_text().split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, first.split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def simd() -> list[str]:
    """The vector instruction sets that matter here."""
    flags = (_cpuinfo("flags") or _cpuinfo("Features")).split()
    return [name for name in ("avx2", "fma", "avx512f", "asimd", "sve") if name in flags]


def caches() -> dict[str, str]:
    """Size of each cache that the first core sees, where Linux tells."""
    sizes = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (
            (index / name).read_text().strip() for name in ("level", "type", "size")
        )
        if kind != "Instruction":
            sizes[f"L{level}"] = size
    return sizes


def revision() -> str:
    """The project's commit, with a plus sign when files differ from it."""
    try:
        git = ("git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*")
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
