"""Several runs from different starts, one after the other or side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sparsecluster.data.rows import Rows
from sparsecluster.engine.history import Callback, IterationRecord
from sparsecluster.engine.loop import Clustering

Run = Callable[[int, int, Callback], Clustering]


def run_all(
    rows: Rows, run_from: Run, n_runs: int, together: int, *, n_threads: int, on_iteration: Callback
) -> list[Clustering]:
    """The results of `run_from(run, threads, on_iteration)`, `together` of them at a time."""
    if together <= 1:
        return [run_from(run, n_threads, on_iteration) for run in range(n_runs)]
    # Room for every center now: the runs share the rows, and must not change their scale.
    rows.core.cover(float(np.sqrt(rows.core.norm2.max(initial=0.0))) * 2)
    stop, one_at_a_time = threading.Event(), threading.Lock()

    def report(record: IterationRecord) -> Any:
        if stop.is_set():
            return True
        with one_at_a_time:
            return on_iteration(record)

    with ThreadPoolExecutor(together) as pool:
        runs = [pool.submit(run_from, run, n_threads // together, report) for run in range(n_runs)]
        try:
            return [run.result() for run in runs]
        except BaseException:
            # Whatever ended one run, or Ctrl-C: the others end with their iteration.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
