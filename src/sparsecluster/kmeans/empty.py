"""Empty clusters are refilled with the farthest rows (SparseKmeans, algorithm E.1)."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.rows import Rows

# A row this near to its center, relative to its norm, lies on it: moving it would gain nothing.
COINCIDES = 2.0**-40
PART = 1 << 20


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
    sizes = _sizes(labels, weights, centers.n_clusters)
    empty = list(np.flatnonzero(sizes == 0))
    if not empty:
        return [], []
    distance2 = _core.own_distances(rows.core, centers, labels, setting.n_threads)
    norm2 = rows.core.norm2[: len(labels)]
    movable = distance2 > COINCIDES**2 * norm2
    if weights is not None:
        movable &= weights > 0
    movable &= setting.metric.useful(norm2)
    candidates = np.flatnonzero(movable)
    # Without the last digits, so that equally far rows come in their order.
    mantissa, exponent = np.frexp(distance2[candidates])
    ranked = np.ldexp(np.rint(mantissa * 2.0**40), exponent)
    farthest = candidates[np.argsort(-ranked, kind="stable")]
    moved: list[int] = []
    for row in farthest:
        if not empty:
            break
        if sizes[labels[row]] <= 1:
            continue
        sizes[labels[row]] -= 1
        labels[row] = empty.pop(0)
        sizes[labels[row]] = 1
        moved.append(int(row))
    return moved, [int(cluster) for cluster in empty]


def _sizes(labels: np.ndarray, weights: np.ndarray | None, n_clusters: int) -> np.ndarray:
    sizes = np.zeros(n_clusters, dtype=np.int64)
    # A part at a time, because numpy counts on a copy of 64 bits.
    for begin in range(0, len(labels), PART):
        counted = labels[begin : begin + PART]
        if weights is not None:
            counted = counted[weights[begin : begin + PART] > 0]
        sizes += np.bincount(counted, minlength=n_clusters)
    return sizes


def warn_if_fewer(found: int, n_clusters: int) -> None:
    """Say so where the number of clusters shrinks (SparseKmeans, appendix B.2)."""
    if found >= n_clusters:
        return
    warnings.warn(
        f"Number of distinct clusters ({found}) found smaller than n_clusters ({n_clusters}). "
        f"Possibly due to duplicate points in X. The clustering continues with {found} clusters; "
        f"see n_clusters_.",
        ConvergenceWarning,
        stacklevel=2,
    )
