"""Pieces of a block of rows, on which preparing computes in float64: small enough for the cache;
and what is counted of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sparsecluster.rows.column_map import ColumnMap
from sparsecluster.rows.metric import TINY_NORM2
from sparsecluster.rows.rows import LARGEST_NORM2, Rows, as_rows, mapped_csr

PIECE = 1 << 19  # entries that are computed at a time, in float64


@dataclass(kw_only=True)
class Piece:
    """Some rows of a block, whose values and columns are being changed."""

    first_row: int
    indptr: np.ndarray
    indices: np.ndarray  #: the columns as they were, for messages
    columns: np.ndarray  #: the columns as they will be
    values: np.ndarray

    def move(self, places: np.ndarray) -> None:
        """Move entries to other columns; those whose place is -1 are left out."""
        columns = places[self.indices]
        kept = np.flatnonzero(columns >= 0)
        self.indptr = np.searchsorted(kept, self.indptr)
        self.columns, self.indices = columns[kept], self.indices[kept]
        self.values = self.values[kept]

    def embed(self, values: np.ndarray, n_components: int) -> np.ndarray:
        """Move the entries, whose values are these in float64, to so many components."""
        self.refuse(~np.isfinite(values), "A value is too large for float64", "Scale X first.")
        width = int(self.columns.max(initial=0)) + 1
        rows = as_rows(mapped_csr(self.indptr, self.columns, values, width), n_threads=1)
        made = ColumnMap(n_components=n_components).embedded(rows, sparse=True, n_threads=1)
        self.indptr, self.columns, self.values = made.indptr, made.indices, made.data
        self.indices = self.columns
        return made.data

    def round_to(self, values: np.ndarray, dtype: Any) -> None:
        """Take these values, of which none may be too large for the type."""
        # What overflows is looked for here, where its row and column are known.
        values = values.astype(dtype, copy=False)
        self.refuse(~np.isfinite(values), f"A value is too large for {dtype}", "Scale X first.")
        self.values = values

    def refuse(self, wrong: np.ndarray, reason: str, advice: str) -> None:
        """Name the first entry that is wrong, where there is one."""
        if not wrong.any():
            return
        at = int(np.argmax(wrong))
        row = self.first_row + int(np.searchsorted(self.indptr, at, side="right")) - 1
        raise ValueError(
            f"{reason}: row {row}, column {self.indices[at]} has {self.values[at]:g}. {advice}"
        )


def pieces_of(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, first_row: int
) -> Iterator[Piece]:
    """Groups of whole rows of about PIECE entries each."""
    bounds = np.searchsorted(indptr, np.arange(PIECE, indptr[-1], PIECE))
    for begin, end in pairwise(np.unique([0, *bounds, len(indptr) - 1])):
        part = slice(indptr[begin], indptr[end])
        yield Piece(
            first_row=first_row + int(begin),
            indptr=indptr[begin : end + 1] - indptr[begin],
            indices=indices[part],
            columns=indices[part],
            values=data[part],
        )


def row_lengths(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """L2 norms of rows with these numbers of entries; 1 for zero rows."""
    filled = np.flatnonzero(counts)
    begins = (np.cumsum(counts) - counts)[filled]
    norm2 = np.add.reduceat(values * values, begins)
    lengths = np.ones(len(counts))
    lengths[filled] = np.sqrt(norm2)
    # Squares that are too small or too large for float64.
    for at in np.flatnonzero(~((norm2 >= TINY_NORM2) & (norm2 <= LARGEST_NORM2))):
        row = values[begins[at] : begins[at] + counts[filled[at]]]
        largest = np.abs(row).max()
        lengths[filled[at]] = largest * np.linalg.norm(row / largest) if largest > 0 else 1.0
    return lengths


def occurrences(indices: Any, data: Any, n_features: int) -> np.ndarray:
    """How many entries of each column are not zero."""
    occurs = np.asarray(data) != 0
    indices = np.asarray(indices)
    return np.bincount(indices if occurs.all() else indices[occurs], minlength=n_features)


def row_counts(rows: Rows) -> np.ndarray:
    """How many rows each column occurs in."""
    if not rows.sparse:
        return np.count_nonzero(rows.matrix, axis=0).astype(np.int64)
    end = rows.matrix.indptr[-1]
    return occurrences(rows.matrix.indices[:end], rows.matrix.data[:end], rows.n_features)
