"""How many threads and how much memory a fit may use."""

from __future__ import annotations

import os
import re
from pathlib import Path

from threadpoolctl import ThreadpoolController

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def effective_n_threads(n_threads: int | None) -> int:
    """Threads to use: as asked for, else the process's CPUs, within threadpoolctl's limits."""
    if n_threads is not None:
        if isinstance(n_threads, bool) or not isinstance(n_threads, int) or n_threads < 1:
            raise ValueError(f"n_threads must be a positive integer or None, got {n_threads!r}.")
        return n_threads
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        available = min(available, max(1, int(os.environ["OMP_NUM_THREADS"])))
    # A limit set by threadpool_limits() lives in the thread pools that are loaded.
    pools = ThreadpoolController().select(user_api="openmp").info()
    return min([available, *(pool["num_threads"] for pool in pools)])


def effective_memory_limit(memory_limit: int | str | None) -> int:
    """Bytes that a fit may take beyond its data: as asked for, else half of what is free now."""
    if memory_limit is None:
        return available_memory() // 2
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", memory_limit.lower())
        if not match or match[2] not in _UNITS:
            raise ValueError(f"memory_limit must be like '2GB' or '500 MiB', got {memory_limit!r}.")
        return int(float(match[1]) * _UNITS[match[2]])
    if memory_limit <= 0:
        raise ValueError(f"memory_limit must be positive, got {memory_limit!r}.")
    return int(memory_limit)


def available_memory() -> int:
    """Bytes that this process could still take, by the kernel and by its control group."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for limit_file, used_file in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        limit, used = _lines(limit_file), _lines(used_file)
        if limit and used and limit[0].isdigit():
            free = min(free, max(0, int(limit[0]) - int(used[0])))
    return free


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
