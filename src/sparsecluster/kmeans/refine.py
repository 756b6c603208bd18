"""Better optima: single moves after the loop has settled, in turns with the loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Clustering
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import Callback, IterationRecord
from sparsecluster.storage.checkpoint import RunCheckpoint

METHODS = ("first-variation",)


def first_variation(
    rows: Rows,
    clustering: Clustering,
    setting: Setting,
    *,
    columns: _core.ColumnStats,
    max_iter: int,
    continue_loop: Callable[[_core.Centers, int], Clustering],
    on_iteration: Callback,
    run: int = 0,
    checkpoint: RunCheckpoint | None = None,
) -> Clustering:
    """Move single rows while that lowers the cost, and let the loop settle after each pass.

    `continue_loop(centers, done)` runs it, after so many iterations. Every pass is an iteration of
    its own in the history.
    A row at rest has its nearest center: the condition of a single move is the stricter one
    (Telgarsky and Vattani 2010).
    """
    weights, metric, n_threads = setting.weights, setting.metric, setting.n_threads
    best = clustering
    history = list(clustering.history)
    stopped = clustering.stopped
    # A pass is followed by an iteration at least.
    while not stopped and len(history) + 2 <= max_iter:
        started = time.perf_counter()
        if checkpoint and checkpoint.due:
            checkpoint.save(best.state(history=history, refining=True))
        # Copies, because a pass that finds nothing must leave everything as it was.
        centers = centers_.to_core(centers_.from_core(best.centers))
        labels = best.labels.copy()
        sums = _core.Sums(
            rows.core, columns, weights, centers.n_clusters, metric, _core.CenterLimit()
        )
        sums.update(labels, centers, n_threads)
        moved = _core.first_variation(
            rows.core, weights, centers, labels, metric, setting.memory_limit // 4, n_threads
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
            run=run,
            rows=rows.n_rows,
        )
        history.append(record)
        if on_iteration(record):
            stopped = True
            break
        continued = continue_loop(centers, len(history))
        history += continued.history
        stopped = continued.stopped
        if not continued.inertia < best.inertia:
            break
        best = continued
    return replace(best, history=history, stopped=stopped)
