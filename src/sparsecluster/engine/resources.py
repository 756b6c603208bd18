"""How many threads and how much memory a fit may use."""

from __future__ import annotations

import os
import re
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from threadpoolctl import ThreadpoolController

MAX_THREADS = 4096
WORK_OF_A_THREAD = 500_000
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def effective_n_threads(n_threads: Any) -> int:
    """Threads to use: as asked for, else the process's CPUs, within threadpoolctl's limits."""
    if n_threads is not None:
        if (
            isinstance(n_threads, bool)
            or not isinstance(n_threads, Integral)
            or not 1 <= int(n_threads) <= MAX_THREADS
        ):
            raise ValueError(
                f"n_threads must be an integer from 1 to {MAX_THREADS} or None, got {n_threads!r}."
            )
        return int(n_threads)
    available = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        available = min(available, max(1, int(os.environ["OMP_NUM_THREADS"])))
    # A limit set by threadpool_limits() lives in the thread pools that are loaded.
    pools = _thread_pools().select(user_api="openmp").info()
    return min([available, *(pool["num_threads"] for pool in pools)])


@cache
def _thread_pools() -> ThreadpoolController:
    # Looking for the pools takes milliseconds, asking them does not.
    return ThreadpoolController()


def threads_for(work: int, n_threads: int) -> int:
    """Threads that so many multiply-adds are worth: to start one takes as long as many of them."""
    return max(1, min(n_threads, work // WORK_OF_A_THREAD))


def effective_memory_limit(memory_limit: Any) -> int:
    """Bytes that a fit may take beyond its data: as asked for, else half of what is free now."""
    if memory_limit is None:
        return available_memory() // 2
    limit: float = 0
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([kmgt]?i?)b?\s*", memory_limit.lower())
        if match and match[2] in _UNITS:
            limit = float(match[1]) * _UNITS[match[2]]
    elif not isinstance(memory_limit, bool) and isinstance(memory_limit, Real):
        limit = float(memory_limit)
    if not 1 <= limit < 2**62:
        raise ValueError(
            f"memory_limit must be a positive number of bytes, or like '2GB' or '500 MiB'; got "
            f"{memory_limit!r}."
        )
    return int(limit)


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
