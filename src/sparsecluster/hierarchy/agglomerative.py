"""AgglomerativeClustering: starts with every row by itself and merges the nearest two clusters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.distances.metrics import METRICS, checked_options
from sparsecluster.distances.pairs import check_texts
from sparsecluster.hierarchy import condensed
from sparsecluster.hierarchy.merging import LINKAGES, Plan, check_metric
from sparsecluster.hierarchy.tree_estimator import (
    TreeEstimator,
    check_count,
    check_cut,
    cut_tree,
)
from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.errors import counted
from sparsecluster.rows.parameters import Anything, Choice, Number, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows

FIRST_CLUSTERS = 1000
WITH_CENTERS = ("euclidean", "sqeuclidean", "cosine")  # metrics of k-means


@dataclass(frozen=True)
class MergeRecord:
    """How far a hierarchy is: what its callback gets, ten times per second at most.

    Attributes
    ----------
    phase : str
        ``"distances"`` or ``"merging"``.
    done, total : int
        Rows whose distances are known, or clusters that were merged; and how many it will be.
    seconds : float
        Since the fit began.
    """

    phase: str
    done: int
    total: int
    seconds: float


class AgglomerativeClustering(TreeEstimator):
    """Hierarchical clustering of sparse or dense rows, equal to scipy's `linkage` of all distances.

    The distances of all pairs are never stored for ``linkage="ward"`` and ``"centroid"`` with
    ``metric="euclidean"``, for ``"average"`` with ``"cosine"`` and ``"sqeuclidean"``, and for
    ``"single"``: memory follows the non-zeros of the rows. Other combinations store them (4 bytes
    times the square of the number of rows), and say so before any work where that is more than
    `memory_limit`.

    Parameters
    ----------
    n_clusters : int or None, default=None
        How many clusters `labels_` are to be of.
    linkage : {"ward", "average", "complete", "single", "centroid"}, default="ward"
        The distance of two clusters: by how much the sum of squares would grow, the mean, largest
        or smallest distance of their rows, or the distance of their means.
    metric : str, default="euclidean"
        A distance of :func:`~sparsecluster.pairwise`, or ``"precomputed"``: X is then a square
        matrix of distances, or condensed as by scipy's `pdist`.
    metric_options : dict or None, default=None
        Options of the metric, such as ``{"p": 3}`` for ``"minkowski"``.
    height : float or None, default=None
        Where to cut the tree, in place of `n_clusters`: clusters are merged up to this height.
        With neither the tree is cut at the widest gap between the heights of two merges in a row.
    first : {"kmeans"} or None, default=None
        Merge the centers of k-means, each with the weight of its rows, instead of the rows: for any
        number of rows.
    first_clusters : int, default=1000
        How many centers that are; as many as there are rows where these are fewer.
    random_state : int, RandomState or None, default=None
        For k-means.
    n_threads : int or None, default=None
        Threads; by default as many as there are CPUs. The result is the same for any number.
    memory_limit : int, str or None, default=None
        Most bytes that distances may take, also like ``"2GB"``; by default half of what is free.
    verbose : int, default=0
        Whether to print a line at the end.
    callback : callable or None, default=None
        Called with a record of `phase`, `done`, `total` and `seconds`, at most ten times per
        second. What it raises ends the fit.

    Attributes
    ----------
    linkage_ : ndarray of float64, merges x 4
        The tree as scipy has it: the two clusters of each merge, its height, its number of leaves.
        Leaves are rows, or with `first` the centers.
    labels_ : ndarray of int32
        The cluster of each row, numbered by the first row of each.
    n_clusters_ : int
        Number of clusters.
    height_ : float
        The height of the last merge within clusters; 0 where nothing was merged.
    n_inversions_ : int
        Merges that are lower than one that they are made of: 0 unless the linkage is centroid, or
        Ward's or the average of distances that are none.
    leaf_labels_ : ndarray of int32
        The leaf of each row; only with `first`.
    seconds_ : dict
        Seconds that the fit took.

    Notes
    -----
    Of two merges of the same cost, that of the lower row comes first; a cluster goes by the lowest
    of its rows. Costs that differ by rounding alone (about 1e-11 of their terms) count as they come
    out. Linkages that store all distances leave ties to fastcluster (or scipy).

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import AgglomerativeClustering
    >>> X = np.array([[0.0], [1], [10], [11], [30]])
    >>> model = AgglomerativeClustering(linkage="average", metric="sqeuclidean").fit(X)
    >>> model.linkage_[:, 2]
    array([  1. ,   1. , 100.5, 625.5])
    >>> model.n_clusters_, model.labels_
    (2, array([0, 0, 0, 0, 1], dtype=int32))
    >>> model.outliers()
    array([4])
    """

    _parameters = TreeEstimator._parameters | {
        "n_clusters": integer(1).optional,
        "linkage": Choice(LINKAGES),
        "metric": Choice([*METRICS, "precomputed"]),
        "metric_options": Anything(),
        "height": Number(0).optional,
        "first": Choice(["kmeans"]).optional,
        "first_clusters": integer(1),
    }

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        linkage: str = "ward",
        metric: str = "euclidean",
        metric_options: dict[str, Any] | None = None,
        height: float | None = None,
        first: str | None = None,
        first_clusters: int = FIRST_CLUSTERS,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.linkage = linkage
        self.metric = metric
        self.metric_options = metric_options
        self.height = height
        self.first = first
        self.first_clusters = first_clusters
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == "precomputed"
        return tags

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        super().check_parameters()
        check_cut(self.n_clusters, self.height)
        if self.metric_options is not None and not isinstance(self.metric_options, dict):
            raise ValueError(f"metric_options must be a dict or None, got {self.metric_options!r}.")
        if self.metric == "precomputed":
            if self.metric_options:
                raise ValueError("metric='precomputed' has no options.")
        else:
            options = checked_options(self.metric, self.metric_options or {})
            check_metric(self.linkage, self.metric, options)
        if self.first is not None and self.metric not in WITH_CENTERS:
            raise ValueError(
                f"first='kmeans' has the metrics {', '.join(map(repr, WITH_CENTERS))}, got "
                f"{self.metric!r}."
            )

    # --- fit ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, *, feature_names: Any = None) -> AgglomerativeClustering:
        """Build the tree of the rows of X, and cut it.

        Parameters
        ----------
        X : matrix, data frame, Rows, store or path
            The rows. With ``metric="precomputed"`` their distances, with ``"edit"`` strings.
        y : ignored
        feature_names : sequence of str, optional
            Names of the columns.
        """
        started = time.perf_counter()
        self.check_parameters()
        plan, leaf_labels = self._plan(started), None
        distances = None
        if self.metric == "precomputed":
            distances, n_rows = condensed.check_precomputed(X)
            rows = self._without_columns(n_rows, n_rows)
        elif self.metric == "edit":
            X = check_texts(X, "X")
            rows = self._without_columns(len(X), 1)
        elif self.metric == "hamming" and _has_categories(X):
            rows = self._without_columns(*np.shape(X))
        else:
            X = rows = self._enter(X, reset=True)
        names = check_feature_names(feature_names, rows.n_features)
        n_leaves = rows.n_rows if self.first is None else min(rows.n_rows, self.first_clusters)
        check_count(self.n_clusters, n_leaves)
        if distances is not None:
            linkage = condensed.linkage_of_distances(distances, self.linkage)
        elif self.first is not None:
            linkage, leaf_labels = self._merge_centers(rows, plan)
        else:
            linkage = plan.merge_rows(rows) if plan.needs_rows else plan.merge_pairs(X)
        cut = cut_tree(linkage, self.n_clusters, self.height)
        self._remember(rows, names)
        self._set_tree(linkage, cut, leaf_labels)
        self.seconds_ = {"total": time.perf_counter() - started}
        self._show(
            f"{counted(len(linkage), 'merge')} in {self.seconds_['total']:.2f} s, "
            f"{counted(self.n_clusters_, 'cluster')}."
        )
        return self

    def _plan(self, started: float) -> Plan:
        def told(phase: str, done: int, total: int) -> None:
            if self.callback is not None:
                self.callback(MergeRecord(phase, done, total, time.perf_counter() - started))

        given = self.metric_options or {}
        return Plan(
            linkage=self.linkage,
            metric=self.metric,
            options={} if self.metric == "precomputed" else checked_options(self.metric, given),
            n_threads=effective_n_threads(self.n_threads),
            memory_limit=effective_memory_limit(self.memory_limit),
            told=told,
        )

    def _without_columns(self, n_rows: int, n_features: int) -> Rows:
        """Rows of which only the number is known."""
        self._entered = {"n_features_in_": n_features}
        return Rows(np.broadcast_to(np.float64(0), (n_rows, n_features)))

    def _merge_centers(self, rows: Rows, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
        """The tree of the centers of k-means, and the center of each row."""
        from sparsecluster.kmeans.kmeans import KMeans
        from sparsecluster.rows.rows import as_rows

        km = KMeans(
            min(self.first_clusters, rows.n_rows),
            metric="cosine" if self.metric == "cosine" else "euclidean",
            random_state=self.random_state,
            n_threads=self.n_threads,
            memory_limit=self.memory_limit,
        ).fit(rows)
        used, leaf_labels = np.unique(km.labels_, return_inverse=True)
        centers = as_rows(km.cluster_centers_[used], n_threads=plan.n_threads)
        weights = np.bincount(leaf_labels).astype(np.float64)
        return plan.merge_rows(centers, weights), leaf_labels.astype(np.int32)


def _has_categories(X: Any) -> bool:
    """Whether X is a table of anything but numbers."""
    if sp.issparse(X) or isinstance(X, Rows | str | PathLike):
        return False
    table = np.asarray(X)
    return table.ndim == 2 and table.dtype.kind not in "biuf"
