"""What there is to know about rows before they are clustered: shape, row lengths, columns, values,
and the memory that a fit would need. In one pass, block by block."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.formats.source import Block
from sparsecluster.prepare.passes import FirstPass, Progress, asked
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
        self.row_counts = np.zeros(0, dtype=np.int64)  #: that store an entry in each column
        self._unit = True

    def add(self, block: Block) -> None:
        """Count the rows of a block."""
        lengths = np.diff(block.indptr)
        self._lengths.append(lengths.astype(np.int32))
        counts = np.bincount(block.indices, minlength=len(self.row_counts))
        counts[: len(self.row_counts)] += self.row_counts
        self.row_counts = counts
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

    def summary(self, row_counts: np.ndarray, n_clusters: int) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        lengths = np.concatenate(self._lengths)
        quantiles = np.quantile(lengths, [0, 0.25, 0.5, 0.75, 1])
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
            "memory": {
                "clusters": n_clusters,
                "data": self.n_entries * (4 + self.dtype.itemsize) + 8 * self.n_rows,
                "fit": ROW_BYTES * self.n_rows
                + COLUMN_BYTES * n_columns
                + CENTER_ENTRY_BYTES * int(np.minimum(row_counts, n_clusters).sum()),
                "seeding": COLUMN_COPY_BYTES * self.n_entries,
            },
        }


def profile(
    path: Any,
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
    return found, first.in_final_order(found.row_counts, recipe.n_features), recipe
