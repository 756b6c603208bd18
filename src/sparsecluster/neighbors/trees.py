"""Dense rows of few columns: scikit-learn's trees find the candidates, the core decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.neighbors.search import Search

MOST_COLUMNS = 10
LEAST_ROWS = 4000  # below, there is little to gain
BLOCK = 1 << 12  # queries at a time
WIDER = 1 + 1e-9  # more than a tree's distances are off

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def useful(search: Search) -> bool:
    """Whether a tree takes less time than a scan."""
    return (
        search.metric == "euclidean"
        and not (search.queries.sparse or search.rows.sparse)
        and search.rows.n_features <= MOST_COLUMNS
        and search.rows.n_rows >= LEAST_ROWS
    )


def within(search: Search, radius: float) -> Parts:
    """Rows within a radius of each query, as CSR; where it is one set each begins with itself."""
    from sparsecluster.neighbors.graphs import refuse

    tree, queries = _tree(search), search.queries.matrix
    counts = tree.query_radius(queries, radius * WIDER, count_only=True)
    if counts.sum() * 2 * _core.GRAPH_ENTRY_BYTES > search.memory_limit:
        refuse(int(counts.sum()), search.memory_limit, "a smaller radius")
    blocks = []
    for begin in range(0, len(queries), BLOCK):
        found = tree.query_radius(queries[begin : begin + BLOCK], radius * WIDER)
        blocks.append(_decided(search, begin, found, radius))
        _tell(search, begin + BLOCK)
    sizes, indices, distances = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return np.concatenate([[0], np.cumsum(sizes)]), indices, distances


def nearest(search: Search, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and distances of the k nearest rows of each query, query by query."""
    tree, queries = _tree(search), search.queries.matrix
    skip = int(search.one_set)
    indices, distances = [], []
    for begin in range(0, len(queries), BLOCK):
        block = queries[begin : begin + BLOCK]
        reach = tree.query(block, k + skip)[0][:, -1] * WIDER
        found = tree.query_radius(block, reach + np.finfo(float).tiny)
        sizes, others, apart = _decided(search, begin, found, np.inf)
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]) + skip
        taken = (first[:, None] + np.arange(k)).ravel()
        indices.append(others[taken])
        distances.append(apart[taken])
        _tell(search, begin + BLOCK)
    return np.concatenate(indices), np.concatenate(distances)


def _tree(search: Search) -> Any:
    from sklearn.neighbors import KDTree

    return KDTree(search.rows.matrix)


def _decided(search: Search, begin: int, found: np.ndarray, radius: float) -> Parts:
    """Sizes, numbers and distances of what is within a radius, sorted; the row itself first."""
    sizes = np.array([len(one) for one in found])
    rows = np.repeat(np.arange(begin, begin + len(found)), sizes)
    others = np.concatenate(found).astype(np.int64)
    distances = _core.pair_distances(
        search.queries.core, search.rows.core, rows, others, search.metric
    )
    own = (rows == others) & search.one_set
    distances[own] = 0.0
    order = np.lexsort((others, ~own, distances, rows))
    order = order[distances[order] <= radius]
    sizes = np.bincount(rows[order] - begin, minlength=len(found))
    return sizes, others[order].astype(np.int32), distances[order]


def _tell(search: Search, done: int) -> None:
    if search.progress is not None:
        search.progress(min(1.0, done / search.queries.n_rows))
