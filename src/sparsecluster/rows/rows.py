"""Rows: all that the engine knows about data. A matrix is checked here, once, and never again."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core

if TYPE_CHECKING:
    from sparsecluster.rows.recipe import Recipe

MAX_INDEX = np.iinfo(np.int32).max
LARGEST_NORM2 = 1e300  # of a row or a center; the core refuses larger rows (rows.cpp)


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is known about rows beyond their values; it travels with them."""

    feature_names: np.ndarray | None = None
    labels: Any = None
    ids: np.ndarray | None = None  #: of str, one per row
    recipe: Recipe | None = None
    first_row: int = 0  #: of a block of a file, for messages


class Rows:
    """Rows of data: what :func:`read` and :func:`open_store` give, and every `fit` takes.

    Attributes
    ----------
    matrix : csr_array or ndarray
        The values; memory-mapped where they come from a store.
    feature_names : ndarray of str or None
        Names of the columns, where the file has them.
    labels : ndarray, csr_array or None
        Labels that the file has for its rows: one number per row, or where rows have any number of
        labels an indicator matrix, rows x labels.
    ids : ndarray of str or None
        Names of the rows, where the file has them.
    recipe : Recipe or None
        How the file became rows, so that others can become rows in the same way.
    shape : tuple of int
        Numbers of rows and columns.
    """

    # For the engine: CSR has sorted rows, an array is C-ordered. `core` is the view in the core, of
    # all rows or of a selection: some rows of the matrix, in another order.
    def __init__(
        self,
        matrix: Any,
        core: _core.Rows | None = None,
        selected: np.ndarray | None = None,
        provenance: Provenance | None = None,
    ) -> None:
        self.matrix = matrix
        self.selected = selected
        self.provenance = known = provenance or Provenance()
        self.feature_names, self.labels = known.feature_names, known.labels
        self.recipe = known.recipe
        self._core = core

    @property
    def ids(self) -> np.ndarray | None:
        return self.provenance.ids

    def __reduce__(self) -> tuple[Any, ...]:
        unpickle = partial(as_rows, n_threads=1, provenance=self.provenance)
        return unpickle, (self.picked(np.arange(self.n_rows)),)

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n_rows:,} rows, {self.n_features:,} columns>"

    @property
    def core(self) -> _core.Rows:
        """The view in the core, of rows that were checked."""
        assert self._core is not None, "rows of a store are to be checked first: rows.checked()"
        return self._core

    @property
    def n_rows(self) -> int:
        return int(self.matrix.shape[0] if self._core is None else self._core.n_rows)

    @property
    def n_features(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, self.n_features

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.matrix)

    #: Whether the values are mapped from a file.
    in_file = False
    #: Whether they are too large for the file to stay in memory, and are read anew in every pass.
    streamed = False

    def checked(self) -> Rows:
        """The same rows, after every check that was put off."""
        return self

    def take(self, indices: np.ndarray) -> sp.csr_array:
        """The rows at these indices, in float64."""
        return sp.csr_array(self.picked(indices), dtype=np.float64)

    def picked(self, indices: np.ndarray) -> Any:
        """The rows at these indices as a matrix of their own, in their own type."""
        indices = np.asarray(indices, dtype=np.int64)
        if self.selected is not None:
            indices = self.selected[indices]
        if not self.sparse:
            return self.matrix[indices]
        # Not by scipy, which brings 32- and 64-bit indices to one type: a copy of all of them.
        starts = np.asarray(self.matrix.indptr[indices], dtype=np.int64)
        lengths = np.asarray(self.matrix.indptr[indices + 1], dtype=np.int64) - starts
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        picked = (self.matrix.data[entries], self.matrix.indices[entries], indptr)
        return type(self.matrix)(picked, shape=(len(indices), self.n_features))

    def in_blocks(self, n_rows: int = 1 << 16) -> Iterator[tuple[int, sp.csr_array]]:
        """The rows in float64, so many at a time, and where each block begins."""
        for begin in range(0, self.n_rows, n_rows):
            yield begin, self.take(np.arange(begin, min(begin + n_rows, self.n_rows)))

    def select(self, indices: np.ndarray) -> Rows:
        """These rows, in this order, without a copy of their entries."""
        indices = np.asarray(indices, dtype=np.int64)
        core = self.core.select(indices)
        return Rows(self.matrix, core, indices if self.selected is None else self.selected[indices])


def check_input(given: Any, name: str = "X") -> Any:
    """What may be looked at by C code and other libraries: refuses what they would misread."""
    if np.ma.is_masked(getattr(given, "data", None) if sp.issparse(given) else given):
        raise ValueError(
            f"{name} is a masked array with masked entries, which have no values. Fill them first, "
            f"with {name}.filled(0) for zeros, or drop their rows."
        )
    return check_structure(given, name) if sp.issparse(given) else given


def check_structure(matrix: Any, name: str = "X") -> Any:
    """A sparse matrix, refused if its arrays contradict each other, before C code reads them.

    Its indices are of 32 or 64 bits and signed: it is given back as it is, or with copies of them.
    The rows of X in CSR are left to the core, which names the row; only lengths are checked here.
    """
    matrix = _with_plain_indices(matrix, name)
    if matrix.ndim != 2:
        raise ValueError(f"Expected 2D array, got a sparse array of dim {matrix.ndim} as {name}.")
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            # On a copy of the frame, because scipy trims the arrays of what it checks.
            full = matrix.format != "csr" or name != "X"
            if full or not _lengths_agree(matrix):
                copy.copy(matrix).check_format(full_check=full)
        elif matrix.format == "coo" and matrix.nnz:
            for axis, index in enumerate((matrix.row, matrix.col)):
                if index.min() < 0 or index.max() >= matrix.shape[axis]:
                    raise ValueError(f"coordinates of axis {axis} lie outside of {matrix.shape}")
    except ValueError as error:
        raise ValueError(
            f"{name} is not a consistent {matrix.format} matrix: {error}. Build it again from its "
            f"entries, for example with scipy.sparse.coo_array."
        ) from None
    return matrix


def _lengths_agree(matrix: Any) -> bool:
    """Whether the arrays of a CSR matrix are as long as each of them says: what scipy would find
    in several times as long."""
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    return bool(
        all(isinstance(array, np.ndarray) for array in (indptr, indices, data))
        and indptr.ndim == indices.ndim == data.ndim == 1
        and len(indptr) == matrix.shape[0] + 1
        and len(indices) == len(data)
        and indptr[0] == 0 <= indptr[-1] <= len(data)
    )


def _with_plain_indices(matrix: Any, name: str) -> Any:
    """The same matrix with index arrays of a type that scipy is made for."""
    arrays = {key: getattr(matrix, key, None) for key in ("indptr", "indices")}
    odd = {
        key: array
        for key, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype not in (np.int32, np.int64)
    }
    if not odd:
        return matrix
    matrix = copy.copy(matrix)
    for key, array in odd.items():
        if array.dtype.kind not in "iu" or (len(array) and array.max() > np.iinfo(np.int64).max):
            raise ValueError(
                f"The {key} of {name} are of {array.dtype}; integers of 32 or 64 bits are needed."
            )
        setattr(matrix, key, array.astype(np.int64))
    return matrix


def as_rows(
    matrix: Any,
    *,
    n_threads: int,
    name: str = "X",
    n_columns: int | None = None,
    provenance: Provenance | None = None,
) -> Rows:
    """See a CSR matrix or a C-ordered array of floats as Rows; only unsorted CSR is copied.

    `n_columns` is how many columns there were before those that do not occur were left out.
    """
    if max(matrix.shape) > MAX_INDEX:
        raise ValueError(
            f"{name} has the shape {matrix.shape}; at most 2**31 - 1 rows and columns are "
            f"supported. Drop the empty columns, or hash the features into fewer."
        )
    core = core_rows(matrix, n_columns=n_columns)
    fault, row = core.inspect(n_threads)
    if fault == "unsorted":
        matrix = matrix.copy()
        matrix.sum_duplicates()
        core = core_rows(matrix, n_columns=n_columns)
        fault, row = core.inspect(n_threads)
    if fault != "none":
        raise ValueError(explain(fault, row, matrix, name))
    return Rows(matrix, core, provenance=provenance)


def canonical(matrix: Any, dtype: Any = None) -> sp.csr_array:
    """A sparse matrix in CSR, where a row has each column once, in ascending order.

    What was given stays as it is: arrays are shared with it only where nothing has to change, even
    where scipy would share indices and convert values.
    """
    as_it_is = isinstance(matrix, sp.csr_array) and dtype in (None, matrix.dtype)
    rows = matrix if as_it_is else sp.csr_array(matrix, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def core_rows(matrix: Any, *, chunk_bytes: int = 0, n_columns: int | None = None) -> _core.Rows:
    """The view of a matrix in the core, not inspected yet; streamed in chunks of this size."""
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
        chunk_bytes,
        n_columns or matrix.shape[1],
    )


def mapped_csr(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    n_features: int,
    *,
    keep_indptr: bool = False,
) -> sp.csr_array:
    """A CSR array around these arrays as they are; scipy would bring their indices to one type.

    Only `indptr` is copied, to 32 bits as scipy has it, unless that is too much.
    """
    matrix = sp.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    if indptr[-1] <= MAX_INDEX and not keep_indptr:
        indptr = indptr.astype(np.int32)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, data
    return matrix


def explain(fault: str, row: int, matrix: Any, name: str) -> str:
    """What is wrong with a matrix, in words."""
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
