"""The rows of a run, all in this process: assigned, added up, and measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import make_assigner
from sparsecluster.kmeans.empty import refill, warn_if_fewer
from sparsecluster.kmeans.spreads import added_spreads, spread_pieces
from sparsecluster.kmeans.state import RunState
from sparsecluster.run.history import AssignmentRecord

if TYPE_CHECKING:
    from sparsecluster.kmeans.loop import Task


class LocalWork:
    """What the loop asks for, of rows that are here."""

    seconds_ahead = 0.0  #: of an assignment that came with the last update

    def __init__(self, task: Task, centers: _core.Centers, start: RunState) -> None:
        self._task = task
        self.centers = centers
        self._range: tuple | None = None
        self.basis = start.basis  #: of the last assignment, where sizes have bounds
        self._iteration = len(start.history)
        self.labels = np.full(task.rows.n_rows, -1, dtype=np.int32)
        self._begin(centers.n_clusters)
        if start.labels is not None:
            self.labels[:] = start.labels
            # Changes no center: they came from these labels.
            self._sums.update(self.labels, centers, task.setting.n_threads)

    def _begin(self, n_clusters: int) -> None:
        task = self._task
        self._assigner: Any
        self._sums: Any
        if task.bounds is None:
            self._assigner = make_assigner(task.algorithm, task.rows, task.setting)
        else:
            self._assigner = task.bounds.assigner(task.rows, task.setting, self.basis)
        self._sums = _core.Sums(
            task.rows.core,
            task.columns,
            task.setting.weights,
            n_clusters,
            task.setting.metric.space,
            task.limit,
        )

    def restart(self, centers: _core.Centers) -> None:
        """Go on with other centers, no fewer than there are; labels that were given away stay."""
        task, self._iteration = self._task, 0
        self.centers, self.labels = centers, self.labels.copy()
        if not self._assigner.grow():
            self._assigner = make_assigner(task.algorithm, task.rows, task.setting)
        self._sums.restart(centers.n_clusters)

    def _weights(self, n_rows: int) -> np.ndarray | None:
        weights = self._task.setting.weights
        return None if weights is None else weights[:n_rows]

    def assign(self, shift: np.ndarray, n_rows: int) -> Any:
        """Give the first rows their nearest centers; says what that took."""
        labels = self.labels[:n_rows]
        if self._task.bounds is None:
            return self._assigner.assign(self.centers, shift, labels, self._sums)
        self._iteration += 1
        found = self._assigner.assign(self.centers, shift, labels, self._progress())
        self.basis = self._assigner.basis
        return found

    def assign_last(self, shift: np.ndarray, n_rows: int) -> None:
        """The same, where no update follows."""
        self._sums = None
        self.assign(shift, n_rows)

    def _progress(self) -> Callable[[float], Any] | None:
        """Tells the share of an assignment that begins now."""
        tell, iteration, run = self._task.tell, self._iteration, self._task.run
        if tell is None:
            return None
        started = time.perf_counter()
        return lambda share: tell(
            AssignmentRecord(share, time.perf_counter() - started, iteration, run)
        )

    def refill(self, n_rows: int) -> tuple[int, list[int]]:
        """How many rows went into clusters that were empty, and the clusters nothing can fill."""
        task, labels = self._task, self.labels[:n_rows]
        if task.bounds is not None:
            return 0, []  # none is empty
        weights = self._weights(n_rows)
        refilled, hopeless = refill(task.rows, self.centers, labels, weights, task.setting)
        for row in refilled:
            self._assigner.forget(row)
        return len(refilled), hopeless

    def drop(self, empty: list[int]) -> None:
        """Go on without these clusters."""
        if self._task.warns:
            warn_if_fewer(self.centers.n_clusters - len(empty), self.centers.n_clusters)
        self.centers = drop_clusters(self.centers, self.labels, empty)
        self._begin(self.centers.n_clusters)

    def update(self, n_rows: int) -> tuple[int, np.ndarray, float]:
        """Move the centers: how many rows changed, how far each center went, and the cost."""
        labels, n_threads = self.labels[:n_rows], self._task.setting.n_threads
        return self._sums.update(labels, self.centers, n_threads)

    def cost(self, n_rows: int) -> float:
        """The cost, exact to rounding."""
        rows, n_threads = self._task.rows, self._task.setting.n_threads
        labels = self.labels[:n_rows]
        return _core.own_cost(rows.core, self.centers, labels, self._weights(n_rows), n_threads)

    def spreads(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the clusters of the first rows: weights, weighted squared norms, numbers of rows."""
        rows = self._task.rows.core
        if self._range is None:
            self._range = _core.row_range(rows, self._task.setting.weights)
        labels, weights = self.labels[:n_rows], self._weights(n_rows)
        n_clusters = self.centers.n_clusters
        return added_spreads(
            spread_pieces(labels, rows.norm2[:n_rows], weights, n_clusters, self._range)
        )

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        return self._sums.scatter

    @property
    def mean_norm2(self) -> np.ndarray:
        """Squared norms of the means of the clusters."""
        return self._sums.mean_norm2

    def finish(self) -> None:
        """Let go of what only further iterations need."""
        del self._assigner, self._sums
        if self._task.rows.streamed:
            _core.give_back()


def kept_numbers(n_clusters: int, empty: list[int]) -> np.ndarray:
    """The new number of each cluster once these are left out, which get -1."""
    numbers = np.full(n_clusters, -1, dtype=np.int32)
    kept = np.setdiff1d(np.arange(n_clusters), empty)
    numbers[kept] = np.arange(len(kept), dtype=np.int32)
    return numbers


def drop_clusters(centers: _core.Centers, labels: np.ndarray, empty: list[int]) -> _core.Centers:
    """Without the clusters that nothing can fill; the labels of the others change in place."""
    numbers = kept_numbers(centers.n_clusters, empty)
    # Rows without weight may have been in a cluster that went; they count for nothing until the
    # next assignment, so any label will do.
    np.maximum(numbers[labels], 0, out=labels)
    return centers_.to_core(centers_.from_core(centers)[np.flatnonzero(numbers >= 0)])
