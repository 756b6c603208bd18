"""Clusterings of growing K, each made from the one before: clusters are split, then all rows move.

A step takes the clusters whose split in two lowers the cost most, and lets k-means settle from
there. The cost never goes up: a split lowers it, and so does every iteration. Then, while there is a
split that gains more than the cheapest merge costs, both are done and kept if the cost is lower.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.loop import Task, iterate
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.resources import threads_for
from sparsecluster.rows.rows import Rows, as_rows

SPLIT_ITERATIONS = 8
# A split is looked for again when so many of the rows of its cluster came or went.
STALE = 0.1
MOST_EXCHANGES = 2  # per step
MOST_COMPARED = 2000  # clusters up to which pairs are looked at for a merge


@dataclass(frozen=True, kw_only=True)
class Split:
    """A cluster as two: what that takes off the cost, and the two centers."""

    gain: float
    centers: sp.csr_array


@dataclass(frozen=True, kw_only=True)
class Link:
    """A clustering of a chain, and the splits of its clusters that are known."""

    run: RunState
    splits: dict[int, Split]
    iterations: int = 0  #: since the link before

    @property
    def k(self) -> int:
        return int(self.run.centers.shape[0])


class Chain:
    """Links of growing K on the same rows; what is random depends on `seed` alone."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed

    # --- links --------------------------------------------------------------------------------

    def first(self, k: int, n_init: int) -> Link:
        """The best of several runs from k-means++, improved by exchanges."""
        runs = []
        for number in range(n_init):
            chance = np.random.RandomState([self._seed, number])
            setting = replace(self._task.setting, random_state=chance)
            runs.append(self._settle(self._started(self._task.rows, k, setting)))
        best = min(runs, key=lambda run: run.inertia)
        return self._exchanged(Link(run=best, splits={}, iterations=len(best.history)))

    def next(self, link: Link, k: int) -> Link:
        """From a link to a larger K; a smaller one than asked for where rows are not distinct."""
        iterations = 0
        while link.k < k:
            splits = self._splits(link)
            ranked = sorted(splits, key=lambda one: (-splits[one].gain, one))
            useful = [one for one in ranked if splits[one].gain > 0][: k - link.k]
            if not useful:
                break
            centers, known = _with_splits(link.run.centers, splits, useful), dict(splits)
            for cluster in useful:
                del known[cluster]
            before = link.run.labels
            run = self._settle(centers)
            iterations += len(run.history)
            link = Link(run=run, splits=_still_known(known, before, run.labels, link.k))
        link = self._exchanged(link)
        return replace(link, iterations=link.iterations + iterations)

    def _exchanged(self, link: Link) -> Link:
        """Merge the two clusters that are cheapest to merge and split another, while that pays."""
        for _ in range(MOST_EXCHANGES):
            if not 2 < link.k <= MOST_COMPARED:
                break
            splits = self._splits(link)
            link = replace(link, splits=splits)
            one, other, price = self._cheapest_merge(link)
            left = [k for k in splits if k not in (one, other)]
            best = max(left, key=lambda k: (splits[k].gain, -k), default=None)
            if best is None or splits[best].gain <= price:
                break
            centers = self._merged(link, one, other, splits[best], best)
            run = self._settle(centers)
            iterations = link.iterations + len(run.history)
            if not run.inertia < link.run.inertia:
                link = replace(link, iterations=iterations)
                break
            known = {k: split for k, split in splits.items() if k not in (one, other, best)}
            known = _still_known(known, link.run.labels, run.labels, link.k)
            link = Link(run=run, splits=known, iterations=iterations)
        return link

    def _settle(self, centers: Any) -> RunState:
        """K-means from these centers."""
        core = centers_.to_core(centers) if sp.issparse(centers) else centers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return iterate(self._task, RunState.at(core), lambda record, loop: False)

    def _started(self, rows: Rows, k: int, setting: Any) -> _core.Centers:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return starting_centers("k-means++", rows, k, setting, None)

    # --- splits and merges --------------------------------------------------------------------

    def _splits(self, link: Link) -> dict[int, Split]:
        """The splits of all clusters; those that are not known are looked for."""
        missing = [k for k in range(link.k) if k not in link.splits]
        if not missing:
            return link.splits
        costs, found = self._costs(link.run), dict(link.splits)
        order = np.argsort(link.run.labels, kind="stable")
        ends = np.searchsorted(link.run.labels[order], np.arange(link.k + 1))
        for cluster in missing:
            members = order[ends[cluster] : ends[cluster + 1]]
            found[cluster] = self._split(members, float(costs[cluster]), link.run.centers, cluster)
        return dict(sorted(found.items()))

    def _split(
        self, members: np.ndarray, cost: float, centers: sp.csr_array, cluster: int
    ) -> Split:
        """2-means of the rows of a cluster."""
        task = self._task
        weights = task.setting.weights
        if weights is not None:
            members = members[weights[members] > 0]
        none = Split(gain=0.0, centers=centers[[cluster]])
        if len(members) < 2 or not cost > 0:
            return none
        rows = task.rows.select(members)
        if not task.setting.metric.useful(rows.core.norm2).any():
            return none
        setting = replace(
            task.setting,
            weights=None if weights is None else weights[members],
            n_threads=threads_for(2 * rows.core.nnz, task.setting.n_threads),
            # By the rows, so that it does not matter when a split is looked for.
            random_state=np.random.RandomState([self._seed, len(members), int(members[0])]),
        )
        start = self._started(rows, 2, setting)
        if start.n_clusters < 2:
            return none
        small = replace(task, rows=rows, setting=setting, max_iter=SPLIT_ITERATIONS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = iterate(small, RunState.at(start), lambda record, loop: False)
        if found.centers.shape[0] < 2:
            return none
        return Split(gain=cost - found.inertia, centers=found.centers)

    def _costs(self, run: RunState) -> np.ndarray:
        """The cost of each cluster."""
        task, centers = self._task, centers_.to_core(run.centers)
        distance2 = np.asarray(
            _core.own_distances(task.rows.core, centers, run.labels, task.setting.n_threads)
        )
        weights = task.setting.weights
        weighed = distance2 if weights is None else weights * distance2
        return np.bincount(run.labels, weighed, minlength=run.centers.shape[0])

    def _sums(self, link: Link) -> np.ndarray:
        """What the center of each cluster is to be multiplied by to give the sum of its rows."""
        run, setting = link.run, self._task.setting
        sizes = np.bincount(run.labels, setting.weights, minlength=link.k).astype(np.float64)
        if setting.metric.centers_are_means:
            return sizes
        # A row at unit length lies at |x - c|^2 = 2 - 2 cos from its center.
        return np.maximum(sizes - self._costs(run) / 2, 0.0)

    def _cheapest_merge(self, link: Link) -> tuple[int, int, float]:
        """Two clusters, and what it costs to make them one."""
        sums, centers = self._sums(link), link.run.centers
        distances = np.empty((link.k, link.k))
        _core.all_distances(
            as_rows(centers, n_threads=1).core,
            centers_.to_core(centers),
            distances,
            self._task.setting.n_threads,
        )
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

    def _merged(
        self, link: Link, one: int, other: int, split: Split, cluster: int
    ) -> sp.csr_array:
        """The centers with two clusters as one, in the place of the first, and another as two."""
        sums, centers = self._sums(link), link.run.centers
        weights = sums[[one, other]]
        shares = weights / weights.sum() if weights.sum() > 0 else np.full(2, 0.5)
        mean = sp.csr_array(shares[None, :] @ centers[[one, other]])
        joined = self._task.setting.metric.centers(mean)
        parts = [centers[[k]] for k in range(link.k)]
        parts[one], parts[cluster], parts[other] = joined, split.centers[[0]], split.centers[[1]]
        return sp.csr_array(sp.vstack(parts, format="csr"))


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
    splits: dict[int, Split], before: np.ndarray, after: np.ndarray, k: int
) -> dict[int, Split]:
    """The splits of clusters that kept nearly all of their rows."""
    moved = before != after
    sizes = np.bincount(before, minlength=k)
    changes = np.bincount(before[moved], minlength=k)[:k]
    changes = changes + np.bincount(after[moved], minlength=k)[:k]
    return {
        cluster: split
        for cluster, split in splits.items()
        if cluster < k and changes[cluster] <= STALE * sizes[cluster]
    }
