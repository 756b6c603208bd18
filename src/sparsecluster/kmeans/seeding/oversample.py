"""More rows than needed, of which the farthest apart are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecluster.kmeans.seeding.random_rows import random_rows
from sparsecluster.kmeans.seeding.shared import farthest_rows, mean_row
from sparsecluster.kmeans.setting import SeedSetting, unheard
from sparsecluster.rows.rows import Rows


def oversample(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, oversampling: float = 4.0
) -> np.ndarray:
    """More rows than needed at random; of these, those that lie farthest apart are kept."""
    more = min(rows.n_rows, int(np.ceil(max(1.0, oversampling) * n_clusters)))
    drawn = np.sort(random_rows(rows, more, setting))
    few = rows.select(drawn)
    alike = replace(setting, weights=None)
    start = mean_row(few, alike)
    first = farthest_rows(few, 1, replace(alike, progress=unheard), start=start)
    if not len(first):
        return drawn[:1]
    others = farthest_rows(few, n_clusters - 1, alike, start=few.take(first))
    return drawn[np.concatenate([first, others])]
