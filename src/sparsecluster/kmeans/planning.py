"""How many machines a fit takes, and what an iteration costs there: the model of run/plan.py with
the numbers of a store, and constants that are measured on this machine."""

from __future__ import annotations

import math
import mmap
import os
import re
import time
import warnings
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.kmeans.kmeans import KMeans
from sparsecluster.rows.resources import byte_count, effective_n_threads
from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.run.plan import Machines, Plan, Speeds, Workload, make_plan
from sparsecluster.storage.store import StoredRows, open_store

SAMPLE_ENTRIES = 1 << 22
SAMPLE_ROWS = 1 << 16
RUNS = 64  # of rows next to each other that make the sample
ROWS_OF_CLUSTER = 20  # at least, of the sample
MOST_CLUSTERS = 1000  # of the sample
ITERATIONS = 8
NEARLY_ALL = 0.9
DISK_BYTES = 1 << 29
PIECE = 1 << 24
RATE = re.compile(r"\s*(\d+\.?\d*)\s*([kKmMgGtT]?)(bit/s|bits/s|bit|bits|b/s|bps|B/s|Bps)\s*")
POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def plan_fit(
    store: Any = None,
    *,
    n_clusters: int,
    machines: int = 1,
    network: Any = "10Gbit",
    memory: Any = "64GB",
    cores: int | None = None,
    rows: float | None = None,
    entries: float | None = None,
    columns: float | None = None,
    center_entries: float | None = None,
    moved: float = 0.01,
    calibrate: bool = False,
) -> Plan:
    """Estimate what an iteration of k-means costs on many machines.

    Parameters
    ----------
    store : path, Rows of a store or None, default=None
        The rows, or a sample of them. Without it the numbers below describe the rows.
    n_clusters : int
        Number of clusters.
    machines : int, default=1
        Number of machines.
    network : str or number, default="10Gbit"
        What each machine sends and receives: "10Gbit", "1.25GB/s", or a number of bytes per second.
    memory : str or int, default="64GB"
        Memory of each machine.
    cores : int or None, default=None
        Cores of each machine; by default as many as there are here.
    rows, entries, columns : number or None, default=None
        Number of rows, mean number of entries of a row, number of columns, where they are other
        than those of the store.
    center_entries : number or None, default=None
        Entries of a center. By default from how the columns of the store's rows accumulate, and
        without a store the entries of a row times the root of the number of rows per cluster.
    moved : float, default=0.01
        Share of the rows that change their cluster in a later iteration.
    calibrate : bool, default=False
        Whether to measure the speeds of this machine: by a short fit of a sample of the store, and
        by reading from its disk. Else they are assumed.

    Returns
    -------
    Plan
        Bytes and seconds of an iteration, what limits it, and how many machines are useful.

    Examples
    --------
    >>> from sparsecluster import plan_fit
    >>> plan = plan_fit(
    ...     n_clusters=1000, machines=100, cores=32, rows=1e9, entries=100, columns=1e7
    ... )
    >>> plan.fewest
    14
    >>> plan.first.limit
    'scan'
    """
    work = {"rows": rows, "entries": entries, "columns": columns, "center_entries": center_entries}
    given = {name: _number(name, value) for name, value in work.items() if value is not None}
    clusters = _whole("n_clusters", n_clusters)
    where = Machines(
        number=_whole("machines", machines),
        cores=effective_n_threads(cores) if cores is None else _whole("cores", cores),
        memory=byte_count("memory", memory),
        network=network_rate(network),
    )
    if not (_is_number(moved) and 0 < moved < 1):
        raise ValueError(f"moved must be a share between 0 and 1, got {moved!r}.")
    stored = None if store is None else _opened(store)
    missing = [name for name in ("rows", "entries", "columns") if name not in given]
    if stored is None and missing:
        raise ValueError(f"Without a store the shape is needed: {', '.join(missing)}.")
    if stored is None and calibrate:
        raise ValueError("calibrate needs a store, whose rows are timed.")
    sample = None if stored is None else _sample(stored)
    workload = _workload(stored, sample, given, clusters)
    speeds = Speeds()
    if stored is not None and sample is not None and calibrate:
        speeds = measure_speeds(stored, sample, clusters)
    return make_plan(workload, where, speeds, float(moved))


def network_rate(network: Any) -> float:
    """Bytes per second of a network."""
    if _is_number(network) and 0 < network < math.inf:
        return float(network)
    match = RATE.fullmatch(network) if isinstance(network, str) else None
    if match is None or not float(match[1]) > 0:
        raise ValueError(f"network must be a speed like '10Gbit' or '1.25GB/s', got {network!r}.")
    unit = 1 if match[3].startswith("B") else 8
    return float(match[1]) * POWERS[match[2].lower()] / unit


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(name: str, value: Any) -> int:
    if not (_is_number(value) and 1 <= value < 2**62 and int(value) == value):
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    return int(value)


def _number(name: str, value: Any) -> float:
    if not (_is_number(value) and 0 < value < 2**62):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return float(value) if name in ("entries", "center_entries") else float(_whole(name, value))


def _opened(store: Any) -> StoredRows:
    rows = store if isinstance(store, Rows) else open_store(store)
    if not isinstance(rows, StoredRows):
        raise ValueError("The rows to plan for must be in a store. Make one with convert.")
    if rows.n_rows == 0 or rows.meta["n_entries"] == 0:
        raise ValueError(f"{rows.path} has no entries: there is nothing to plan.")
    return rows


def _workload(
    stored: StoredRows | None, sample: Rows | None, given: dict[str, float], clusters: int
) -> Workload:
    """The rows in numbers, those of the store where no others are given."""
    numbers, value_bytes = dict(given), 4
    if stored is not None and sample is not None:
        meta = stored.meta
        shape = {"rows": meta["n_rows"], "columns": meta["n_features"]}
        numbers = shape | {"entries": meta["n_entries"] / meta["n_rows"]} | numbers
        value_bytes = stored.matrix.dtype.itemsize
    if clusters > numbers["rows"]:
        raise ValueError(f"{clusters:,} clusters are more than {numbers['rows']:,.0f} rows.")
    per_cluster = numbers["rows"] / clusters
    growth = Workload.growth if sample is None else _growth(sample, per_cluster)
    if "center_entries" in numbers and per_cluster > 1:
        ratio = numbers["center_entries"] / numbers["entries"]
        growth = min(max(math.log(ratio), 0.0) / math.log(per_cluster), 1.0)
    return Workload(
        rows=int(numbers["rows"]),
        entries=numbers["entries"],
        columns=int(numbers["columns"]),
        clusters=clusters,
        growth=growth,
        value_bytes=value_bytes,
    )


def _sample(stored: StoredRows) -> Rows:
    """Rows of the store in memory: runs at even distances, so that little of it is read."""
    per_row = stored.meta["n_entries"] / stored.n_rows
    n_rows = int(min(stored.n_rows, SAMPLE_ROWS, max(SAMPLE_ENTRIES / max(per_row, 1), RUNS)))
    starts = np.linspace(0, stored.n_rows - math.ceil(n_rows / RUNS), RUNS).astype(np.int64)
    chosen = np.unique(starts[:, None] + np.arange(math.ceil(n_rows / RUNS)))
    matrix = stored.picked(chosen[chosen < stored.n_rows])
    return as_rows(matrix, n_threads=effective_n_threads(None), name="the store")


def _growth(sample: Rows, most: float) -> float:
    """The exponent by which rows have more columns together, from rows chosen at random: of as many
    as a cluster has, if the sample has them, but not once they have nearly all columns."""
    matrix = sample.picked(np.random.default_rng(0).permutation(sample.n_rows))
    mean = max(float(np.diff(matrix.indptr).mean()), 1e-9)
    n_columns = len(np.unique(matrix.indices))
    growth = Workload.growth
    for n_rows in (1 << power for power in range(3, 20)):
        if n_rows > sample.n_rows:
            break
        distinct = len(np.unique(matrix.indices[: matrix.indptr[n_rows]]))
        growth = math.log(max(distinct / mean, 1.0)) / math.log(n_rows)
        if n_rows >= most or distinct > NEARLY_ALL * n_columns:
            break
    return min(growth, 1.0)


# --- speeds --------------------------------------------------------------------------------------


def measure_speeds(stored: StoredRows, sample: Rows, n_clusters: int) -> Speeds:
    """The constants of the model on this machine: a short fit, and some of the disk."""
    n_threads = effective_n_threads(None)
    k = max(1, min(n_clusters, MOST_CLUSTERS, sample.n_rows // ROWS_OF_CLUSTER))
    options: dict[str, Any] = {"init": "random", "max_iter": ITERATIONS, "tol": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        history = KMeans(k, random_state=0, n_threads=n_threads, **options).fit(sample).history_
    n_entries = int(sample.core.nnz)
    first, last = history[0], history[-1]
    scan_seconds = max(first.assignment_seconds, 1e-9)
    return Speeds(
        scan=n_entries * k / scan_seconds / n_threads,
        later_share=min(1.0, max(last.assignment_seconds, 1e-9) / scan_seconds),
        update=n_entries / max(first.update_seconds, 1e-9) / n_threads,
        disk=disk_speed(stored.path / "data.npy"),
        measured=True,
    )


def disk_speed(path: Path) -> float:
    """Bytes per second of reading a file past the system's cache, where that can be done."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        file = os.open(path, flags | getattr(os, "O_DIRECT", 0))
    except OSError:
        file = os.open(path, flags)
    try:
        with mmap.mmap(-1, PIECE) as buffer, memoryview(buffer) as piece:
            at, n_read, started = 0, PIECE, time.perf_counter()
            while at < DISK_BYTES and n_read == PIECE:  # less at the end of the file
                n_read = os.preadv(file, [piece], at)
                at += n_read
        return at / max(time.perf_counter() - started, 1e-9)
    finally:
        os.close(file)
