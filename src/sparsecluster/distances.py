"""Distances and similarities of all pairs of rows, from sparse rows: one table of metrics.

Most are sums over columns, and a column adds to the sum of two rows only what their totals do not
tell, unless both rows have it. So the core adds up shared columns, and totals do the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.errors import counted
from sparsecluster.rows.metric import at_unit_length
from sparsecluster.rows.parameters import (
    Anything,
    Constraint,
    Flag,
    Number,
    Positive,
    check_name,
    integer,
)
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows, as_rows

CANCELLED = 1e-4  # share of the totals below which a sum over shared columns has lost digits
BLOCK_BYTES = 1 << 25  # of results that are computed at a time

Options = dict[str, tuple[Any, Constraint]]  # the default and the constraint of each, by name


@dataclass(frozen=True)
class Sides:
    """What a metric knows of a block of pairs: totals of its rows and of all others, options."""

    x: np.ndarray  #: a column
    y: np.ndarray  #: a row
    options: dict[str, Any]
    n_columns: int


@dataclass(frozen=True)
class PairMetric:
    """An entry of the table.

    `finish` makes the metric of a block of sums, in place, unless these are it. `power` is that of
    the differences that are added up, where the sum may lose its digits.
    """

    finish: Callable[[np.ndarray, Sides], None] | None
    term: str = "product"
    total: Callable[[np.ndarray, Any], np.ndarray] = lambda values, options: values * values
    prepare: Callable[[sp.csr_array, dict[str, Any]], sp.csr_array] = lambda matrix, options: matrix
    power: float | str | None = None  #: or the option that has it
    unit: bool = False  #: whether rows are scaled to unit length first
    similarity: bool = False
    options: Options = field(default_factory=dict)


# --- the metrics ---------------------------------------------------------------------------------


def _root(sums: np.ndarray, sides: Sides) -> None:
    p = sides.options.get("p", 2.0)
    np.sqrt(sums, out=sums) if p == 2 else np.power(sums, 1 / p, out=sums)


def _cosine(squared: np.ndarray, sides: Sides) -> None:
    np.minimum(squared / 2, 2, out=squared)
    squared[np.broadcast_to((sides.x == 0) | (sides.y == 0), squared.shape)] = 1


def _jaccard(shared: np.ndarray, sides: Sides) -> None:
    union = sides.x + sides.y - shared
    np.divide(shared, union, out=shared, where=union > 0)
    shared[union <= 0] = 1  # two rows without anything are equal
    np.subtract(1, shared, out=shared)


def _hamming(terms: np.ndarray, sides: Sides) -> None:
    terms += sides.x + sides.y
    if not sides.options["count"]:
        terms /= sides.n_columns


def _rbf(squared: np.ndarray, sides: Sides) -> None:
    gamma = sides.options["gamma"]
    squared *= -(1 / sides.n_columns if gamma is None else gamma)
    np.exp(squared, out=squared)


def _squared_exponential(squared: np.ndarray, sides: Sides) -> None:
    squared /= -2 * sides.options.get("length_scale", 1.0) ** 2
    np.exp(squared, out=squared)
    squared *= sides.options["variance"]


def _not_negative(matrix: sp.csr_array, options: dict[str, Any]) -> sp.csr_array:
    if matrix.data.min(initial=0) < 0:
        row = int(np.searchsorted(matrix.indptr, int(np.argmin(matrix.data)), side="right")) - 1
        raise ValueError(
            f"metric='weighted_jaccard' is for values that are not negative; row {row} has "
            f"{matrix.data.min():g}."
        )
    return matrix


def _by_length_scales(matrix: sp.csr_array, options: dict[str, Any]) -> sp.csr_array:
    scales = np.asarray(options["length_scales"], dtype=np.float64)
    if scales.shape != (matrix.shape[1],) or not np.all((scales > 0) & (scales < np.inf)):
        raise ValueError(
            f"length_scales must be {matrix.shape[1]} positive numbers: one for each column."
        )
    matrix.data /= scales[matrix.indices]
    return matrix


VARIANCE: Options = {"variance": (1.0, Positive())}
LENGTH: Options = {"length_scale": (1.0, Positive())}
COSTS: Options = {name: (1, integer(0)) for name in ("insert", "delete", "substitute")}

METRICS: dict[str, PairMetric] = {
    "euclidean": PairMetric(_root, power=2.0),
    "sqeuclidean": PairMetric(None, power=2.0),
    "manhattan": PairMetric(None, "manhattan", lambda values, options: np.abs(values), power=1.0),
    "minkowski": PairMetric(
        _root,
        "minkowski",
        lambda values, options: np.abs(values) ** options["p"],
        power="p",
        options={"p": (2.0, Number(1, 1e3))},
    ),
    "cosine": PairMetric(_cosine, power=2.0, unit=True),
    "jaccard": PairMetric(
        _jaccard, prepare=lambda matrix, options: matrix.astype(bool).astype(np.float64)
    ),
    "weighted_jaccard": PairMetric(
        _jaccard, "minimum", lambda values, options: values, prepare=_not_negative
    ),
    "hamming": PairMetric(
        _hamming,
        "mismatch",
        lambda values, options: np.ones_like(values),
        options={"count": (False, Flag())},
    ),
    "inner_product": PairMetric(None, similarity=True),
    "rbf": PairMetric(
        _rbf, power=2.0, similarity=True, options={"gamma": (None, Positive().optional)}
    ),
    "squared_exponential": PairMetric(
        _squared_exponential, power=2.0, similarity=True, options=LENGTH | VARIANCE
    ),
    "ard": PairMetric(
        _squared_exponential,
        prepare=_by_length_scales,
        power=2.0,
        similarity=True,
        options={"length_scales": (None, Anything())} | VARIANCE,
    ),
    "edit": PairMetric(None, "edit", options=COSTS),
}


def checked_options(metric: str, given: dict[str, Any]) -> dict[str, Any]:
    """All options of a metric; refuses what cannot be."""
    declared = METRICS[check_name("metric", metric, METRICS)].options
    if given and not declared:
        raise ValueError(f"metric={metric!r} has no options, got {', '.join(given)}.")
    for name in given:
        check_name(f"An option of metric={metric!r}", name, declared)
    options = {name: given.get(name, default) for name, (default, _) in declared.items()}
    for name, (_, constraint) in declared.items():
        constraint.check(name, options[name])
    return options


# --- blocks of pairs -----------------------------------------------------------------------------


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
        self._x = _texts(X, "X")
        self._y = self._x if Y is None else _texts(Y, "Y")
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
        self._x, self._total_x = self._side(X, "X")
        self._y, self._total_y = (self._x, self._total_x) if Y is None else self._side(Y, "Y")
        if self._x.n_features != self._y.n_features:
            raise ValueError(
                f"X has {counted(self._x.n_features, 'column')} and Y has "
                f"{self._y.n_features:,}; they must have the same columns."
            )
        self.shape = (self._x.n_rows, self._y.n_rows)
        self._lists = _core.row_lists(self._y.core)

    def _side(self, given: Any, name: str) -> tuple[Rows, np.ndarray]:
        rows = enter(given, n_threads=self._n_threads, name=name)
        matrix = sp.csr_array(rows.picked(np.arange(rows.n_rows)), dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        matrix = self._metric.prepare(matrix, self._options)
        if self._metric.unit:
            matrix = at_unit_length(matrix)
        terms = self._metric.total(matrix.data, self._options)
        # In the order of the core, so that the parts of equal rows cancel to the last bit.
        at = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        totals = np.bincount(at, weights=terms, minlength=matrix.shape[0])
        if self._metric.unit:  # so that rows without common columns are at the same distance
            totals = np.sign(totals)
        return as_rows(matrix, n_threads=self._n_threads, name=name), totals

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


def _texts(texts: Any, name: str) -> list[str]:
    """Strings as a list, or an error that says that strings are needed."""
    found = [] if isinstance(texts, str) else list(texts)
    if not found or not all(isinstance(one, str) for one in found):
        raise ValueError(f"metric='edit' compares strings: {name} must be a sequence of str.")
    return found


# --- public --------------------------------------------------------------------------------------


def pairwise(
    X: Any,
    Y: Any = None,
    metric: str = "jaccard",
    *,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    **options: Any,
) -> np.ndarray:
    """Distances or similarities of all pairs of rows; sparse rows stay sparse.

    Parameters
    ----------
    X, Y : matrix, data frame, Rows or path; for ``metric="edit"`` sequences of str
        The rows; by default Y is X.
    metric : str, default="jaccard"
        A distance:

        - ``"euclidean"``, ``"sqeuclidean"`` (its square), ``"manhattan"``
        - ``"minkowski"``: the p-th root of the sum of ``|x - y|**p``; option `p` (default 2)
        - ``"cosine"``: 1 - cos; a row of zeros is at 1 from all others
        - ``"jaccard"``: of the sets of columns that are not zero; ``"weighted_jaccard"``: 1 - sum
          of minima / sum of maxima, for values that are not negative
        - ``"hamming"``: the share of columns that differ, numbers or categories; with
          ``count=True`` their number
        - ``"edit"``: of strings, the cheapest way from one to the other; options `insert`,
          `delete` and `substitute` are the costs of a character (default 1)

        or a similarity:

        - ``"inner_product"``
        - ``"rbf"``: exp(-gamma d²); option `gamma` (default 1 / columns)
        - ``"squared_exponential"``: variance exp(-d² / (2 length_scale²)); options `length_scale`
          and `variance` (default 1)
        - ``"ard"``: the same with one length per column; options `length_scales`, `variance`
    n_threads : int or None, default=None
        Threads; by default as many as there are CPUs.
    memory_limit : int, str or None, default=None
        Most bytes that the result may take, also like ``"2GB"``; by default half of what is free.
    **options
        Options of the metric. Names that it does not have are refused.

    Returns
    -------
    ndarray of float64, rows of X x rows of Y

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from sparsecluster import pairwise
    >>> X = sp.csr_array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 2, 3]])
    >>> pairwise(X)
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 1. ],
           [1. , 1. , 0. ]])
    >>> pairwise(X, metric="minkowski", p=1)[0]
    array([0., 1., 7.])
    """
    checked = checked_options(metric, options)
    limit, threads = effective_memory_limit(memory_limit), effective_n_threads(n_threads)
    pairs = pairs_of(X, Y, metric, checked, n_threads=threads)
    n_rows, n_others = pairs.shape
    if (size := 8 * n_rows * n_others) > limit:
        raise ValueError(
            f"The result of {n_rows:,} x {n_others:,} pairs takes {size / 1e9:.3g} GB, more than "
            f"the memory limit of {limit / 1e9:.3g} GB. Pass fewer rows at a time, or raise it."
        )
    out = np.empty(pairs.shape)
    for begin in range(0, n_rows, pairs.block_rows):
        end = min(begin + pairs.block_rows, n_rows)
        pairs.block(begin, end, out[begin:end])
    return out
