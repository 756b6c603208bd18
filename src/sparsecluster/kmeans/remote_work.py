"""A run over rows that workers have: what the loop asks for, a round trip per iteration.

Every worker has the sums of all clusters, and applies the same delta to them, merged of those that
all parts found: integers, so that centers are the same everywhere, to the bit. A small delta is
merged here; of a large one, each part merges a range of clusters, which the others get from it. The
assignment that follows an update comes with it, in the same round trip: also where the run ends,
because every label is to be that of the nearest center.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.deltas import Delta, is_kept
from sparsecluster.kmeans.empty import fill, most_candidates, warn_if_fewer
from sparsecluster.kmeans.merged import (
    merge_candidates,
    merge_found,
    merge_limbs,
    merge_nothing,
    merge_spreads,
    merge_steps,
)
from sparsecluster.kmeans.packed import Arrays, packed_core, unpacked_core
from sparsecluster.kmeans.replay import Beginning, Replay, Step
from sparsecluster.kmeans.spreads import added_spreads
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import kept_numbers
from sparsecluster.run.session import PartsLost

if TYPE_CHECKING:
    from sparsecluster.kmeans.loop import Task
    from sparsecluster.kmeans.remote import RemoteRows


@dataclass(frozen=True)
class Found:
    """What assigning took, on all workers together."""

    distances: int
    skipped: int
    center_distances: int
    path: str


class RemoteWork:
    """What the loop asks for, of rows that workers have."""

    basis = None

    def __init__(
        self, remote: RemoteRows, task: Task, centers: _core.Centers, start: RunState
    ) -> None:
        self._remote, self._session, self._task = remote, remote.session, task
        self.seconds_ahead = 0.0  #: of an assignment that came with the last update
        self._ahead: Arrays | None = None  # what that gave
        self._n_rows = 0  # the first ones, that were assigned
        self._labelled = start.labels is not None  # whether sums of the start are to be applied
        self._moved = 0  # rows, since the last update
        self._centers: _core.Centers | None = centers  # None: to be asked for
        self._sizes = np.zeros(centers.n_clusters, dtype=np.int64)
        self._cost: float | None = None  # of the last update
        self._scatter: np.ndarray | None = None  # of the rows that took part, if not all do
        labels: Sequence[Any] = [None] * self._session.n_parts
        if self._labelled:
            labels = remote.in_parts(start.labels)
        own = [{"labels": one} for one in labels]
        self._replay = Replay(Beginning(packed_core(centers), own))
        self._delta: Delta  # what parts found since the last update
        self._session.recover = self._recover
        self._recover()
        self._session.made_progress()

    # --- steps of all parts, and how they are taken once more -------------------------------------

    def _begin(self) -> None:
        beginning = self._replay.beginning
        given = {"limit": self._task.limit.values, **beginning.centers}
        begun = self._session.turn("begin", given, own=beginning.own, merge=merge_steps, anew=True)
        self._delta = begun["delta"]

    def _take(self, step: Step) -> Arrays:
        """Have all parts take a step."""
        kept = step.applies and is_kept(self._delta)
        traded = kept and self._session.n_parts > 1
        if traded:
            self._session.turn("trade", merge=merge_nothing, given=True)
        given = step.given
        if step.applies:
            given = {**given, "delta": None if kept else self._delta}
        found: Arrays = self._session.turn(step.method, given, merge=merge_steps, given=traded)
        self._delta = found["delta"]
        return found

    def _taken(self, step: Step) -> Arrays:
        """The same, once more where parts were lost."""
        while True:
            try:
                found = self._take(step)
                break
            except PartsLost:
                self._recover()
        self._session.made_progress()
        self._replay.add(step)
        return found

    def _recover(self) -> None:
        """Bring all parts to where they were."""
        while True:
            with suppress(PartsLost):
                self._begin()
                for step in self._replay.steps:
                    self._take(step)
                return

    # --- an iteration ----------------------------------------------------------------------------

    def assign(self, shift: np.ndarray, n_rows: int) -> Found:
        """Give the first rows their nearest centers; says what that took."""
        ahead, self._ahead, self.seconds_ahead = self._ahead, None, 0.0
        if ahead is None:
            applies, self._labelled = self._labelled, False
            ahead = self._step(n_rows, applies=applies)
        elif self._n_rows < n_rows:
            found = self._step(n_rows, applies=False)
            ahead = {**found, **merge_found([ahead, found])}
        self._moved, self._sizes = ahead["delta"][0], ahead["sizes"]
        return Found(**merge_found([ahead]))

    def assign_last(self, shift: np.ndarray, n_rows: int) -> None:
        """The same, where no update follows."""
        self.assign(shift, n_rows)

    def _step(self, n_rows: int, *, applies: bool) -> Arrays:
        """Have the workers apply what they found, if they are to, and assign the first rows."""
        counts = n_rows < self._task.rows.n_rows or self._scatter is not None
        found = self._taken(self._stepping(n_rows, counts=counts, applies=applies))
        self._n_rows, self._centers = n_rows, None
        if counts:
            more = found["scatter"]
            self._scatter = more if self._scatter is None else self._scatter + more
        return found

    def _stepping(self, n_rows: int, *, counts: bool, applies: bool) -> Step:
        given = {
            "applies": applies,
            "delta": None,
            "scatter": self.scatter,
            "n_rows": n_rows,
            "scattered": counts,
        }
        return Step("step", given, applies)

    def refill(self, n_rows: int) -> tuple[int, list[int]]:
        """How many rows went into clusters that were empty, and the clusters nothing can fill."""
        if self._sizes.all():
            return 0, []
        few = {"count": most_candidates(self._sizes)}
        found = self._session.ask("candidates", few, merge=merge_candidates)
        moves, hopeless = fill(self._sizes, found["rows"], found["ranks"], found["labels"])
        if moves:
            pairs = np.array(moves, dtype=np.int64)
            self._moved = self._taken(Step("refill", {"moves": pairs}, False))["delta"][0]
        return len(moves), hopeless

    def drop(self, empty: list[int]) -> None:
        """Go on without these clusters."""
        n_clusters = len(self._sizes)
        if self._task.warns:
            warn_if_fewer(n_clusters - len(empty), n_clusters)
        numbers = kept_numbers(n_clusters, empty)
        self._moved = self._taken(Step("renumber", {"numbers": numbers}, False))["delta"][0]
        self._cost, self._centers = None, None

    def update(self, n_rows: int) -> tuple[int, np.ndarray, float]:
        """Move the centers: how many rows changed, how far each center went, and the cost."""
        moved = self._moved
        if moved == 0 and self._cost is not None:
            return 0, np.zeros(len(self._sizes)), self._cost
        self._ahead = self._step(n_rows, applies=True)
        self.seconds_ahead = self._ahead["seconds"]
        shift, self._cost = self._ahead["update"]
        if self._replay.is_long:
            self._shorten_replay(n_rows)
        return moved, shift, self._cost

    def _shorten_replay(self, n_rows: int) -> None:
        began = time.monotonic()
        own = [{"labels": None}] * self._session.n_parts
        beginning = Beginning(self._packed_centers(), own)
        step = self._stepping(n_rows, counts=False, applies=False)
        self._replay.begin_at(beginning, step, time.monotonic() - began)

    # --- what is asked about it ------------------------------------------------------------------

    @property
    def centers(self) -> _core.Centers:
        """The centers, from a worker."""
        if self._centers is None:
            self._centers = unpacked_core(self._packed_centers())
        return self._centers

    def _packed_centers(self) -> Arrays:
        own = [{"wanted": part == 0} for part in range(self._session.n_parts)]
        found: Arrays = self._session.ask("centers", own=own)[0]
        return found

    @property
    def _which(self) -> Arrays:
        """The labels that are meant: not those that came with an update."""
        return {"before": self._ahead is not None}

    @property
    def labels(self) -> np.ndarray:
        """The label of each row, from the workers."""
        return self._remote.gathered(self._session.ask("labels", self._which))

    def cost(self, n_rows: int) -> float:
        """The cost, exact to rounding."""
        return _core.exact_value(self._session.ask("cost", self._which, merge=merge_limbs))

    def spreads(self, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the clusters of the first rows: weights, weighted squared norms, numbers of rows."""
        given = {**self._which, "range": self._remote.range}
        found = self._session.ask("spreads", given, merge=merge_spreads)
        self.mean_norm2 = found["mean_norm2"]  #: squared norms of the means of the clusters
        return added_spreads(found)

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        if self._scatter is None:
            return self._remote.scatter
        return _core.exact_value(self._scatter)

    def finish(self) -> None:
        """Let go of what only further iterations need: labels stay until they are read."""
