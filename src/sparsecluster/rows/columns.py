"""The columns that occur, renumbered: many columns of few entries would cost memory for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.rows import Rows, as_rows, mapped_csr

FEW_COLUMNS = 1 << 16
MANY_COLUMNS = 1 << 27  # for which even a byte each is too much


class Columns:
    """Those columns of a matrix that anything is in; others keep no results, only their numbers."""

    def __init__(self, ids: np.ndarray, n_columns: int) -> None:
        self.ids, self.n_columns = ids, n_columns  #: their numbers before, ascending; all columns

    @classmethod
    def occurring(cls, rows: Rows, centers: Any = None) -> Columns | None:
        """Those of rows and centers; None where there are too few columns for that to matter."""
        if not rows.sparse or rows.n_features <= FEW_COLUMNS or rows.selected is not None:
            return None
        parts = [rows.matrix.indices[: rows.matrix.indptr[-1]]]
        if centers is not None:
            parts.append(sp.csr_array(centers).indices)
        if rows.n_features <= 2 * sum(map(len, parts)):
            return None
        if rows.n_features > MANY_COLUMNS:
            return cls(np.unique(np.concatenate(parts)), rows.n_features)
        occurs = np.zeros(rows.n_features, dtype=bool)
        for part in parts:
            occurs[part] = True
        return cls(np.flatnonzero(occurs), rows.n_features)

    def rows(self, rows: Rows, *, n_threads: int) -> Rows:
        """The same rows, of these columns alone."""
        end = rows.matrix.indptr[-1]
        indices = np.searchsorted(self.ids, rows.matrix.indices[:end]).astype(np.int32)
        matrix = mapped_csr(
            np.asarray(rows.matrix.indptr), indices, rows.matrix.data[:end], max(len(self.ids), 1)
        )
        return as_rows(
            matrix, n_threads=n_threads, n_columns=self.n_columns, provenance=rows.provenance
        )

    def inside(self, centers: Any) -> sp.csr_array:
        """Centers in these columns, which are all that they have."""
        centers = sp.csr_array(centers)
        indices = np.searchsorted(self.ids, centers.indices)
        known = indices < len(self.ids)
        if not (known.all() and np.array_equal(self.ids[indices], centers.indices)):
            raise ValueError("the centers have columns that no row has")
        shape = (centers.shape[0], max(len(self.ids), 1))
        return sp.csr_array((centers.data, indices, centers.indptr), shape=shape)

    def outside(self, centers: sp.csr_array) -> sp.csr_array:
        """The same centers in all columns."""
        shape = (centers.shape[0], self.n_columns)
        indices = self.ids[centers.indices].astype(np.int32)
        return sp.csr_array((centers.data, indices, centers.indptr), shape=shape)
