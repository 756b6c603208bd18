"""Clusters made one, once they are seen to be nearly equal."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from sparsecluster import _core
from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.cluster_terms import cluster_weights
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.numbering import numbered_by_first


class MergingEstimator(CenterEstimator):
    """Centers of a fit that has ended, of which some can be merged."""

    cluster_weights_: np.ndarray
    inertia_: float
    objective_: float

    def _set_centers(self, centers: Any) -> None:
        raise NotImplementedError

    def merge(self, pairs: Iterable[tuple[int, int]], X: Any, sample_weight: Any = None) -> Any:
        """Make one cluster of each of these pairs, and assign the rows of X anew.

        The center of a merged cluster is the mean of its centers by weight (with "cosine" its
        direction). Pairs that share a cluster are merged into one. The clusters are numbered by
        their first members, and all others keep their centers. After that `labels_` is
        ``predict(X)`` and `inertia_` its cost; a few rows beside the merged clusters may have
        changed theirs, as another center is now nearest.

        Parameters
        ----------
        pairs : iterable of (int, int)
            Numbers of clusters; also as :meth:`similar_clusters` returns them, with a similarity.
        X : sparse matrix or array, Rows, or path
            The rows that were fitted; their labels and cost follow.
        sample_weight : array of shape (n_samples,), optional
            Their weights, as in :meth:`fit`.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import KMeans
        >>> X = np.array([[9.0, 0], [9, 1], [0, 5]])
        >>> km = KMeans(3, init=X).fit(X)
        >>> km.merge([(0, 1)], X).labels_, km.inertia_
        (array([0, 0, 1], dtype=int32), 0.5)
        """
        self.check_is_fitted()
        groups = _groups(pairs, self.n_clusters_)
        points = self._points(X)
        if points.n_rows != len(self.labels_):
            raise ValueError(
                f"X has {points.n_rows} rows, but {len(self.labels_)} were fitted: merge needs all "
                f"of these."
            )
        if (
            getattr(self, "size_min", None) is not None
            or getattr(self, "size_max", None) is not None
        ):
            raise ValueError("merge cannot keep size_min and size_max: set both to None first.")
        weights = check_weights(sample_weight, points)
        rows, centers, n_threads = self._met(points)
        sums = self._sums(rows, centers, self._assign(rows, centers, n_threads), weights, n_threads)
        merged = self._joined(sp.csr_array(self.cluster_centers_), groups, sums)
        before = dict(self.__dict__)
        try:
            self._set_centers(merged if sp.issparse(self.cluster_centers_) else merged.toarray())
            rows, centers, n_threads = self._met(points)
            self.labels_ = self._assign(rows, centers, n_threads)
            self.inertia_ = _core.own_cost(rows.core, centers, self.labels_, weights, n_threads)
        except BaseException:
            # Such as Ctrl-C: the estimator changes whole or not at all.
            self.__dict__.update(before)
            raise
        self.objective_ = self._measure().objective(self.inertia_, points.core.norm2, weights)
        self.cluster_weights_ = cluster_weights(self.labels_, weights, self.n_clusters_)
        return self

    def _sums(
        self,
        rows: Any,
        centers: _core.Centers,
        labels: np.ndarray,
        weights: np.ndarray | None,
        n_threads: int,
    ) -> np.ndarray:
        """What each center is to be multiplied by to give the sum of its rows."""
        sizes = cluster_weights(labels, weights, centers.n_clusters)
        if self._measure().centers_are_means:
            return sizes
        distance2 = np.asarray(_core.own_distances(rows.core, centers, labels, n_threads))
        cosines = (rows.core.norm2 + 1.0 - distance2) / 2
        return np.bincount(
            labels, cosines if weights is None else weights * cosines, minlength=len(sizes)
        )

    def _joined(self, centers: sp.csr_array, groups: np.ndarray, sums: np.ndarray) -> sp.csr_array:
        """One center for each group of clusters."""
        parts = []
        for group in range(groups.max() + 1):
            members = np.flatnonzero(groups == group)
            if len(members) == 1:
                parts.append(centers[members])
                continue
            shares = np.maximum(sums[members], 0.0)
            if not shares.any():
                shares[:] = 1.0
            mean = sp.csr_array((shares / shares.sum())[None, :] @ centers[members])
            parts.append(self._measure().centers(mean))
        return sp.csr_array(sp.vstack(parts, format="csr"))


def _groups(pairs: Iterable[Any], n_clusters: int) -> np.ndarray:
    """The number of the merged cluster that each cluster goes into."""
    try:
        found: list[tuple[Any, ...]] = [tuple(pair) for pair in pairs]
    except TypeError:
        raise ValueError(
            f"pairs must be a list of pairs of clusters, as [(0, 1)]; got {pairs!r}."
        ) from None
    if not found:
        raise ValueError("There are no pairs to merge.")
    # `similar_clusters` adds how similar they are.
    found = [pair[:2] if len(pair) == 3 and isinstance(pair[2], float) else pair for pair in found]
    for pair in found:
        fine = len(pair) == 2 and all(
            not isinstance(one, bool) and isinstance(one, Integral) and 0 <= int(one) < n_clusters
            for one in pair
        )
        if not fine or pair[0] == pair[1]:
            raise ValueError(
                f"pairs must be two different clusters each, from 0 to {n_clusters - 1}; got "
                f"{pair!r}."
            )
    one, other = np.array(found, dtype=np.int64).T
    links = sp.coo_array((np.ones(len(one)), (one, other)), shape=(n_clusters, n_clusters))
    _, groups = connected_components(sp.csr_array(links), directed=False)
    return numbered_by_first(groups)
