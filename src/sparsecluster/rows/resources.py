"""How many threads and how much memory a fit may use."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator
from functools import cache
from numbers import Integral, Real
from typing import Any

from threadpoolctl import ThreadpoolController

MAX_THREADS = 4096
WORK_OF_A_THREAD = 500_000
UNLIMITED = 2**60  # bytes: what control groups give as the limit where there is none
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def effective_n_threads(n_threads: Any) -> int:
    """Threads to use: as asked for, else the CPUs that affinity, quota and limits leave."""
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
    import joblib  # scikit-learn's; here, so that what needs no threads does not load it

    available = joblib.cpu_count()
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
    return byte_count("memory_limit", memory_limit)


def byte_count(name: str, value: Any) -> int:
    """Bytes, from a number or from a string with a unit."""
    count = quantity(value, _UNITS, ending="b?")
    if not 1 <= count < 2**62:
        raise ValueError(
            f"{name} must be a positive number of bytes, or like '2GB' or '500 MiB'; got {value!r}."
        )
    return int(count)


def quantity(value: Any, units: dict[str, int], *, ending: str = "") -> float:
    """A number, or one with a unit in a string, in units of one; -1 for anything else."""
    if isinstance(value, str):
        match = re.fullmatch(rf"\s*(\d+\.?\d*)\s*([a-z]*?){ending}\s*", value.lower())
        return float(match[1]) * units[match[2]] if match and match[2] in units else -1.0
    return -1.0 if isinstance(value, bool) or not isinstance(value, Real) else float(value)


def available_memory() -> int:
    """Bytes that this process could still take: by the kernel, its control groups, its limits."""
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
            break
    for group, limit_name, used_name in _control_groups():
        limit = _lines(f"{group}/{limit_name}")
        # A small fit takes less time than these files: what decides nothing is not read.
        if not (limit and limit[0].isdigit() and int(limit[0]) < UNLIMITED):
            continue
        used = _lines(f"{group}/{used_name}")
        if used and int(limit[0]) - int(used[0]) < free:
            free = min(free, int(limit[0]) - int(used[0]) + _cached(group))
    for limit_, counted in ((resource.RLIMIT_AS, "VmSize:"), (resource.RLIMIT_DATA, "VmData:")):
        most = resource.getrlimit(limit_)[0]
        if most == resource.RLIM_INFINITY:
            continue
        for line in _lines("/proc/self/status"):
            if line.startswith(counted):
                free = min(free, most - int(line.split()[1]) * 1024)
    return max(0, free)


def _control_groups() -> Iterator[tuple[str, str, str]]:
    """The process's own control group and those above it, of both versions, as far as seen."""
    for line in _lines("/proc/self/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = "/sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            root = "/sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        group = path.strip("/")
        while group:
            yield f"{root}/{group}", *names
            group = group.rpartition("/")[0]
        yield root, *names


def _cached(group: str) -> int:
    """Bytes of files that a group counts as used, and that the kernel gives up when asked."""
    pages = ("inactive_file", "active_file")
    stat = dict(line.split(" ", 1) for line in _lines(f"{group}/memory.stat"))
    return sum(int(stat.get(f"total_{name}", stat.get(name, 0))) for name in pages)


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().splitlines()
    except OSError:
        return []
