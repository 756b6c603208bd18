"""Costs that the harness computes itself, in float64, so that no system marks its own work."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def means(X: sp.csr_matrix, labels: np.ndarray, k: int) -> sp.csr_matrix:
    """The mean row of each label, in the dtype of X; a label without rows gets an empty row."""
    counts = np.bincount(labels, minlength=k)
    weights = (1 / np.maximum(counts, 1))[labels].astype(X.dtype)
    return sp.csr_matrix((weights, (labels, np.arange(labels.size))), shape=(k, labels.size)) @ X


def cost_of_labels(X: sp.csr_matrix, labels: np.ndarray) -> float:
    """Least cost of a labelling, that of its means: sum |x|^2 - sum_k |s_k|^2 / n_k."""
    labels = np.asarray(labels, dtype=np.int64)
    counts = np.bincount(labels)
    indicator = sp.csr_matrix(
        (np.ones(labels.size), (labels, np.arange(labels.size))), shape=(counts.size, labels.size)
    )
    values = X.data.astype(np.float64)
    sums = (indicator @ sp.csr_matrix((values, X.indices, X.indptr), shape=X.shape)).tocsr()
    of_sums = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
    return float(values @ values - (of_sums / np.maximum(counts, 1)).sum())


def sphere_cost_of_labels(X: sp.csr_matrix, labels: np.ndarray) -> float:
    """Least sum of 2 - 2 cos of a labelling of unit rows: 2 n - 2 sum_k |s_k|."""
    labels = np.asarray(labels, dtype=np.int64)
    indicator = sp.csr_matrix((np.ones(labels.size), (labels, np.arange(labels.size))))
    sums = (indicator @ X.astype(np.float64)).tocsr()
    of_sums = np.asarray(sums.multiply(sums).sum(axis=1)).ravel()
    return float(2 * labels.size - 2 * np.sqrt(of_sums).sum())


def potential_of_rows(X: sp.csr_matrix, chosen: np.ndarray, block: int = 4096) -> float:
    """Sum over the rows of the squared distance to the nearest chosen row."""
    X = X.astype(np.float64)
    centers = X[chosen]
    center_norms = np.asarray(centers.multiply(centers).sum(axis=1)).ravel()
    row_norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    transposed = centers.T.tocsr()
    total = 0.0
    for start in range(0, X.shape[0], block):
        products = (X[start : start + block] @ transposed).toarray()
        nearest = (center_norms - 2 * products).min(axis=1)
        total += float(np.maximum(nearest + row_norms[start : start + block], 0).sum())
    return total
