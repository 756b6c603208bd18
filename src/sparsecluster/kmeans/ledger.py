"""By which centers, sums and turns the workers of a run are restored that were lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sparsecluster import _core
from sparsecluster.kmeans.packed import Arrays

#: What changes of labels add to the sums of the clusters: how many rows moved, and arrays, which
#: are left out where there is a single part, which alone needs them.
Delta = tuple[Any, ...]
# In entries of the largest delta so far:
FEW_WAITING = 2  # are worked in where somebody asks for centers
MOST_WAITING = 4  # are kept
REPLAY_SECONDS = 60.0  # of a run of a single part that may have to be done once more


def joined(deltas: Sequence[Delta]) -> Delta:
    """Several deltas as one."""
    if len(deltas) == 1:
        return deltas[0]
    if len(deltas[0]) == 1:
        return (sum(delta[0] for delta in deltas),)
    return _core.merge_deltas(deltas)


def n_entries(delta: Delta) -> int:
    """Sums that a delta changes."""
    return len(delta[2])


class Ledger:
    """Centers and sums as several workers have them, to restore those that are lost.

    Workers apply a delta at once; here it waits until somebody asks, or until there are many.
    """

    def __init__(self, centers: _core.Centers, sums: _core.ClusterSums, n_threads: int) -> None:
        self._centers, self._sums, self._n_threads = centers, sums, n_threads
        self._before: _core.Centers | None = None
        self._waiting: list[Delta] = []
        self._largest = 0

    def add(self, delta: Delta) -> None:
        """Take over what the workers applied."""
        self._before = None
        self._waiting.append(delta)
        self._largest = max(self._largest, n_entries(delta))
        if self._n_waiting > MOST_WAITING * self._largest:
            self._work_in(self._waiting[:-1])

    @property
    def _n_waiting(self) -> int:
        return sum(n_entries(delta) for delta in self._waiting)

    @property
    def behind(self) -> bool:
        """Whether much is to be worked in until the centers are known."""
        return self._n_waiting > FEW_WAITING * self._largest

    @property
    def before(self) -> _core.Centers | None:
        """The centers before the last delta; None where there was none."""
        if self._before is None and self._waiting:
            self._work_in(self._waiting[:-1])
            self._before = self._centers.copy()
        return self._before

    @property
    def centers(self) -> _core.Centers:
        """The centers after the last delta."""
        if self._waiting:
            _ = self.before  # which cannot be told later
            self._work_in(self._waiting)
        return self._centers

    def whole(self) -> Delta:
        """The sums that these centers come from, as a delta."""
        _ = self.centers
        return self._sums.whole()

    def _work_in(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            self._sums.apply(delta, 0.0, self._centers, self._n_threads)
        self._waiting = self._waiting[len(deltas) :]


class Replay:
    """The turns that bring a single part to where it is, from centers that are known here."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, Arrays]] = []
        self._later: list[tuple[str, Arrays]] = []  # the same from later centers on
        self._began = time.monotonic()

    def add(self, method: str, given: Arrays) -> None:
        """Take over a turn."""
        self.turns.append((method, given))
        if not self._later:
            return
        self._later.append((method, given))
        if given.get("delta") is not None:
            # Labels before the last update are known by these turns, too.
            self.turns, self._later = self._later, []
            self._began = time.monotonic()

    @property
    def is_long(self) -> bool:
        """Whether it should begin at later centers."""
        return not self._later and time.monotonic() > self._began + REPLAY_SECONDS

    def begin_at(self, *turns: tuple[str, Arrays]) -> None:
        """What leads from known centers to where the part is, but for the labels before."""
        self._later = list(turns)
