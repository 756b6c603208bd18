"""The loop of k-means: assign, refill, update, stop? What varies is passed in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import make_assigner
from sparsecluster.kmeans.empty import refill, warn_if_fewer
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.sizes import SizeBounds
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord

# An update gives the cost as a difference from the total scatter; below this share of it, too few
# digits are left.
FEW_DIGITS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a run is to do: which rows it clusters, how, and when it has done enough."""

    rows: Rows
    setting: SeedSetting
    columns: _core.ColumnStats
    algorithm: str = "auto"
    bounds: SizeBounds | None = None  #: of the sizes of clusters
    max_iter: int = 300
    tolerance: float = 0.0  #: of the sum of the squared shifts of the centers (eq. A.1)
    limit: _core.CenterLimit = field(default_factory=_core.CenterLimit)
    run: int = 0  #: its number among the runs of a fit
    space: str = "original"  #: of the rows; "embedded" where they are not those of the user
    #: centers as the user sees them
    shown: Callable[[sp.csr_array], Any] = lambda centers: centers
    #: of embedded rows: the centers of these labels, so many of them, in the original space
    lift: Callable[[np.ndarray, int], _core.Centers] | None = None

    def show(self, centers: _core.Centers, labels: np.ndarray) -> Any:
        """A copy of the centers of these labels for the user."""
        if self.lift is not None:
            centers = self.lift(labels, centers.n_clusters)
        return self.shown(centers_.from_core(centers))


#: Called after each iteration; a true answer ends the run.
Observer = Callable[[IterationRecord, "Loop"], Any]


def iterate(task: Task, start: RunState, observe: Observer) -> RunState:
    """Move the centers until no label changes, they hardly shift, or `max_iter` is up."""
    loop = Loop(task, start)
    while loop.goes_on:
        record = loop.step()
        with record.showing(partial(task.show, loop.centers, loop.labels), loop.labels.copy):
            loop.stopped = bool(observe(record, loop))
    return loop.finish()


class Loop:
    """A run between two iterations, from a start or from where it was."""

    def __init__(self, task: Task, start: RunState) -> None:
        self.task = task
        self.history = list(start.history)
        self._seeding_seconds = start.seeding_seconds
        self.settled = self.near = self.stopped = False
        self._basis = start.basis
        self._begin(centers_.to_core(start.centers))
        self.labels = np.full(task.rows.n_rows, -1, dtype=np.int32)
        if start.labels is not None:
            self.labels[:] = start.labels
            # Changes no center: they came from these labels.
            self._sums.update(self.labels, self.centers, task.setting.n_threads)

    def _begin(self, centers: _core.Centers) -> None:
        task = self.task
        self.centers, self._shift = centers, np.zeros(0)
        self._assigner: Any
        if task.bounds is None:
            self._assigner = make_assigner(task.algorithm, task.rows, task.setting)
        else:
            self._assigner = task.bounds.assigner(task.rows, task.setting, self._basis)
        self._sums = _core.Sums(
            task.rows.core,
            task.columns,
            task.setting.weights,
            centers.n_clusters,
            task.setting.metric.space,
            task.limit,
        )

    @property
    def goes_on(self) -> bool:
        """Whether there is another iteration to come; there is one at least."""
        over = self.settled or self.near or self.stopped
        return not over and (not self.history or len(self.history) < self.task.max_iter)

    def step(self, n_rows: int | None = None) -> IterationRecord:
        """One iteration, of all rows or of the first ones: not fewer than before."""
        started = time.perf_counter()
        setting, labels = self.task.setting, self.labels[:n_rows]
        weights = None if setting.weights is None else setting.weights[: len(labels)]
        found = self._assigner.assign(self.centers, self._shift, labels)
        self._basis = getattr(self._assigner, "basis", None)
        assigned = time.perf_counter()
        refilled = self._refill(labels, weights)
        refilling = time.perf_counter() - assigned
        moved, self._shift, cost = self._sums.update(labels, self.centers, setting.n_threads)
        updated = time.perf_counter()
        if cost < FEW_DIGITS * self._sums.scatter:
            cost = self._exact_cost(labels, weights)
        self.settled = moved == 0 and not refilled
        record = IterationRecord(
            iteration=len(self.history) + 1,
            cost=cost,
            shift=math.fsum(self._shift * self._shift),
            moved=moved,
            distances=found.distances,
            seconds=time.perf_counter() - started,
            algorithm=self.task.algorithm,
            path=found.path,
            run=self.task.run,
            rows=len(labels),
            skipped=found.skipped,
            center_distances=found.center_distances,
            assignment_seconds=assigned - started,
            update_seconds=updated - assigned - refilling,
            space=self.task.space,
        )
        self.history.append(record)
        self.near = record.shift <= self.task.tolerance
        return record

    def _refill(self, labels: np.ndarray, weights: np.ndarray | None) -> list[int]:
        """Rows that went into clusters that were empty; a cluster that nothing can fill goes."""
        rows = self.task.rows
        if self.task.bounds is not None:
            return []  # none is empty
        refilled, hopeless = refill(rows, self.centers, labels, weights, self.task.setting)
        for row in refilled:
            self._assigner.forget(row)
        if hopeless and len(labels) == rows.n_rows:
            self._begin(drop_clusters(self.centers, labels, hopeless))
        return refilled

    def state(self) -> RunState:
        """What the run can resume from, which stays as it is when the run continues."""
        return RunState(
            centers=centers_.from_core(self.centers),
            labels=self.labels.copy(),
            basis=self._basis,
            history=list(self.history),
            seeding_seconds=self._seeding_seconds,
        )

    def standard_errors(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Squared standard errors of the centers by these rows, and how far they moved last."""
        setting, norm2 = self.task.setting, self.task.rows.core.norm2[: len(labels)]
        share = np.ones(len(labels)) if setting.weights is None else setting.weights[: len(labels)]
        n_clusters, mean_norm2 = self.centers.n_clusters, self._sums.mean_norm2
        sizes = np.bincount(labels, share, minlength=n_clusters)
        squares = np.bincount(labels, share * norm2, minlength=n_clusters)
        scatter = np.maximum(squares - sizes * mean_norm2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            n_rows = np.bincount(labels, minlength=n_clusters)
            error2 = scatter / (sizes * np.maximum(n_rows - 1, 1))
            return setting.metric.error2(error2, mean_norm2), self._shift

    def finish(self) -> RunState:
        """The end of the run: every label is that of the nearest center, within the bounds."""
        if not self.settled:
            # The centers moved after the labels were given: give them again.
            self._assigner.assign(self.centers, self._shift, self.labels)
        inertia = self._exact_cost(self.labels, self.task.setting.weights)
        del self._assigner, self._sums  # whose memory is needed for the copy of the centers
        return replace(
            self.state(),
            inertia=inertia,
            finished=True,
            converged=self.settled or self.near,
            stopped=self.stopped,
        )

    def _exact_cost(self, labels: np.ndarray, weights: np.ndarray | None) -> float:
        rows, n_threads = self.task.rows, self.task.setting.n_threads
        return _core.own_cost(rows.core, self.centers, labels, weights, n_threads)


def drop_clusters(centers: _core.Centers, labels: np.ndarray, empty: list[int]) -> _core.Centers:
    """Without the clusters that nothing can fill; the labels of the others change in place."""
    warn_if_fewer(centers.n_clusters - len(empty), centers.n_clusters)
    kept = np.setdiff1d(np.arange(centers.n_clusters), empty)
    renumbered = np.full(centers.n_clusters, -1, dtype=np.int32)
    renumbered[kept] = np.arange(len(kept), dtype=np.int32)
    # Rows without weight may have been in a cluster that went; they count for nothing until the
    # next assignment, so any label will do.
    np.maximum(renumbered[labels], 0, out=labels)
    return centers_.to_core(centers_.from_core(centers)[kept])
