"""DBSCAN from distances that are given: a square matrix, or a sparse graph of the near ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsecluster.rows.numbering import numbered_by_first
from sparsecluster.rows.rows import Rows


def check_distances(rows: Rows) -> Any:
    """The matrix, refused where it cannot be one of distances."""
    matrix = rows.matrix
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"With metric='precomputed' X must be a square matrix of distances; it has the shape "
            f"{matrix.shape}."
        )
    if (matrix.data.min(initial=0) if rows.sparse else matrix.min()) < 0:
        raise ValueError("Negative values in data passed to X: distances cannot be negative.")
    return matrix


def near_pairs(matrix: Any, eps: float) -> sp.csr_array:
    """Which pairs are within `eps`, each row with itself; refused where they are not symmetric.

    What a sparse matrix does not store is farther away.
    """
    if sp.issparse(matrix):
        entries = sp.coo_array(matrix)
        near = entries.data <= eps
        rows, columns = entries.row[near], entries.col[near]
    else:
        rows, columns = np.nonzero(matrix <= eps)
    n = matrix.shape[0]
    own = np.arange(n)
    rows, columns = np.concatenate([rows, own]), np.concatenate([columns, own])
    pairs = sp.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n, n))
    pairs.data[:] = True
    if (pairs != pairs.T).nnz:
        raise ValueError(
            "X is not symmetric: for some rows only one of both distances is within eps. Make it "
            "so first, for example with X.maximum(X.T)."
        )
    return pairs


def dbscan_of_pairs(
    pairs: sp.csr_array, min_samples: float, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and core rows, by the rules of the core (cpp/neighbors/density.hpp)."""
    n = pairs.shape[0]
    core = pairs @ (np.ones(n) if weights is None else weights) >= min_samples
    labels = np.full(n, -1, dtype=np.int32)
    ids = np.flatnonzero(core)
    if not len(ids):
        return labels, core
    of_core = connected_components(pairs[ids][:, ids], directed=False)[1]
    labels[ids] = numbered_by_first(of_core)
    border = np.flatnonzero(~core)
    reached = sp.coo_array(pairs[border][:, ids])
    lowest = np.full(len(border), n, dtype=np.int64)
    np.minimum.at(lowest, reached.row, labels[ids][reached.col])
    labels[border] = np.where(lowest < n, lowest, -1)
    return labels, core
