"""Labels that files have for their rows: a number each, or an indicator matrix of rows x labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.data.rows import MAX_INDEX, check_structure
from sparsecluster.data.source import Labels, ReadError


def label_columns(values: np.ndarray, n_labels: int | None) -> np.ndarray:
    """Labels of rows that may have several, as columns of an indicator matrix."""
    largest = MAX_INDEX if n_labels is None else n_labels
    if not np.all((values >= 0) & (values < largest) & (values == np.floor(values))):
        raise ReadError(
            f"Where rows have several labels or none, labels must be whole numbers from 0 to "
            f"{largest - 1}."
        )
    return values.astype(np.int32)


def rows_labels(parts: list[Labels], n_labels: int | None) -> Any:
    """Labels of all rows: a number each, or an indicator matrix where that is not all."""
    indptr = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum()
    values = np.concatenate([part.values for part in parts])
    if np.array_equal(indptr, np.arange(len(indptr))):
        return values
    return indicator(indptr, label_columns(values, n_labels), n_labels)


def indicator(indptr: np.ndarray, indices: np.ndarray, n_labels: int | None) -> sp.csr_array:
    """Which labels each row has, as ones in a matrix of rows x labels."""
    if n_labels is None:
        n_labels = int(indices.max(initial=-1)) + 1
    ones = np.ones(len(indices), dtype=np.float32)
    matrix = sp.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, n_labels))
    matrix = check_structure(matrix, "Y")
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix
