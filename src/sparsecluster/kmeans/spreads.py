"""Of clusters: weights of their rows, how far these spread, and what a stream would have seen of
them; as sums that no division of the rows changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.grouped import group_sums, pieces_by_group


def spread_pieces(
    labels: np.ndarray, norm2: np.ndarray, weights: np.ndarray | None, n_clusters: int, range: tuple
) -> dict[str, Any]:
    """Weights, weighted squared norms and numbers of rows by cluster, to be added to those of other
    rows; `range` is that of all rows."""
    n_rows, max_norm, max_weight, _ = range
    share = np.ones(len(labels)) if weights is None else weights
    largest = 2 * max_weight * max_norm * max_norm  # a bound, rounding or not
    return {
        "sizes": pieces_by_group(labels, share, n_clusters, n_rows, max_weight),
        "squares": pieces_by_group(labels, share * norm2, n_clusters, n_rows, largest),
        "counts": np.bincount(labels, minlength=n_clusters),
    }


def added_spreads(pieces: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sums that they make."""
    return group_sums([pieces["sizes"]]), group_sums([pieces["squares"]]), pieces["counts"]


def seen_pieces(
    rows: _core.Rows, centers: _core.Centers, labels: np.ndarray, setting: Setting, range: tuple
) -> dict[str, Any]:
    """The weight that centers have seen of these rows, and how many times the center the rows add
    up to; to be added to those of other rows."""
    n_rows, _, max_weight, _ = range
    norm2, n_clusters = rows.norm2, centers.n_clusters
    share = np.ones(len(labels)) if setting.weights is None else setting.weights
    share = share * setting.metric.useful(norm2)
    counts = pieces_by_group(labels, share, n_clusters, n_rows, max_weight)
    if setting.metric.centers_are_means:
        return {"counts": counts, "lengths": counts}
    distance2 = _core.own_distances(rows, centers, labels, setting.n_threads)
    cosines = 0.5 * (norm2 + 1 - distance2)
    lengths = pieces_by_group(labels, share * cosines, n_clusters, n_rows, 2 * max_weight)
    return {"counts": counts, "lengths": lengths}


def added_seen(pieces: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The sums that they make."""
    counts, lengths = group_sums([pieces["counts"]]), group_sums([pieces["lengths"]])
    # Where rows have moved on, their cosines may add up to nothing: the center stays as it is.
    return counts, np.where(lengths > 1e-9 * counts, lengths, counts)
