"""BisectingKMeans: one cluster after the other is split in two, the worst first."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.parameters import Choice, Flag, integer
from sparsecluster.rows.resources import effective_n_threads, threads_for
from sparsecluster.storage.fields import INTEGER, LABELS, NUMBER, SECONDS, TEXT
from sparsecluster.tree.cluster_tree import INITS
from sparsecluster.tree.forms import TreeForms
from sparsecluster.tree.nodes import Tree, breadth_first
from sparsecluster.tree.splitting import (
    Grown,
    NodeSplit,
    Splitter,
    child_seeds,
    root_seed,
    stacked,
)

STRATEGIES = ("biggest_inertia", "largest_cluster")


class BisectingKMeans(TreeForms, CenterEstimator):
    """Bisecting k-means: begins with one cluster and splits the worst one in two, again and again.

    scikit-learn's estimator for rows of any size and either metric. Rows are predicted as they were
    clustered: from the root down, to the nearer of two centers at every split.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        What rows are compared by.
    zero_rows : {"error", "first"}, default="error"
        With "cosine", whether rows that are zero are refused, or go to the first of two clusters.
    init : {"k-means++", "random"}, default="random"
        How the two centers of a split start.
    n_init : int, default=1
        Runs per split, of which the one of the lowest cost is kept.
    random_state : int, RandomState or None, default=None
        Seed of the starting centers.
    max_iter : int, default=300
        Most iterations of a split.
    verbose : int, default=0
        Whether to print a line per round of splits.
    tol : float, default=1e-4
        A split is done when the sum of the squared shifts of its centers is at most `tol` times the
        mean variance of the features of X.
    copy_x : bool, default=True
        Has no effect: X is never changed. For scikit-learn's signature.
    algorithm : {"lloyd", "elkan"}, default="lloyd"
        For scikit-learn's signature: two centers are compared at once, whichever is named, and both
        give the same clusters.
    bisecting_strategy : {"biggest_inertia", "largest_cluster"}, default="biggest_inertia"
        Which cluster is split next: that of the highest cost, or of the most rows.
    n_threads : int or None, default=None
        Threads; by default as many as there are CPUs. The result is the same for any number.
    memory_limit : int, str or None, default=None
        Most bytes for a copy of rows at unit length that come from a store.
    callback : callable or None, default=None
        Called with a record of `clusters`, `wanted` and `seconds` after each round of splits. What
        it raises ends the fit.

    Attributes
    ----------
    cluster_centers_ : csr_array or ndarray of shape (n_clusters_, n_features)
        The centers of the leaves.
    labels_ : ndarray of int32
        The cluster of each row, as `predict` gives it; numbered from left to right in the tree.
    inertia_ : float
        Weighted sum of the squared distances of the rows to their centers.
    n_clusters_ : int
        Number of clusters: fewer than asked for where X has fewer distinct rows.
    n_iter_ : int
        Iterations of the split that took most.
    tree_ : Tree
        The nodes: `parents`, `sizes`, `levels`, `leaves`, ...
    node_centers_, node_costs_
        Center and cost of each node.
    seconds_ : dict
        Seconds that the fit took.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import BisectingKMeans
    >>> X = [[1, 1], [10, 1], [3, 1], [10, 0], [2, 1], [10, 2], [10, 8], [10, 9], [10, 10]]
    >>> X = np.array(X, dtype=float)
    >>> bisecting = BisectingKMeans(n_clusters=3, random_state=0).fit(X)
    >>> sorted(np.bincount(bisecting.labels_).tolist())
    [3, 3, 3]
    >>> bisecting.predict([[0, 0], [12, 3]]).tolist() == bisecting.labels_[[0, 1]].tolist()
    True
    """

    _parameters = CenterEstimator._parameters | {
        "n_init": integer(1),
        "init": Choice(INITS),
        "copy_x": Flag(),
        "algorithm": Choice(["lloyd", "elkan"]),
        "bisecting_strategy": Choice(STRATEGIES),
    }
    _fitted = TreeForms._fitted | {
        "labels_": LABELS,
        "inertia_": NUMBER,
        "objective_": NUMBER,
        "metric_": TEXT,
        "seconds_": SECONDS,
        "n_iter_": INTEGER,
    }

    callback: Any  # which gets other records than those of iterations
    init_options = None

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "euclidean",
        zero_rows: str = "error",
        init: str = "random",
        n_init: int = 1,
        random_state: Any = None,
        max_iter: int = 300,
        verbose: int = 0,
        tol: float = 1e-4,
        copy_x: bool = True,
        algorithm: str = "lloyd",
        bisecting_strategy: str = "biggest_inertia",
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.zero_rows = zero_rows
        self.init = init
        self.n_init = n_init
        self.random_state = random_state
        self.max_iter = max_iter
        self.verbose = verbose
        self.tol = tol
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.bisecting_strategy = bisecting_strategy
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.callback = callback

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> BisectingKMeans:
        """Cluster the rows of X.

        Parameters
        ----------
        X : matrix, data frame, Rows, store or path
            The rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative.
        feature_names : sequence of str, optional
            Names of the columns, for :meth:`top_terms`.
        """
        started = time.perf_counter()
        self.check_parameters()
        rows = self._rows_to_fit(X)
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        seed = root_seed(self.random_state)
        n_threads = effective_n_threads(self.n_threads)
        columns, metric = Columns.occurring(rows), self._measure(reset=True)
        points = rows if columns is None else columns.rows(rows, n_threads=n_threads)
        variance = _core.column_stats(points.core, weights, n_threads).mean_variance
        splitter = Splitter(
            rows=points,
            weights=weights,
            unit=not metric.centers_are_means,
            init=self.init,
            n_init=int(self.n_init),
            max_iter=int(self.max_iter),
            cost_tol=0.0,
            shift_tol=self.tol * variance,
            n_threads=threads_for(points.core.nnz * 2, n_threads),
        )

        def told(clusters: int) -> None:
            record = BisectionRecord(clusters, self.n_clusters, time.perf_counter() - started)
            self._show(f"{clusters} of {self.n_clusters} clusters, {record.seconds:.2f} s")
            if self.callback is not None:
                self.callback(record)

        grown = _Bisection(splitter, self.bisecting_strategy).run(self.n_clusters, seed, told)
        warn_if_fewer(grown.tree.n_leaves, self.n_clusters)
        self._remember(rows, names)
        self._set_grown(grown, columns, sparse=rows.sparse)
        self._restore_tree()
        self.labels_, self.metric_ = grown.labels, self.metric
        self.inertia_ = float(grown.costs[grown.tree.leaves].sum())
        self.objective_ = metric.objective(self.inertia_, rows.core.norm2, weights)
        self.n_iter_ = grown.n_iter
        self.seconds_ = {"total": time.perf_counter() - started}
        return self

    def _restore_tree(self) -> None:
        self.cluster_centers_ = self.node_centers_[self.tree_.leaves]
        self.n_clusters_ = self._n_features_out = self.tree_.n_leaves

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of each row, found from the root down."""
        self.check_is_fitted()
        return self._route(self._points(X), 1, self._measure())

    def nearest_center(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """The cluster of each row, as `predict` gives it, and the squared distance to its center.

        For the cosine squared distances are those at unit length, 2 (1 - cos).
        """
        self.check_is_fitted()
        points = self._points(X)
        labels = self._route(points, 1, self._measure())
        rows, centers, n_threads = self._met(points)
        return labels, _core.own_distances(rows.core, centers, labels, n_threads)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances of the rows to their centers."""
        self.check_is_fitted()
        points = self._points(X)
        weights = check_weights(sample_weight, points)
        labels = self._route(points, 1, self._measure())
        rows, centers, n_threads = self._met(points)
        return -_core.own_cost(rows.core, centers, labels, weights, n_threads)

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        self.check_is_fitted()
        state = super().get_state()
        del state["by_feature"]  # of flat centers
        return state


@dataclass(frozen=True)
class BisectionRecord:
    """How far a bisection is: what its callback gets.

    Attributes
    ----------
    clusters, wanted : int
        Clusters so far, and how many it will be.
    seconds : float
        Since the fit began.
    """

    clusters: int
    wanted: int
    seconds: float


@dataclass
class _Node:
    rows: np.ndarray
    cost: float
    seed: np.uint64
    center: sp.csr_array
    parent: int
    split: NodeSplit | None = None


@dataclass
class _Bisection:
    """Leaves that wait for their turn. What a split gives depends on its node alone, so those that
    are likely to come next are made side by side, and which of them count is decided after that."""

    splitter: Splitter
    strategy: str
    nodes: list[_Node] = field(default_factory=list)
    n_iter: int = 0

    def run(self, n_clusters: int, seed: int, told: Callable[[int], None]) -> Grown:
        center, cost = self.splitter.root()
        rows = np.arange(self.splitter.rows.n_rows, dtype=np.int32)
        self.nodes = [_Node(rows, cost, np.uint64(seed), center, -1)]
        leaves = [0]
        closed: set[int] = set()  # whose rows are all the same
        while len(leaves) + len(closed) < n_clusters and leaves:
            worst = max(leaves, key=lambda node: (self._priority(node), -node))
            leaves.remove(worst)
            if self.nodes[worst].split is None:
                self._split([worst, *leaves], n_clusters - len(leaves) - len(closed) - 1)
                told(len(leaves) + len(closed) + 1)
            if len(children := self._children(worst)) < 2:
                closed.add(worst)
            else:
                leaves.extend(children)
        told(len(leaves) + len(closed))
        return self._grown()

    def _priority(self, node: int) -> float:
        one = self.nodes[node]
        return one.cost if self.strategy == "biggest_inertia" else len(one.rows)

    def _split(self, nodes: list[int], most: int) -> None:
        """Split the first of these nodes, and those that are likely to follow it."""
        least = self._priority(nodes[0]) / 2
        others = [
            n for n in nodes[1:] if self.nodes[n].split is None and self._priority(n) >= least
        ]
        others.sort(key=lambda node: (-self._priority(node), node))
        chosen = [self.nodes[n] for n in (nodes[0], *others[: max(most - 1, 0)])]
        seeds = np.array([one.seed for one in chosen], dtype=np.uint64)
        splits = self.splitter.split([one.rows for one in chosen], seeds)
        for one, split in zip(chosen, splits, strict=True):
            one.split = split

    def _children(self, node: int) -> list[int]:
        """The nodes that a split makes of one; none where it makes one only."""
        one = self.nodes[node]
        assert one.split is not None
        if one.split.n_children < 2:
            return []
        first = len(self.nodes)
        seeds = child_seeds(np.array([one.seed]), np.array([one.split.n_children]))
        for child, seed in enumerate(seeds):
            rows = one.rows[one.split.labels == child]
            center = one.split.centers[[child]]
            self.nodes.append(_Node(rows, float(one.split.costs[child]), seed, center, node))
        self.n_iter = max(self.n_iter, one.split.n_iter)
        one.split = None
        return list(range(first, len(self.nodes)))

    def _grown(self) -> Grown:
        order = breadth_first([one.parent for one in self.nodes])
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.arange(len(order))
        nodes = [self.nodes[i] for i in order]
        if len(nodes) == 1:
            nodes[0].cost = self.splitter.exact_cost(nodes[0].center)
        parents = np.array([-1 if one.parent < 0 else number[one.parent] for one in nodes])
        tree = Tree(parents, np.array([len(one.rows) for one in nodes]))
        labels = np.empty(self.splitter.rows.n_rows, dtype=np.int32)
        for leaf, node in enumerate(tree.leaves):
            labels[nodes[node].rows] = leaf
        centers = stacked([one.center for one in nodes])
        costs = np.array([one.cost for one in nodes])
        return Grown(tree, centers, costs, labels, self.n_iter)
