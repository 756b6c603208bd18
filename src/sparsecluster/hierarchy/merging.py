"""From rows to a linkage matrix: by sums of clusters, by a spanning tree, or by all distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.distances.metrics import METRICS
from sparsecluster.distances.pairs import pairs_of
from sparsecluster.hierarchy import condensed
from sparsecluster.hierarchy.tree import linkage_matrix, linkage_of_tree
from sparsecluster.neighbors.search import make_search
from sparsecluster.neighbors.spanning_tree import spanning_tree
from sparsecluster.rows.metric import COSINE, TINY_NORM2
from sparsecluster.rows.rows import Rows

LINKAGES = ("ward", "average", "complete", "single", "centroid")
#: Linkages that follow from sums and sizes of clusters, and what becomes of their costs.
BY_SUMS: dict[tuple[str, str], Callable[[np.ndarray], np.ndarray]] = {
    ("ward", "euclidean"): np.sqrt,
    ("centroid", "euclidean"): np.sqrt,
    ("average", "sqeuclidean"): lambda costs: costs,
    ("average", "cosine"): lambda costs: costs / 2,
}
#: Metrics that order pairs as one of the search for near rows does, which is named.
BY_SEARCH = {"euclidean": "euclidean", "sqeuclidean": "euclidean", "cosine": "cosine"}
CACHE = 32 << 20  # bytes of products that are kept


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How the rows are to be merged."""

    linkage: str
    metric: str
    options: dict[str, Any]
    n_threads: int
    memory_limit: int
    told: condensed.Told

    @property
    def by_sums(self) -> bool:
        return (self.linkage, self.metric) in BY_SUMS

    @property
    def needs_rows(self) -> bool:
        """Whether the core takes the rows; else `X` is passed to the metric as it is."""
        return self.by_sums or self.metric in BY_SEARCH

    def merge_rows(self, rows: Rows, weights: np.ndarray | None = None) -> np.ndarray:
        """The linkage matrix of rows, each of which counts as often as its weight says."""
        unit = self.metric == "cosine"
        if unit and np.any(rows.core.norm2 < TINY_NORM2):
            rows = COSINE.rows(rows, n_threads=self.n_threads, zero_rows="first")
            if not rows.core.norm2.all():
                row = int(np.flatnonzero(rows.core.norm2 == 0)[0])
                raise ValueError(
                    f"Row {row} of X is zero and has no direction, which metric='cosine' compares. "
                    f"Drop such rows first."
                )
        n_merges = rows.n_rows - 1

        def tell(n_merged: int) -> None:
            self.told("merging", n_merged, n_merges)

        if self.by_sums:
            one, other, costs = _core.agglomerate(
                rows.core, self.linkage, unit, weights, self._cache, self.n_threads, tell
            )
            heights = BY_SUMS[self.linkage, self.metric](costs)
            if self.linkage != "centroid":  # what is left of monotony after rounding
                heights = np.maximum.accumulate(heights)
            return linkage_matrix(one, other, heights)
        if self.linkage == "single" and self.metric in BY_SEARCH:
            return self._merge_by_search(rows, lambda share: tell(round(share * n_merges)))
        return self.merge_pairs(rows)

    def _merge_by_search(self, rows: Rows, progress: Callable[[float], None]) -> np.ndarray:
        """Single linkage, by the minimum spanning tree."""
        search = make_search(
            rows,
            metric=BY_SEARCH[self.metric],
            n_threads=self.n_threads,
            memory_limit=self.memory_limit,
            progress=progress,
        )
        first, second, heights = spanning_tree(search, 1)
        if self.metric == "sqeuclidean":  # squares of the roots would be rounded twice
            ends = first.astype(np.int64), second.astype(np.int64)
            heights = _core.pair_powers(rows.core, rows.core, *ends, 2.0, self.n_threads)
        return linkage_of_tree(first, second, heights)

    @property
    def _cache(self) -> int:
        return min(CACHE, self.memory_limit // 4)

    def merge_pairs(self, X: Any) -> np.ndarray:
        """The linkage matrix of anything that the metric compares."""
        pairs = pairs_of(X, None, self.metric, self.options, n_threads=self.n_threads)
        n_rows = pairs.shape[0]
        if self.linkage == "single" and 4 * n_rows * (n_rows - 1) > self.memory_limit:
            return linkage_of_tree(*condensed.spanning_tree(pairs, self.told))
        without = "'ward' with 'euclidean', 'average' with 'cosine' or 'sqeuclidean', and 'single'"
        condensed.check_memory(
            n_rows,
            self.memory_limit,
            f"Raise memory_limit, pass first='kmeans' to merge the centers of k-means, or choose a "
            f"linkage that does without: {without}.",
        )
        distances = condensed.condensed_distances(pairs, self.told)
        return condensed.linkage_of_distances(distances, self.linkage)


def check_metric(linkage: str, metric: str, options: dict[str, Any]) -> None:
    """Refuse what is no distance, or not the same in both directions."""
    if METRICS[metric].similarity:
        raise ValueError(
            f"metric={metric!r} is a similarity, and clusters are merged by distances. Make "
            f"distances of pairwise(X, metric={metric!r}), and pass them with metric='precomputed'."
        )
    if metric == "edit" and options["insert"] != options["delete"]:
        raise ValueError(
            "The costs of insert and delete differ, so that distances depend on the direction; "
            "for a hierarchy they must be the same."
        )
