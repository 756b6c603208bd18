"""k-means|| (Bahmani et al. 2012), of rows that are here or that workers have.

Whoever has the rows, the same ones are drawn: what is added up over all of them is exact, and each
row has its own place in the stream of random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans.seeding.plusplus import greedy_kmeans_plusplus
from sparsecluster.kmeans.seeding.shared import SampledRows, first_row, nearest_of
from sparsecluster.kmeans.setting import SeedSetting, Setting, part_of
from sparsecluster.rows.grouped import group_sums, pieces_by_group
from sparsecluster.rows.rows import Rows


class DrawnRows(SampledRows, Protocol):
    """Rows, and how far each of them is from those that were drawn so far."""

    def whole(self) -> Rows:
        """All of them, in this process."""

    def approach(self, centers: sp.csr_array) -> float:
        """Draw these, too; the sum of the weighted squared distances to the nearest."""

    def draw(self, random_state: np.random.RandomState, total: float, wanted: float) -> np.ndarray:
        """Rows at random, about so many, by their shares of the total."""

    def weights_near(self, centers: sp.csr_array) -> np.ndarray:
        """The weight of the rows that are nearest to each of the centers."""


def kmeans_parallel(
    rows: Rows | DrawnRows,
    n_clusters: int,
    setting: SeedSetting,
    *,
    oversampling: float = 2.0,
    rounds: int = 5,
) -> np.ndarray:
    """A few rounds of many draws, then greedy k-means++ on what was drawn.

    `oversampling` times `n_clusters` rows are expected per round.
    """
    drawn = RowsHere(rows, setting) if isinstance(rows, Rows) else rows
    chosen = np.array([first_row(drawn.n_rows, setting)])
    total, rounds = drawn.approach(drawn.take(chosen)), int(rounds)
    for number in range(rounds):
        if not total > 0:
            break
        new = drawn.draw(setting.random_state, total, oversampling * n_clusters)
        if len(new):
            total = drawn.approach(drawn.take(new))
            chosen = np.concatenate([chosen, new])
        setting.progress((number + 1) / (rounds + 1))
    setting = replace(setting, progress=part_of(setting.progress, rounds, rounds + 1))
    chosen = np.unique(chosen)
    if len(chosen) < n_clusters:
        # Too few rounds for so many centers: the rest as k-means++ would.
        return greedy_kmeans_plusplus(drawn.whole(), n_clusters, setting)
    weights = drawn.weights_near(drawn.take(chosen))
    few = drawn.select(chosen)
    found = greedy_kmeans_plusplus(few, n_clusters, replace(setting, weights=weights))
    return chosen[found]


class Distances:
    """The distances of some rows to those that were drawn; sums over them add up exactly."""

    def __init__(self, rows: Rows, setting: Setting) -> None:
        self._rows, self._setting = rows, setting
        weights = setting.weights
        self._weights = np.ones(rows.n_rows) if weights is None else weights
        self._distance2: np.ndarray | None = None

    def approach(self, centers: sp.csr_array) -> np.ndarray:
        """Draw these, too; the sum of the weighted squared distances, exact."""
        found = nearest_of(self._rows, centers, self._setting)[1]
        known = self._distance2
        self._distance2 = found if known is None else np.minimum(known, found)
        return _core.exact_limbs(self._weights * self._distance2)

    def draw(self, random_state: np.random.RandomState, total: float, wanted: float) -> np.ndarray:
        """Rows at random, by their shares of the total."""
        drawn = random_state.random_sample(self._rows.n_rows)
        assert self._distance2 is not None
        return np.flatnonzero(drawn * total < wanted * (self._weights * self._distance2))

    def weights_near(self, centers: sp.csr_array, n_rows: int, largest: float) -> np.ndarray:
        """The weights of the rows nearest to each center, as pieces that add up exactly; for so
        many rows in all, none of a larger weight."""
        nearest, _ = nearest_of(self._rows, centers, self._setting)
        return pieces_by_group(nearest, self._weights, centers.shape[0], n_rows, largest)


class RowsHere:
    """Rows of this process."""

    def __init__(self, rows: Rows, setting: Setting) -> None:
        self._rows, self._distances = rows, Distances(rows, setting)
        self._largest = 1.0 if setting.weights is None else float(setting.weights.max())
        self.take, self.select = rows.take, rows.select

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self._rows.n_rows

    def whole(self) -> Rows:
        """The rows."""
        return self._rows

    def approach(self, centers: sp.csr_array) -> float:
        """Draw these, too."""
        return _core.exact_value(self._distances.approach(centers))

    def draw(self, random_state: np.random.RandomState, total: float, wanted: float) -> np.ndarray:
        """Rows at random."""
        return self._distances.draw(random_state, total, wanted)

    def weights_near(self, centers: sp.csr_array) -> np.ndarray:
        """The weight of the rows that are nearest to each of the centers."""
        return group_sums([self._distances.weights_near(centers, self.n_rows, self._largest)])


def states_at(random_state: np.random.RandomState, counts: Sequence[int]) -> list[Any]:
    """Where the stream of uniform numbers is for each part of the rows, one number per row; the
    generator goes on behind them all."""
    states, step = [], 1 << 20
    for count in counts:
        states.append(random_state.get_state(legacy=True))
        for begin in range(0, count, step):
            random_state.random_sample(min(step, count - begin))
    return states
