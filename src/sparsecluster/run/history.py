"""What an iteration leaves behind: progress, callbacks, reports and benchmarks read this record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Machines(NamedTuple):
    """Who computes, beside the process that calls `fit`."""

    n_workers: int
    rebuilt: int  #: parts of the rows that were restored so far, because a worker was lost


@dataclass(frozen=True)
class IterationRecord:
    """One iteration: what a callback gets, and an entry of `history_`.

    Attributes
    ----------
    iteration : int
        Its number, counted from 1.
    cost : float
        Weighted sum of the squared distances of the rows to their centers, by the labels and the
        centers that the iteration ends with.
    shift : float
        Sum of the squared shifts of the centers, the left side of the stopping rule (see `tol`).
    moved : int
        Rows whose label changed; in the first iteration all.
    distances : int
        Distances computed between rows and centers.
    seconds : float
        Time that the iteration took.
    algorithm : str
        The algorithm that assigned the rows.
    path : str
        What it did this time: a full scan, only the centers that moved, or bounds.
    run : int
        Which of the `n_init` runs, counted from 0.
    rows : int
        Rows that took part: fewer than all in batches.
    skipped : int
        Of these, rows that were compared with no center but their own.
    center_distances : int
        Distances computed between centers.
    assignment_seconds : float
        Of `seconds`, those spent on finding the nearest centers.
    update_seconds : float
        Of `seconds`, those spent on moving the centers.
    space : str
        Where: "original", or "embedded" in the iterations of a fit with an embedding that come
        first. Cost and shift are those of that space; the centers that it shows are lifted.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import KMeans
    >>> def watch(record):
    ...     print(record.iteration, record.moved, record.labels(), record.centers().ravel())
    >>> X = np.array([[1.0], [2.0], [9.0], [10.0]])
    >>> km = KMeans(2, init=X[:2], callback=watch).fit(X)
    1 4 [0 1 1 1] [1. 7.]
    2 1 [0 0 1 1] [1.5 9.5]
    3 0 [0 0 1 1] [1.5 9.5]
    """

    iteration: int
    cost: float
    shift: float
    moved: int
    distances: int
    seconds: float
    algorithm: str
    path: str
    run: int = 0
    rows: int = 0
    skipped: int = 0
    center_distances: int = 0
    assignment_seconds: float = 0.0
    update_seconds: float = 0.0
    space: str = "original"

    def centers(self) -> Any:
        """The centers that the iteration ends with, as `cluster_centers_` shows them; a copy.

        They are made when asked for, and only while the callback runs: later there is a
        RuntimeError. Keep what this returns.
        """
        return self._view("centers")

    def labels(self) -> np.ndarray:
        """The label of each row, from which the centers were updated; a copy.

        A row that has not taken part yet has the label -1. As `centers`, only in the callback.
        """
        return self._view("labels")

    @property
    def machines(self) -> Machines | None:
        """How many workers there are, and how many parts of the rows were rebuilt because one was
        lost; None where rows are here. As `centers`, only in the callback: None later."""
        return self.__dict__.get("_views", {}).get("machines", lambda: None)()

    def _view(self, name: str) -> Any:
        views = self.__dict__.get("_views")
        if views is None:
            raise RuntimeError(
                f"The {name} of an iteration can be asked for only while the callback runs. Call "
                f"record.{name}() there, and keep what it returns."
            )
        return views[name]()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_views"}

    @contextmanager
    def showing(
        self,
        centers: Callable[[], Any],
        labels: Callable[[], np.ndarray],
        machines: Machines | None = None,
    ) -> Iterator[None]:
        """Within this, `centers` and `labels` answer what these functions make."""
        views = {"centers": centers, "labels": labels, "machines": lambda: machines}
        self.__dict__["_views"] = views
        try:
            yield
        finally:
            del self.__dict__["_views"]


@dataclass(frozen=True)
class SeedingRecord:
    """How far the choice of starting centers is: what `on_seeding` of a callback gets.

    Attributes
    ----------
    share : float
        The part that is done, from 0 to 1.
    seconds : float
        Time since the seeding of this run began.
    run : int
        Which of the `n_init` runs, counted from 0.
    """

    share: float
    seconds: float
    run: int = 0


@dataclass(frozen=True)
class AssignmentRecord:
    """How far an assignment within size bounds is: what `on_assignment` of a callback gets.

    Attributes
    ----------
    share : float
        The part that is done, from 0 to 1: an estimate, as nobody knows how many steps it takes.
    seconds : float
        Time since this assignment began.
    iteration : int
        The iteration that it is part of, counted from 1. After the last one, rows are assigned
        once more where the centers still moved.
    run : int
        Which of the `n_init` runs, counted from 0.
    """

    share: float
    seconds: float
    iteration: int
    run: int = 0


#: Called after each iteration; anything true as the answer ends the fit there.
Callback = Callable[[IterationRecord], Any]
#: The same, and told of the seeding and of assignments.
Reporter = Callable[[IterationRecord | SeedingRecord | AssignmentRecord], Any]


def describe(record: IterationRecord) -> str:
    """One line for a terminal."""
    space = "" if record.space == "original" else f" ({record.space})"
    return (
        f"Iteration {record.iteration}{space}, inertia {record.cost:.6g}, run {record.run}, "
        f"{record.moved} rows moved, center shift {record.shift:.3g}, "
        f"{record.distances:.3g} distances, {record.algorithm} ({record.path}), "
        f"{record.seconds * 1e3:.1f} ms"
    )
