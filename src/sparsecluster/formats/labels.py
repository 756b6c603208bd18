"""Labels that files have for their rows: a number each, or an indicator matrix of rows x labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.source import Labels, ReadError
from sparsecluster.rows.rows import MAX_INDEX, canonical, check_structure


def label_columns(values: np.ndarray, n_labels: int | None) -> np.ndarray:
    """Labels of rows that may have several, as columns of an indicator matrix."""
    largest = MAX_INDEX if n_labels is None else min(n_labels, MAX_INDEX)
    if not np.all((values >= 0) & (values < largest) & (values == np.floor(values))):
        raise ReadError(
            f"Where rows have several labels or none, labels must be whole numbers from 0 to "
            f"{largest - 1}."
        )
    return values.astype(np.int32)


def without_repeats(labels: Labels) -> Labels:
    """The same with the labels of each row ascending, each of them once."""
    indptr, values = labels.indptr, labels.values
    row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    same_row = row[1:] == row[:-1]
    if not np.any(same_row & (values[1:] <= values[:-1])):
        return labels
    order = np.lexsort([values, row])
    values = values[order]
    kept = np.concatenate([[True], ~(same_row & (values[1:] == values[:-1]))])
    before = np.concatenate([[0], np.cumsum(kept)])
    return Labels(indptr=before[indptr], values=values[kept])


def rows_labels(parts: list[Labels], n_labels: int | None) -> Any:
    """Labels of all rows: a number each, or an indicator matrix where that is not all."""
    parts = [without_repeats(part) for part in parts]
    indptr = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum()
    values = np.concatenate([part.values for part in parts])
    if np.array_equal(indptr, np.arange(len(indptr))):
        return values
    return indicator(indptr, label_columns(values, n_labels), n_labels)


def indicator(indptr: np.ndarray, indices: np.ndarray, n_labels: int | None) -> sp.csr_array:
    """Which labels each row has, as ones in a matrix of rows x labels. The arrays may be mapped."""
    if n_labels is None:
        n_labels = int(indices.max(initial=-1)) + 1
    ones = np.ones(len(indices), dtype=np.float32)
    matrix = sp.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, n_labels))
    matrix = canonical(check_structure(matrix, "Y"))
    matrix.data[:] = 1  # also where a row names a label twice
    return matrix
