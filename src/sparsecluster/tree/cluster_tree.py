"""ClusterTree: rows divided from the root down, until every leaf is small enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import nearest_labels
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.errors import counted
from sparsecluster.rows.metric import METRICS, ZERO_ROWS, metric_of
from sparsecluster.rows.parameters import Choice, Flag, Number, check_number, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import INTEGER, LABELS, NUMBER, SECONDS, TEXT
from sparsecluster.tree.forms import TreeForms
from sparsecluster.tree.plan import SizePlan
from sparsecluster.tree.splitting import Splitter, grow, root_seed

MOST_BRANCHES = 1024
SMALL = 1 << 26  # bytes that any machine has
INITS = ("k-means++", "random")


@dataclass(frozen=True)
class LevelRecord:
    """How far a tree is: what its callback gets.

    Attributes
    ----------
    level : int
        The level whose nodes are being made; those below the root are level 1.
    nodes : int
        Nodes of the level above that are split.
    done, total : int
        Rows of these nodes: of those that were split, of all.
    seconds : float
        Since the fit began.
    """

    level: int
    nodes: int
    done: int
    total: int
    seconds: float


class ClusterTree(ClusterMixin, TreeForms):
    """A tree of clusters from the root down: every node is split by k-means until it is a leaf.

    All nodes of a level share the threads, and the work on a small node follows its entries, not
    the columns of X. The result is the same, to the bit, for any number of threads.

    Parameters
    ----------
    branching : int, default=16
        Largest number of children per node.
    max_leaf_size : int, default=100
        Largest number of rows per leaf; larger nodes are split.
    min_leaf_size : int, default=1
        Smallest number of rows per leaf.
    balanced : bool, default=True
        Whether the sizes of siblings differ by one row at most. The tree then has about as few
        leaves as `max_leaf_size` allows, and rows are divided among the children of a node so that
        the cost is the lowest for these sizes and centers, or nearly so in nodes of more than
        2,048 rows. Where a node has more than 1,024 rows per child, its centers are found with a
        sample of 512 or more per child.
        Without it a row goes to the nearest center, unless a child would get fewer than
        `min_leaf_size` rows or more than 7/8 of them.
    metric : {"euclidean", "cosine"}, default="cosine"
        What rows are compared by.
    zero_rows : {"error", "first"}, default="first"
        With "cosine", whether rows that are zero are refused, or go anywhere that they fit (with
        `predict` to the first child).
    init : {"k-means++", "random"}, default="k-means++"
        How the centers of a split start: with k-means++ on 4 rows per child, or with any rows.
    n_init : int, default=1
        Runs per split, of which the one of the lowest cost is kept.
    max_iter : int, default=20
        Most iterations of a run.
    tol : float, default=1e-2
        Stop a run when an iteration lowers its cost by no more than this share of it.
    random_state : int, RandomState or None, default=None
        Seed of the starting centers.
    n_threads : int or None, default=None
        Threads; by default as many as there are CPUs. The result is the same for any number.
    memory_limit : int, str or None, default=None
        Most bytes of scores (rows x branching) and tables (columns x branching) of a node, also
        like ``"2GB"``; by default half of what is free. More is refused before any work.
    verbose : int, default=0
        Whether to print a line per level.
    callback : callable or None, default=None
        Called with a record of `level`, `nodes`, `done`, `total` and `seconds` after each level,
        and in between at most ten times per second. What it raises ends the fit.

    Attributes
    ----------
    labels_ : ndarray of int32
        The leaf of each row. Leaves are numbered from left to right, so that those below any node
        are a range.
    n_leaves_ : int
        Number of leaves.
    tree_ : Tree
        The nodes: `parents`, `sizes`, `levels`, `first_children`, `n_children`, `leaves`, ...
    node_centers_ : csr_array or ndarray of shape (n_nodes, n_features)
        The center of each node.
    node_costs_ : ndarray of float64
        Weighted sum of the squared distances of the rows of each node to its center; with "cosine"
        twice that of 1 - cos.
    inertia_ : float
        The sum over the leaves.
    n_iter_ : int
        Iterations of the split that took most; 0 for a single leaf.
    seconds_ : dict
        Seconds that the fit took.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import ClusterTree
    >>> X = np.array([[9.0, 1], [8, 1], [1, 9], [1, 8], [5, 5], [5, 6]])
    >>> tree = ClusterTree(branching=3, max_leaf_size=2, random_state=0).fit(X)
    >>> tree.n_leaves_, np.bincount(tree.labels_)
    (3, array([2, 2, 2]))
    >>> tree.labels_[0] == tree.labels_[1], tree.labels_[2] == tree.labels_[3]
    (np.True_, np.True_)
    >>> [matrix.shape for matrix in tree.cluster_chain()]
    [(3, 1), (6, 3)]
    """

    _parameters = TreeForms._parameters | {
        "branching": integer(2, MOST_BRANCHES),
        "max_leaf_size": integer(1),
        "min_leaf_size": integer(1),
        "balanced": Flag(),
        "metric": Choice(METRICS),
        "zero_rows": Choice(ZERO_ROWS),
        "init": Choice(INITS),
        "n_init": integer(1),
        "max_iter": integer(1),
        "tol": Number(0),
    }
    _fitted = TreeForms._fitted | {
        "labels_": LABELS,
        "n_leaves_": INTEGER,
        "n_iter_": INTEGER,
        "inertia_": NUMBER,
        "metric_": TEXT,
        "seconds_": SECONDS,
    }

    callback: Any  # which gets other records than those of iterations
    labels_: np.ndarray
    n_leaves_: int

    def __init__(
        self,
        *,
        branching: int = 16,
        max_leaf_size: int = 100,
        min_leaf_size: int = 1,
        balanced: bool = True,
        metric: str = "cosine",
        zero_rows: str = "first",
        init: str = "k-means++",
        n_init: int = 1,
        max_iter: int = 20,
        tol: float = 1e-2,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Callable[[LevelRecord], Any] | None = None,
    ) -> None:
        self.branching = branching
        self.max_leaf_size = max_leaf_size
        self.min_leaf_size = min_leaf_size
        self.balanced = balanced
        self.metric = metric
        self.zero_rows = zero_rows
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        super().check_parameters()
        self._plan().check()

    def _plan(self) -> SizePlan:
        return SizePlan(
            int(self.branching),
            int(self.max_leaf_size),
            int(self.min_leaf_size),
            bool(self.balanced),
        )

    @property
    def n_clusters_(self) -> int:
        """Number of leaves, by the name that flat models have for it."""
        return self.n_leaves_

    # --- fit ----------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> ClusterTree:
        """Grow the tree of the rows of X.

        Parameters
        ----------
        X : matrix, data frame, Rows, store or path
            The rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative: in centers and costs. Sizes count rows.
        feature_names : sequence of str, optional
            Names of the columns, for :meth:`node_terms`.
        """
        started = time.perf_counter()
        self.check_parameters()
        rows = self._points(X, reset=True)
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        plan = self._plan()
        plan.check(rows.n_rows)
        seed = root_seed(self.random_state)
        n_threads = effective_n_threads(self.n_threads)
        columns = Columns.occurring(rows)
        points = rows if columns is None else columns.rows(rows, n_threads=n_threads)
        self._check_memory(points)
        splitter = Splitter(
            rows=points,
            weights=weights,
            unit=not metric_of(self.metric).centers_are_means,
            init=self.init,
            n_init=int(self.n_init),
            max_iter=int(self.max_iter),
            cost_tol=float(self.tol),
            shift_tol=-1.0,
            n_threads=threads_for(points.core.nnz * self.branching, n_threads),
        )
        grown = grow(splitter, plan, seed, self._teller(started))
        self._remember(rows, names)
        self._set_grown(grown, columns, sparse=rows.sparse)
        self.labels_, self.n_leaves_ = grown.labels, grown.tree.n_leaves
        self.n_iter_ = grown.n_iter
        self.inertia_ = float(grown.costs[grown.tree.leaves].sum())
        self.metric_ = self.metric
        self.seconds_ = {"total": time.perf_counter() - started}
        return self

    def _points(self, X: Any, *, reset: bool = False) -> Rows:
        measure = metric_of(self.metric if reset else self.metric_)
        return self._enter_points(X, measure, self.zero_rows, reset=reset)

    def _check_memory(self, rows: Rows) -> None:
        needed = 8 * self.branching * (rows.n_rows + 4 * min(rows.n_features, rows.core.nnz))
        small = self.memory_limit is None and needed <= SMALL
        if small or rows.n_rows <= self.max_leaf_size:
            return
        limit = effective_memory_limit(self.memory_limit)
        if needed > limit:
            raise ValueError(
                f"The scores of {rows.n_rows:,} rows with {self.branching} children, and the "
                f"tables of their centers, take {needed / 1e9:.3g} GB, more than the memory limit "
                f"of {limit / 1e9:.3g} GB. Pass a smaller branching, or raise memory_limit."
            )

    def _teller(self, started: float) -> Callable[[int, int, int, int], None]:
        def told(level: int, nodes: int, done: int, total: int) -> None:
            if not (self.verbose or self.callback):
                return
            seconds = time.perf_counter() - started
            if done == total:
                self._show(f"Level {level}: {counted(nodes, 'node')} split, {seconds:.2f} s")
            if self.callback is not None:
                self.callback(LevelRecord(level, nodes, done, total, seconds))

        return told

    # --- rows ---------------------------------------------------------------------------------

    def predict(self, X: Any, *, beam: int = 1) -> np.ndarray:
        """The leaf of each row, found from the root down.

        Sizes are not bounded here: rows of a balanced tree may go elsewhere than `labels_` says.

        Parameters
        ----------
        X : matrix, data frame, Rows, store or path
            The rows.
        beam : int, default=1
            How many nodes of a level are followed, those of the nearest centers. With 1 every step
            goes to the nearest child; with 0 rows are compared with all leaves, which is exact.

        Returns
        -------
        leaves : ndarray of int32
        """
        check_is_fitted(self)
        check_number("beam", beam, Integral, 0)
        rows = self._points(X)
        if beam > 0:
            width = min(int(beam), self.tree_.n_nodes)
            return self._route(rows, width, metric_of(self.metric_))
        centers: Any = sp.csr_array(self.node_centers_)[self.tree_.leaves]
        n_threads = effective_n_threads(self.n_threads)
        columns = Columns.occurring(rows, centers)
        if columns is not None:
            rows, centers = columns.rows(rows, n_threads=n_threads), columns.inside(centers)
        setting = Setting(
            n_threads=threads_for(rows.core.nnz * centers.shape[0], n_threads),
            memory_limit=effective_memory_limit(self.memory_limit),
            metric=metric_of(self.metric_),
        )
        return nearest_labels(rows, centers_.to_core(centers, rows.n_features), setting)

    def beam_misses(self, X: Any, *, beam: int = 1) -> float:
        """The share of the rows that `predict` with this beam takes elsewhere than to the nearest
        leaf, which ``beam=0`` finds."""
        return float(np.mean(self.predict(X, beam=beam) != self.predict(X, beam=0)))

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self)
        return super().get_state()
