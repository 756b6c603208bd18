"""K-means for sparse data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sparsecluster import _core
from sparsecluster.kmeans import assignment, refine, seeding
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.estimator import CenterEstimator
from sparsecluster.kmeans.loop import Clustering, clustering_of, iterate
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.stopping import shift_tolerance
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.names import check_name
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.run import restarts
from sparsecluster.run.history import Callback
from sparsecluster.storage.checkpoint import (
    RunCheckpoint,
    RunState,
    fingerprint,
    open_checkpoint,
    seconds,
)

# The parameters that a result depends on.
DECIDING = (
    "n_clusters",
    "init",
    "init_options",
    "n_init",
    "refine",
    "max_iter",
    "tol",
    "random_state",
)


class KMeans(CenterEstimator):
    """K-means, exact for every algorithm, on sparse or dense rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    init : str, array, sparse matrix or callable, default="k-means++"
        Where to start: one of the names that :func:`seed_centers` lists; "k-means++" is the greedy
        form, ``2 + ln(n_clusters)`` candidates a step. An array or sparse matrix holds one center a
        row. A callable gets ``(X, n_clusters, random_state=...)`` and returns such centers.
    init_options : dict or None, default=None
        Options of the named way to start, for example ``{"chain_length": 30}`` with "mcmc".
    n_init : int, default=1
        Number of runs from different starts; the one with the lowest cost is kept. Runs share X and
        go side by side where there are several threads.
    algorithm : {"auto", "lloyd", "elkan", "elkan-rows", "hamerly"}, default="auto"
        How rows are assigned. All give the same labels; they differ in speed and memory. "elkan",
        center by center, and "elkan-rows", in the original order, keep a float per row and cluster.
    refine : {"first-variation"} or None, default=None
        What to do when a run has settled. "first-variation" moves single rows while that lowers the
        cost, counting how both centers follow, in turns with further iterations: a lower cost for
        more time, above all with few rows a cluster.
    max_iter : int, default=300
        Most iterations of a run; a ConvergenceWarning says when they were not enough.
    tol : float, default=1e-4
        Stop when the sum of the squared shifts of the centers is at most `tol` times the mean
        variance of the features. With 0 a run goes on until no label changes.
    random_state : int, RandomState or None, default=None
        Seed of the starting centers.
    n_threads : int or None, default=None
        Threads to use; by default all CPUs of the process, within threadpoolctl's limits. The
        results do not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB", "500 MiB") that a fit may take beyond its data; by default half of the
        memory that is free. It covers Elkan's bounds, the SIMD rows of the centers and the copy of
        X by columns that makes k-means++ fast; each is replaced by something smaller where it does
        not fit. What grows with the rows or the columns alone is not counted.
    verbose : int, default=0
        With 1 each iteration is shown on standard error.
    callback : callable or None, default=None
        Called with an :class:`~sparsecluster.run.history.IterationRecord` after each iteration;
        a true answer ends the fit, with all its runs.
    checkpoint : str, path or None, default=None
        A folder that keeps the state of the fit. The same fit (the same data and parameters, any
        number of threads) goes on from there if it was killed, and ends with the same result. What
        has ended stays there too: remove the folder to begin anew.
    checkpoint_every : float or str, default=60
        Seconds (or "90s", "5m", "1h") after which an iteration is followed by a checkpoint.

    Attributes
    ----------
    cluster_centers_ : csr_array or ndarray of shape (n_clusters_, n_features)
        The means, in float64; a CSR array for sparse and an ndarray for dense input.
    labels_ : ndarray of shape (n_samples,), int32
        Nearest center of each row; always equal to ``predict(X)``.
    inertia_ : float
        Weighted sum of the squared distances of the rows to their centers.
    n_iter_ : int
        Iterations of the run that was kept.
    n_clusters_ : int
        Number of clusters found: smaller than `n_clusters` if X has fewer distinct rows.
    history_ : list of IterationRecord
        One record an iteration of the run that was kept.
    algorithm_ : str
        The algorithm that was used.
    feature_names_ : ndarray of str or None
        The names given to :meth:`fit`, or those of the file.
    recipe_ : dict
        How the file that was fitted became rows, where it was one; `predict` reads others so.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import KMeans
    >>> X = csr_array([[1.0, 0, 0], [0.9, 0, 0], [0, 0, 1.0], [0, 0.1, 1.0]])
    >>> km = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> km.labels_[0] == km.labels_[1], km.labels_[2] == km.labels_[3]
    (np.True_, np.True_)
    >>> km.predict(csr_array([[0.8, 0, 0.1]]))[0] == km.labels_[0]
    np.True_
    >>> round(km.inertia_, 6)
    0.01
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        n_init: int = 1,
        algorithm: str = "auto",
        refine: str | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        checkpoint: Any = None,
        checkpoint_every: float | str = 60,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.init_options = init_options
        self.n_init = n_init
        self.algorithm = algorithm
        self.refine = refine
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> KMeans:
        """Cluster the rows of X.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), Rows, or path
            Any scipy sparse format, or an array; what :func:`read` or :func:`open_store` gave, or
            the path of a file or a store. CSR and C-ordered arrays of float32 or float64 are used
            as they are, without a copy, so they must not change during the fit.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative.
        feature_names : sequence of str, optional
            Names of the columns, for :meth:`top_terms`.
        """
        self._check_parameters()
        n_threads = effective_n_threads(self.n_threads)
        rows = self._check_rows(X, n_threads=n_threads, reset=True)
        if rows.n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={rows.n_rows} should be >= n_clusters={self.n_clusters}: there cannot "
                f"be more clusters than rows."
            )
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        n_threads = threads_for(rows.core.nnz * self.n_clusters, n_threads)

        best, algorithm = self._best_run(rows, weights, n_threads)
        centers = centers_.from_core(best.centers)
        self._remember(rows, names)
        self.algorithm_ = algorithm
        self.cluster_centers_ = centers if rows.sparse else centers.toarray()
        self.labels_ = best.labels
        self.inertia_ = best.inertia
        self.n_iter_ = best.n_iter
        self.history_ = best.history
        self.n_clusters_ = centers.shape[0]
        self._n_features_out = self.n_clusters_
        self._summarise(rows, weights)
        return self

    def _summarise(self, rows: Rows, weights: np.ndarray | None) -> None:
        """Set what else a kind of k-means tells of its fit."""

    def _best_run(
        self, rows: Rows, weights: np.ndarray | None, n_threads: int
    ) -> tuple[Clustering, str]:
        random_state = check_random_state(self.random_state)
        memory_limit = effective_memory_limit(self.memory_limit)
        columns = _core.column_stats(rows.core, weights)
        algorithm = assignment.choose_algorithm(self.algorithm, rows, self.n_clusters, memory_limit)
        n_init = self.n_init if isinstance(self.init, str) or callable(self.init) else 1
        if n_init < self.n_init:
            warnings.warn(
                f"n_init={self.n_init} is of no use with given centers: there is one run.",
                RuntimeWarning,
                stacklevel=3,
            )
        seeds = random_state.randint(np.iinfo(np.int32).max, size=n_init)

        def run_from(run: int, n_threads: int, on_iteration: Callback) -> Clustering:
            setting = SeedSetting(
                random_state=np.random.RandomState(seeds[run]),
                weights=weights,
                memory_limit=memory_limit,
                n_threads=n_threads,
                metric=self._metric,
            )
            checkpoint = saved.run(run) if saved else None
            return self._run(
                rows, setting, columns, algorithm, checkpoint, on_iteration=on_iteration, run=run
            )

        # A function of the user's may not stand being called from several threads.
        together = min(n_init, n_threads) if isinstance(self.init, str) else 1
        same_fit = self._fingerprint(rows, weights)
        with open_checkpoint(self.checkpoint, same_fit, self.checkpoint_every) as saved:
            seeds = saved.seeds(seeds) if saved else seeds
            found = restarts.run_all(
                run_from, n_init, together, n_threads=n_threads, on_iteration=self._reporter()
            )
        best = min(found, key=lambda one: one.inertia)
        if not best.converged:
            warnings.warn(
                f"K-means did not converge in max_iter={self.max_iter} iterations: the centers "
                f"still move. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return best, algorithm

    def _run(
        self,
        rows: Rows,
        setting: SeedSetting,
        columns: _core.ColumnStats,
        algorithm: str,
        checkpoint: RunCheckpoint | None,
        *,
        on_iteration: Callback,
        run: int,
    ) -> Clustering:
        """One run, from its start or from where it was."""
        state = checkpoint.load(rows) if checkpoint else None
        if state and state.finished:
            return clustering_of(state, rows, setting)
        if state is None:
            centers = seeding.seed(self.init, rows, self.n_clusters, setting, self.init_options)
            state = RunState(centers=centers_.from_core(centers), history=[])
            if checkpoint:
                checkpoint.save(state)
        else:
            centers = state.core_centers()
        common: dict[str, Any] = {
            "columns": columns,
            "max_iter": self.max_iter,
            "on_iteration": on_iteration,
            "run": run,
        }
        tolerance = shift_tolerance(self.tol, columns)
        loop: Callable[..., Clustering] = partial(
            iterate, rows, setting=setting, tolerance=tolerance, algorithm=algorithm, **common
        )
        if state.refining:
            clustering = clustering_of(state, rows, setting)
        else:
            clustering = loop(centers, checkpoint=checkpoint, resumed=state)
        if self.refine is not None:
            clustering = refine.first_variation(
                rows,
                clustering,
                setting,
                continue_loop=lambda centers, done: loop(centers, done=done),
                checkpoint=checkpoint,
                **common,
            )
        if checkpoint and not clustering.stopped:
            checkpoint.save(clustering.state(history=clustering.history))
        return clustering

    def _fingerprint(self, rows: Rows, weights: np.ndarray | None) -> dict[str, Any]:
        """What tells this fit from others, in a checkpoint."""
        if self.checkpoint is None:
            return {}
        parameters = {name: getattr(self, name) for name in DECIDING}
        parameters |= {"metric": self._metric, "zero_rows": getattr(self, "zero_rows", None)}
        return fingerprint(parameters, rows, weights)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_name("algorithm", self.algorithm, assignment.ALGORITHMS)
        seconds(self.checkpoint_every)
        if self.refine is not None:
            check_name("refine", self.refine, refine.METHODS)
