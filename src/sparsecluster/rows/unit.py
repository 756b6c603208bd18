"""Rows at unit length, for the cosine."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.rows import Rows, as_rows, mapped_csr

TINY_NORM2 = 1e-280  # below, squares lose digits


def unit_rows(
    rows: Rows,
    *,
    n_threads: int,
    allow_zero: bool = False,
    memory_limit: int = 2**62,
) -> Rows:
    """The rows at unit length: a copy of the values, or the same rows where they have it already.

    Rows that are as near to unit length as their type allows are left as they are. Zero rows stay
    zero where they are allowed. The values of a file are copied within the memory limit only.
    """
    norm2 = rows.core.norm2
    near = 1e-6 if rows.matrix.dtype == np.float32 else 1e-14
    if rows.streamed and _all_unit(norm2, near, allow_zero):
        return rows
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
        row = rows.provenance.first_row + int(np.flatnonzero(zero)[0])
        n_zero = int(zero.sum())
        raise ValueError(
            f"Row {row} of X is zero and has no direction ({n_zero:,} row{'s' * (n_zero > 1)} in "
            f"all). Drop such rows, or pass zero_rows='first' to put them into the first cluster."
        )
    lengths[zero | (np.abs(norm2 - 1) <= near)] = 1.0
    if np.all(lengths == 1):
        return rows
    if rows.in_file and rows.matrix.data.nbytes > memory_limit:
        raise ValueError(
            f"The rows have other lengths than one, and a copy of their values at unit length "
            f"({rows.matrix.data.nbytes / 1e9:.3g} GB) is more than the memory limit of "
            f"{memory_limit / 1e9:.3g} GB. Convert the data with Prepare(norm='l2') (--unit), or "
            f"raise memory_limit."
        )
    if not rows.sparse:
        scaled = (rows.matrix / lengths[:, None]).astype(rows.matrix.dtype)
        return as_rows(scaled, n_threads=n_threads, provenance=rows.provenance)
    values = np.empty_like(rows.matrix.data)
    indptr = rows.matrix.indptr
    # A block at a time, because the quotients are computed in float64.
    block = 1 << 16
    for begin in range(0, rows.n_rows, block):
        end = min(begin + block, rows.n_rows)
        part = slice(int(indptr[begin]), int(indptr[end]))
        repeated = np.repeat(lengths[begin:end], np.diff(indptr[begin : end + 1]))
        values[part] = rows.matrix.data[part] / repeated
    matrix = mapped_csr(indptr, rows.matrix.indices, values, rows.n_features, keep_indptr=True)
    return as_rows(matrix, n_threads=n_threads, provenance=rows.provenance)


def _all_unit(norm2: np.ndarray, near: float, allow_zero: bool) -> bool:
    """Whether all rows have unit length, or none; without arrays of the length of all rows."""
    for begin in range(0, len(norm2), 1 << 20):
        part = norm2[begin : begin + (1 << 20)]
        fine = np.abs(part - 1) <= near
        if not np.all(fine | (part == 0) if allow_zero else fine):
            return False
    return True


def _length(row: Any) -> float:
    """The length of one row whose squares are too small for float64."""
    values = np.abs(np.asarray(row.data if sp.issparse(row) else row, dtype=np.float64)).ravel()
    values = values[values > 0]  # so that dense and sparse rows are summed alike
    largest = values.max(initial=0.0)
    return float(largest * np.linalg.norm(values / largest)) if largest > 0 else 0.0
