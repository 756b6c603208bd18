"""A run over rows that workers have: what the loop asks for, a round trip per iteration.

Every worker has the sums of all clusters, and applies the same delta to them, merged of those that
all parts found: integers, so that centers are the same everywhere, to the bit. The assignment that
follows an update comes with it, in the same round trip: also where the run ends, because every
label is to be that of the nearest center.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.empty import fill, most_candidates, warn_if_fewer
from sparsecluster.kmeans.ledger import Delta, Ledger, Replay, joined
from sparsecluster.kmeans.merged import (
    OWN,
    merge_candidates,
    merge_found,
    merge_limbs,
    merge_spreads,
    merge_steps,
)
from sparsecluster.kmeans.packed import Arrays, packed_core, unpacked_core
from sparsecluster.kmeans.spreads import added_spreads
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import kept_numbers

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


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What labels on the workers follow from: those of the start, or centers, and what was done
    about empty clusters since."""

    labels: Sequence[np.ndarray] | None = None  #: of the start, by part
    n_rows: int = 0  #: the first ones, that were assigned
    moves: Any = ()  #: pairs of a row and a cluster
    numbers: np.ndarray | None = None  #: of the clusters that were kept
    centers: _core.Centers | None = None  #: None: those of the ledger

    def recipe(self, known: _core.Centers | None) -> Arrays:
        """What parts restore them by, but for the labels of the start."""
        centers = known if self.centers is None else self.centers
        return {
            "n_rows": self.n_rows,
            "centers": None if centers is None else packed_core(centers),
            "moves": self.moves,
            "numbers": self.numbers,
        }

    def own(self, part: int) -> Arrays:
        """The labels of the start that a part had."""
        return {"labels": None if self.labels is None else self.labels[part]}


class RemoteWork:
    """What the loop asks for, of rows that workers have."""

    basis = None

    def __init__(
        self, remote: RemoteRows, task: Task, centers: _core.Centers, start: RunState
    ) -> None:
        self._remote, self._session, self._task = remote, remote.session, task
        self.seconds_ahead = 0.0  #: of an assignment that came with the last update
        self._ahead: Arrays | None = None  # what that gave
        self._alone = self._session.n_parts == 1
        self._replay = Replay()
        self._packed: Arrays | None = None  # what restores parts after the last turn
        self._ledger: Any = None if self._alone else self._ledger_of(centers)
        self._centers: _core.Centers | None = centers  # None: to be asked for
        self._stage = Stage()
        self._before: Stage | None = None
        self._sizes = np.zeros(centers.n_clusters, dtype=np.int64)
        self._cost: float | None = None  # of the last update
        self._scatter: np.ndarray | None = None  # of the rows that took part, if not all do
        labels: Sequence[Any] = [None] * self._session.n_parts
        if start.labels is not None:
            labels = remote.in_parts(start.labels)
            self._stage = Stage(labels=labels, n_rows=task.rows.n_rows)
        self._session.recipe_of = lambda part: {}
        begun = self._turn("begin", self._beginning(centers), [{"labels": one} for one in labels])
        # Changes no center: they came from these labels.
        self._delta: Delta | None = None if start.labels is None else begun["delta"]
        self._session.recipe_of = self._recipe

    def _beginning(self, centers: _core.Centers) -> Arrays:
        return {"limit": self._task.limit.values, **packed_core(centers)}

    def _ledger_of(self, centers: _core.Centers) -> Ledger:
        remote, limit = self._remote, self._task.limit
        sums = _core.ClusterSums(remote.columns, centers.n_clusters, remote.metric.space, limit)
        return Ledger(centers.copy(), sums, remote.n_threads)

    def _turn(
        self, method: str, given: Arrays, own: Sequence[dict[str, Any]] | None = None
    ) -> Arrays:
        found = self._session.turn(method, given, own=own, merge=merge_steps)
        self._packed = None
        if self._alone:
            self._replay.add(method, {**given, **(own[0] if own else {})})
        return found

    def _recipe(self, part: int) -> Arrays:
        """What restores a partition as it is after the last turn."""
        if self._alone:
            return {"turns": self._replay.turns}
        before, ledger, stage = self._before, self._ledger, self._stage
        if self._packed is None:  # once for all parts that are lost
            self._packed = {
                "before": None if before is None else before.recipe(ledger.before),
                "now": stage.recipe(ledger.centers),
                "sums": ledger.whole(),
            }
        packed = self._packed
        return {
            "before": None if before is None else {**packed["before"], **before.own(part)},
            **packed["now"],
            **stage.own(part),
            "limit": self._task.limit.values,
            "sums": packed["sums"],
        }

    # --- an iteration ----------------------------------------------------------------------------

    def assign(self, shift: np.ndarray, n_rows: int) -> Found:
        """Give the first rows their nearest centers; says what that took."""
        ahead, self._ahead, self.seconds_ahead = self._ahead, None, 0.0
        if ahead is None:
            ahead = self._step(n_rows, self._delta)
        elif self._stage.n_rows < n_rows:
            found = self._step(n_rows, None)
            both = {"delta": joined([ahead["delta"], found["delta"]])}
            ahead = {**found, **both, **merge_found([ahead, found])}
        self._delta, self._sizes = ahead["delta"], ahead["sizes"]
        return Found(**merge_found([ahead]))

    def assign_last(self, shift: np.ndarray, n_rows: int) -> None:
        """The same, where no update follows."""
        self.assign(shift, n_rows)

    def _step(self, n_rows: int, delta: Delta | None) -> Arrays:
        """Have the workers apply a delta, if there is one, and assign the first rows."""
        counts = n_rows < self._task.rows.n_rows or self._scatter is not None
        found = self._turn("step", self._stepping(n_rows, delta, counts))
        if delta is not None:
            self._before = self._stage
            if not self._alone:
                self._ledger.add(delta)
        self._stage, self._centers = Stage(n_rows=n_rows), None
        self._delta = found["delta"]
        if counts:
            more = found["scatter"]
            self._scatter = more if self._scatter is None else self._scatter + more
        return found

    def _stepping(self, n_rows: int, delta: Delta | None, counts: bool) -> Arrays:
        return {
            "delta": OWN if self._alone and delta is not None else delta,
            "scatter": self.scatter,
            "n_rows": n_rows,
            "scattered": counts,
        }

    def refill(self, n_rows: int) -> tuple[int, list[int]]:
        """How many rows went into clusters that were empty, and the clusters nothing can fill."""
        if self._sizes.all():
            return 0, []
        few = {"count": most_candidates(self._sizes)}
        found = self._session.ask("candidates", few, merge=merge_candidates)
        moves, hopeless = fill(self._sizes, found["rows"], found["ranks"], found["labels"])
        if moves:
            pairs = np.array(moves, dtype=np.int64)
            assert self._delta is not None
            more = self._turn("refill", {"moves": pairs})
            self._stage = replace(self._stage, moves=pairs)
            self._delta = joined([self._delta, more["delta"]])
        return len(moves), hopeless

    def drop(self, empty: list[int]) -> None:
        """Go on without these clusters."""
        n_clusters = len(self._sizes)
        if self._task.warns:
            warn_if_fewer(n_clusters - len(empty), n_clusters)
        numbers = kept_numbers(n_clusters, empty)
        delta = self._turn("renumber", {"numbers": numbers})["delta"]
        self._delta, self._cost, self._centers = delta, None, None
        if self._alone:
            return
        # Restored by the centers before, whose labels are renumbered then.
        ledger, before = self._ledger, self._before
        if before is not None and before.centers is None:
            self._before = replace(before, centers=ledger.before)
        self._stage = replace(self._stage, centers=ledger.centers, numbers=numbers)
        self._ledger = self._ledger_of(ledger.centers.some(np.flatnonzero(numbers >= 0)))

    def update(self, n_rows: int) -> tuple[int, np.ndarray, float]:
        """Move the centers: how many rows changed, how far each center went, and the cost."""
        assert self._delta is not None
        moved = self._delta[0]
        if moved == 0 and self._cost is not None:
            self._delta = None
            return 0, np.zeros(len(self._sizes)), self._cost
        self._ahead = self._step(n_rows, self._delta)
        self.seconds_ahead = self._ahead["seconds"]
        shift, self._cost = self._ahead["update"]
        if self._alone and self._replay.is_long:
            begin = {"labels": None, **self._beginning(self.centers)}
            self._replay.begin_at(("begin", begin), ("step", self._stepping(n_rows, None, False)))
        return moved, shift, self._cost

    # --- what is asked about it ------------------------------------------------------------------

    @property
    def centers(self) -> _core.Centers:
        """The centers: worked out here, or from a worker where that is less work."""
        if not self._alone and not self._ledger.behind:
            return self._ledger.centers
        if self._centers is None:
            own = [{"wanted": part == 0} for part in range(self._session.n_parts)]
            self._centers = unpacked_core(self._session.ask("centers", own=own)[0])
        return self._centers

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
