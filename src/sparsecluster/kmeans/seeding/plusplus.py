"""Draws by distance: k-means++, greedy and plain, spkm++, and what approximates them."""

from __future__ import annotations

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.seeding.shared import draw_by_distance, first_row, n_candidates
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


def mcmc(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, chain_length: int = 100
) -> np.ndarray:
    """Markov chains in place of the passes of k-means++, or spkm++ (Bachem et al. 2016)."""
    first = first_row(rows.n_rows, setting)
    chain_seed = int(setting.random_state.randint(np.iinfo(np.int64).max, dtype=np.int64))
    indices = _core.chain_seeds(
        rows.core, n_clusters, int(chain_length), first, chain_seed, setting.weights,
        setting.metric.floor, setting.n_threads,
        lambda found: setting.progress(found / n_clusters),
    )  # fmt: skip
    return np.asarray(indices)
