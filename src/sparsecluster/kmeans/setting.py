"""What every step of a fit may use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsecluster.rows.metric import EUCLIDEAN, Metric


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Weights of the rows, memory, threads, metric; the rows are points of that metric."""

    weights: np.ndarray | None = None
    memory_limit: int = 2**62
    n_threads: int = 1
    metric: Metric = EUCLIDEAN


@dataclass(frozen=True, kw_only=True)
class SeedSetting(Setting):
    """The same for what draws at random."""

    random_state: np.random.RandomState

    @property
    def chances(self) -> np.ndarray | None:
        """Weights as chances to be drawn; None where all are equal."""
        weights = self.weights
        if weights is None or np.all(weights == weights[0]):
            return None
        return weights / weights.sum()
