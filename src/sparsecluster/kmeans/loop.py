"""The loop of k-means: assign, refill, update, stop. What varies is passed in."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import make_assigner
from sparsecluster.kmeans.empty import empty_clusters, refill, warn_fewer_distinct
from sparsecluster.kmeans.nested import NestedBatches
from sparsecluster.kmeans.setting import Setting
from sparsecluster.kmeans.stopping import total_shift
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import Callback, IterationRecord
from sparsecluster.storage.checkpoint import RunCheckpoint, RunState

# An update gives the cost as a difference from the total scatter; below this share of it, too few
# digits are left.
FEW_DIGITS = 1e-5


@dataclass
class Clustering:
    """What the loop ends with: every label is that of the nearest center."""

    centers: _core.Centers
    labels: np.ndarray
    inertia: float
    history: list[IterationRecord]
    converged: bool
    stopped: bool = False  #: by the callback

    @property
    def n_iter(self) -> int:
        return len(self.history)

    def state(self, *, history: list[IterationRecord], refining: bool = False) -> RunState:
        """What a checkpoint keeps of it: a run that has ended, or goes on with single moves."""
        return RunState(
            centers=centers_.from_core(self.centers),
            labels=self.labels,
            history=history,
            refining=refining,
            finished=not refining,
            converged=self.converged,
            stopped=self.stopped,
        )


def clustering_of(state: RunState, rows: Rows, setting: Setting) -> Clustering:
    """The clustering that a run had reached."""
    assert state.labels is not None
    centers = state.core_centers()
    inertia = exact_cost(rows, centers, state.labels, setting.weights, setting.n_threads)
    return Clustering(
        centers, state.labels, inertia, list(state.history), state.converged, state.stopped
    )


def iterate(
    rows: Rows,
    centers: _core.Centers,
    setting: Setting,
    *,
    columns: _core.ColumnStats,
    tolerance: float,
    max_iter: int,
    on_iteration: Callback,
    algorithm: str = "auto",
    run: int = 0,
    done: int = 0,
    limit: _core.CenterLimit | None = None,
    batches: NestedBatches | None = None,
    checkpoint: RunCheckpoint | None = None,
    resumed: RunState | None = None,
) -> Clustering:
    """Move the centers (in place) until no label changes, they hardly shift, or max_iter is up.

    `done` iterations came before these; at least one is made. With `batches` (of the same rows) a
    part of the rows takes part at first, and all do before the end. A `resumed` state is where the
    centers come from, after some iterations.
    """
    weights, metric, n_threads = setting.weights, setting.metric, setting.n_threads
    limit = limit or _core.CenterLimit()
    all_labels = np.full(rows.n_rows, -1, dtype=np.int32)
    assigner = make_assigner(algorithm, rows, setting)
    sums = _core.Sums(rows.core, columns, weights, centers.n_clusters, metric, limit)
    shift = np.zeros(0)
    history: list[IterationRecord] = []
    settled = near = stopped = False
    if resumed and resumed.labels is not None:
        all_labels[:] = resumed.labels
        history += resumed.history
        sums.update(all_labels, centers, n_threads)  # changes no center: they came from these

    while not (settled or near or stopped) and (not history or done + len(history) < max_iter):
        started = time.perf_counter()
        labels = all_labels[: batches.size] if batches else all_labels
        weights_ = None if weights is None else weights[: len(labels)]
        whole = batches is None or batches.whole
        found = assigner.assign(centers, shift, labels)

        refilled: list[int] = []
        if len(empty_clusters(labels, weights_, centers.n_clusters)):
            refilled, hopeless = refill(rows, centers, labels, weights_, metric, n_threads)
            for row in refilled:
                assigner.forget(row)
            if hopeless and whole:
                centers = drop_clusters(centers, labels, hopeless)
                assigner = make_assigner(algorithm, rows, setting)
                sums = _core.Sums(rows.core, columns, weights, centers.n_clusters, metric, limit)
                shift = np.zeros(0)

        moved, shift, cost = sums.update(labels, centers, n_threads)
        if cost < FEW_DIGITS * sums.scatter:
            cost = exact_cost(rows, centers, labels, weights_, n_threads)
        settled = moved == 0 and not refilled
        record = IterationRecord(
            iteration=done + len(history) + 1,
            cost=cost,
            shift=total_shift(shift),
            moved=moved,
            distances=found.distances,
            seconds=time.perf_counter() - started,
            algorithm=algorithm,
            path=found.path,
            run=run,
            rows=len(labels),
            skipped=found.skipped,
            center_distances=found.center_distances,
        )
        history.append(record)
        stopped = bool(on_iteration(record))
        near = record.shift <= tolerance
        if batches and not whole:
            exhausted = batches.exhausted(labels, weights_, sums.mean_norm2, shift, metric)
            if exhausted or settled or near:
                batches.grow()
                settled = near = False
        if checkpoint and checkpoint.due and not (settled or near or stopped):
            checkpoint.save(
                RunState(centers=centers_.from_core(centers), labels=labels, history=history)
            )

    if not settled:
        # The centers moved after the labels were given: give them again.
        assigner.assign(centers, shift, all_labels)
    inertia = exact_cost(rows, centers, all_labels, weights, n_threads)
    return Clustering(
        centers, all_labels, inertia, history, converged=settled or near or stopped, stopped=stopped
    )


def exact_cost(
    rows: Rows,
    centers: _core.Centers,
    labels: np.ndarray,
    weights: np.ndarray | None,
    n_threads: int,
) -> float:
    """Weighted sum of the squared distances of the rows to the centers of their labels."""
    return _core.own_cost(rows.core, centers, labels, weights, n_threads)


def drop_clusters(centers: _core.Centers, labels: np.ndarray, empty: list[int]) -> _core.Centers:
    """Without the clusters that nothing can fill; the labels of the others change in place."""
    warn_fewer_distinct(centers.n_clusters - len(empty), centers.n_clusters)
    kept = np.setdiff1d(np.arange(centers.n_clusters), empty)
    renumbered = np.full(centers.n_clusters, -1, dtype=np.int32)
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    # Rows without weight may have been in a cluster that went; they count for nothing until the
    # next assignment, so any label will do.
    np.maximum(renumbered[labels], 0, out=labels)
    return centers_.to_core(centers_.from_core(centers)[kept])
