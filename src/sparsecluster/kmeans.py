"""K-means for sparse data: the estimator, and its ways to start as functions."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsecluster import _core
from sparsecluster.data.checks import check_feature_names, check_number, check_weights
from sparsecluster.data.rows import Rows, as_rows, check_structure, unit_rows
from sparsecluster.engine import assignment, refine, restarts, seeding
from sparsecluster.engine import centers as centers_
from sparsecluster.engine.history import Callback, IterationRecord, describe
from sparsecluster.engine.loop import Clustering, exact_cost, iterate
from sparsecluster.engine.names import check_name
from sparsecluster.engine.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.engine.stopping import shift_tolerance

# How scikit-learn is asked to check X; values are checked by the core, which names the row.
_INPUT = {
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "accept_large_sparse": True,
    "ensure_all_finite": False,
}


class KMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
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
    algorithm : {"auto", "lloyd", "elkan", "hamerly"}, default="auto"
        How rows are assigned. All give the same labels; they differ in speed and memory. "elkan"
        keeps a float per row and cluster.
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
        Called with an :class:`~sparsecluster.engine.history.IterationRecord` after each iteration;
        a true answer ends the fit, with all its runs.

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
        The names given to :meth:`fit`.

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

    _metric = "euclidean"

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

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> KMeans:
        """Cluster the rows of X.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features)
            Any scipy sparse format, or an array. CSR and C-ordered arrays of float32 or float64 are
            used as they are, without a copy, so they must not change during the fit.
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
        self.feature_names_ = names
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
            setting = seeding.Setting(
                random_state=np.random.RandomState(seeds[run]),
                weights=weights,
                memory_limit=memory_limit,
                n_threads=n_threads,
                metric=self._metric,
            )
            centers = seeding.seed(self.init, rows, self.n_clusters, setting, self.init_options)
            return self._run(
                rows, centers, setting, columns, algorithm, on_iteration=on_iteration, run=run
            )

        # A function of the user's may not stand being called from several threads.
        together = min(n_init, n_threads) if isinstance(self.init, str) else 1
        found = restarts.run_all(
            rows, run_from, n_init, together, n_threads=n_threads, on_iteration=self._reporter()
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
        centers: _core.Centers,
        setting: seeding.Setting,
        columns: _core.ColumnStats,
        algorithm: str,
        *,
        on_iteration: Callback,
        run: int,
    ) -> Clustering:
        """One run from given centers."""
        common: dict[str, Any] = {
            "weights": setting.weights,
            "columns": columns,
            "metric": self._metric,
            "max_iter": self.max_iter,
            "n_threads": setting.n_threads,
            "on_iteration": on_iteration,
            "run": run,
        }
        loop: Callable[..., Clustering] = partial(
            iterate,
            rows,
            tolerance=shift_tolerance(self.tol, columns),
            make_assigner=partial(
                assignment.make_assigner,
                algorithm,
                rows,
                n_threads=setting.n_threads,
                memory_limit=setting.memory_limit,
                metric=self._metric,
            ),
            algorithm=algorithm,
            **common,
        )
        clustering = loop(centers)
        if self.refine is None:
            return clustering
        return refine.first_variation(
            rows,
            clustering,
            memory_limit=setting.memory_limit,
            continue_loop=lambda centers, done: loop(centers, done=done),
            **common,
        )

    def _reporter(self) -> Callback:
        show: Callable[[str], None] | None = None
        if self.verbose:
            from rich.console import Console

            show = partial(Console(stderr=True).print, highlight=False, soft_wrap=True)

        def report(record: IterationRecord) -> Any:
            if show:
                # A terminal that went away must not end the fit.
                with contextlib.suppress(OSError, ValueError):
                    show(describe(record))
            return self.callback(record) if self.callback else None

        return report

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> np.ndarray:
        """Cluster the rows of X and return their labels."""
        return self.fit(X, sample_weight=sample_weight, feature_names=feature_names).labels_

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> np.ndarray:
        """Cluster the rows of X and return their distances to the centers."""
        return self.fit(X, sample_weight=sample_weight, feature_names=feature_names).transform(X)

    def predict(self, X: Any) -> np.ndarray:
        """Nearest center of each row; equal distances go to the lowest index."""
        rows, centers, n_threads = self._prepare(X)
        return self._assign(rows, centers, n_threads)

    def transform(self, X: Any) -> np.ndarray:
        """Distances of each row to all centers, in the float type of X."""
        rows, centers, n_threads = self._prepare(X)
        distances = np.empty((rows.n_rows, centers.n_clusters), dtype=rows.matrix.dtype)
        _core.all_distances(rows.core, centers, distances, n_threads)
        return distances

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the weighted sum of the squared distances of the rows to their nearest centers."""
        rows, centers, n_threads = self._prepare(X)
        weights = check_weights(sample_weight, rows)
        labels = self._assign(rows, centers, n_threads)
        return -exact_cost(rows, centers, labels, weights, n_threads)

    def top_terms(self, n_terms: int = 10, *, feature_names: Any = None) -> list[list[str]]:
        """The columns with the largest values in each center, largest first.

        Parameters
        ----------
        n_terms : int, default=10
            How many to name for each cluster.
        feature_names : sequence of str, optional
            Names of the columns. By default those given to :meth:`fit`, those of its data frame, or
            x0, x1, ...
        """
        check_is_fitted(self, "cluster_centers_")
        check_number("n_terms", n_terms, Integral, 1)
        centers = sp.csr_array(self.cluster_centers_)
        names = check_feature_names(feature_names, centers.shape[1])
        if names is None:
            names = self.feature_names_
        if names is None:
            names = getattr(self, "feature_names_in_", None)
        terms = []
        for begin, end in zip(centers.indptr[:-1], centers.indptr[1:], strict=True):
            order = np.argsort(-centers.data[begin:end], kind="stable")[:n_terms]
            columns = centers.indices[begin:end][order[centers.data[begin:end][order] > 0]]
            terms.append([f"x{c}" if names is None else str(names[c]) for c in columns])
        return terms

    def _prepare(self, X: Any) -> tuple[Rows, _core.Centers, int]:
        check_is_fitted(self, "cluster_centers_")
        n_threads = effective_n_threads(self.n_threads)
        rows = self._check_rows(X, n_threads=n_threads, reset=False)
        centers = centers_.to_core(self.cluster_centers_)
        n_threads = threads_for(rows.core.nnz * centers.n_clusters, n_threads)
        rows.core.cover(float(np.sqrt(centers.norm2.max())))
        return rows, centers, n_threads

    def _assign(self, rows: Rows, centers: _core.Centers, n_threads: int) -> np.ndarray:
        labels = np.full(rows.n_rows, -1, dtype=np.int32)
        assigner = assignment.make_assigner(
            "lloyd",
            rows,
            n_threads=n_threads,
            memory_limit=effective_memory_limit(self.memory_limit),
            metric=self._metric,
        )
        assigner.assign(centers, np.zeros(0), labels)
        return labels

    def _check_rows(self, X: Any, *, n_threads: int, reset: bool) -> Rows:
        if sp.issparse(X):
            check_structure(X)
        X = validate_data(self, X, reset=reset, **_INPUT)
        return as_rows(X, n_threads=n_threads)

    def _check_parameters(self) -> None:
        check_number("n_clusters", self.n_clusters, Integral, 1)
        check_number("n_init", self.n_init, Integral, 1)
        check_number("max_iter", self.max_iter, Integral, 1)
        check_number("tol", self.tol, Real, 0)
        if self.init_options is not None and not isinstance(self.init_options, dict):
            raise ValueError(f"init_options must be a dict or None, got {self.init_options!r}.")
        if isinstance(self.init, str):
            seeding.check_method(self.init, self._metric, self.init_options)
        elif self.init_options:
            raise ValueError("init_options are of no use unless init is a name.")
        check_name("algorithm", self.algorithm, assignment.ALGORITHMS)
        if self.refine is not None:
            check_name("refine", self.refine, refine.METHODS)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be callable or None, got {self.callback!r}.")
        check_number("verbose", self.verbose, (bool, Integral), 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def seed_centers(
    X: Any,
    n_clusters: int,
    method: str = "k-means++",
    *,
    metric: str = "euclidean",
    sample_weight: Any = None,
    random_state: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    **options: Any,
) -> tuple[Any, np.ndarray | None]:
    """Choose starting centers, by any of the ways that `init` of the estimators knows.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features)
        The rows.
    n_clusters : int
        How many centers to find.
    method : str, default="k-means++"
        - "k-means++": greedy, the best of several draws by squared distance at each step
          (`n_local_trials`, by default ``2 + ln(n_clusters)``);
        - "plain-k-means++": one draw a step;
        - "spkm++": draws in proportion to 1.5 less the cosine (for the cosine only);
        - "mcmc": such draws approximated by Markov chains of `chain_length` steps (100), after a
          single pass;
        - "k-means||": `rounds` (5) of about `oversampling` (2) times `n_clusters` draws each, then
          greedy k-means++ on what was drawn;
        - "furthest-first": the mean, then the row farthest from all centers so far;
        - "oversample": `oversampling` (4) times as many rows at random, of which those farthest
          apart are kept;
        - "bisecting": splits the costliest cluster in two until there are enough;
        - "hierarchical": Ward's method on `sample_size` (2000) rows;
        - "random": rows at random.
    metric : {"euclidean", "cosine"}, default="euclidean"
        With "cosine" rows are taken at unit length, and so are the centers.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.
    random_state : int, RandomState or None, default=None
        Seed.
    n_threads : int, optional
        Threads to use; the result does not depend on it.
    memory_limit : int or str, optional
        Bytes (or "2GB") beyond the data, by default half of the memory that is free.
    **options
        Those named above.

    Returns
    -------
    centers : csr_array or ndarray of shape (n_clusters, n_features)
        Fewer, with a warning, where X has too few distinct rows for the method. "mcmc", "spkm++"
        and "random" may give equal rows.
    indices : ndarray of shape (n_clusters,) or None
        Where they are in X; None for a method whose centers are not rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import seed_centers
    >>> X = csr_array([[1.0, 0], [1.0, 0.1], [0, 1.0]])
    >>> centers, indices = seed_centers(X, 2, "mcmc", random_state=0, chain_length=20)
    >>> centers.shape, len(indices)
    ((2, 2), 2)
    """
    check_number("n_clusters", n_clusters, Integral, 1)
    check_name("metric", metric, ("euclidean", "cosine"))
    seeding.check_method(method, metric, options, name="method")
    threads = effective_n_threads(n_threads)
    if sp.issparse(X):
        check_structure(X)
    rows = as_rows(check_array(X, input_name="X", **_INPUT), n_threads=threads)
    if rows.n_rows < n_clusters:
        raise ValueError(f"n_samples={rows.n_rows} should be >= n_clusters={n_clusters}.")
    if metric == "cosine":
        rows = unit_rows(rows, n_threads=threads)
    setting = seeding.Setting(
        random_state=check_random_state(random_state),
        weights=check_weights(sample_weight, rows),
        memory_limit=effective_memory_limit(memory_limit),
        n_threads=threads_for(rows.core.nnz * n_clusters, threads),
        metric=metric,
    )
    centers, indices = seeding.seed_by_name(method, rows, n_clusters, setting, options)
    if indices is not None:
        return rows.matrix[indices], indices
    return (centers if rows.sparse else centers.toarray()), None


def kmeans_plusplus(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    random_state: Any = None,
    n_local_trials: int | None = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
) -> tuple[Any, np.ndarray]:
    """Choose starting centers by greedy k-means++; :func:`seed_centers` has other ways.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features)
        The rows.
    n_clusters : int
        How many to choose.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.
    random_state : int, RandomState or None, default=None
        Seed.
    n_local_trials : int, optional
        Candidates tried a step, by default ``2 + ln(n_clusters)``; 1 is the plain form.
    n_threads : int, optional
        Threads to use; the result does not depend on it.
    memory_limit : int or str, optional
        Bytes (or "2GB") for a copy of X by columns, by default half of the memory that is free; the
        result does not depend on it.

    Returns
    -------
    centers : csr_array or ndarray of shape (n_clusters, n_features)
        The chosen rows, in the type of X.
    indices : ndarray of shape (n_clusters,)
        Where they are in X. Fewer, with a warning, where X has fewer distinct rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import kmeans_plusplus
    >>> X = csr_array([[1.0, 0], [1.0, 0], [0, 1.0]])
    >>> centers, indices = kmeans_plusplus(X, 2, random_state=0)
    >>> sorted(centers.toarray().tolist())
    [[0.0, 1.0], [1.0, 0.0]]
    """
    options: dict[str, Any] = {}
    if n_local_trials is not None:
        check_number("n_local_trials", n_local_trials, Integral, 1)
        options["n_local_trials"] = n_local_trials
    centers, indices = seed_centers(
        X,
        n_clusters,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
        memory_limit=memory_limit,
        **options,
    )
    assert indices is not None
    return centers, indices
