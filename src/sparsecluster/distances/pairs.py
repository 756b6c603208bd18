"""Pairs of rows, or of strings: their distances or similarities, a block at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.distances.metrics import COSTS, METRICS, PairMetric, Sides
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.errors import counted
from sparsecluster.rows.metric import at_unit_length
from sparsecluster.rows.rows import Rows, as_rows

CANCELLED = 1e-4  # share of the totals below which a sum over shared columns has lost digits
BLOCK_BYTES = 1 << 25  # of results that are computed at a time


class Pairs(ABC):
    """All pairs of the rows of X with those of Y (or X), a block of rows of X at a time."""

    shape: tuple[int, int]

    @abstractmethod
    def block(self, begin: int, end: int, out: np.ndarray) -> np.ndarray:
        """Fill `out` with the values of rows begin to end of X with all rows of Y."""

    @property
    def block_rows(self) -> int:
        """Rows of a block of reasonable size."""
        return max(1, BLOCK_BYTES // (8 * max(self.shape[1], 1)))


def pairs_of(X: Any, Y: Any, metric: str, options: dict[str, Any], *, n_threads: int) -> Pairs:
    """The pairs of rows, or of strings, by a metric whose options were checked."""
    if metric == "edit":
        return TextPairs(X, Y, options, n_threads)
    if metric == "hamming":
        X, Y = _codes(X, Y)
    return RowPairs(X, Y, METRICS[metric], options, n_threads)


class TextPairs(Pairs):
    """Pairs of strings."""

    def __init__(self, X: Any, Y: Any, costs: dict[str, Any], n_threads: int) -> None:
        self._x = check_texts(X, "X")
        self._y = self._x if Y is None else check_texts(Y, "Y")
        self._costs, self._n_threads = costs, n_threads
        self.shape = (len(self._x), len(self._y))

    def block(self, begin: int, end: int, out: np.ndarray) -> np.ndarray:
        try:
            from rapidfuzz import distance, process
        except ImportError:
            message = "metric='edit' needs rapidfuzz: pip install 'sparsecluster[edit]'."
            raise ImportError(message) from None
        weights = tuple(int(self._costs[name]) for name in COSTS)
        out[:] = process.cdist(
            self._x[begin:end],
            self._y,
            scorer=distance.Levenshtein.distance,
            scorer_kwargs={"weights": weights},
            dtype=np.float64,
            workers=self._n_threads,
        )
        return out


class RowPairs(Pairs):
    """Pairs of rows: a sum over shared columns, and what totals of the rows make of it."""

    def __init__(
        self, X: Any, Y: Any, metric: PairMetric, options: dict[str, Any], n_threads: int
    ) -> None:
        self._metric, self._options = metric, options
        self._n_threads, self._same = n_threads, Y is None
        matrices = [self._matrix(X, "X"), *([] if Y is None else [self._matrix(Y, "Y")])]
        if matrices[0].shape[1] != matrices[-1].shape[1]:
            raise ValueError(
                f"X has {counted(matrices[0].shape[1], 'column')} and Y has "
                f"{matrices[-1].shape[1]:,}; they must have the same columns."
            )
        self._scale = _scale(matrices) if metric.linear else 1.0
        sides = [self._side(matrix) for matrix in matrices]
        (self._x, self._total_x), (self._y, self._total_y) = sides[0], sides[-1]
        self.shape = (self._x.n_rows, self._y.n_rows)
        self._lists = _core.row_lists(self._y.core)

    def _matrix(self, given: Any, name: str) -> sp.csr_array:
        rows = enter(given, n_threads=self._n_threads, name=name)
        matrix = sp.csr_array(rows.picked(np.arange(rows.n_rows)), dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        return matrix

    def _side(self, matrix: sp.csr_array) -> tuple[Rows, np.ndarray]:
        """The rows as the core sums them up, and their totals."""
        matrix.data /= self._scale
        matrix = self._metric.prepare(matrix, self._options)
        if self._metric.unit:
            matrix = at_unit_length(matrix)
        terms = self._metric.total(matrix.data, self._options)
        # In the order of the core, so that the parts of equal rows cancel to the last bit.
        at = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        totals = np.bincount(at, weights=terms, minlength=matrix.shape[0])
        if self._metric.unit:  # so that rows without common columns are at the same distance
            totals = np.sign(totals)
        return as_rows(matrix, n_threads=self._n_threads), totals

    def block(self, begin: int, end: int, out: np.ndarray) -> np.ndarray:
        options, metric = self._options, self._metric
        self._lists.totals(
            self._x.core, begin, end, metric.term, options.get("p", 2.0), out, self._n_threads
        )
        x, y = self._total_x[begin:end, None], self._total_y[None, :]
        if metric.power is not None:
            power = options[metric.power] if isinstance(metric.power, str) else metric.power
            self._sum_of_powers(out, begin, x, y, power)
        if metric.finish is not None:
            metric.finish(out, Sides(x, y, options, self._x.n_features))
        if self._scale != 1:
            out *= self._scale
        if self._same and not metric.similarity:
            np.fill_diagonal(out[:, begin:end], 0)
        return out

    def _sum_of_powers(
        self, out: np.ndarray, begin: int, x: np.ndarray, y: np.ndarray, power: float
    ) -> None:
        """The sums of |x - y| ** power; those that lost their digits are added up anew."""
        if self._metric.term == "product":
            out *= -2
        totals = x + y  # first, so that both directions come to the same bits
        out += totals
        near, other = np.nonzero(out <= CANCELLED * totals)
        out[near, other] = _core.pair_powers(
            self._x.core, self._y.core, near + begin, other, power, self._n_threads
        )


def _scale(matrices: list[sp.csr_array]) -> float:
    """A power of two that brings all values to at most one, so that no power overflows."""
    largest = max(abs(matrix.data).max(initial=0.0) for matrix in matrices)
    return float(np.ldexp(1.0, np.frexp(largest)[1])) if largest > 0 else 1.0


def _codes(X: Any, Y: Any) -> tuple[Any, Any]:
    """Columns of categories as numbers: the same in X and Y, and none of them zero."""
    given = [one for one in (X, Y) if one is not None]
    if any(sp.issparse(one) or isinstance(one, Rows | str | PathLike) for one in given):
        return X, Y
    tables = [np.asarray(one) for one in given]
    if all(one.dtype.kind in "biuf" for one in tables):
        return X, Y
    if any(one.ndim != 2 or one.shape[1] != tables[0].shape[1] for one in tables):
        raise ValueError("Categories must be tables with the same columns in X and Y.")
    both = np.concatenate([one.astype(str) for one in tables])
    codes = np.empty(both.shape)
    for column in range(both.shape[1]):
        codes[:, column] = np.unique(both[:, column], return_inverse=True)[1] + 1
    return codes[: len(tables[0])], None if Y is None else codes[len(tables[0]) :]


def check_texts(texts: Any, name: str) -> list[str]:
    """Strings as a list, or an error that says that strings are needed."""
    found = [] if isinstance(texts, str | bytes | PathLike | Rows) else list(texts)
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"metric='edit' compares strings: {name} must be a sequence of str.")
    return found
