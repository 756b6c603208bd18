"""Linkage matrices as scipy has them: made of merges, cut into clusters, put in order."""

from __future__ import annotations

import numpy as np

from sparsecluster.rows.numbering import numbered_by_first


def linkage_matrix(one: np.ndarray, other: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The matrix of merges, in their order, of clusters that go by any of their leaves."""
    n_leaves = len(heights) + 1
    parent = list(range(2 * n_leaves - 1))
    size = [1] * n_leaves + [0] * (n_leaves - 1)
    matrix = np.empty((n_leaves - 1, 4))

    def top(leaf: int) -> int:
        root = leaf
        while parent[root] != root:
            root = parent[root]
        while parent[leaf] != root:
            parent[leaf], leaf = root, parent[leaf]
        return root

    pairs = zip(one.tolist(), other.tolist(), heights.tolist(), strict=True)
    for new, (a, b, height) in enumerate(pairs, start=n_leaves):
        left, right = sorted((top(a), top(b)))
        parent[left] = parent[right] = new
        size[new] = size[left] + size[right]
        matrix[new - n_leaves] = left, right, height, size[new]
    return matrix


def linkage_of_tree(one: np.ndarray, other: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Single linkage: the edges of a minimum spanning tree, the shortest first."""
    order = np.lexsort((np.maximum(one, other), np.minimum(one, other), heights))
    return linkage_matrix(one[order], other[order], heights[order])


def highest_below(linkage: np.ndarray) -> np.ndarray:
    """For each merge the largest height in its subtree, which is its own unless there are
    inversions."""
    n_leaves = len(linkage) + 1
    highest = linkage[:, 2].copy()
    if np.all(highest[1:] >= highest[:-1]):
        return highest
    for at, children in enumerate(linkage[:, :2].astype(np.int64)):
        for child in children[children >= n_leaves]:
            highest[at] = max(highest[at], highest[child - n_leaves])
    return highest


def count_inversions(linkage: np.ndarray) -> int:
    """Merges that are lower than one that they are made of."""
    return int(np.count_nonzero(highest_below(linkage) > linkage[:, 2]))


def labels_by_count(linkage: np.ndarray, n_clusters: int) -> np.ndarray:
    """The clusters that were there when so many were left, numbered by their first leaf."""
    n_merges = len(linkage)
    return _labels(linkage, np.arange(n_merges) < n_merges + 1 - n_clusters)


def labels_by_height(linkage: np.ndarray, height: float) -> np.ndarray:
    """Clusters all of whose merges are at most so high, as large as possible."""
    return _labels(linkage, highest_below(linkage) <= height)


def _labels(linkage: np.ndarray, merged: np.ndarray) -> np.ndarray:
    """Labels where these merges take place; each implies those that it is made of."""
    n_leaves = len(linkage) + 1
    children = linkage[:, :2].astype(np.int64).tolist()
    top = list(range(2 * n_leaves - 1))
    for at in range(n_leaves - 2, -1, -1):
        if merged[at]:
            for child in children[at]:
                top[child] = top[at + n_leaves]
    return numbered_by_first(np.array(top[:n_leaves]))


def widest_gap(linkage: np.ndarray) -> int:
    """How many clusters there are at the widest gap between the heights of two merges in a row;
    1 where there is none. Of equally wide gaps the one of the fewest clusters counts."""
    heights = np.maximum.accumulate(linkage[:, 2])
    gaps = np.diff(heights)[::-1]
    return int(gaps.argmax()) + 2 if len(gaps) and gaps.max() > 0 else 1


def leaf_order(linkage: np.ndarray) -> np.ndarray:
    """The leaves from left to right, so that no branches cross."""
    n_leaves = len(linkage) + 1
    children = linkage[:, :2].astype(np.int64).tolist()
    order, pending = [], [2 * n_leaves - 2]
    while pending:
        node = pending.pop()
        if node < n_leaves:
            order.append(node)
        else:
            pending.extend(reversed(children[node - n_leaves]))
    return np.array(order, dtype=np.int64)
