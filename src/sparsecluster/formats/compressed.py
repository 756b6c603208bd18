"""Matrices as files hold them, checked and cut into blocks of rows: arrays in CSR or CSC order that
are read from front to back, and dense rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.limits import refuse_empty_rows
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.formats.triples import Triples
from sparsecluster.rows.rows import MAX_INDEX


class Numbers(ABC):
    """A one-dimensional array in a file, read from front to back."""

    name: str
    size: int
    dtype: np.dtype

    @abstractmethod
    def read(self, count: int) -> np.ndarray:
        """The next `count` numbers; ReadError where the file has fewer."""


@contextmanager
def reading(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Turn what libraries raise on broken files into a ReadError that names the file."""
    try:
        yield
    except ReadError:
        raise
    except errors as error:
        reason = str(error) or type(error).__name__
        raise ReadError(
            f"{path}: the file is broken or cut short ({reason}). Fetch or write it again."
        ) from error


def first_bytes(path: Path, count: int) -> bytes:
    """The start of a file; ReadError where it cannot be opened."""
    try:
        with open(path, "rb") as file:
            return file.read(count)
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened ({error.strerror}).") from error


def checked_shape(path: Path, n_rows: int, n_columns: int) -> tuple[int, int]:
    """The shape that a file claims, where it can be one."""
    if min(n_rows, n_columns) < 0:
        raise ReadError(f"{path}: the file claims the shape {n_rows} x {n_columns}.")
    if n_rows > MAX_INDEX:
        raise ReadError(
            f"{path}: {n_rows} rows; at most 2**31 - 1 are supported. Split the file by rows."
        )
    if n_columns > MAX_INDEX:
        raise ReadError(
            f"{path}: {n_columns} columns; at most 2**31 - 1 are supported. Drop the empty "
            f"columns, or hash the features into fewer."
        )
    return int(n_rows), int(n_columns)


def value_type(path: Path, dtype: np.dtype) -> type[np.float32] | type[np.float64]:
    """The type of values in blocks: the smaller float that holds all numbers of this type."""
    if dtype.kind not in "fiub":
        raise ReadError(f"{path}: the values are of type {dtype}; real numbers are needed.")
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


def integer_type(path: Path, numbers: Numbers) -> None:
    """Refuse an array of positions that does not hold integers."""
    if numbers.dtype.kind not in "iu":
        raise ReadError(f"{path}: {numbers.name} is of type {numbers.dtype}; integers are needed.")


def checked_block(
    path: Path,
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    *,
    n_columns: int | None,
    first_row: int,
    done: float,
) -> Block:
    """A block of CSR arrays whose indptr is sound; rows are sorted and their duplicates summed.

    `data` has the type of the blocks already; the arrays are the block's own.
    """

    def place(entry: int) -> str:
        row = first_row + int(np.searchsorted(indptr, entry, side="right")) - 1
        return f"{path}: row {row}, column {indices[entry]}"

    limit = MAX_INDEX if n_columns is None else n_columns
    if len(indices) and (indices.min() < 0 or indices.max() >= limit):
        entry = int(np.flatnonzero((indices < 0) | (indices >= limit))[0])
        raise ReadError(f"{place(entry)}: columns go from 0 to {limit - 1}.")
    refuse_infinite(data, place)
    indices = indices.astype(np.int32, copy=False)
    width = limit if n_columns is not None else int(indices.max(initial=0)) + 1
    matrix = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))
    if not matrix.has_canonical_format:
        matrix.sum_duplicates()
        indptr, indices, data = matrix.indptr.astype(np.int64), matrix.indices, matrix.data
        refuse_infinite(data, place, "duplicate entries add up to")
    return Block(indptr=indptr, indices=indices.astype(np.int32, copy=False), data=data, done=done)


def refuse_infinite(
    values: np.ndarray, place: Callable[[int], str], what: str = "the value is"
) -> None:
    """Refuse NaN and infinity, with the place of the first."""
    finite = np.isfinite(values)
    if not finite.all():
        entry = int(np.flatnonzero(~finite)[0])
        kind = "NaN" if np.isnan(values[entry]) else "infinity"
        raise ReadError(
            f"{place(entry)}: {what} {kind}. Clean or impute the values first; an unknown entry of "
            f"a sparse matrix is usually best left out."
        )


def csr_blocks(
    path: Path, indptr: Numbers, indices: Numbers, data: Numbers, *, shape: Any, block_entries: int
) -> Iterator[Block]:
    """The rows of CSR arrays."""
    n_rows, n_columns = checked_shape(path, *shape)
    kind = value_type(path, data.dtype)
    for row, pointers in _slices(path, indptr, indices, data, n_rows, block_entries):
        count = int(pointers[-1] - pointers[0])
        yield checked_block(
            path,
            pointers - pointers[0],
            _native(indices.read(count)),
            data.read(count).astype(kind, copy=False),
            n_columns=n_columns,
            first_row=row,
            done=float((row + len(pointers) - 1) / n_rows),
        )


def csc_triples(
    path: Path, indptr: Numbers, indices: Numbers, data: Numbers, *, shape: Any, block_entries: int
) -> Iterator[Triples]:
    """The entries of CSC arrays, column by column."""
    n_rows, n_columns = checked_shape(path, *shape)
    kind = value_type(path, data.dtype)
    for column, pointers in _slices(path, indptr, indices, data, n_columns, block_entries):
        columns = np.arange(column, column + len(pointers) - 1, dtype=np.int32)
        begin, last = int(pointers[0]), int(pointers[-1])
        # A column may be longer than a block of rows.
        while begin < last:
            end = min(begin + block_entries, last)
            entries = Triples(
                _native(indices.read(end - begin)),
                np.repeat(columns, np.diff(np.clip(pointers, begin, end))),
                data.read(end - begin).astype(kind, copy=False),
                float((column + len(columns)) / n_columns),
            )
            entries.check(n_rows, n_columns, partial(Triples.place, path, begin))
            yield entries
            begin = end


def _native(integers: np.ndarray) -> np.ndarray:
    """Integers in the byte order of the machine, signed."""
    return integers.astype(np.int32 if integers.dtype.itemsize == 4 else np.int64, copy=False)


def _slices(
    path: Path, indptr: Numbers, indices: Numbers, data: Numbers, n_lines: int, block_entries: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Runs of lines (rows or columns) of at most so many entries: the first line, its pointers."""
    integer_type(path, indices)
    integer_type(path, indptr)
    if indptr.size != n_lines + 1:
        raise ReadError(
            f"{path}: {indptr.name} has {indptr.size} elements where {n_lines + 1} are needed."
        )
    if indices.size != data.size:
        raise ReadError(
            f"{path}: {indices.name} has {indices.size} elements, but {data.name} {data.size}."
        )
    before = indptr.read(1).astype(np.int64)
    if before[0] != 0:
        raise ReadError(f"{path}: {indptr.name} starts with {before[0]} instead of 0.")
    line = 0
    while line < n_lines:
        # No more lines than entries, because their pointers take memory too.
        new = indptr.read(min(block_entries, n_lines - line)).astype(np.int64)
        pointers = np.concatenate([before, new])
        wrong = np.flatnonzero((np.diff(pointers) < 0) | (new > indices.size))
        if len(wrong):
            raise ReadError(
                f"{path}: {indptr.name} goes from {pointers[wrong[0]]} to {new[wrong[0]]} at "
                f"position {line + wrong[0] + 1}; it must ascend, up to {indices.size} at most."
            )
        for begin, end in runs(pointers, block_entries):
            yield line + begin, pointers[begin : end + 1]
        line += len(new)
        before = new[-1:]


def runs(indptr: np.ndarray, block_entries: int) -> Iterator[tuple[int, int]]:
    """Runs of lines of at most so many entries, or of a single line."""
    begin = 0
    while begin < len(indptr) - 1:
        end = int(np.searchsorted(indptr, indptr[begin] + block_entries, side="right")) - 1
        end = max(end, begin + 1)
        yield begin, end
        begin = end


def dense_blocks(
    path: Path,
    rows: Callable[[int, int], np.ndarray],
    *,
    shape: Any,
    dtype: np.dtype,
    block_entries: int,
) -> Iterator[Block]:
    """The rows of a dense matrix, without its zeros; `rows(begin, end)` reads some."""
    n_rows, n_columns = checked_shape(path, *shape)
    kind = value_type(path, dtype)
    refuse_empty_rows(path, n_rows, n_rows * n_columns)
    step = max(1, block_entries // max(n_columns, 1))
    for begin in range(0, n_rows, step):
        end = min(begin + step, n_rows)
        cells = np.asarray(rows(begin, end)).astype(kind)
        yield dense_block(path, cells, first_row=begin, done=end / n_rows)


def dense_block(path: Path, cells: np.ndarray, *, first_row: int, done: float) -> Block:
    """Some rows of a dense matrix, without its zeros."""
    matrix = sp.csr_array(cells)
    return checked_block(
        path,
        matrix.indptr.astype(np.int64),
        matrix.indices,
        matrix.data,
        n_columns=cells.shape[1],
        first_row=first_row,
        done=done,
    )
