"""Rows with the labels of a clustering: checked once, before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.errors import counted
from sparsecluster.rows.grouped import sums_by_group
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import MAX_INDEX, Rows, as_rows, check_input

Progress = Callable[[float], Any]
NOISE = -1
# Of values: outside, their squares lose digits in float64.
SMALLEST, LARGEST = 1e-100, 1e100
LARGEST_LABEL = 2.0**53  # beyond, floats are not all whole numbers that there are


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """Rows, and for each the number of its cluster; what is noise has the number -1.

    Rows that are noise have no weight, as if they were not there.
    """

    rows: Rows
    numbers: np.ndarray  #: int32, from 0 on in the order of the labels
    clusters: np.ndarray  #: the labels themselves, ascending
    weights: np.ndarray  #: float64
    n_threads: int
    memory_limit: int
    progress: Progress | None = None

    @property
    def n_clusters(self) -> int:
        return len(self.clusters)

    @property
    def inside(self) -> np.ndarray:
        """Which rows are in a cluster."""
        return self.numbers >= 0

    def total(self, values: np.ndarray) -> np.ndarray:
        """The sum of values over the rows of each cluster."""
        kept = self.inside
        return sums_by_group(self.numbers[kept], values[kept], self.n_clusters)

    def to_scale(self) -> Labelling:
        """The same with rows times a power of two, where squares of their values would be lost:
        for measures that do not depend on the scale."""
        factor = factor_for(largest_value(self.rows))
        return self if factor is None else self.scaled(factor)

    def scaled(self, factor: float) -> Labelling:
        """The same with rows times a factor."""
        matrix = self.rows.matrix.astype(np.float64) * factor
        return replace(self, rows=as_rows(matrix, n_threads=self.n_threads))

    def tell(self, share: float) -> None:
        """So much is done."""
        if self.progress is not None:
            self.progress(share)


def largest_value(rows: Rows) -> float:
    """The largest magnitude among the values of rows."""
    matrix: Any = rows.matrix
    values = matrix.data if sp.issparse(matrix) else np.asarray(matrix)
    return max(float(values.max(initial=0)), -float(values.min(initial=0)))


def factor_for(largest: float) -> float | None:
    """What rows are multiplied by, where squares of their values would be lost."""
    if largest == 0 or SMALLEST <= largest <= LARGEST:
        return None
    return float(np.ldexp(1.0, -int(np.frexp(largest)[1])))


def label_rows(
    X: Any,
    labels: Any,
    *,
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
    least: int = 2,
    distinct: bool = False,
) -> Labelling:
    """What a user passed, refused where it cannot be judged: with fewer than `least` clusters, or
    where `distinct` asks for it with a cluster for every row."""
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable or None, got {progress!r}.")
    limit, threads = effective_memory_limit(memory_limit), effective_n_threads(n_threads)
    clusters, numbers = check_labels(labels)
    return labelled(
        enter(X, n_threads=threads),
        Labels(clusters, numbers),
        sample_weight,
        least=least,
        distinct=distinct,
        n_threads=threads,
        memory_limit=limit,
        progress=progress,
    )


class Labels(NamedTuple):
    """The labels that occur, ascending, and for each row the number of its own."""

    clusters: np.ndarray
    numbers: np.ndarray


def labelled(
    rows: Rows,
    labels: Labels,
    sample_weight: Any,
    *,
    least: int,
    distinct: bool,
    max_norm2: float | None = None,
    **options: Any,
) -> Labelling:
    """Rows with labels that were checked on their own; `max_norm2` is that of rows elsewhere, the
    options are other fields of a labelling."""
    clusters, numbers = labels
    if len(numbers) != rows.n_rows:
        raise ValueError(
            f"There are {counted(len(numbers), 'label')} for {counted(rows.n_rows, 'row')} of X: "
            f"one per row is needed."
        )
    check_count(clusters, numbers, least=least, distinct=distinct)
    weights = check_weights(sample_weight, rows, max_norm2=max_norm2)
    weights = np.ones(rows.n_rows) if weights is None else weights.copy()
    weights[numbers < 0] = 0.0
    weighing = len(np.unique(numbers[weights > 0]))
    if weighing < least:
        raise ValueError(
            f"Only {counted(weighing, 'cluster')} of {len(clusters):,} have rows with a "
            f"sample_weight above zero; at least {least} are needed."
        )
    return Labelling(
        rows=rows,
        numbers=numbers,
        clusters=clusters,
        weights=weights,
        **options,
    )


def check_labels(labels: Any, name: str = "labels") -> tuple[np.ndarray, np.ndarray]:
    """The labels that occur, ascending, and for each row the number of its own; -1 for noise."""
    try:
        given = np.asarray(check_input(labels, name))
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise ValueError(
            f"{name} must have one dimension, and its items are of different lengths."
        ) from None
    if given.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got the shape {given.shape}.")
    if given.dtype.kind == "O" and all(isinstance(one, Integral) for one in given):
        given = np.array([int(one) for one in given], dtype=np.int64)
    if given.dtype.kind == "f":
        if not np.all(np.isfinite(given)):
            raise ValueError(f"{name} contains NaN or infinity: row {_first(~np.isfinite(given))}.")
        if np.any(broken := given != np.floor(given)):
            row = _first(broken)
            raise ValueError(f"{name} must be whole numbers: row {row} has {given[row]:g}.")
        if np.any(large := np.abs(given) > LARGEST_LABEL):
            row = _first(large)
            raise ValueError(f"{name} must be at most 2**53: row {row} has {given[row]:g}.")
        given = given.astype(np.int64)
    if given.dtype.kind not in "biuUSO":
        raise ValueError(f"{name} must be integers or strings, got {given.dtype}.")
    if given.dtype.kind in "OUS" and not _all_strings(given, labels):
        raise ValueError(f"{name} must be integers or strings, and they are not all of one kind.")
    if given.dtype.kind == "O":
        given = given.astype(str)
    clusters, numbers = np.unique(given, return_inverse=True)
    if len(clusters) > MAX_INDEX:
        raise ValueError(f"{name} has more than 2**31 - 1 different values.")
    numbers = numbers.astype(np.int32)
    if given.dtype.kind == "i" and len(clusters) and clusters[0] < 0:
        if clusters[0] != NOISE:
            raise ValueError(
                f"{name} has {clusters[0]}; clusters are numbered from 0 on, and -1 is noise."
            )
        return clusters[1:], numbers - np.int32(1)
    return clusters, numbers


def check_count(
    clusters: np.ndarray, numbers: np.ndarray, *, least: int, distinct: bool = False
) -> None:
    """Refuse too few clusters, and as many clusters as rows."""
    noise = int(np.count_nonzero(numbers < 0))
    told = f" ({counted(noise, 'row')} labelled -1: noise)" if noise else ""
    if len(clusters) < least:
        raise ValueError(
            f"The labels have {counted(len(clusters), 'cluster')}{told}; at least {least} are "
            f"needed."
        )
    if distinct and len(clusters) == len(numbers) - noise:
        raise ValueError(
            f"Every row is a cluster of its own{told}: there is nothing to compare. At least one "
            f"cluster with two rows is needed."
        )


def _all_strings(array: np.ndarray, labels: Any) -> bool:
    """Whether labels that became this array are strings, each of them: of a list that has integers,
    too, numpy makes strings."""
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "US":
        return True
    kind = bytes if array.dtype.kind == "S" else str
    return all(isinstance(one, kind) for one in labels)


def _first(found: np.ndarray) -> int:
    return int(np.flatnonzero(found)[0])
