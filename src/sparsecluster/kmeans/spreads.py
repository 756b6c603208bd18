"""How far rows spread within their clusters, as sums that no division of the rows changes."""

from __future__ import annotations

from typing import Any

import numpy as np

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
