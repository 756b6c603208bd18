"""Terms that tell a node from its siblings."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.tree.nodes import Tree


def contrasting_columns(centers: Any, weights: np.ndarray, most: int) -> list[np.ndarray]:
    """For each of these centers the columns that tell it from the others, most telling first.

    A column counts by c ln(c / m), where m is its weighted mean over all of the centers: what it
    adds to the divergence of the center from all of them together. Columns that all centers share
    alike come to nothing, rare ones to little; values that are not positive do not count.
    """
    matrix = sp.csr_array(centers, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(shares), 1 / len(shares))
    positive = matrix.copy()
    positive.data = np.maximum(positive.data, 0.0)
    columns, inverse = np.unique(positive.indices, return_inverse=True)
    repeated = np.repeat(shares, np.diff(positive.indptr))
    means = np.bincount(inverse, weights=repeated * positive.data, minlength=len(columns))
    found = []
    for begin, end in zip(positive.indptr[:-1], positive.indptr[1:], strict=True):
        values, mean = positive.data[begin:end], means[inverse[begin:end]]
        with np.errstate(divide="ignore", invalid="ignore"):
            telling = np.where(values > 0, values * np.log(values / mean), 0.0)
        order = np.argsort(-telling, kind="stable")[:most]
        found.append(positive.indices[begin:end][order[telling[order] > 1e-12]])
    return found


def node_columns(tree: Tree, centers: Any, most: int) -> list[np.ndarray]:
    """For each node the columns that tell it from its siblings; none for the root."""
    matrix = sp.csr_array(centers)
    found: list[np.ndarray] = [np.zeros(0, dtype=np.int64)] * tree.n_nodes
    for node in np.flatnonzero(tree.n_children):
        children = tree.children(node)
        below = matrix[children[0] : children[-1] + 1]
        for child, columns in zip(
            children, contrasting_columns(below, tree.sizes[children], most), strict=True
        ):
            found[child] = columns
    return found
