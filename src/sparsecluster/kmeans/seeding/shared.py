"""What several ways to start share: rows at random, draws by distance, nearest centers, means."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import nearest_labels
from sparsecluster.kmeans.setting import SeedSetting, Setting
from sparsecluster.rows.rows import Rows

#: Centers that k-means++ draws step by step. Candidates for more of them are drawn in pools.
SINGLE_STEPS = 1024


class SampledRows(Protocol):
    """Rows of which only some are looked at, wherever they are."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    def take(self, indices: np.ndarray) -> sp.csr_array:
        """The rows at these indices, in float64."""

    def select(self, indices: np.ndarray) -> Rows:
        """These rows, in this order."""


def first_row(n_rows: int, setting: SeedSetting) -> int:
    """A row at random, by weight."""
    if setting.chances is None:
        return int(setting.random_state.randint(n_rows))
    return int(setting.random_state.choice(n_rows, p=setting.chances))


def random_rows(rows: SampledRows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Rows at random, in proportion to their weights, each at most once."""
    chances = setting.chances
    possible = rows.n_rows if chances is None else int(np.count_nonzero(chances))
    return setting.random_state.choice(
        rows.n_rows, min(possible, n_clusters), replace=False, p=chances
    )


def n_candidates(n_clusters: int) -> int:
    """Rows that greedy k-means++ tries per step: 2 + ln K, as scikit-learn and sparsekmeans do.

    (The text of SparseKmeans says log2; its package and scikit-learn take the natural logarithm.)
    """
    return 2 + int(np.log(n_clusters))


def draw_by_distance(
    rows: Rows, n_clusters: int, setting: SeedSetting, trials: int, floor: float = 0.0
) -> np.ndarray:
    """Rows drawn one by one by squared distance + `floor`, each the best of so many trials."""
    n_steps = min(n_clusters, SINGLE_STEPS) - 1
    needed = 8 * n_steps * trials
    if trials > 1 and needed > max(setting.memory_limit, 2**30):
        raise ValueError(
            f"n_local_trials={trials} needs {needed / 1e9:.3g} GB of random numbers for "
            f"{n_clusters} clusters, more than the memory limit. Try fewer."
        )
    first = first_row(rows.n_rows, setting)
    draws = setting.random_state.random_sample((n_steps, trials))
    seed = 0  # of pools, where there are any
    if n_clusters > SINGLE_STEPS:
        seed = int(setting.random_state.randint(np.iinfo(np.int64).max, dtype=np.int64))
    indices, _ = _core.greedy_kmeans_plusplus(
        rows.core, n_clusters, first, draws, SINGLE_STEPS, seed, setting.weights, floor,
        setting.memory_limit, setting.n_threads, lambda found: setting.progress(found / n_clusters),
    )  # fmt: skip
    return np.asarray(indices)


def nearest_of(
    rows: Rows, centers: sp.csr_array, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the nearest of the centers, and its squared distance."""
    core = centers_.to_core(centers)
    labels = nearest_labels(rows, core, setting)
    return labels, _core.own_distances(rows.core, core, labels, setting.n_threads)


def means(rows: Rows, parts: list[np.ndarray], setting: SeedSetting) -> sp.csr_array:
    """The weighted mean of each list of rows; the plain mean where its rows have no weight.

    Where a mean cannot be a center, having no direction, the first row of the list takes its place.
    """
    shares, members = [], list(parts)
    for part in parts:
        share = np.ones(len(part)) if setting.weights is None else setting.weights[part]
        total = share.sum()
        shares.append(share / total if total > 0 else np.full(len(part), 1 / len(part)))
    means = _combined(rows, members, shares)
    largest = abs(means).max(axis=1).toarray().ravel()
    lost = np.flatnonzero(~setting.metric.useful(np.where(largest < 1e-12, 0.0, largest)))
    for cluster in lost:
        members[cluster], shares[cluster] = members[cluster][:1], np.ones(1)
    return _combined(rows, members, shares) if len(lost) else means


def _combined(rows: Rows, members: list[np.ndarray], shares: list[np.ndarray]) -> sp.csr_array:
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in members])])
    entries = (np.concatenate(shares), np.concatenate(members), indptr)
    pick = sp.csc_array(sp.csr_array(entries, shape=(len(members), rows.n_rows)))
    combined = sp.csr_array((len(members), rows.n_features))
    for begin, block in rows.in_blocks():
        combined += pick[:, begin : begin + block.shape[0]] @ block
    return combined
