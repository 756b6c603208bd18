"""A run over rows that workers have: what the loop asks for, a round trip per iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.empty import fill, most_candidates, warn_if_fewer
from sparsecluster.kmeans.merged import merge_candidates, merge_found, merge_limbs, merge_steps
from sparsecluster.kmeans.partition import Arrays, packed_core, put_in_place, unpacked_core
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import kept_numbers

if TYPE_CHECKING:
    from sparsecluster.kmeans.remote import RemoteRows

NO_MOVES = np.zeros((0, 2), dtype=np.int64)
RecipeOf = Callable[[int], Arrays | None]


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

    def __init__(self, remote: RemoteRows, centers: _core.Centers, start: RunState) -> None:
        self._remote, self._session = remote, remote.session
        self._n_clusters = centers.n_clusters
        # What labels on the workers follow from: those of the start, or the last centers that were
        # sent and what was done after that.
        self._labels: list[Any] = [None] * self._session.n_parts
        self._before_sent: _core.Centers | None = None  # the centers before the last step
        self._sent: Arrays | None = None  # those of the last step that are others
        self._all_anew = True  # whether all are
        self._moved: np.ndarray | None = None  # clusters whose centers are others since; None: all
        self._moves = NO_MOVES
        self._numbers: np.ndarray | None = None
        self._before: RecipeOf = lambda part: None  # of the labels before the last step
        if start.labels is not None:
            self._labels = remote.in_parts(start.labels)
        own = [{"labels": part} for part in self._labels]
        self._session.recipe_of = lambda part: {}
        begun = self._session.turn(
            "begin", {"n_clusters": self._n_clusters}, own=own, merge=merge_steps
        )
        self._session.recipe_of = self._recipe
        self._sums = _core.ClusterSums(remote.columns, self._n_clusters, remote.metric.space)
        if start.labels is not None:
            # Changes no center: they came from these labels.
            self._sums.apply(begun["delta"], remote.scatter, centers, remote.n_threads)

    def _recipe(self, part: int) -> Arrays:
        """What restores a partition as it is after the last turn."""
        return {**(self._recipes(self._all_sent)(part) or {}), "before": self._before(part)}

    def _all_sent(self) -> Arrays | None:
        """The centers that workers have."""
        before, sent = self._before_sent, self._sent
        if before is None or self._all_anew:
            return sent
        assert sent is not None
        centers = before.copy()
        put_in_place(centers, sent["clusters"], sent, self._remote.n_threads)
        return packed_core(centers)

    def _recipes(self, sent: Callable[[], Arrays | None]) -> RecipeOf:
        """The recipes of labels by centers that were sent, and by what was done about empty
        clusters since."""
        n_clusters, labels = self._n_clusters, self._labels
        moves, numbers = self._moves, self._numbers
        return lambda part: {
            "n_clusters": n_clusters,
            "labels": labels[part],
            "centers": sent(),
            "moves": moves,
            "numbers": numbers,
            "before": None,
        }

    @property
    def labels(self) -> np.ndarray:
        """The label of each row, from the workers."""
        return np.concatenate(self._session.ask("labels"))

    def assign(self, centers: _core.Centers, shift: np.ndarray, n_rows: int) -> Found:
        """Give the rows their nearest centers; says what that took."""
        others = self._others(centers)
        found = self._session.turn("step", {**others, "shift": shift}, merge=merge_steps)
        self._remember(others)
        self._delta, self._sizes = found["delta"], found["sizes"]
        return Found(**merge_found([found]))

    def _others(self, centers: _core.Centers) -> Arrays:
        """The centers that are not those that were sent last, which alone travel."""
        clusters = np.arange(centers.n_clusters) if self._moved is None else self._moved
        return {"clusters": clusters, **packed_core(centers, clusters)}

    def _remember(self, others: Arrays) -> None:
        """Take these for what was sent last, beside what was sent before."""
        before, last = self._before_sent, self._sent
        if last is not None and (before is None or self._all_anew):
            before = unpacked_core(last)
        elif last is not None and before is not None:
            # In its place, because no recipe is asked for until this is done.
            put_in_place(before, last["clusters"], last, self._remote.n_threads)
        self._before = self._recipes(lambda: None if before is None else packed_core(before))
        self._before_sent, self._sent, self._all_anew = before, others, self._moved is None
        self._moves, self._numbers, self._moved = NO_MOVES, None, np.zeros(0, dtype=np.int64)

    def refill(self, centers: _core.Centers, n_rows: int) -> tuple[int, list[int]]:
        """How many rows went into clusters that were empty, and the clusters nothing can fill."""
        if self._sizes.all():
            return 0, []
        few = {"count": most_candidates(self._sizes)}
        found = self._session.ask("candidates", few, merge=merge_candidates)
        moves, hopeless = fill(self._sizes, found["rows"], found["ranks"], found["labels"])
        if moves:
            pairs = np.array(moves, dtype=np.int64)
            more = self._session.turn("refill", {"moves": pairs}, merge=merge_steps)
            self._moves = pairs
            self._delta = _core.merge_deltas([self._delta, more["delta"]])
        return len(moves), hopeless

    def drop(self, centers: _core.Centers, empty: list[int]) -> _core.Centers:
        """Go on without these clusters: the others' centers."""
        remote = self._remote
        warn_if_fewer(self._n_clusters - len(empty), self._n_clusters)
        numbers = kept_numbers(self._n_clusters, empty)
        self._delta = self._session.turn("renumber", {"numbers": numbers}, merge=merge_steps)[
            "delta"
        ]
        # Restored by the centers before, whose labels are renumbered then.
        self._numbers = numbers
        self._moved = None
        kept = centers.some(np.flatnonzero(numbers >= 0))
        self._n_clusters = kept.n_clusters
        self._sums = _core.ClusterSums(remote.columns, self._n_clusters, remote.metric.space)
        return kept

    def update(self, centers: _core.Centers, n_rows: int) -> tuple[int, np.ndarray, float]:
        """Move the centers: how many rows changed, how far each center went, and the cost."""
        remote = self._remote
        if self._moved is not None:
            _, begin, *_, weights = self._delta
            changed = (np.diff(begin) > 0) | weights.reshape(-1, 2).any(axis=1)
            self._moved = np.flatnonzero(changed)
        return self._sums.apply(self._delta, remote.scatter, centers, remote.n_threads)

    def cost(self, centers: _core.Centers, n_rows: int) -> float:
        """The cost, exact to rounding."""
        moved = self._others(centers)
        return _core.exact_value(self._session.ask("cost", moved, merge=merge_limbs))

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        return self._remote.scatter

    def finish(self) -> None:
        """Let go of what only further iterations need: labels stay until they are read."""
