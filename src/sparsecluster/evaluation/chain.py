"""Clusterings of growing K, each made from the one before: clusters are split, then all rows move.

A step takes the clusters whose split in two lowers the cost most, and lets k-means run from there.
The cost never goes up: a split lowers it, and so does every iteration. Then, while there is a split
that gains more than the cheapest merge costs, both are done, and kept if the cost is lower.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Loop, Task
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.tree.splitting import Splitter

# A split is one run of so many iterations; few rows need several starts, of which the best counts,
# and can afford them.
FEW_ROWS, STARTS_OF_FEW, STARTS_OF_MANY = 1000, 4, 1
SPLIT_ITERATIONS = 5
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
    core: _core.Centers | None = None  #: the same centers, where they came from the core

    @property
    def k(self) -> int:
        return int(self.centers.shape[0])

    @property
    def core_centers(self) -> _core.Centers:
        return centers_.to_core(self.centers) if self.core is None else self.core


class Chain:
    """Links of growing K on the same rows; what is random depends on `seed` alone."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._measured: tuple[Link, np.ndarray] | None = None  # distances of rows to their centers
        self._compared: tuple[Link, np.ndarray] | None = None  # distances between centers
        self._changed: tuple[Link, Link, np.ndarray] | None = None  # centers from link to link
        self._loop: Loop | None = None  # of the last run

    def distances(self, link: Link) -> np.ndarray:
        """The squared distance of each row to its center; where that stayed it is known."""
        if self._measured is not None and self._measured[0].centers is link.centers:
            return self._measured[1]
        rows, centers, labels = self._task.rows, link.core_centers, link.labels
        n_threads = self._task.setting.n_threads
        if self._measured is None or rows.streamed:
            distance2 = np.asarray(_core.own_distances(rows.core, centers, labels, n_threads))
        else:
            before, known = self._measured
            distance2, moved = known.copy(), self._changed_centers(before, link)
            some = np.flatnonzero(moved[labels] | (before.labels != labels))
            distance2[some] = _core.own_distances(
                rows.select(some).core, centers, labels[some], n_threads
            )
        self._measured = link, distance2
        return distance2

    # --- links --------------------------------------------------------------------------------

    def first(self, k: int, n_init: int) -> Link:
        """The best of several runs from k-means++, improved by exchanges."""
        links = []
        for number in range(n_init):
            chance = np.random.RandomState([self._seed, number])
            setting = replace(self._task.setting, random_state=chance)
            start = started(self._task.rows, k, setting)
            links.append(self._run(start, little=LITTLE_OF_FIRST))
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
            halves = sp.csr_array(sp.vstack([splits[one].centers for one in useful], format="csr"))
            places = np.empty(2 * len(useful), dtype=np.int64)
            places[::2], places[1::2] = useful, link.k + np.arange(len(useful))
            found = self._run_from(link, places, halves)
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
            exchanged = self._merged(link, one, other, best)
            found = self._run_from(link, np.array([best, other, one]), exchanged)
            iterations = link.iterations + found.iterations
            if not found.cost < link.cost or found.k < link.k:
                return replace(link, iterations=iterations)
            known = _still_known(link.splits, link.labels, found.labels, [one, other, best])
            link = replace(found, splits=known, iterations=iterations)
        return link

    # --- runs ---------------------------------------------------------------------------------

    def _run_from(self, link: Link, places: np.ndarray, others: sp.csr_array) -> Link:
        """K-means from the centers of a link, with others in some places and at the end."""
        centers = link.core_centers.replaced(places, centers_.to_core(others))
        if self._loop is not None and self._loop.centers is link.core:
            self._loop.restart(centers, places.tolist())
            return self._ended(link.cost)
        return self._run(centers, link.cost)

    def _run(
        self, centers: _core.Centers, before: float | None = None, *, little: float = LITTLE
    ) -> Link:
        """K-means from these centers."""
        start = RunState(centers=centers_.from_core(centers), history=[])
        self._loop = Loop(self._task, start)
        return self._ended(before, little=little)

    def _ended(self, before: float | None, *, little: float = LITTLE) -> Link:
        """The end of the run: when it has settled, or an iteration takes little off the cost.

        That is little against what the run took off the cost `before`, or after its first
        iteration.
        """
        loop = self._loop
        assert loop is not None
        costs = [] if before is None else [before]
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
            core=loop.centers,
        )

    # --- splits and merges --------------------------------------------------------------------

    def _splits(self, link: Link) -> dict[int, Split]:
        """The splits of all clusters; those that are not known are looked for."""
        missing = [k for k in range(link.k) if k not in link.splits]
        if not missing:
            return link.splits
        order = np.argsort(link.labels, kind="stable").astype(np.int32)
        ends = np.searchsorted(link.labels[order], np.arange(link.k + 1))
        members = {k: self._weighing(order[ends[k] : ends[k + 1]]) for k in missing}
        costs = self._costs(link)
        found = link.splits | {k: Split(gain=0.0, centers=link.centers[[k]]) for k in missing}
        open_ = [k for k in missing if len(members[k]) > 1 and costs[k] > 0]
        for few in (False, True):
            some = [k for k in open_ if (len(members[k]) < FEW_ROWS) == few]
            if not some:
                continue
            splitter = self._splitter(STARTS_OF_FEW if few else STARTS_OF_MANY)
            seeds = np.array([self._seed_of(members[k]) for k in some], dtype=np.uint64)
            for k, split in zip(
                some, splitter.split([members[k] for k in some], seeds), strict=True
            ):
                if split.n_children == 2:
                    gain = float(costs[k] - split.costs.sum())
                    found[k] = Split(gain=gain, centers=split.centers)
        return dict(sorted(found.items()))

    def _weighing(self, members: np.ndarray) -> np.ndarray:
        """Those of these rows that have a weight."""
        weights = self._task.setting.weights
        return members if weights is None else members[weights[members] > 0]

    def _seed_of(self, members: np.ndarray) -> int:
        """The seed of a split, which depends on the cluster alone."""
        entropy = [self._seed, len(members), int(members[0])]
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])

    def _splitter(self, n_starts: int) -> Splitter:
        task = self._task
        return Splitter(
            rows=task.rows,
            weights=task.setting.weights,
            unit=not task.setting.metric.centers_are_means,
            init="k-means++",
            n_init=n_starts,
            max_iter=SPLIT_ITERATIONS,
            cost_tol=0.0,
            shift_tol=-1.0,
            n_threads=task.setting.n_threads,
        )

    def _costs(self, link: Link) -> np.ndarray:
        """The cost of each cluster."""
        distance2, weights = self.distances(link), self._task.setting.weights
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
        sums, distances = self._sums(link), self._center_distances(link)
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

    def _center_distances(self, link: Link) -> np.ndarray:
        """Distances between the centers; those of two that stayed are known."""
        distances, moved = np.empty((link.k, link.k)), np.ones(link.k, dtype=bool)
        if self._compared is not None:
            before, known = self._compared
            moved = self._changed_centers(before, link)
            n_known = min(before.k, link.k)
            distances[:n_known, :n_known] = known[:n_known, :n_known]
        some = np.flatnonzero(moved)
        if len(some):  # there are no matrices without rows
            found = np.empty((len(some), link.k))
            rows, n_threads = as_rows(link.centers[some], n_threads=1), self._task.setting.n_threads
            _core.all_distances(rows.core, link.core_centers, found, n_threads)
            distances[some], distances[:, some] = found, found.T
        self._compared = link, distances
        return distances

    def _changed_centers(self, before: Link, link: Link) -> np.ndarray:
        """Which centers of a link are others than before, or new; known for the last two links."""
        changed = self._changed
        if (
            changed is None
            or changed[0].centers is not before.centers
            or changed[1].centers is not link.centers
        ):
            changed = before, link, changed_centers(before.centers, link.centers)
        self._changed = changed
        return changed[2]

    def _merged(self, link: Link, one: int, other: int, cluster: int) -> sp.csr_array:
        """The halves of a cluster, and two others as one."""
        weights, halves = self._sums(link)[[one, other]], link.splits[cluster].centers
        shares = weights / weights.sum() if weights.sum() > 0 else np.full(2, 0.5)
        mean = sp.csr_array(shares[None, :] @ link.centers[[one, other]])
        merged = self._task.setting.metric.centers(mean)
        return sp.csr_array(sp.vstack([halves, merged], format="csr"))


def changed_centers(before: sp.csr_array, after: sp.csr_array) -> np.ndarray:
    """Which centers are others than they were, or new."""

    def same(k: int) -> bool:
        one = slice(before.indptr[k], before.indptr[k + 1])
        other = slice(after.indptr[k], after.indptr[k + 1])
        return np.array_equal(before.indices[one], after.indices[other]) and np.array_equal(
            before.data[one], after.data[other]
        )

    n_known = before.shape[0]
    return np.array([k >= n_known or not same(k) for k in range(after.shape[0])])


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
    return starting_centers("k-means++", rows, k, setting, None)


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
