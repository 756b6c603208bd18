"""Empty clusters are refilled with the farthest rows (SparseKmeans, algorithm E.1)."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.rows import Rows

# A row this near to its center, relative to its norm, lies on it: moving it would gain nothing.
COINCIDES = 2.0**-40


def refill(
    rows: Rows,
    centers: _core.Centers,
    labels: np.ndarray,
    weights: np.ndarray | None,
    setting: Setting,
) -> tuple[list[int], list[int]]:
    """Move the farthest rows, by true distance, into the empty clusters; labels change in place.

    Returns the rows that moved and the clusters that stay empty, for lack of rows that do not lie
    on their center. A row that is alone in its cluster stays.
    """
    sizes = sizes_of(labels, weights, centers.n_clusters)
    if sizes.all():
        return [], []
    setting = replace(setting, weights=weights)
    few = most_candidates(sizes)
    found, ranks = candidates(rows, centers, labels, setting, count=few)
    moves, hopeless = fill(sizes, found, ranks, labels[found])
    for row, cluster in moves:
        labels[row] = cluster
    return [row for row, _ in moves], hopeless


def most_candidates(sizes: np.ndarray) -> int:
    """Rows that have to be known to fill the empty clusters: one for each, and as many as may be
    alone in their clusters by then."""
    return int(np.count_nonzero(sizes == 0)) + len(sizes)


def candidates(
    rows: Rows, centers: _core.Centers, labels: np.ndarray, setting: Setting, *, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` rows that are farthest from their centers, farthest first, and their ranks;
    equally far ones in their order. No row that lies on its center."""
    weights = setting.weights
    distance2 = _core.own_distances(rows.core, centers, labels, setting.n_threads)
    norm2 = rows.core.norm2[: len(labels)]
    movable = distance2 > COINCIDES**2 * norm2
    if weights is not None:
        movable &= weights > 0
    movable &= setting.metric.useful(norm2)
    found = np.flatnonzero(movable)
    # Without the last digits, so that equally far rows come in their order.
    mantissa, exponent = np.frexp(distance2[found])
    ranked = np.ldexp(np.rint(mantissa * 2.0**40), exponent)
    order = np.argsort(-ranked, kind="stable")[:count]
    return found[order], ranked[order]


def fill(
    sizes: np.ndarray, rows: np.ndarray, ranks: np.ndarray, labels: np.ndarray
) -> tuple[list[tuple[int, int]], list[int]]:
    """Which of these rows, of these labels, go to which of the clusters that are empty; and the
    clusters that stay empty. By rank, and of equals the first row."""
    sizes, labels = sizes.copy(), labels.copy()
    empty = list(np.flatnonzero(sizes == 0))
    moves: list[tuple[int, int]] = []
    for at in np.lexsort((rows, -ranks)):
        if not empty:
            break
        if sizes[labels[at]] <= 1:
            continue
        sizes[labels[at]] -= 1
        cluster = int(empty.pop(0))
        sizes[cluster] = 1
        moves.append((int(rows[at]), cluster))
    return moves, [int(cluster) for cluster in empty]


def sizes_of(labels: np.ndarray, weights: np.ndarray | None, n_clusters: int) -> np.ndarray:
    """How many rows with weight each cluster has."""
    return _core.cluster_sizes(labels, weights, n_clusters)


def warn_if_fewer(found: int, n_clusters: int) -> None:
    """Say so where the number of clusters shrinks (SparseKmeans, appendix B.2)."""
    if found >= n_clusters:
        return
    left = "1 cluster" if found == 1 else f"{found} clusters"
    warnings.warn(
        f"Number of distinct clusters ({found}) found smaller than n_clusters ({n_clusters}). "
        f"Possibly due to duplicate points in X. The clustering continues with {left}; "
        f"see n_clusters_.",
        ConvergenceWarning,
        stacklevel=2,
    )
