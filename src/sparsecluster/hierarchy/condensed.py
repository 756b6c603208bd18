"""Distances of all pairs in scipy's condensed form, and the linkages that need them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.distances.pairs import Pairs

SYMMETRIC = 1e-8  # by how much, relative to the largest, two distances of one pair may differ

Told = Callable[[str, int, int], object]  # phase, done, of


def check_memory(n_rows: int, memory_limit: int, advice: str) -> None:
    """Refuse condensed distances that take more than the limit."""
    needed = 4 * n_rows * (n_rows - 1)
    if needed > memory_limit:
        raise ValueError(
            f"The distances of all pairs of {n_rows:,} rows take {needed / 1e9:.3g} GB, more than "
            f"the memory limit of {memory_limit / 1e9:.3g} GB. {advice}"
        )


def condensed_distances(pairs: Pairs, told: Told) -> np.ndarray:
    """The distances of all pairs, row after row without the diagonal."""
    n_rows = pairs.shape[0]
    out = np.empty(n_rows * (n_rows - 1) // 2)
    block = np.empty((min(pairs.block_rows, n_rows), n_rows))
    at = 0
    for begin in range(0, n_rows, len(block)):
        end = min(begin + len(block), n_rows)
        found = pairs.block(begin, end, block[: end - begin])
        for row in range(begin, end):
            n_after = n_rows - 1 - row
            out[at : at + n_after] = found[row - begin, row + 1 :]
            at += n_after
        told("distances", end, n_rows)
    return out


def check_precomputed(X: Any) -> tuple[np.ndarray, int]:
    """Condensed distances from a square or condensed array, and of how many rows they are."""
    if sp.issparse(X):
        raise ValueError(
            "metric='precomputed' needs the distances of all pairs; a sparse matrix leaves some "
            "out."
        )
    distances = np.asarray(X)
    if distances.dtype.kind not in "biuf":
        raise ValueError(f"Distances must be real numbers, got an array of {distances.dtype}.")
    distances = distances.astype(np.float64, copy=False)
    if distances.ndim not in (1, 2) or (distances.size == 0 and distances.shape != (0,)):
        raise ValueError(
            f"Distances must be a square matrix, or condensed in one dimension; got the shape "
            f"{distances.shape}."
        )
    if not np.all(np.isfinite(distances)):
        raise ValueError("Distances must be finite: there are NaN or infinite ones.")
    if distances.min(initial=0.0) < 0:
        raise ValueError(f"Distances must not be negative, got {distances.min():g}.")
    return _from_condensed(distances) if distances.ndim == 1 else _from_square(distances)


def _from_condensed(distances: np.ndarray) -> tuple[np.ndarray, int]:
    n_rows = (1 + math.isqrt(1 + 8 * len(distances))) // 2
    if n_rows * (n_rows - 1) // 2 != len(distances):
        raise ValueError(
            f"{len(distances):,} condensed distances are not those of all pairs of any number of "
            f"rows: n rows have n (n - 1) / 2."
        )
    return distances.copy(), n_rows


def _from_square(distances: np.ndarray) -> tuple[np.ndarray, int]:
    n_rows, n_columns = distances.shape
    if n_rows != n_columns:
        raise ValueError(f"A matrix of distances must be square, got {n_rows} x {n_columns}.")
    slack = SYMMETRIC * distances.max()
    out = np.empty(n_rows * (n_rows - 1) // 2)
    at = 0
    for row in range(n_rows):
        one, other = distances[row, row + 1 :], distances[row + 1 :, row]
        different = np.flatnonzero(np.abs(one - other) > slack)
        if len(different):
            column = row + 1 + int(different[0])
            raise ValueError(
                f"A matrix of distances must be symmetric: ({row}, {column}) is "
                f"{distances[row, column]:g} and ({column}, {row}) is {distances[column, row]:g}."
            )
        if distances[row, row] > slack:
            raise ValueError(
                f"Row {row} is at {distances[row, row]:g} from itself; the diagonal of a matrix of "
                f"distances must be zero."
            )
        out[at : at + len(one)] = one
        at += len(one)
    return out, n_rows


def linkage_of_distances(distances: np.ndarray, linkage: str) -> np.ndarray:
    """Scipy's linkage, by fastcluster where it is installed; the distances are used up."""
    if not len(distances):
        return np.empty((0, 4))
    try:
        from fastcluster import linkage as fast_linkage
    except ImportError:
        from scipy.cluster.hierarchy import linkage as scipy_linkage

        return np.asarray(scipy_linkage(distances, linkage), dtype=np.float64)
    return _interruptible(lambda: fast_linkage(distances, linkage, preserve_input=False))


def _interruptible(call: Callable[[], Any]) -> np.ndarray:
    """What a function answers that looks for no signals: it runs in another thread, which Ctrl-C
    leaves behind."""
    answers: list[Any] = []

    def answer() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            answers.append(error)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return np.asarray(answers[0], dtype=np.float64)


def spanning_tree(pairs: Pairs, told: Told) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A minimum spanning tree of the rows by any metric (Prim 1957), from one row of distances at a
    time: the ends of its edges, and their lengths."""
    n_rows = pairs.shape[0]
    left, nearest = np.ones(n_rows, dtype=bool), np.full(n_rows, np.inf)
    source = np.zeros(n_rows, dtype=np.int64)
    ends = np.empty((2, max(n_rows - 1, 0)), dtype=np.int64)
    lengths = np.empty(max(n_rows - 1, 0))
    row, distances = 0, np.empty((1, n_rows))
    for at in range(n_rows - 1):
        left[row] = False
        pairs.block(row, row + 1, distances)
        closer = left & (distances[0] < nearest)
        nearest[closer], source[closer] = distances[0, closer], row
        row = int(np.argmin(np.where(left, nearest, np.inf)))
        ends[:, at], lengths[at] = (source[row], row), nearest[row]
        told("merging", at + 1, n_rows - 1)
    return ends[0], ends[1], lengths
