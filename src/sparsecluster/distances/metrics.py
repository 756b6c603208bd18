"""The table of metrics: how distances and similarities of rows follow from sums over columns.

Most are sums over columns, and a column adds to the sum of two rows only what their totals do not
tell, unless both rows have it. So the core adds up shared columns, and totals do the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.parameters import (
    Anything,
    Constraint,
    Flag,
    Number,
    Positive,
    check_name,
    integer,
)

MOST_P = 20  # beyond, powers of numbers near the last digit of others vanish
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
    linear: bool = False  #: whether values that are scaled scale the metric alike
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
    "euclidean": PairMetric(_root, power=2.0, linear=True),
    "sqeuclidean": PairMetric(None, power=2.0),
    "manhattan": PairMetric(None, "manhattan", lambda values, options: np.abs(values), power=1.0),
    "minkowski": PairMetric(
        _root,
        "minkowski",
        lambda values, options: np.abs(values) ** options["p"],
        power="p",
        linear=True,
        options={"p": (2.0, Number(1, MOST_P))},
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
