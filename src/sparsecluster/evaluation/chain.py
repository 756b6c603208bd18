"""Clusterings of growing K, each made from the one before: clusters are split, then all rows move.

A step takes the clusters whose split in two lowers the cost most, and lets k-means run from there.
The cost never goes up: a split lowers it, and so does every iteration. Then, while there is a split
that gains more than the cheapest merge costs, both are done, and kept if the cost is lower.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Loop, Task
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.resources import threads_for
from sparsecluster.rows.rows import Rows, as_rows

# A split is the best of some starts after some iterations, and some more of these. Few rows need
# more starts, and can afford them.
FEW_ROWS, STARTS_OF_FEW, STARTS_OF_MANY = 500, 4, 2
FIRST_ITERATIONS, MORE_ITERATIONS = 2, 3
# A run ends with the iteration that takes off the cost less than this share of all that it took
# off, because the next one goes on from there; the first one of a chain does more.
LITTLE, LITTLE_OF_FIRST = 0.05, 0.005
# A split is looked for again when so many of the rows of its cluster came or went.
STALE = 0.2
MOST_EXCHANGES = 1  # per step
MOST_COMPARED = 2000  # clusters up to which pairs are looked at for a merge


@dataclass(frozen=True, kw_only=True)
class Split:
    """A cluster as two: what that takes off the cost, and the two centers."""

    gain: float
    centers: sp.csr_array


@dataclass(frozen=True, kw_only=True)
class Link:
    """A clustering of a chain: labels, the centers that they make, and the cost of these.

    `splits` are the splits of its clusters that are known, `iterations` those since the last link.
    """

    labels: np.ndarray
    centers: sp.csr_array
    cost: float
    splits: dict[int, Split]
    iterations: int = 0

    @property
    def k(self) -> int:
        return int(self.centers.shape[0])


class Chain:
    """Links of growing K on the same rows; what is random depends on `seed` alone."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed

    # --- links --------------------------------------------------------------------------------

    def first(self, k: int, n_init: int) -> Link:
        """The best of several runs from k-means++, improved by exchanges."""
        links = []
        for number in range(n_init):
            chance = np.random.RandomState([self._seed, number])
            setting = replace(self._task.setting, random_state=chance)
            start = started(self._task.rows, k, setting)
            links.append(run(self._task, start, little=LITTLE_OF_FIRST))
        best = min(links, key=lambda link: link.cost)
        return self._exchanged(best)

    def next(self, link: Link, k: int) -> Link:
        """From a link to a larger K; a smaller one than asked for where rows are not distinct."""
        iterations = 0
        while link.k < k:
            splits = self._splits(link)
            ranked = sorted(splits, key=lambda one: (-splits[one].gain, one))
            useful = [one for one in ranked if splits[one].gain > 0][: k - link.k]
            if not useful:
                break
            centers = _with_splits(link.centers, splits, useful)
            found = run(self._task, centers_.to_core(centers), link.cost)
            if not found.cost <= link.cost:
                break
            iterations += found.iterations
            link = replace(found, splits=_still_known(splits, link.labels, found.labels, useful))
        link = self._exchanged(replace(link, iterations=0))
        return replace(link, iterations=link.iterations + iterations)

    def _exchanged(self, link: Link) -> Link:
        """Merge the two clusters that are cheapest to merge and split another, while that pays."""
        for _ in range(MOST_EXCHANGES):
            if not 2 < link.k <= MOST_COMPARED:
                break
            link = replace(link, splits=self._splits(link))
            one, other, price = self._cheapest_merge(link)
            left = [k for k in link.splits if k not in (one, other)]
            best = max(left, key=lambda k: (link.splits[k].gain, -k), default=None)
            if best is None or link.splits[best].gain <= price:
                break
            centers = self._merged(link, one, other, best)
            found = run(self._task, centers_.to_core(centers), link.cost)
            iterations = link.iterations + found.iterations
            if not found.cost < link.cost or found.k < link.k:
                return replace(link, iterations=iterations)
            known = _still_known(link.splits, link.labels, found.labels, [one, other, best])
            link = replace(found, splits=known, iterations=iterations)
        return link

    # --- splits and merges --------------------------------------------------------------------

    def _splits(self, link: Link) -> dict[int, Split]:
        """The splits of all clusters; those that are not known are looked for."""
        missing = [k for k in range(link.k) if k not in link.splits]
        if not missing:
            return link.splits
        found = dict(link.splits)
        order = np.argsort(link.labels, kind="stable")
        ends = np.searchsorted(link.labels[order], np.arange(link.k + 1))
        for cluster in missing:
            members = order[ends[cluster] : ends[cluster + 1]]
            found[cluster] = self._split(members, link.centers[[cluster]])
        return dict(sorted(found.items()))

    def _split(self, members: np.ndarray, center: sp.csr_array) -> Split:
        """2-means of the rows of a cluster."""
        task, none = self._task, Split(gain=0.0, centers=center)
        weights = task.setting.weights
        if weights is not None:
            members = members[weights[members] > 0]
        if len(members) < 2:
            return none
        rows, columns = apart(task.rows, members)
        if not task.setting.metric.useful(rows.core.norm2).any():
            return none
        setting = replace(
            task.setting,
            weights=None if weights is None else weights[members],
            n_threads=threads_for(2 * rows.core.nnz, task.setting.n_threads),
            random_state=np.random.RandomState([self._seed, len(members), int(members[0])]),
        )
        # The mean of these rows has no other columns than they have.
        inside = (center.data, np.searchsorted(columns, center.indices), center.indptr)
        core = centers_.to_core(sp.csr_array(inside, shape=(1, rows.n_features)))
        together = np.zeros(len(members), dtype=np.int32)
        cost = _core.own_cost(rows.core, core, together, setting.weights, setting.n_threads)
        if not cost > 0:
            return none
        statistics = _core.column_stats(rows.core, setting.weights)
        small = replace(
            task, rows=rows, setting=setting, columns=statistics, max_iter=FIRST_ITERATIONS
        )
        n_starts = STARTS_OF_FEW if len(members) < FEW_ROWS else STARTS_OF_MANY
        starts = [run(small, started(rows, 2, setting)) for _ in range(n_starts)]
        best = min((one for one in starts if one.k == 2), key=lambda one: one.cost, default=None)
        if best is None:
            return none
        more = replace(small, max_iter=MORE_ITERATIONS)
        best = run(more, centers_.to_core(best.centers), cost)
        if best.k < 2:
            return none
        indices, shape = columns[best.centers.indices], (2, task.rows.n_features)
        halves = sp.csr_array((best.centers.data, indices, best.centers.indptr), shape=shape)
        return Split(gain=cost - best.cost, centers=halves)

    def _costs(self, link: Link) -> np.ndarray:
        """The cost of each cluster."""
        task, centers = self._task, centers_.to_core(link.centers)
        distance2 = np.asarray(
            _core.own_distances(task.rows.core, centers, link.labels, task.setting.n_threads)
        )
        weights = task.setting.weights
        weighed = distance2 if weights is None else weights * distance2
        return np.bincount(link.labels, weighed, minlength=link.k)

    def _sums(self, link: Link) -> np.ndarray:
        """What the center of each cluster is to be multiplied by to give the sum of its rows."""
        setting = self._task.setting
        sizes = np.bincount(link.labels, setting.weights, minlength=link.k).astype(np.float64)
        if setting.metric.centers_are_means:
            return sizes
        # A row at unit length lies at |x - c|^2 = 2 - 2 cos from its center.
        return np.maximum(sizes - self._costs(link) / 2, 0.0)

    def _cheapest_merge(self, link: Link) -> tuple[int, int, float]:
        """Two clusters, and what it costs to make them one."""
        sums, distances = self._sums(link), np.empty((link.k, link.k))
        core = centers_.to_core(link.centers)
        rows = as_rows(link.centers, n_threads=1)
        _core.all_distances(rows.core, core, distances, self._task.setting.n_threads)
        one, other = sums[:, None], sums[None, :]
        with np.errstate(invalid="ignore", divide="ignore"):
            if self._task.setting.metric.centers_are_means:
                price = one * other / (one + other) * distances**2
            else:
                # Of two directions: 2 (a + b - |a + b|).
                together = (one + other) ** 2 - one * other * distances**2
                price = 2 * (one + other - np.sqrt(np.maximum(together, 0.0)))
        price[np.isnan(price)] = 0.0
        price[np.tril_indices(link.k)] = np.inf
        first, second = np.unravel_index(int(np.argmin(price)), price.shape)
        return int(first), int(second), float(price[first, second])

    def _merged(self, link: Link, one: int, other: int, cluster: int) -> sp.csr_array:
        """The centers with two clusters as one, in the place of the first, and another as two."""
        weights, halves = self._sums(link)[[one, other]], link.splits[cluster].centers
        shares = weights / weights.sum() if weights.sum() > 0 else np.full(2, 0.5)
        mean = sp.csr_array(shares[None, :] @ link.centers[[one, other]])
        parts = [link.centers[[k]] for k in range(link.k)]
        parts[one] = self._task.setting.metric.centers(mean)
        parts[cluster], parts[other] = halves[[0]], halves[[1]]
        return sp.csr_array(sp.vstack(parts, format="csr"))


def apart(rows: Rows, members: np.ndarray) -> tuple[Rows, np.ndarray]:
    """Some rows as a matrix of their own, and the columns that it has: work on a small cluster does
    not depend on how many there are in all."""
    if not rows.sparse:
        return rows.select(members), np.arange(rows.n_features)
    matrix = rows.picked(members)
    occurs = np.zeros(rows.n_features, dtype=bool)
    occurs[matrix.indices] = True
    columns = np.flatnonzero(occurs)
    numbers = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    entries = (matrix.data, numbers[matrix.indices], matrix.indptr)
    small = sp.csr_array(entries, shape=(len(members), max(len(columns), 1)))
    return as_rows(small, n_threads=1), columns


def started(rows: Rows, k: int, setting: SeedSetting) -> _core.Centers:
    """Centers by k-means++; fewer than asked for where rows are not distinct."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return starting_centers("k-means++", rows, k, setting, None)


def run(
    task: Task, centers: _core.Centers, before: float | None = None, *, little: float = LITTLE
) -> Link:
    """K-means from these centers, until it has settled or an iteration takes little off the cost.

    That is little against what the run took off the cost `before`, or after its first iteration.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        loop, costs = Loop(task, RunState.at(centers)), [] if before is None else [before]
        while loop.goes_on:
            costs.append(loop.step().cost)
            if len(costs) > 1 and costs[-2] - costs[-1] < little * (costs[0] - costs[-1]):
                break
    return Link(
        labels=loop.labels,
        centers=centers_.from_core(loop.centers),
        cost=costs[-1],
        splits={},
        iterations=len(loop.history),
    )


def _with_splits(
    centers: sp.csr_array, splits: dict[int, Split], clusters: list[int]
) -> sp.csr_array:
    """The centers with the first half of each split in its place and the second at the end."""
    parts = [centers[[k]] for k in range(centers.shape[0])]
    for cluster in clusters:
        parts[cluster] = splits[cluster].centers[[0]]
        parts.append(splits[cluster].centers[[1]])
    return sp.csr_array(sp.vstack(parts, format="csr"))


def _still_known(
    splits: dict[int, Split], before: np.ndarray, after: np.ndarray, changed: list[int]
) -> dict[int, Split]:
    """The splits of clusters that kept nearly all of their rows, but for those that changed."""
    k = max(splits, default=-1) + 1
    moved = before != after
    sizes = np.bincount(before, minlength=k)
    changes = np.bincount(before[moved], minlength=k)[:k]
    changes = changes + np.bincount(after[moved], minlength=k)[:k]
    return {
        cluster: split
        for cluster, split in splits.items()
        if cluster not in changed and changes[cluster] <= STALE * sizes[cluster]
    }
