"""HDBSCAN on sparse rows: the spanning tree is ours, its condensing scikit-learn's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsecluster.density.density_estimator import DensityEstimator
from sparsecluster.neighbors.spanning_tree import SpanningTree, spanning_tree
from sparsecluster.rows.parameters import Choice, Flag, Number, integer
from sparsecluster.storage.fields import Array

NOISE = -1


class HDBSCAN(DensityEstimator):
    """Clusters of varying density, by a hierarchy of DBSCAN over all radii (Campello et al. 2013).

    The minimum spanning tree of mutual reachability is exact, on sparse rows, and takes no memory
    for pairs. Its condensing and the selection of clusters are scikit-learn's.

    Parameters
    ----------
    min_cluster_size : int, default=5
        Groups of fewer rows are noise.
    min_samples : int, default=None
        Rows, itself included, that the core distance of a row reaches; by default
        `min_cluster_size`.
    metric : {"cosine", "euclidean"}, default="cosine"
        How rows are compared.
    cluster_selection_epsilon : float, default=0.0
        Clusters below this distance are not split.
    max_cluster_size : int, default=None
        Larger groups are no clusters, with "eom".
    cluster_selection_method : {"eom", "leaf"}, default="eom"
        By excess of mass, or the leaves of the tree.
    allow_single_cluster : bool, default=False
        Whether all rows may be one cluster.
    n_threads, memory_limit, verbose, callback
        As for :class:`~sparsecluster.DBSCAN`.

    Attributes
    ----------
    labels_ : ndarray of int32
        The cluster of each row; -1 for noise.
    probabilities_ : ndarray of float64
        How strongly each row belongs to its cluster, from 0 to 1.
    n_clusters_, n_noise_ : int
        Numbers of clusters and of rows that are noise.
    spanning_tree_ : SpanningTree
        The minimum spanning tree: `first`, `second`, `weights`.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import HDBSCAN
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2], [99.0]])
    >>> HDBSCAN(min_cluster_size=3, min_samples=2, metric="euclidean").fit(X).labels_
    array([ 0,  0,  0,  1,  1,  1, -1], dtype=int32)
    """

    _parameters = DensityEstimator._parameters | {
        "min_cluster_size": integer(2),
        "min_samples": integer(1).optional,
        "cluster_selection_epsilon": Number(0),
        "max_cluster_size": integer(1).optional,
        "cluster_selection_method": Choice(("eom", "leaf")),
        "allow_single_cluster": Flag(),
    }
    _fitted = DensityEstimator._fitted | {
        "probabilities_": Array(np.float64),
        "tree_first_": Array(np.int32),
        "tree_second_": Array(np.int32),
        "tree_weights_": Array(np.float64),
    }

    probabilities_: np.ndarray
    tree_first_: np.ndarray
    tree_second_: np.ndarray
    tree_weights_: np.ndarray

    def __init__(
        self,
        min_cluster_size: int = 5,
        *,
        min_samples: int | None = None,
        metric: str = "cosine",
        cluster_selection_epsilon: float = 0.0,
        max_cluster_size: int | None = None,
        cluster_selection_method: str = "eom",
        allow_single_cluster: bool = False,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Any = None,
    ) -> None:
        self.min_cluster_size = min_cluster_size
        self.min_samples = min_samples
        self.metric = metric
        self.cluster_selection_epsilon = cluster_selection_epsilon
        self.max_cluster_size = max_cluster_size
        self.cluster_selection_method = cluster_selection_method
        self.allow_single_cluster = allow_single_cluster
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any = None, *, feature_names: Any = None) -> HDBSCAN:
        """Find the clusters of X.

        Parameters
        ----------
        X : matrix, frame, Rows, store or path
            The rows.
        y : ignored
        feature_names : array-like of str, default=None
            Names of the columns, where X has none.

        Returns
        -------
        HDBSCAN
            The estimator.
        """
        started = time.perf_counter()
        self.check_parameters()
        rows = self._enter(X, reset=True)
        min_samples = self._n_near()
        if min_samples > rows.n_rows:
            raise ValueError(
                f"min_samples ({min_samples}) must be at most the number of samples in X "
                f"(n_samples={rows.n_rows})."
            )
        tree = spanning_tree(self._search(rows, metric=self.metric), min_samples)
        labels, probabilities = self._selected(tree, rows.n_rows)
        found = {
            "labels_": labels,
            "probabilities_": probabilities,
            "tree_first_": tree.first,
            "tree_second_": tree.second,
            "tree_weights_": tree.weights,
            "metric_": self.metric,
        }
        self._take_over(rows, found, feature_names, started)
        return self

    def fit_predict(self, X: Any, y: Any = None, *, feature_names: Any = None) -> np.ndarray:
        """Find the clusters of X and return the label of each row."""
        return self.fit(X, feature_names=feature_names).labels_

    def _n_near(self) -> int:
        return self.min_cluster_size if self.min_samples is None else self.min_samples

    @property
    def spanning_tree_(self) -> SpanningTree:
        """The minimum spanning tree of mutual reachability."""
        return SpanningTree(self.tree_first_, self.tree_second_, self.tree_weights_)

    def _selected(self, tree: SpanningTree, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels and their strengths, by scikit-learn's condensed tree."""
        if n_rows < 2:
            return np.full(n_rows, NOISE, dtype=np.int32), np.zeros(n_rows)
        from sklearn.cluster._hdbscan._linkage import MST_edge_dtype, make_single_linkage
        from sklearn.cluster._hdbscan._tree import tree_to_labels

        edges = np.empty(len(tree.weights), dtype=MST_edge_dtype)
        edges["current_node"], edges["next_node"] = tree.first, tree.second
        edges["distance"] = tree.weights
        labels, probabilities = tree_to_labels(
            make_single_linkage(edges),
            self.min_cluster_size,
            self.cluster_selection_method,
            self.allow_single_cluster,
            self.cluster_selection_epsilon,
            self.max_cluster_size,
        )
        return labels.astype(np.int32), np.asarray(probabilities, dtype=np.float64)

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self, "probabilities_")
        return super().get_state()
