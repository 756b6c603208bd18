"""Draws by distance, one center after another: k-means++, greedy and plain, and spkm++."""

from __future__ import annotations

import numpy as np

from sparsecluster.kmeans.seeding.shared import draw_by_distance, n_candidates
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.rows import Rows


def greedy_kmeans_plusplus(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, n_local_trials: int | None = None
) -> np.ndarray:
    """Each center the best of several draws by squared distance (Arthur, Vassilvitskii 2007)."""
    trials = n_candidates(n_clusters) if n_local_trials is None else int(n_local_trials)
    return draw_by_distance(rows, n_clusters, setting, trials)


def plain_kmeans_plusplus(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Each center drawn in proportion to the squared distance to the nearest one so far."""
    return draw_by_distance(rows, n_clusters, setting, 1)


def spkm_plusplus(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Each center drawn in proportion to 1.5 - cosine with the nearest one so far.

    The slides give this once as 1.5 (1 - cos) and once as 1.5 - cos. The second is meant: only it
    adds up to the objective 1.5 n - sum cos that it is divided by, and the theorem is about it.
    """
    return draw_by_distance(rows, n_clusters, setting, 1, setting.metric.floor)
