"""Markov chains in place of the passes of k-means++ (Bachem et al. 2016)."""

from __future__ import annotations

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.seeding.shared import first_row
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.rows import Rows


def mcmc(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, chain_length: int = 100
) -> np.ndarray:
    """Draws of k-means++ (of spkm++ for the cosine) approximated by Markov chains: one pass."""
    first = first_row(rows, setting)
    chain_seed = int(setting.random_state.randint(np.iinfo(np.int64).max, dtype=np.int64))
    indices = _core.chain_seeds(
        rows.core, n_clusters, int(chain_length), first, chain_seed, setting.weights,
        setting.metric.floor, setting.n_threads,
        lambda found: setting.progress(found / n_clusters),
    )  # fmt: skip
    return np.asarray(indices)
