"""Better optima: single moves after the loop has settled, in turns with the loop."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.keeping import RunKeeper
from sparsecluster.kmeans.loop import Observer, Task, iterate
from sparsecluster.kmeans.state import RunState
from sparsecluster.run.history import IterationRecord, Reporter

METHODS = ("first-variation",)


def first_variation(
    task: Task,
    best: RunState,
    *,
    on_iteration: Reporter,
    keeper: RunKeeper | None = None,
) -> RunState:
    """Move single rows while that lowers the cost, and let the loop settle after each pass.

    Every pass is an iteration of its own in the history. A row at rest has its nearest center: the
    condition of a single move is the stricter one (Telgarsky and Vattani 2010).
    """
    rows, setting = task.rows, task.setting
    weights, space, n_threads = setting.weights, setting.metric.space, setting.n_threads
    observe: Observer = lambda record, loop: on_iteration(record)  # noqa: E731
    history, stopped = list(best.history), best.stopped
    # A pass is followed by an iteration at least.
    while not stopped and len(history) + 2 <= task.max_iter:
        started = time.perf_counter()
        if keeper:
            at = replace(best, history=list(history), refining=True, finished=False)
            keeper.reached(at)
        # Copies, because a pass that finds nothing must leave everything as it was.
        centers = centers_.to_core(best.centers)
        labels = best.labels.copy()
        sums = _core.Sums(
            rows.core, task.columns, weights, centers.n_clusters, space, _core.CenterLimit()
        )
        sums.update(labels, centers, n_threads)
        moved = _core.first_variation(
            rows.core, weights, centers, labels, space, setting.memory_limit // 4, n_threads
        )
        if moved == 0:
            break
        _, shift, cost = sums.update(labels, centers, n_threads)
        record = IterationRecord(
            iteration=len(history) + 1,
            cost=cost,
            shift=float(shift @ shift),
            moved=moved,
            distances=rows.n_rows * centers.n_clusters,
            seconds=time.perf_counter() - started,
            algorithm="first-variation",
            path="single moves",
            run=task.run,
            rows=rows.n_rows,
            space=task.space,
        )
        history.append(record)
        with record.showing(partial(task.show, centers, labels), labels.copy):
            stopped = bool(on_iteration(record))
        if stopped:
            break
        start = RunState.at(centers, best.seeding_seconds, history)
        continued = iterate(task, start, observe)
        history, stopped = continued.history, continued.stopped
        if not continued.inertia < best.inertia:
            break
        best = continued
    return replace(best, history=history, stopped=stopped)
