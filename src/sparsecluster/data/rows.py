"""Rows: all that the engine knows about data. A matrix is checked here, once, and never again."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core

MAX_INDEX = np.iinfo(np.int32).max
TINY_NORM2 = 1e-280  # below, squares lose digits
LARGEST_NORM2 = 1e300  # of a row or a center; the core refuses larger rows (rows.cpp)


@dataclass(frozen=True)
class Rows:
    """A checked matrix (CSR with sorted rows, or a C-ordered array) and its view in the core.

    The view may be that of a selection: some rows of the matrix, in another order.
    """

    matrix: Any
    core: _core.Rows
    selected: np.ndarray | None = None  #: the selection; None for all rows

    @property
    def n_rows(self) -> int:
        return int(self.core.n_rows)

    @property
    def n_features(self) -> int:
        return int(self.core.n_features)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.matrix)

    def take(self, indices: np.ndarray) -> sp.csr_array:
        """The rows at these indices, in float64."""
        if self.selected is not None:
            indices = self.selected[indices]
        return sp.csr_array(self.matrix[indices], dtype=np.float64)

    def select(self, indices: np.ndarray) -> Rows:
        """These rows, in this order, without a copy of their entries."""
        indices = np.asarray(indices, dtype=np.int64)
        core = self.core.select(indices)
        return Rows(self.matrix, core, indices if self.selected is None else self.selected[indices])


def check_structure(matrix: Any, name: str = "X") -> None:
    """Refuse a sparse matrix whose arrays contradict each other, before C code reads them.

    The rows of X in CSR are left to the core, which names the row; only lengths are checked here.
    """
    if matrix.ndim != 2:
        raise ValueError(f"Expected 2D array, got a sparse array of dim {matrix.ndim} as {name}.")
    try:
        if matrix.format == "csr" and name == "X":
            _check_lengths(matrix)
        elif matrix.format in ("csr", "csc", "bsr"):
            # On a copy of the frame, because scipy trims the arrays of what it checks.
            copy.copy(matrix).check_format(full_check=True)
        elif matrix.format == "coo" and matrix.nnz:
            for axis, index in enumerate((matrix.row, matrix.col)):
                if index.min() < 0 or index.max() >= matrix.shape[axis]:
                    raise ValueError(f"coordinates of axis {axis} lie outside of {matrix.shape}")
    except ValueError as error:
        raise ValueError(
            f"{name} is not a consistent {matrix.format} matrix: {error}. Build it again from its "
            f"entries, for example with scipy.sparse.coo_array."
        ) from None


def _check_lengths(matrix: Any) -> None:
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    if not indptr.ndim == indices.ndim == data.ndim == 1:
        raise ValueError("data, indices, and indptr should be 1-D")
    if len(indptr) != matrix.shape[0] + 1:
        raise ValueError(f"index pointer size {len(indptr)} should be {matrix.shape[0] + 1}")
    if len(indices) != len(data):
        raise ValueError("indices and data should have the same size")
    if indptr[0] != 0:
        raise ValueError("index pointer should start with 0")
    if indptr[-1] > len(indices):
        raise ValueError(
            "Last value of index pointer should be less than the size of index and data arrays"
        )


def as_rows(matrix: Any, *, n_threads: int, name: str = "X") -> Rows:
    """See a CSR matrix or a C-ordered array of floats as Rows; only unsorted CSR is copied."""
    if max(matrix.shape) > MAX_INDEX:
        raise ValueError(
            f"{name} has the shape {matrix.shape}; at most 2**31 - 1 rows and columns are "
            f"supported. Drop the empty columns, or hash the features into fewer."
        )
    rows = Rows(matrix, _core_rows(matrix))
    fault, row = rows.core.inspect(n_threads)
    if fault == "unsorted":
        matrix = matrix.copy()
        matrix.sum_duplicates()
        rows = Rows(matrix, _core_rows(matrix))
        fault, row = rows.core.inspect(n_threads)
    if fault != "none":
        raise ValueError(_explain(fault, row, matrix, name))
    return rows


def _core_rows(matrix: Any) -> _core.Rows:
    if not sp.issparse(matrix):
        return _core.Rows.dense(matrix)
    indices = matrix.indices
    if indices.dtype not in (np.int32, np.int64):
        indices = indices.astype(np.int64)
    return _core.Rows.sparse(
        np.ascontiguousarray(matrix.indptr, dtype=np.int64),
        np.ascontiguousarray(indices),
        np.ascontiguousarray(matrix.data),
        matrix.shape[1],
    )


def _explain(fault: str, row: int, matrix: Any, name: str) -> str:
    if fault == "indptr":
        return f"{name} is not a consistent CSR matrix: indptr decreases at row {row}."
    if fault == "feature_range":
        return (
            f"{name} is not a consistent CSR matrix: row {row} has a column index outside of "
            f"0 .. {matrix.shape[1] - 1}."
        )
    if sp.issparse(matrix):
        begin, end = matrix.indptr[row], matrix.indptr[row + 1]
        columns, values = matrix.indices[begin:end], matrix.data[begin:end]
    else:
        columns, values = np.arange(matrix.shape[1]), matrix[row]
    if fault == "not_finite":
        at = int(np.flatnonzero(~np.isfinite(values))[0])
        kind = "NaN" if np.isnan(values[at]) else "infinity"
        return (
            f"Input {name} contains {kind}: row {row}, column {columns[at]}. Clean or impute the "
            f"values first; an unknown entry of a sparse matrix is usually best left out."
        )
    return (
        f"Input {name} contains values too large to square: row {row} has a norm above 1e150. "
        f"Scale the values first."
    )


def unit_rows(
    rows: Rows, *, n_threads: int, allow_zero: bool = False, advice: str = "Drop these rows."
) -> Rows:
    """The rows at unit length: a copy of the values, or the same rows where they have it already.

    Rows that are as near to unit length as their type allows are left as they are. Zero rows stay
    zero where they are allowed.
    """
    norm2 = rows.core.norm2
    lengths = np.sqrt(norm2)
    tiny = np.flatnonzero(norm2 < TINY_NORM2)
    if rows.sparse:
        tiny = tiny[np.diff(rows.matrix.indptr)[tiny] > 0]
    else:
        tiny = tiny[np.any(rows.matrix[tiny] != 0, axis=1)]
    for i in tiny:
        lengths[i] = _length(rows.matrix[[i]])
    zero = lengths == 0
    if zero.any() and not allow_zero:
        raise ValueError(
            f"Row {int(np.flatnonzero(zero)[0])} of X is zero and has no direction "
            f"({int(zero.sum())} such rows). {advice}"
        )
    near = 1e-6 if rows.matrix.dtype == np.float32 else 1e-14
    lengths[zero | (np.abs(norm2 - 1) <= near)] = 1.0
    if np.all(lengths == 1):
        return rows
    if not rows.sparse:
        scaled = (rows.matrix / lengths[:, None]).astype(rows.matrix.dtype)
        return as_rows(scaled, n_threads=n_threads)
    values = np.empty_like(rows.matrix.data)
    indptr = rows.matrix.indptr
    # A block at a time, because the quotients are computed in float64.
    block = 1 << 16
    for begin in range(0, rows.n_rows, block):
        end = min(begin + block, rows.n_rows)
        part = slice(int(indptr[begin]), int(indptr[end]))
        repeated = np.repeat(lengths[begin:end], np.diff(indptr[begin : end + 1]))
        values[part] = rows.matrix.data[part] / repeated
    matrix = type(rows.matrix)((values, rows.matrix.indices, indptr), shape=rows.matrix.shape)
    return as_rows(matrix, n_threads=n_threads)


def _length(row: Any) -> float:
    """The length of one row whose squares are too small for float64."""
    values = np.abs(np.asarray(row.data if sp.issparse(row) else row, dtype=np.float64)).ravel()
    largest = values.max(initial=0.0)
    return float(largest * np.linalg.norm(values / largest)) if largest > 0 else 0.0
