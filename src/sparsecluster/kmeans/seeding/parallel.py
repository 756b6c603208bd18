"""k-means||: a few rounds of many draws (Bahmani et al. 2012)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecluster.kmeans.seeding.plusplus import greedy_kmeans_plusplus
from sparsecluster.kmeans.seeding.shared import first_row, nearest_of
from sparsecluster.kmeans.setting import SeedSetting, part_of
from sparsecluster.rows.rows import Rows


def kmeans_parallel(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, oversampling: float = 2.0, rounds: int = 5
) -> np.ndarray:
    """k-means|| (Bahmani et al. 2012): a few rounds of many draws, then greedy k-means++ on them.

    `oversampling` times `n_clusters` rows are expected per round.
    """
    weights = np.ones(rows.n_rows) if setting.weights is None else setting.weights
    chosen = np.array([first_row(rows, setting)])
    distance2 = nearest_of(rows, rows.take(chosen), setting)[1]
    rounds = int(rounds)
    for number in range(rounds):
        chance = weights * distance2
        total = chance.sum()
        if not total > 0:
            break
        drawn = setting.random_state.random_sample(rows.n_rows)
        new = np.flatnonzero(drawn * total < oversampling * n_clusters * chance)
        if len(new):
            distance2 = np.minimum(distance2, nearest_of(rows, rows.take(new), setting)[1])
            chosen = np.concatenate([chosen, new])
        setting.progress((number + 1) / (rounds + 1))
    setting = replace(setting, progress=part_of(setting.progress, rounds, rounds + 1))
    chosen = np.unique(chosen)
    if len(chosen) < n_clusters:
        # Too few rounds for so many centers: the rest as k-means++ would.
        return greedy_kmeans_plusplus(rows, n_clusters, setting)
    nearest, _ = nearest_of(rows, rows.take(chosen), setting)
    counts = np.bincount(nearest, weights, minlength=len(chosen))
    few = rows.select(chosen)
    found = greedy_kmeans_plusplus(few, n_clusters, replace(setting, weights=counts))
    return chosen[found]
