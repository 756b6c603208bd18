"""What every step of a fit may use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Weights of the rows, memory, threads, metric. By "cosine" the rows have unit norm."""

    weights: np.ndarray | None = None
    memory_limit: int = 2**62
    n_threads: int = 1
    metric: str = "euclidean"


@dataclass(frozen=True, kw_only=True)
class SeedSetting(Setting):
    """The same for what draws at random."""

    random_state: np.random.RandomState
