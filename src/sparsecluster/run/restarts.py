"""Several runs from different starts, one after the other or side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sparsecluster import _core
from sparsecluster.rows.sharing import share_out
from sparsecluster.run.history import AssignmentRecord, IterationRecord, Reporter, SeedingRecord

Result = TypeVar("Result")


def run_all(
    run_from: Callable[[int, int, Reporter], Result],
    n_runs: int,
    together: int,
    *,
    n_threads: int,
    on_iteration: Reporter,
) -> list[Result]:
    """The results of `run_from(run, threads, on_iteration)`, `together` of them at a time.

    A callback that asks to stop ends all: runs that did not start are left out.
    """
    token, stop, one_at_a_time = _core.StopToken(), threading.Event(), threading.Lock()

    def report(record: IterationRecord | SeedingRecord | AssignmentRecord) -> Any:
        with one_at_a_time:
            if not stop.is_set() and on_iteration(record):
                stop.set()
            return stop.is_set()

    def watched(run: int) -> Result | None:
        if stop.is_set() and run > 0:
            return None
        token.watch()
        try:
            return run_from(run, n_threads // together, report)
        finally:
            token.unwatch()

    def call_off() -> None:
        # Whatever ended one run, or Ctrl-C, ends the others.
        stop.set()
        token.stop()

    results = share_out(watched, n_runs, together, call_off=call_off)
    return [one for one in results if one is not None]
