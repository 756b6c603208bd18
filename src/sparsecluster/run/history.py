"""What an iteration leaves behind: progress, callbacks, reports and benchmarks read this record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IterationRecord:
    """One iteration of k-means."""

    iteration: int  #: counted from 1
    cost: float  #: of the labels and the new centers: the weighted sum of squared distances
    shift: float  #: sum of the squared shifts of the centers, the left side of the stopping rule
    moved: int  #: rows whose label changed
    distances: int  #: row-center distances computed
    seconds: float  #: taken by this iteration
    algorithm: str  #: that did the assignment
    path: str  #: what it did this time: full scan, moved centers, bounds
    run: int = 0  #: which of the n_init runs
    rows: int = 0  #: rows that took part
    skipped: int = 0  #: of these, rows compared with no center but their own
    center_distances: int = 0  #: distances computed between centers


#: Called after each iteration; anything true as the answer ends the fit there.
Callback = Callable[[IterationRecord], Any]


def describe(record: IterationRecord) -> str:
    """One line for a terminal."""
    return (
        f"Iteration {record.iteration}, inertia {record.cost:.6g}, run {record.run}, "
        f"{record.moved} rows moved, center shift {record.shift:.3g}, "
        f"{record.distances:.3g} distances, {record.algorithm} ({record.path}), "
        f"{record.seconds * 1e3:.1f} ms"
    )
