"""What there is to know about rows before they are clustered: shape, row lengths, columns, values,
and the memory that a fit would need. In one pass, block by block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.source import Block
from sparsecluster.prepare.passes import FirstPass, Progress, asked, in_order
from sparsecluster.rows.recipe import Recipe

# Bytes that a fit of k-means takes beyond its data: per row (label, norm, bounds, distances while
# seeding), per column (statistics, marks), per entry of a center (center, sums, index), and per
# entry of X in the copy by columns that seeding makes where it fits the limit.
ROW_BYTES = 56
COLUMN_BYTES = 64
CENTER_ENTRY_BYTES = 64
COLUMN_COPY_BYTES = 8


class Profile:
    """Counts over blocks of rows."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.n_entries = 0
        self.dtype: Any = np.dtype(np.float32)
        self.smallest = np.inf
        self.largest = -np.inf
        self._lengths: list[np.ndarray] = []
        self._counts = np.zeros(0, dtype=np.int64)
        self._unit = True

    def add(self, block: Block) -> None:
        """Count the rows of a block."""
        lengths = np.diff(block.indptr)
        self._lengths.append(lengths.astype(np.int32))
        counts = np.bincount(block.indices, minlength=len(self._counts))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        self.n_rows += block.n_rows
        self.n_entries += len(block.data)
        self.dtype = block.data.dtype
        if len(block.data):
            self.smallest = min(self.smallest, float(block.data.min()))
            self.largest = max(self.largest, float(block.data.max()))
        if self._unit:
            filled = lengths > 0
            starts = block.indptr[:-1][filled]
            squares = np.square(block.data, dtype=np.float64)
            norms = np.add.reduceat(squares, starts) if len(starts) else np.zeros(0)
            self._unit = bool(np.all(np.abs(norms - 1) < 1e-3))

    def row_counts(self, n_columns: int, first_column: int = 0) -> np.ndarray:
        """How many rows store an entry in each column."""
        counts = np.zeros(n_columns, dtype=np.int64)
        known = self._counts[first_column : first_column + n_columns]
        counts[: len(known)] = known
        return counts

    def summary(self, row_counts: np.ndarray, n_clusters: int) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        lengths = np.concatenate(self._lengths) if self._lengths else np.zeros(1, dtype=np.int32)
        quantiles = np.quantile(lengths, [0, 0.25, 0.5, 0.75, 1]) if len(lengths) else [0] * 5
        n_columns = len(row_counts)
        return {
            "rows": self.n_rows,
            "columns": n_columns,
            "entries": self.n_entries,
            "density": self.n_entries / max(self.n_rows * n_columns, 1),
            "dtype": str(self.dtype),
            "row_lengths": dict(
                zip(("min", "25%", "50%", "75%", "max"), map(float, quantiles), strict=True)
            ),
            "empty_rows": int(np.count_nonzero(lengths == 0)),
            "empty_columns": int(np.count_nonzero(row_counts == 0)),
            "values": [self.smallest, self.largest] if self.n_entries else None,
            "unit_rows": self._unit and self.n_entries > 0,
            "memory": memory_of_a_fit(
                self.n_rows, self.n_entries, self.dtype.itemsize, row_counts, n_clusters
            ),
        }


def memory_of_a_fit(
    n_rows: int, n_entries: int, value_bytes: int, row_counts: np.ndarray, n_clusters: int
) -> dict[str, int]:
    """Bytes of the data in memory, and what a fit with so many clusters takes at most beyond."""
    center_entries = int(np.minimum(row_counts, n_clusters).sum())
    return {
        "clusters": n_clusters,
        "data": n_entries * (4 + value_bytes) + 8 * n_rows,
        "fit": ROW_BYTES * n_rows
        + COLUMN_BYTES * len(row_counts)
        + CENTER_ENTRY_BYTES * center_entries,
        "seeding": COLUMN_COPY_BYTES * n_entries,
    }


def profile(
    path: Path,
    *,
    n_threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[Profile, np.ndarray, Recipe]:
    """Go through a file or a store once: its profile, the rows that each column occurs in, and how
    it is read."""
    first, found = FirstPass(path, asked(**options), n_threads=n_threads), Profile()
    for block in first.blocks(progress):
        found.add(block)
    recipe = first.fit()
    counts = found.row_counts(recipe.n_features, first.source.first_column)
    return found, in_order(counts, first.source.column_order), recipe
