"""Dense rows of few columns: scikit-learn's trees find the candidates, the core decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.neighbors.search import Search

MOST_COLUMNS = 10
LEAST_ROWS = 4000  # below, there is little to gain
BLOCK = 1 << 9  # queries at a time
MOST_FOUND = 1 << 22  # candidates at a time
TIED = 16  # times k: candidates of a query beyond which rows are too tied for a tree
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
    n = len(queries)
    counts = []
    for begin in range(0, n, BLOCK):
        block = queries[begin : begin + BLOCK]
        counts.append(tree.query_radius(block, radius * WIDER, count_only=True))
        _tell(search, 0.5 * (begin + BLOCK) / n)
    ends = np.cumsum(np.concatenate(counts))
    if ends[-1] * 2 * _core.GRAPH_ENTRY_BYTES > search.memory_limit:
        refuse(int(ends[-1]), search.memory_limit, "a smaller radius")
    blocks = []
    begin = 0
    while begin < n:
        room = ends[begin - 1] + MOST_FOUND if begin else MOST_FOUND
        end = max(begin + 1, min(begin + BLOCK, int(np.searchsorted(ends, room, side="right"))))
        found = tree.query_radius(queries[begin:end], radius * WIDER)
        blocks.append(_decided(search, begin, found, radius))
        begin = end
        _tell(search, 0.5 + 0.5 * begin / n)
    sizes, indices, distances = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return np.concatenate([[0], np.cumsum(sizes)]), indices, distances


def nearest(search: Search, k: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers and distances of the k nearest rows of each query, query by query; None where so many
    rows are at the same distances that a scan is better."""
    tree, queries = _tree(search), search.queries.matrix
    skip = int(search.one_set)
    indices, distances = [], []
    for begin in range(0, len(queries), BLOCK):
        block = queries[begin : begin + BLOCK]
        reach = tree.query(block, k + skip)[0][:, -1] * WIDER + np.finfo(float).tiny
        if tree.query_radius(block, reach, count_only=True).sum() > TIED * (k + 1) * len(block):
            return None
        found = tree.query_radius(block, reach)
        sizes, others, apart = _decided(search, begin, found, np.inf)
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]]) + skip
        taken = (first[:, None] + np.arange(k)).ravel()
        indices.append(others[taken])
        distances.append(apart[taken])
        _tell(search, (begin + BLOCK) / len(queries))
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


def _tell(search: Search, share: float) -> None:
    if search.progress is not None:
        search.progress(min(1.0, share))
