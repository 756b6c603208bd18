"""Rows at random."""

from __future__ import annotations

import numpy as np

from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.rows import Rows


def random_rows(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Rows at random, in proportion to their weights, each at most once."""
    chances = setting.chances
    possible = rows.n_rows if chances is None else int(np.count_nonzero(chances))
    return setting.random_state.choice(
        rows.n_rows, min(possible, n_clusters), replace=False, p=chances
    )
