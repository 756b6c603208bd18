"""Checks of what comes with the rows: numbers, weights, names. Each error says what would do."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.rows.rows import LARGEST_NORM2, Rows, check_input

LEAST_WEIGHT = 1e-100  # above zero; what is lighter loses digits in sums and products
LEAST_NORM = 1e-140  # of the longest row; squares of what is shorter lose digits

# How scikit-learn is asked to check X; values are checked by the core, which names the row.
INPUT: dict[str, Any] = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "accept_large_sparse": True,
    "ensure_all_finite": False,
}


def as_numbers(given: Any, name: str) -> np.ndarray:
    """An array of float64, with an error of our own where that cannot be made of it."""
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind in "biufO":
            return numbers.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must be real numbers, one per row.")


def check_weights(
    sample_weight: Any, rows: Rows, *, max_norm2: float | None = None
) -> np.ndarray | None:
    """Weights as float64; None where none were given, or all are one.

    `max_norm2` is that of the rows, where they are not here.
    """
    if sample_weight is None:
        return None
    from sklearn.utils.validation import _check_sample_weight

    given = check_input(sample_weight, "sample_weight")
    weights = _check_sample_weight(
        given if np.isscalar(given) else as_numbers(given, "sample_weight"),
        rows.matrix,
        dtype=np.float64,
        ensure_non_negative=True,
    )
    if not weights.any():
        raise ValueError("sample_weight is zero for every row.")
    if np.any((weights > 0) & (weights < LEAST_WEIGHT)):
        raise ValueError(f"sample_weight has values below {LEAST_WEIGHT:g}. Scale it first.")
    largest = float(rows.core.norm2.max()) if max_norm2 is None else max_norm2
    if not weights.sum() * max(1.0, largest) <= LARGEST_NORM2:
        raise ValueError(
            "sample_weight is too large: its sum times the squares of X overflows. Scale it first."
        )
    return None if np.all(weights == 1) else np.ascontiguousarray(weights)


def has_values(rows: Rows) -> bool:
    """Whether any value is not zero, however small."""
    if rows.core.max_norm > 0:
        return True
    matrix = rows.matrix
    values = matrix.data[matrix.indptr[0] : matrix.indptr[-1]] if rows.sparse else matrix
    return bool(np.any(values))


def check_squares(max_norm: float, filled: bool) -> None:
    """Refuse rows that have values, but of which not even the longest has a square in float64."""
    if filled and max_norm < LEAST_NORM:
        raise ValueError(
            f"Input X contains values too small to square: no row has a norm of {LEAST_NORM:g} or "
            f"more. Scale the values first."
        )


def check_feature_names(names: Any, n_features: int) -> np.ndarray | None:
    """Names of the columns as an array; None where none were given."""
    if names is None:
        return None
    names = np.asarray(names, dtype=object)
    if names.shape != (n_features,):
        raise ValueError(
            f"feature_names has the shape {names.shape}; one name for each of the {n_features} "
            f"columns is needed."
        )
    return names
