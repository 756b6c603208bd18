"""Columns sent to components, by a hash or a table, and rows as rows of these components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.rows import MAX_INDEX, Rows


@dataclass(frozen=True, kw_only=True)
class ColumnMap:
    """Which component each column goes to, and with which sign.

    A place is the number c of a component where values keep their sign, and -1 - c where they
    change it. The core has the hash (cpp/embedding/column_map.hpp).
    """

    n_components: int
    seed: int = 0  #: of the hash
    table: np.ndarray | None = None  #: places of all columns, int32; None: they are hashed

    def places(self, columns: Any) -> np.ndarray:
        """The places of these columns."""
        columns = np.ascontiguousarray(columns, dtype=np.int64)
        if self.table is not None:
            return self.table[columns]
        return _core.hashed_places(columns, self.n_components, self.seed)

    def density(self, rows: Rows) -> float:
        """The share of components that a row is expected to reach."""
        if not rows.sparse:
            return 1.0
        lengths = np.diff(rows.matrix.indptr)
        if self.n_components == 1:
            return float(np.mean(lengths > 0))
        missed = np.exp(lengths * np.log1p(-1.0 / self.n_components))
        return float(1.0 - missed.mean())

    def embedded(self, rows: Rows, *, sparse: bool, n_threads: int) -> Any:
        """The rows as a CSR array with sorted int32 indices, or as an ndarray."""
        dtype, n_rows = rows.matrix.dtype, rows.n_rows
        given = (rows.core, self.n_components, self.seed, self.table, 0, n_rows)
        if not sparse:
            out = np.empty((n_rows, self.n_components), dtype=dtype)
            _refuse(_core.embed_densely(*given, out, n_threads), dtype)
            return out
        # Room for as many entries as there are before: memory that is not written to is not taken.
        indptr = np.empty(n_rows + 1, dtype=np.int64)
        indices = np.empty(rows.core.nnz, dtype=np.int32)
        values = np.empty(rows.core.nnz, dtype=dtype)
        _refuse(_core.embed_sparsely(*given, indptr, indices, values, n_threads), dtype)
        end = int(indptr[-1])
        if end <= MAX_INDEX:
            indptr = indptr.astype(np.int32)  # scipy would widen the indices to match
        arrays = (values[:end], indices[:end], indptr)
        return sp.csr_array(arrays, shape=(n_rows, self.n_components))


def _refuse(row: int, dtype: Any) -> None:
    if row >= 0:
        raise ValueError(
            f"Row {row} of X has values whose sum is too large for {np.dtype(dtype)}. Scale X "
            f"first."
        )
