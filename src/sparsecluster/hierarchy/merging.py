"""From rows to a linkage matrix: by sums of clusters, by a spanning tree, or by all distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.distances import METRICS, pairs_of
from sparsecluster.hierarchy import condensed
from sparsecluster.hierarchy.tree import linkage_matrix, linkage_of_tree
from sparsecluster.rows.rows import Rows

LINKAGES = ("ward", "average", "complete", "single", "centroid")
#: Linkages that follow from sums and sizes of clusters, and what becomes of their costs.
BY_SUMS: dict[tuple[str, str], Callable[[np.ndarray], np.ndarray]] = {
    ("ward", "euclidean"): np.sqrt,
    ("centroid", "euclidean"): np.sqrt,
    ("average", "sqeuclidean"): lambda costs: costs,
    ("average", "cosine"): lambda costs: costs / 2,
}
#: Metrics that follow from squared distances of rows, or of rows at unit length.
BY_SQUARES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "euclidean": np.sqrt,
    "sqeuclidean": lambda squares: squares,
    "cosine": lambda squares: squares / 2,
}
CACHE = 32 << 20  # bytes of products that are kept
SHORTEST2 = 1e-280  # squared length of a row that has a direction


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
        return self.by_sums or self.metric in BY_SQUARES

    def merge_rows(self, rows: Rows, weights: np.ndarray | None = None) -> np.ndarray:
        """The linkage matrix of rows, each of which counts as often as its weight says."""
        unit = self.metric == "cosine"
        if unit and np.any(rows.core.norm2 < SHORTEST2):
            row = int(np.flatnonzero(rows.core.norm2 < SHORTEST2)[0])
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
        if self.linkage == "single" and self.metric in BY_SQUARES:
            one, other, squares = _core.spanning_tree(rows.core, unit, self.n_threads, tell)
            return linkage_of_tree(one, other, BY_SQUARES[self.metric](squares))
        return self.merge_pairs(rows)

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
