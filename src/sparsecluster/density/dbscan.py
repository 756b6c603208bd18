"""DBSCAN on sparse rows: exact, and without the graph of near rows where that does not fit."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsecluster import _core
from sparsecluster.density.density_estimator import DensityEstimator
from sparsecluster.density.precomputed import check_distances, dbscan_of_pairs, near_pairs
from sparsecluster.neighbors.search import SEARCH_METRICS
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.parameters import Choice, Positive, integer
from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.storage.fields import NUMBER, Array, Field

PRECOMPUTED = "precomputed"


class DBSCAN(DensityEstimator):
    """Clusters of rows that are dense: each has many others nearby (Ester et al. 1996).

    A row is core where at least `min_samples` rows, itself included, are within `eps` of it.
    Clusters are core rows connected by distances within `eps`, and the rows that are within `eps`
    of one of them ("border"); all others are noise, labelled -1. Clusters are numbered by their
    first core row. A border row that several clusters reach belongs to the one with the lowest
    number. These are the labels of scikit-learn's DBSCAN, in less time and memory.

    Parameters
    ----------
    eps : float, default=0.5
        The largest distance of neighbors, included. :func:`~sparsecluster.suggest_eps` helps to
        choose it.
    min_samples : int, default=5
        Rows, or their weight, that make a row core.
    metric : {"cosine", "euclidean", "precomputed"}, default="cosine"
        How rows are compared. The cosine distance is 1 - cos; a row of zeros has the distance 1 to
        every other row. With "precomputed" X holds the distances: a square matrix, or a sparse one
        as :func:`~sparsecluster.radius_graph` gives it, where what is not stored is far away.
    n_threads : int, default=None
        Threads to use; all CPUs by default. No result depends on it.
    memory_limit : int or str, default=None
        Bytes, or like "2GB", that a fit may take beyond its data; by default half of what is free.
        Pairs of neighbors that do not fit are searched a second time.
    verbose : int, default=0
        Whether to print a line at the end of a fit.
    callback : callable, default=None
        Called with the share of the fit that is done, from 0 to 1.

    Attributes
    ----------
    labels_ : ndarray of int32
        The cluster of each row; -1 for noise.
    core_sample_indices_ : ndarray of int64
        The core rows.
    components_ : csr_array or ndarray
        The core rows themselves.
    n_clusters_, n_noise_ : int
        Numbers of clusters and of rows that are noise.
    n_features_in_ : int
        Number of columns.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import DBSCAN
    >>> X = csr_array([[1.0, 0, 0], [2.0, 0.1, 0], [0, 1.0, 0], [0.1, 2.0, 0], [0, 0, 1.0]])
    >>> db = DBSCAN(eps=0.1, min_samples=2).fit(X)
    >>> db.labels_
    array([ 0,  0,  1,  1, -1], dtype=int32)
    >>> db.predict([[0, 3.0, 0.1]])
    array([1], dtype=int32)
    """

    _parameters = DensityEstimator._parameters | {
        "eps": Positive(),
        "min_samples": integer(1),
        "metric": Choice((*SEARCH_METRICS, PRECOMPUTED)),
    }
    _fitted = DensityEstimator._fitted | {
        "core_sample_indices_": Array(np.int64),
        "components_": Field(),
        "core_labels_": Array(np.int32),
        "eps_": NUMBER,
    }

    core_sample_indices_: np.ndarray
    components_: Any
    core_labels_: np.ndarray
    eps_: float
    metric_: str

    def __init__(
        self,
        eps: float = 0.5,
        *,
        min_samples: int = 5,
        metric: str = "cosine",
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.eps = eps
        self.min_samples = min_samples
        self.metric = metric
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == PRECOMPUTED
        return tags

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> DBSCAN:
        """Find the clusters of X.

        Parameters
        ----------
        X : matrix, frame, Rows, store or path
            The rows; or their distances, with ``metric="precomputed"``.
        y : ignored
        sample_weight : array-like, default=None
            Weight of each row: how many rows it counts for.
        feature_names : array-like of str, default=None
            Names of the columns, where X has none.

        Returns
        -------
        DBSCAN
            The estimator.
        """
        started = time.perf_counter()
        self.check_parameters()
        rows = self._enter(X, reset=True)
        weights = check_weights(sample_weight, rows)
        labels, core = self._found(rows, weights)
        ids = np.flatnonzero(core)
        found = {
            "labels_": labels,
            "core_sample_indices_": ids,
            "components_": rows.picked(ids),
            "core_labels_": labels[ids],
            "eps_": float(self.eps),
            "metric_": self.metric,
        }
        self._take_over(rows, found, feature_names, started)
        return self

    def _found(self, rows: Rows, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Labels, and which rows are core."""
        if self.metric == PRECOMPUTED:
            pairs = near_pairs(check_distances(rows), float(self.eps))
            return dbscan_of_pairs(pairs, self.min_samples, weights)
        search = self._search(rows, metric=self.metric)
        labels, core, _ = _core.dbscan(
            search.rows.core, float(self.eps), float(self.min_samples), weights, **search.options()
        )
        return labels, core.astype(bool)

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> np.ndarray:
        """Find the clusters of X and return the label of each row."""
        return self.fit(X, sample_weight=sample_weight, feature_names=feature_names).labels_

    def _n_near(self) -> int:
        return self.min_samples

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of the nearest core row of each row, if that is within `eps`; else -1.

        Core rows get their own clusters, except for rows of zeros by cosine, which are at 1 from
        every row. A border row of the fit may get another cluster than its own, where it is nearer
        to a core row of that. Of core rows at equal distances the first counts.

        Parameters
        ----------
        X : matrix, frame, Rows, store or path
            The rows; with ``metric="precomputed"`` their distances to the rows of the fit.

        Returns
        -------
        ndarray of int32
        """
        check_is_fitted(self, "core_sample_indices_")
        rows = self._enter(X, reset=False)
        labels = np.full(rows.n_rows, -1, dtype=np.int32)
        if not len(self.core_sample_indices_):
            return labels
        nearest = self._nearest_core(rows)
        labels[nearest >= 0] = self.core_labels_[nearest[nearest >= 0]]
        return labels

    def _nearest_core(self, rows: Rows) -> np.ndarray:
        """Which of the core rows is nearest to each row; -1 where none is within reach."""
        if self.metric_ == PRECOMPUTED:
            return _nearest_of_distances(rows, self.core_sample_indices_, self.eps_)
        core_rows = as_rows(self.components_, n_threads=1)
        search = self._search(rows, core_rows, metric=self.metric_)
        options = search.options() | {"progress": None}
        nearest: np.ndarray = _core.nearest_rows(
            search.queries.core, search.rows.core, 1, self.eps_, **options
        )[0]
        return nearest

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self, "core_sample_indices_")
        return super().get_state()

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves."""
        super().set_state(state, verify=verify)
        n_core = len(self.core_sample_indices_)
        shape = getattr(self.components_, "shape", ())
        if shape != (n_core, self.n_features_in_) or len(self.core_labels_) != n_core:
            raise ValueError("has core rows that do not fit together")
        if verify and n_core and not self.core_labels_.min() >= 0:
            raise ValueError("has core rows without a cluster")


def _nearest_of_distances(rows: Rows, core: np.ndarray, eps: float) -> np.ndarray:
    """The position among the core rows of the least distance of each row, within `eps`."""
    nearest = np.full(rows.n_rows, -1, dtype=np.int64)
    for i in range(rows.n_rows):
        if rows.sparse:
            begin, end = rows.matrix.indptr[i : i + 2]
            columns, values = rows.matrix.indices[begin:end], rows.matrix.data[begin:end]
            at = np.searchsorted(core, columns)
            known = (core[np.minimum(at, len(core) - 1)] == columns) & (values <= eps)
            at, values = at[known], values[known]
        else:
            at, values = np.arange(len(core)), rows.matrix[i, core]
        if len(at) and values.min() <= eps:
            nearest[i] = at[np.argmin(values)]
    return nearest
