"""Mini-batch k-means: for data too large, or too fresh, for full passes."""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_array, check_random_state

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.batches import run_batches
from sparsecluster.kmeans.estimator import ZERO_ROWS, CenterEstimator
from sparsecluster.kmeans.loop import exact_cost, iterate
from sparsecluster.kmeans.nested import NestedBatches
from sparsecluster.kmeans.projection import METHODS as PROJECTIONS
from sparsecluster.kmeans.seeding.shared import nearest_of
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.stopping import shift_tolerance
from sparsecluster.kmeans.stream import Stream, Waiting, check_sums, distinct_rows, what_was_seen
from sparsecluster.rows.checks import INPUT, check_feature_names, check_number, check_weights
from sparsecluster.rows.names import check_name
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import Callback, IterationRecord

SCHEDULES = ("nested", "sculley")
METRICS = ("euclidean", "cosine")
# Rows of a batch, by default: at least so many, and so many a cluster.
LEAST_BATCH = 1024
ROWS_A_CLUSTER = 30
# Rows that are seeded from, by default, in batches.
BATCHES_TO_SEED = 4


class MiniBatchKMeans(CenterEstimator):
    """K-means from batches of rows: `fit` for large data, `partial_fit` for streams.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        With "cosine" rows and centers are taken at unit length.
    schedule : {"nested", "sculley"}, default="nested"
        How `fit` goes through the rows. "nested": each batch holds the one before and is twice as
        large, as soon as the centers move by less than their standard error; it ends with
        iterations over all rows and is exact there (Newling and Fleuret 2016). "sculley":
        independent random batches, and a learning rate for each center (Sculley 2010).
        `partial_fit` always does the latter.
    init : str, array, sparse matrix or callable, default="k-means++"
        Where to start, as for :class:`~sparsecluster.KMeans`.
    init_options : dict or None, default=None
        Options of the named way to start.
    init_size : int or None, default=None
        Rows to start from, at random; by default 4 batches. In `partial_fit` rows are kept until
        there are so many, by default until there are `n_clusters` different ones.
    n_init : int, default=1
        Number of starts to try; the one with the lowest cost on these rows is kept.
    batch_size : int or None, default=None
        Rows of a batch, of the first one with "nested"; by default 30 for each cluster, and at
        least 1024.
    max_iter : int, default=300
        Most iterations of "nested", most passes over the rows of "sculley".
    tol : float, default=1e-4
        Stop when the sum of the squared shifts of the centers (smoothed over batches with
        "sculley") is at most `tol` times the mean variance of the features.
    max_no_improvement : int or None, default=10
        With "sculley", stop after so many batches without a lower smoothed cost.
    reassignment_ratio : float, default=0.01
        A center that has seen less than this share of what the busiest one has seen is put where a
        row of the batch is far from its own center. ("nested" refills empty clusters.)
    center_l1 : float or None, default=None
        Sparse centers: project each onto the L1 ball of this radius after each batch. For the
        cosine all entries shrink by the same until the center of unit length lies in the ball.
    projection : {"epsilon", "exact"}, default="epsilon"
        How, as for :func:`~sparsecluster.project_l1`.
    projection_epsilon : float, default=0.01
        By how much the radius may be exceeded, for "epsilon".
    center_nnz : int or None, default=None
        Sparse centers: keep so many entries of each, the largest ones.
    grow_features : bool, default=False
        Whether later batches may have more columns than those before, as a growing vocabulary
        does. Missing columns count as zero.
    zero_rows : {"error", "first"}, default="error"
        For the cosine: what to do with rows that are zero, as for SphericalKMeans.
    compute_labels : bool, default=True
        Whether `fit` by "sculley" gives all rows their labels at the end ("nested" has them).
    random_state : int, RandomState or None, default=None
        Seed of batches and starting centers.
    n_threads, memory_limit, verbose, callback
        As for :class:`~sparsecluster.KMeans`; with "sculley" an iteration of `fit` is a batch.

    Attributes
    ----------
    cluster_centers_ : csr_array or ndarray of shape (n_clusters_, n_features)
        The centers, in float64.
    labels_ : ndarray of int32
        Nearest center of each row of `fit`; of `partial_fit` those of the rows that were learned
        from (the batch, and what had waited), by the centers that they met.
    inertia_ : float
        Weighted sum of the squared distances of these rows to their centers; without labels an
        estimate from the batches.
    counts_ : ndarray of shape (n_clusters_,)
        Weight of the rows that each center has seen.
    n_iter_ : int
        Batches, or iterations, so far.
    n_steps_ : int
        Batches seen in all, `partial_fit` included.
    n_clusters_, history_, feature_names_
        As for :class:`~sparsecluster.KMeans`, of `fit`; `cost` and `rows` of the history are those
        of a batch.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import MiniBatchKMeans
    >>> X = csr_array([[1.0, 0, 0], [0.9, 0, 0], [0, 0, 1.0], [0, 0.1, 1.0]])
    >>> km = MiniBatchKMeans(n_clusters=2, random_state=0)
    >>> for _ in range(3):
    ...     km = km.partial_fit(X)
    >>> km.predict(X)[0] == km.predict(X)[1], km.counts_.sum()
    (np.True_, np.float64(12.0))
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "euclidean",
        schedule: str = "nested",
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        init_size: int | None = None,
        n_init: int = 1,
        batch_size: int | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_no_improvement: int | None = 10,
        reassignment_ratio: float = 0.01,
        center_l1: float | None = None,
        projection: str = "epsilon",
        projection_epsilon: float = 0.01,
        center_nnz: int | None = None,
        grow_features: bool = False,
        zero_rows: str = "error",
        compute_labels: bool = True,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.schedule = schedule
        self.init = init
        self.init_options = init_options
        self.init_size = init_size
        self.n_init = n_init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.max_no_improvement = max_no_improvement
        self.reassignment_ratio = reassignment_ratio
        self.center_l1 = center_l1
        self.projection = projection
        self.projection_epsilon = projection_epsilon
        self.center_nnz = center_nnz
        self.grow_features = grow_features
        self.zero_rows = zero_rows
        self.compute_labels = compute_labels
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    # --- all rows at hand ---------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> MiniBatchKMeans:
        """Cluster the rows of X; the parameters are those of KMeans.fit."""
        self._check_parameters()
        n_threads = effective_n_threads(self.n_threads)
        rows = self._check_rows(X, n_threads=n_threads, reset=True)
        if rows.n_rows < self.n_clusters:
            raise ValueError(
                f"n_samples={rows.n_rows} should be >= n_clusters={self.n_clusters}: there cannot "
                f"be more clusters than rows."
            )
        weights = check_weights(sample_weight, rows)
        check_sums(rows, weights)
        names = check_feature_names(feature_names, rows.n_features)
        setting = self._setting(rows, weights, n_threads, check_random_state(self.random_state))
        if self.schedule == "nested":
            self._fit_nested(rows, setting)
        else:
            self._fit_batches(rows, setting)
        self._waiting = None
        self._remember(rows, names)
        self._sparse = rows.sparse
        return self

    def _fit_nested(self, rows: Rows, setting: SeedSetting) -> None:
        columns = _core.column_stats(rows.core, setting.weights)
        useful = self._useful(rows, setting)
        batches = NestedBatches(rows, self._batch_rows, setting.random_state, useful)
        sample = np.sort(batches.drawn[: min(self._seed_rows, int(useful.sum()))])
        start = self._start(rows, sample, setting).limited(self._limit, self.metric)
        rows = batches.rows
        if setting.weights is not None:
            setting = replace(setting, weights=setting.weights[batches.order])
        found = iterate(
            rows,
            start,
            setting,
            columns=columns,
            tolerance=shift_tolerance(self.tol, columns),
            max_iter=self.max_iter,
            on_iteration=self._reporter(),
            limit=self._limit,
            batches=batches,
        )
        if not found.converged:
            warnings.warn(
                f"Mini-batch k-means did not converge in max_iter={self.max_iter} iterations: the "
                f"centers still move. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        seen = what_was_seen(rows, found.centers, found.labels, setting)
        stream = self._new_stream(found.centers, setting.random_state, seen, found.n_iter)
        labels = np.empty_like(found.labels)
        labels[batches.order] = found.labels
        self._finish(stream, found.history, labels, found.inertia)

    def _fit_batches(self, rows: Rows, setting: SeedSetting) -> None:
        columns = _core.column_stats(rows.core, setting.weights)
        useful = np.flatnonzero(self._useful(rows, setting))
        size = min(self._seed_rows, len(useful))
        sample = np.sort(setting.random_state.choice(useful, size, replace=False))
        stream = self._new_stream(self._start(rows, sample, setting), setting.random_state)
        history, cost = run_batches(
            rows,
            stream,
            setting,
            batch_size=min(self._batch_rows, rows.n_rows),
            max_passes=self.max_iter,
            max_no_improvement=self.max_no_improvement,
            tolerance=shift_tolerance(self.tol, columns),
            on_iteration=self._reporter(),
        )
        labels = None
        if self.compute_labels:
            centers = centers_.to_core(stream.centers)
            labels = self._assign(rows, centers, setting.n_threads)
            cost = exact_cost(rows, centers, labels, setting.weights, setting.n_threads)
        self._finish(stream, history, labels, cost)

    def _start(self, rows: Rows, sample: np.ndarray, setting: SeedSetting) -> _core.Centers:
        """Centers to start from: by these rows; by all where these have too few distinct ones."""
        if len(sample) < rows.n_rows:
            weights = None if setting.weights is None else setting.weights[sample]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                centers = self._best_start(rows.select(sample), replace(setting, weights=weights))
            if centers.n_clusters == self.n_clusters:
                return centers
        return self._best_start(rows, setting)

    def _best_start(self, rows: Rows, setting: SeedSetting) -> _core.Centers:
        tries = self.n_init if isinstance(self.init, str) or callable(self.init) else 1
        starts = [
            starting_centers(self.init, rows, self.n_clusters, setting, self.init_options)
            for _ in range(tries)
        ]
        if tries == 1:
            return starts[0]
        costs = []
        for start in starts:
            _, distance2 = nearest_of(rows, centers_.from_core(start), setting)
            costs.append(float(np.average(distance2, weights=setting.weights)))
        return starts[int(np.argmin(costs))]

    def _useful(self, rows: Rows, setting: SeedSetting) -> np.ndarray:
        """Which rows can tell where to start: they have weight and, for cosines, a direction."""
        useful = np.ones(rows.n_rows, dtype=bool)
        if setting.weights is not None:
            useful &= setting.weights > 0
        if self.metric == "cosine":
            useful &= rows.core.norm2 > 0
        return useful if useful.any() else ~useful

    def _finish(
        self,
        stream: Stream,
        history: list[IterationRecord],
        labels: np.ndarray | None,
        inertia: float,
    ) -> None:
        self._stream = stream
        self.history_ = history
        self.n_iter_ = len(history)
        self.inertia_ = inertia
        self.__dict__.pop("labels_", None)
        if labels is not None:
            self.labels_ = labels

    # --- streams ------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> MiniBatchKMeans:
        """Learn from one more batch of rows.

        The first rows are kept until there are enough to start from (see `init_size`); a warning
        says how many are missing. A batch that is refused changes nothing. Other threads and signal
        handlers may look at the estimator meanwhile, or save it: they see it as before the batch.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features)
            The batch; its size is what comes.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative.
        """
        self._check_parameters()
        n_threads = effective_n_threads(self.n_threads)
        fresh = self._stream is None and self._waiting is None
        rows = self._check_rows(X, n_threads=n_threads, reset=fresh)
        weights = check_weights(sample_weight, rows)
        check_sums(rows, weights)
        if fresh:
            self._sparse = rows.sparse
            self._remember(rows, None)
        stream = self._stream
        if stream is None:
            started = self._wait(rows, weights, n_threads)
            if started is None:
                return self
            stream, rows, weights = started
        elif stream.made_with != self._frozen:
            changed = [
                name for name, value in self._frozen.items() if stream.made_with[name] != value
            ]
            raise ValueError(
                f"{', '.join(changed)} changed after the first batch: a stream cannot follow that. "
                f"Start again with a clone of the estimator."
            )
        stream.widen(rows.n_features)
        n_threads = threads_for(rows.core.nnz * self.n_clusters, n_threads)
        learned = stream.learn(rows, weights, n_threads)
        self._stream, self._waiting = stream, None
        self.n_features_in_ = rows.n_features
        self.labels_ = learned.labels
        self.inertia_ = learned.cost
        self.n_iter_ = self._stream.n_batches
        return self

    def _wait(
        self, rows: Rows, weights: np.ndarray | None, n_threads: int
    ) -> tuple[Stream, Rows, np.ndarray | None] | None:
        """Keep rows until there are enough to start a stream from; then give back both."""
        waiting = self._waiting or Waiting(check_random_state(self.random_state))
        rows, weights = waiting.joined_by(rows, weights, n_threads)
        seeded = isinstance(self.init, str) or callable(self.init)
        missing = max(self.init_size or 0, self.n_clusters) - rows.n_rows if seeded else 0
        if missing <= 0:
            setting = self._setting(rows, weights, n_threads, waiting.random_state)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                centers = self._best_start(rows, setting)
            if centers.n_clusters < self.n_clusters:
                useful = np.flatnonzero(self._useful(rows, setting))
                rows, weights = distinct_rows(rows, weights, useful, n_threads)
                missing = self.n_clusters - rows.n_rows
            if missing <= 0:
                return self._new_stream(centers, waiting.random_state), rows, weights
        waiting.keep(rows, weights)
        self._waiting = waiting
        self.n_features_in_ = rows.n_features
        warnings.warn(
            f"There are no centers yet: {rows.n_rows} rows are kept, and {missing} more (different "
            f"ones) are needed to start. Call partial_fit with more rows.",
            UserWarning,
            stacklevel=3,
        )
        return None

    # --- what fit and partial_fit share -------------------------------------------------------

    _stream: Stream | None = None
    _waiting: Waiting | None = None
    _sparse: bool = True

    def _new_stream(
        self,
        centers: _core.Centers,
        random_state: np.random.RandomState,
        seen: tuple[np.ndarray, np.ndarray] | None = None,
        n_batches: int = 0,
    ) -> Stream:
        return Stream(
            centers,
            random_state,
            metric=self.metric,
            limit=self._limit,
            memory_limit=effective_memory_limit(self.memory_limit),
            reassignment_ratio=self.reassignment_ratio,
            made_with=self._frozen,
            seen=seen,
            n_batches=n_batches,
        )

    @property
    def _frozen(self) -> dict[str, Any]:
        """The parameters that a stream cannot change."""
        names = ("n_clusters", "metric", "center_l1", "projection", "projection_epsilon")
        return {name: getattr(self, name) for name in (*names, "center_nnz")}

    def _setting(
        self,
        rows: Rows,
        weights: np.ndarray | None,
        n_threads: int,
        random_state: np.random.RandomState,
    ) -> SeedSetting:
        return SeedSetting(
            random_state=random_state,
            weights=weights,
            memory_limit=effective_memory_limit(self.memory_limit),
            n_threads=threads_for(rows.core.nnz * self.n_clusters, n_threads),
            metric=self.metric,
        )

    @property
    def _metric(self) -> str:
        return self.metric

    @property
    def _limit(self) -> _core.CenterLimit:
        return _core.CenterLimit(
            np.inf if self.center_l1 is None else float(self.center_l1),
            self.projection,
            float(self.projection_epsilon),
            sys.maxsize if self.center_nnz is None else int(self.center_nnz),
        )

    @property
    def _batch_rows(self) -> int:
        return self.batch_size or max(LEAST_BATCH, ROWS_A_CLUSTER * self.n_clusters)

    @property
    def _seed_rows(self) -> int:
        return max(self.init_size or BATCHES_TO_SEED * self._batch_rows, self.n_clusters)

    @property
    def cluster_centers_(self) -> Any:
        """The centers as they are now."""
        if self._stream is None:
            raise AttributeError("There are no cluster_centers_ before fit or partial_fit.")
        return self._stream.centers if self._sparse else self._stream.centers.toarray()

    @property
    def counts_(self) -> np.ndarray:
        """Weight of the rows that each center has seen."""
        if self._stream is None:
            raise AttributeError("There are no counts_ before fit or partial_fit.")
        return self._stream.counts

    @property
    def n_steps_(self) -> int:
        """Batches seen so far."""
        return 0 if self._stream is None else self._stream.n_batches

    @property
    def n_clusters_(self) -> int:
        """Number of clusters found."""
        return len(self.counts_)

    @property
    def _n_features_out(self) -> int:
        return self.n_clusters_

    def __sklearn_is_fitted__(self) -> bool:
        return self._stream is not None

    def _check_is_fitted(self) -> None:
        if self._waiting is not None:
            raise NotFittedError(
                f"There are no centers yet: {self._waiting.n_rows} rows are kept, which are too "
                f"few different ones for {self.n_clusters} clusters. Call partial_fit with more."
            )
        super()._check_is_fitted()

    def _check_rows(self, X: Any, *, n_threads: int, reset: bool) -> Rows:
        if self.grow_features and not reset and isinstance(X, str | os.PathLike | Rows):
            recipe = self.recipe
            if recipe is None or (recipe.text is None and recipe.prepare is None):
                # Columns may be more than before; their names are looked at in _check_names.
                from sparsecluster.prepare.read import read

                X = (X if isinstance(X, Rows) else read(X)).matrix
        return super()._check_rows(X, n_threads=n_threads, reset=reset)

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if reset or not self.grow_features:
            return super()._validated(X, reset=reset)
        self._check_names(X)
        X = check_array(X, input_name="X", **INPUT)
        missing = self.n_features_in_ - X.shape[1]
        if missing <= 0:
            return X
        if not sp.issparse(X):
            return np.pad(X, ((0, 0), (0, missing)))
        shape = (X.shape[0], self.n_features_in_)
        return type(X)((X.data, X.indices, X.indptr), shape=shape, copy=False)

    def _check_names(self, X: Any) -> None:
        """Columns that have names keep their places when others join them."""
        known, names = getattr(self, "feature_names_in_", None), getattr(X, "columns", None)
        if known is None or names is None:
            return
        shared = min(len(known), len(names))
        if list(known[:shared]) != list(names[:shared]):
            raise ValueError(
                "The columns of X are not those of before, in the same order: new ones must come "
                "behind the known ones."
            )

    def _check_parameters(self) -> None:
        check_name("metric", self.metric, METRICS)
        super()._check_parameters()
        check_name("schedule", self.schedule, SCHEDULES)
        check_name("projection", self.projection, PROJECTIONS)
        check_name("zero_rows", self.zero_rows, ZERO_ROWS)
        for name in ("batch_size", "init_size", "max_no_improvement", "center_nnz"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), Integral, 1)
        for name in ("grow_features", "compute_labels"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        for name in ("reassignment_ratio", "projection_epsilon"):
            check_number(name, getattr(self, name), Real, 0)
            if not getattr(self, name) <= 1:
                raise ValueError(f"{name} must be at most 1, got {getattr(self, name)!r}.")
        if self.center_l1 is not None:
            check_number("center_l1", self.center_l1, Real, 0)
            least = 1 if self.metric == "cosine" else 0
            if not least <= self.center_l1 < np.inf or self.center_l1 == 0:
                raise ValueError(
                    f"center_l1 must be positive and finite, and for the cosine at least 1 (the "
                    f"least L1 norm of a center of unit length), got {self.center_l1!r}."
                )
