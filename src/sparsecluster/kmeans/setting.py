"""What every step of a fit may use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sparsecluster.rows.metric import EUCLIDEAN, Metric
from sparsecluster.run.history import Reporter, SeedingRecord

#: Called with the share of the seeding that is done.
Progress = Callable[[float], object]


def unheard(share: float) -> None:
    """Progress that nobody asked for."""


def part_of(progress: Progress, number: int, parts: int) -> Progress:
    """Progress of one of several parts, as progress of the whole."""
    return lambda share: progress((number + share) / parts)


def told(report: Reporter, run: int = 0) -> Progress:
    """Progress as records; their time begins now."""
    started = time.perf_counter()
    return lambda share: report(SeedingRecord(share, time.perf_counter() - started, run))


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
    progress: Progress = unheard

    @property
    def chances(self) -> np.ndarray | None:
        """Weights as chances to be drawn; None where all are equal."""
        weights = self.weights
        if weights is None or np.all(weights == weights[0]):
            return None
        return weights / weights.sum()
