"""The loop of k-means: assign, refill, update, stop? What varies is passed in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.sizes import SizeBounds
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import LocalWork
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord, Reporter

if TYPE_CHECKING:
    from sparsecluster.kmeans.remote import RemoteRows

# An update gives the cost as a difference from the total scatter; below this share of it, too few
# digits are left.
FEW_DIGITS = 1e-5


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a run is to do: which rows it clusters, how, and when it has done enough."""

    rows: Rows
    setting: SeedSetting
    columns: _core.ColumnStats
    occurring: Columns | None = None  #: those that the rows are in, where others were left out
    algorithm: str = "auto"
    bounds: SizeBounds | None = None  #: of the sizes of clusters
    max_iter: int = 300
    tolerance: float = 0.0  #: of the sum of the squared shifts of the centers (eq. A.1)
    limit: _core.CenterLimit = field(default_factory=_core.CenterLimit)
    run: int = 0  #: its number among the runs of a fit
    tell: Reporter | None = None  #: who hears how far an assignment within bounds is
    remote: RemoteRows | None = None  #: the rows, where workers have them
    takes_labels: bool = True  #: whether the end of a run has labels, as checkpoints want
    space: str = "original"  #: of the rows; "embedded" where they are not those of the user
    warns: bool = True  #: of clusters that are missing; not where a run follows that may fill them
    #: centers as the user sees them
    shown: Callable[[sp.csr_array], Any] = lambda centers: centers
    #: of embedded rows: the centers of these labels, so many of them, in the original space
    lift: Callable[[np.ndarray, int], _core.Centers] | None = None

    def show(self, centers: _core.Centers, labels: np.ndarray) -> Any:
        """A copy of the centers of these labels for the user."""
        if self.lift is not None:
            centers = self.lift(labels, centers.n_clusters)
        return self.shown(centers_.from_core(centers))

    def measured(self, state: RunState) -> RunState:
        """A state with its inertia."""
        if self.remote is None:
            return state.measured(self.rows, self.setting)
        work = self.remote.work(self, centers_.to_core(state.centers), state)
        return replace(state, inertia=work.cost(self.rows.n_rows))


#: Called after each iteration; a true answer ends the run.
Observer = Callable[[IterationRecord, "Loop"], Any]


def iterate(task: Task, start: RunState, observe: Observer) -> RunState:
    """Move the centers until no label changes, they hardly shift, or `max_iter` is up."""
    loop = Loop(task, start)
    while loop.goes_on:
        record = loop.step()
        with record.showing(
            lambda: task.show(loop.centers, loop.labels),
            lambda: loop.labels.copy(),
            None if task.remote is None else task.remote.machines,
        ):
            loop.stopped = bool(observe(record, loop))
    return loop.finish()


class Loop:
    """A run between two iterations, from a start or from where it was."""

    def __init__(self, task: Task, start: RunState) -> None:
        self.task = task
        self.history = list(start.history)
        self._seeding_seconds = start.seeding_seconds
        self.settled = self.near = self.stopped = self._restarted = False
        self._shift = np.zeros(0)
        make: Any = LocalWork if task.remote is None else task.remote.work
        self._work = make(task, centers_.to_core(start.centers), start)

    @property
    def centers(self) -> _core.Centers:
        """The centers; not to be changed."""
        return self._work.centers

    @property
    def labels(self) -> np.ndarray:
        """The label of each row; not to be changed."""
        return self._work.labels

    @property
    def goes_on(self) -> bool:
        """Whether there is another iteration to come; there is one at least."""
        over = self.settled or self.near or self.stopped
        return not over and (not self.history or len(self.history) < self.task.max_iter)

    def step(self, n_rows: int | None = None) -> IterationRecord:
        """One iteration, of all rows or of the first ones: not fewer than before."""
        started = time.perf_counter()
        work, n_rows = self._work, self.task.rows.n_rows if n_rows is None else n_rows
        before = work.seconds_ahead
        found = work.assign(self._shift, n_rows)
        assigned = time.perf_counter()
        refilled, hopeless = work.refill(n_rows)
        if hopeless and n_rows == self.task.rows.n_rows:
            work.drop(hopeless)
        refilling = time.perf_counter() - assigned
        moved, self._shift, cost = work.update(n_rows)
        updated, ahead = time.perf_counter(), work.seconds_ahead
        if cost < FEW_DIGITS * work.scatter:
            cost = work.cost(n_rows)
        # The labels of an earlier run settle nothing.
        self.settled = moved == 0 and not refilled and not self._restarted
        self._restarted = False
        record = IterationRecord(
            iteration=len(self.history) + 1,
            cost=cost,
            shift=math.fsum(self._shift * self._shift),
            moved=moved,
            distances=found.distances,
            seconds=time.perf_counter() - started + before - ahead,
            algorithm=self.task.algorithm,
            path=found.path,
            run=self.task.run,
            rows=n_rows,
            skipped=found.skipped,
            center_distances=found.center_distances,
            assignment_seconds=assigned - started + before,
            update_seconds=updated - assigned - refilling - ahead,
            space=self.task.space,
        )
        self.history.append(record)
        self.near = record.shift <= self.task.tolerance
        return record

    def restart(self, centers: _core.Centers, changed: Sequence[int]) -> None:
        """A new run, from the centers as they are but for some that changed, or are new at the end.

        It ends as one that begins with these centers; what is known of rows and sums stays. For
        rows in this process, in clusters of any size.
        """
        assert self.task.remote is None
        assert self.task.bounds is None
        shift = np.full(centers.n_clusters, np.inf)
        shift[: len(self._shift)] = self._shift
        shift[list(changed)] = np.inf
        self._work.restart(centers)
        self._shift, self.history = shift, []
        self.settled = self.near = self.stopped = False
        self._restarted = True

    def state(self, *, labels: bool = True) -> RunState:
        """What the run can resume from, which stays as it is when the run continues."""
        return RunState(
            centers=centers_.from_core(self.centers),
            labels=self.labels.copy() if labels else None,
            basis=self._work.basis,
            history=list(self.history),
            seeding_seconds=self._seeding_seconds,
        )

    def standard_errors(self, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Squared standard errors of the centers by the first rows, and how far they moved last."""
        sizes, squares, counts = self._work.spreads(n_rows)
        mean_norm2 = self._work.mean_norm2
        scatter = np.maximum(squares - sizes * mean_norm2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error2 = scatter / (sizes * np.maximum(counts - 1, 1))
            return self.task.setting.metric.error2(error2, mean_norm2), self._shift

    def finish(self) -> RunState:
        """The end of the run: every label is that of the nearest center, within the bounds."""
        n_rows = self.task.rows.n_rows
        if not self.settled:
            # The centers moved after the labels were given: give them again.
            self._work.assign_last(self._shift, n_rows)
        inertia = self._work.cost(n_rows)
        self._work.finish()  # whose memory is needed for the copy of the centers
        return replace(
            self.state(labels=False),
            labels=self.labels if self.task.takes_labels else None,  # no copy: nothing follows
            inertia=inertia,
            finished=True,
            converged=self.settled or self.near,
            stopped=self.stopped,
        )
