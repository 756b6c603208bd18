"""Where clusters are: means, spreads, distances of rows to them; all that measures are made of.

No distance between two rows is ever computed. The mean squared distance of a row x to the rows of a
cluster is |x - m|^2 + v, where m is their mean and v their mean squared distance from it. For rows
at unit length it is twice the mean of 1 - cos.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.evaluation.labelling import Labelling
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.metric import COSINE
from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.resources import threads_for
from sparsecluster.rows.rows import Rows, as_rows

BLOCK = 1 << 18  # rows after which progress is told
# Of squared norms: outside, the product of a weight and one over a norm could lose digits.
ORDINARY = (1e-100, 1e100)


def check_metric(metric: str, known: tuple[str, ...]) -> None:
    """Refuse a metric that a measure does not have."""
    check_name("metric", metric, known)


@dataclass(frozen=True, kw_only=True)
class KnownClusters:
    """What is known about clusters some of whose rows are elsewhere."""

    means: sp.csr_array
    weights: np.ndarray
    n_rows: np.ndarray
    spreads: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """A labelling as points: rows as they are, or for the cosine at unit length."""

    labelling: Labelling
    points: Rows
    scales: np.ndarray | None  #: what rows are multiplied by, where it is not one
    zero: np.ndarray | None  #: with the cosine, which rows have no direction
    given_means: sp.csr_array | None = None  #: where they are known
    known: KnownClusters | None = None  #: where rows are only some of those of the clusters
    given_distances: np.ndarray | None = None  #: squared, of rows to these means

    @classmethod
    def of(cls, labelling: Labelling, *, cosine: bool, odd: bool | None = None) -> Geometry:
        """The points of a labelling; `odd` says whether norms of some rows are not ordinary, where
        not all of them are here."""
        rows, n_threads = labelling.rows, labelling.n_threads
        columns = None if rows.in_file else Columns.occurring(rows)
        points = rows if columns is None else columns.rows(rows, n_threads=n_threads)
        if not cosine:
            return cls(labelling=labelling, points=points, scales=None, zero=None)
        norm2 = points.core.norm2
        if is_odd(norm2.min(), norm2.max()) if odd is None else odd:
            limit = labelling.memory_limit
            points = COSINE.rows(points, n_threads=n_threads, zero_rows="first", memory_limit=limit)
            norm2 = points.core.norm2
        zero = norm2 == 0
        # Not as the engine has them: it takes float32 rows of nearly unit length as they are.
        scales = np.divide(1.0, np.sqrt(norm2), out=np.zeros(len(norm2)), where=~zero)
        return cls(labelling=labelling, points=points, scales=scales, zero=zero)

    @property
    def n_clusters(self) -> int:
        return self.labelling.n_clusters

    @property
    def noise(self) -> np.ndarray:
        """Squared distances of each row that may come from rounding alone, as of equal rows."""
        unit = np.finfo(np.float64).eps
        norm2 = self.points.core.norm2 if self.scales is None else 1.0
        return np.broadcast_to((16 * unit) ** 2 * norm2, (self.points.n_rows,))

    @cached_property
    def n_threads(self) -> int:
        work = self.points.core.nnz * self.n_clusters
        return threads_for(work, self.labelling.n_threads)

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the clusters."""
        if self.known is not None:
            return self.known.weights
        return self.labelling.total(self.labelling.weights)

    @cached_property
    def n_rows(self) -> np.ndarray:
        """Rows of each cluster."""
        if self.known is not None:
            return self.known.n_rows
        numbers = self.labelling.numbers
        return np.bincount(numbers[numbers >= 0], minlength=self.n_clusters)

    @cached_property
    def means(self) -> sp.csr_array:
        """The weighted mean of each cluster; zero for one without weight."""
        if self.known is not None:
            return self.known.means
        if self.given_means is not None:
            return self.given_means
        found, n_features, weights = self.labelling, self.points.n_features, self.row_weights
        zeros = sp.csr_array((self.n_clusters, n_features))
        centers, shares = centers_.to_core(zeros), found.total(weights)
        if weights.any():
            columns = _core.column_stats(self.points.core, weights, self.n_threads)
            sums = _core.Sums(
                self.points.core,
                columns,
                weights,
                self.n_clusters,
                "euclidean",
                _core.CenterLimit(),
            )
            sums.update(found.numbers, centers, self.n_threads)
        means = centers_.from_core(centers)
        return means if self.scales is None else unit_means(means, shares, self.weights)

    @property
    def row_weights(self) -> np.ndarray:
        """Weights by which sums of the points, as they are, are those of the rows."""
        weights = self.labelling.weights
        return weights if self.scales is None else weights * self.scales

    @cached_property
    def directions(self) -> sp.csr_array:
        """The means at unit length; zero where there is no direction."""
        lengths = np.sqrt(np.asarray(self.means.power(2).sum(axis=1)).ravel())
        scale = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
        entries = self.means.data * np.repeat(scale, np.diff(self.means.indptr))
        return sp.csr_array((entries, self.means.indices, self.means.indptr), self.means.shape)

    def own_distances(self, centers: sp.csr_array) -> np.ndarray:
        """The squared distance of each row to the center of its cluster; 0 for noise."""
        numbers = np.maximum(self.labelling.numbers, 0)
        core = centers_.to_core(centers)
        distance2 = np.asarray(
            _core.own_distances(self.points.core, core, numbers, self.n_threads, self.scales)
        )
        distance2[~self.labelling.inside] = 0.0
        return distance2

    @cached_property
    def distances_to_means(self) -> np.ndarray:
        """The squared distance of each row to the mean of its cluster; 0 for noise."""
        if self.given_distances is not None:
            return self.given_distances
        return self.own_distances(self.means)

    @cached_property
    def scatters(self) -> np.ndarray:
        """Weighted sums of the squared distances of rows to their means, by cluster."""
        return self.labelling.total(self.labelling.weights * self.distances_to_means)

    @cached_property
    def spreads(self) -> np.ndarray:
        """Mean squared distances of rows to their means, by cluster; infinite without weight.

        Rows without direction are at a cosine distance of 1 from all, which is a squared distance
        of 2, one more than from the point zero.
        """
        if self.known is not None:
            return self.known.spreads
        without = None
        if self.zero is not None and self.zero.any():
            without = self.labelling.total(self.labelling.weights * self.zero)
        return mean_spreads(self.scatters, without, self.weights)

    def nearest_others(
        self, centers: sp.csr_array, spreads: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each row the least squared distance to a center beside its own, plus the spread of
        that cluster, and which cluster this is."""
        n_rows, numbers, core = self.points.n_rows, self.labelling.numbers, self.points.core
        limit, n_threads = self.labelling.memory_limit // 4, self.n_threads
        of_centers = centers_.to_core(centers)
        search = _core.NearestCluster(core, of_centers, spreads, limit, n_threads)
        nearest = np.empty(n_rows, dtype=np.int32)
        for begin in range(0, n_rows, BLOCK):
            end = min(begin + BLOCK, n_rows)
            nearest[begin:end] = search.find(numbers, self.scales, begin, end, n_threads)
            self.labelling.tell(end / n_rows)
        there = np.maximum(nearest, 0)
        least = np.asarray(_core.own_distances(core, of_centers, there, n_threads, self.scales))
        least += spreads[there]
        least[nearest < 0] = np.inf
        return least, nearest

    def center_distances(self, centers: sp.csr_array, begin: int, end: int) -> np.ndarray:
        """Distances, not squared, of some centers to all of them."""
        some = as_rows(centers[begin:end], n_threads=1)
        out = np.empty((end - begin, centers.shape[0]))
        _core.all_distances(some.core, centers_.to_core(centers), out, self.n_threads)
        return out

    def blocks_of_clusters(self) -> list[tuple[int, int]]:
        """Runs of clusters whose distances to all others fit into memory."""
        most = max(1, min(self.labelling.memory_limit // 4, 1 << 28) // (8 * self.n_clusters))
        return [
            (begin, min(begin + most, self.n_clusters)) for begin in range(0, self.n_clusters, most)
        ]


def is_odd(smallest: float, largest: float) -> bool:
    """Whether squared norms are such that rows are to be scaled first."""
    return bool(smallest < ORDINARY[0] or largest > ORDINARY[1])


def unit_means(means: sp.csr_array, shares: np.ndarray, weights: np.ndarray) -> sp.csr_array:
    """Means of rows at unit length, from those of rows that are weighted by one over their lengths,
    which add up to these shares."""
    ratio = np.divide(shares, weights, out=np.zeros(len(shares)), where=shares > 0)
    means.data *= np.repeat(ratio, np.diff(means.indptr))
    return means


def mean_spreads(
    scatters: np.ndarray, without: np.ndarray | None, weights: np.ndarray
) -> np.ndarray:
    """Mean squared distances of rows to their means, from the sums; `without` is the weight of rows
    that have no direction."""
    spread = np.divide(scatters, weights, out=np.full_like(weights, np.inf), where=weights > 0)
    if without is not None:
        spread += np.divide(without, weights, out=np.zeros_like(weights), where=weights > 0)
    return spread
