"""K-means from batches: growing ones, random ones, or those of a stream."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.batches import run_batches
from sparsecluster.kmeans.empty import warn_if_fewer
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.nested import NestedBatches
from sparsecluster.kmeans.on_workers import OnWorkers
from sparsecluster.kmeans.remote import PartSetting, RemoteRows, open_rows
from sparsecluster.kmeans.setting import SeedSetting, told
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.stream import Stream, check_sums, what_was_seen
from sparsecluster.kmeans.stream_estimator import StreamEstimator
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.parameters import Choice, Flag, Number, integer
from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.run.history import Callback

SCHEDULES = ("nested", "sculley")
# Rows of a batch, by default: at least so many, and so many per cluster.
LEAST_BATCH = 1024
ROWS_PER_CLUSTER = 30
# Rows that are seeded from, by default, in batches.
BATCHES_TO_SEED = 4


@dataclass(frozen=True)
class Nesting:
    """The rows of a fit, here or on workers, and what is known about them."""

    rows: Rows
    columns: _core.ColumnStats
    setting: SeedSetting
    useful: np.ndarray  #: rows that can be centers
    remote: RemoteRows | None = None

    def picked(self, rows: np.ndarray) -> Rows:
        """Some of them, here."""
        if self.remote is None:
            return self.rows.select(rows)
        return as_rows(self.remote.picked(rows), n_threads=self.setting.n_threads)

    def here(self) -> Rows:
        """All of them, here."""
        return self.rows if self.remote is None else self.remote.rows_here()


class MiniBatchKMeans(OnWorkers, StreamEstimator):
    """K-means from batches of rows: `fit` for large data, `partial_fit` for streams.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        With "cosine" rows and centers are taken at unit length.
    schedule : {"nested", "sculley"}, default="nested"
        How the rows are taken: in batches that grow, or in independent ones. "nested": each batch
        holds the one before and is twice as large, as soon as the centers move by less than their
        standard error; it ends with iterations over all rows and is exact there (Newling and
        Fleuret 2016). "sculley": independent random batches, and a learning rate for each center
        (Sculley 2010). `partial_fit` always does the latter.
    init : str, array, sparse matrix or callable, default="k-means++"
        Where to start, as for :class:`~sparsecluster.KMeans`.
    init_options : dict or None, default=None
        Options of the named way to start.
    init_size : int or None, default=None
        Rows to start from, at random; by default 4 batches. In `partial_fit` rows are kept until
        there are so many, by default until there are `n_clusters` different ones.
    n_init : int or "auto", default=1
        Number of starts to try; the one with the lowest cost on these rows is kept. "auto" is 3
        for "random" and callables, else 1.
    batch_size : int or None, default=None
        Rows per batch, in the first one with "nested"; by default 30 per cluster, and at least
        1024.
    max_iter : int, default=300
        Most iterations of "nested", most passes over the rows of "sculley".
    tol : float, default=1e-4
        Stop when the sum of the squared shifts of the centers (smoothed over batches with
        "sculley") is at most `tol` times the mean variance of the features.
    max_no_improvement : int or None, default=10
        With "sculley", stop after this many batches without a lower smoothed cost.
    reassignment_ratio : float, default=0.01
        With "sculley", a center that has seen less than this share of what the busiest one has seen
        moves to a row of the batch that is far from its own center. ("nested" refills empty
        clusters.)
    center_l1 : float or None, default=None
        Sparse centers: project each onto the L1 ball of this radius after each batch. For the
        cosine all entries shrink by the same until the center of unit length lies in the ball.
    projection : {"epsilon", "exact"}, default="epsilon"
        How to project for `center_l1`, as in :func:`~sparsecluster.project_l1`.
    projection_epsilon : float, default=0.01
        With "epsilon", by what share the radius may be exceeded.
    center_nnz : int or None, default=None
        Sparse centers: keep only this many entries of each, the largest ones.
    grow_features : bool, default=False
        Whether later batches may have more columns than those before, as a growing vocabulary
        does. Missing columns count as zero.
    zero_rows : {"error", "first"}, default="error"
        For the cosine: what to do with rows that are zero, as for SphericalKMeans.
    compute_labels : bool, default=True
        Whether `fit` by "sculley" gives all rows their labels at the end ("nested" has them).
    random_state : int, RandomState or None, default=None
        Seed of batches and starting centers.
    executor : Client, str, int or None, default=None
        Who computes `fit`, with "nested", and `predict`, as for :class:`~sparsecluster.KMeans`:
        the workers of a Dask cluster, with the result of a fit here. The rows that the fit starts
        from come here. `partial_fit` learns here.
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
    n_clusters_, history_, converged_, seconds_, feature_names_
        As for :class:`~sparsecluster.KMeans`, of `fit`; `cost` and `rows` of the history are those
        of a batch. Batches of "sculley" count as "other" seconds, because one call assigns and
        updates.

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

    _parameters = (
        StreamEstimator._parameters
        | OnWorkers._parameters
        | {
            "schedule": Choice(SCHEDULES),
            "batch_size": integer(1).optional,
            "max_no_improvement": Number(0, kind=Integral).optional,
            "compute_labels": Flag(),
        }
    )

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "euclidean",
        schedule: str = "nested",
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        init_size: int | None = None,
        n_init: int | str = 1,
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
        executor: Any = None,
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
        self.executor = executor
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.executor is not None and self.schedule != "nested":
            raise ValueError(f"schedule={self.schedule!r} cannot be combined with executor.")

    # --- all rows at hand ---------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> MiniBatchKMeans:
        """Cluster the rows of X; the parameters are those of KMeans.fit."""
        started = time.perf_counter()
        self.check_parameters()
        self._warn_of_few_seeds()
        random_state = check_random_state(self.random_state)
        if self.executor is not None:
            with open_rows(X, self.executor, PartSetting.of(self, self.metric)) as remote:
                remote.measure(sample_weight)
                return self._fit_remotely(remote, feature_names, random_state, started)
        rows = self._rows_to_fit(X)
        weights = check_weights(sample_weight, rows)
        check_sums(rows.core.max_norm, weights)
        names = check_feature_names(feature_names, rows.n_features)
        setting = self._setting(rows, weights, random_state)
        setting = replace(setting, progress=told(self._reporter()))
        if self.schedule == "nested":
            columns = _core.column_stats(rows.core, setting.weights, setting.n_threads)
            self._fit_nested(Nesting(rows, columns, setting, self._useful(rows, setting)), started)
        else:
            self._fit_batches(rows, setting, started)
        return self._end(rows, names)

    def _fit_remotely(
        self,
        remote: RemoteRows,
        names: Any,
        random_state: np.random.RandomState,
        started: float,
    ) -> MiniBatchKMeans:
        """Cluster rows that workers have."""
        rows = remote.described
        self._check_n_rows(rows)
        check_sums(remote.range[1], remote.weights)
        names = check_feature_names(names, rows.n_features)
        setting = remote.seed_setting(random_state)
        setting = replace(setting, progress=told(self._reporter()))
        self._enter_unread(rows)
        useful = self._useful_of(remote.useful(), setting)
        self._fit_nested(Nesting(rows, remote.columns, setting, useful, remote), started)
        return self._end(rows, names)

    def _end(self, rows: Rows, names: Any) -> MiniBatchKMeans:
        self._waiting = None
        self._remember(rows, names)
        self._sparse = rows.sparse
        return self

    def _warn_of_few_seeds(self) -> None:
        if self.init_size is not None and self.init_size < self.n_clusters:
            warnings.warn(
                f"init_size={self.init_size} should be larger than n_clusters={self.n_clusters}; "
                f"{self.n_clusters} rows are taken.",
                RuntimeWarning,
                stacklevel=3,
            )

    def _fit_nested(self, data: Nesting, started: float) -> None:
        rows, setting, remote = data.rows, data.setting, data.remote
        batches = NestedBatches(self._batch_rows, setting.random_state, data.useful)
        sample = np.sort(batches.drawn[: min(self._seed_rows, int(data.useful.sum()))])
        limit = self._stream_setting.limit
        seeding = time.perf_counter()
        start = self._start(data, sample).limited(limit, setting.metric.space)
        seeding = time.perf_counter() - seeding
        task = Task(
            rows=rows,
            setting=setting,
            columns=data.columns,
            tolerance=self.tol * data.columns.mean_variance,
            max_iter=self.max_iter,
            limit=limit,
            remote=remote,
            shown=lambda centers: centers if rows.sparse else centers.toarray(),
        )
        report = self._reporter()
        found = batches.iterate(task, RunState.at(start), lambda record, loop: report(record))
        stepping = self.max_iter == 1 and not (isinstance(self.init, str) or callable(self.init))
        if not (found.converged or found.stopped or stepping):
            warnings.warn(
                f"Mini-batch k-means did not converge in max_iter={self.max_iter} iterations: the "
                f"centers still move. Raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        centers = centers_.to_core(found.centers)
        seen = remote.seen() if remote else what_was_seen(rows, centers, found.labels, setting)
        stream = Stream(
            centers,
            setting.random_state,
            self._stream_setting,
            seen=seen,
            n_batches=len(found.history),
        )
        self._set_history(found.history, found.converged, seeding, started)
        self._finish(stream, found.labels, found.inertia)

    def _fit_batches(self, rows: Rows, setting: SeedSetting, started: float) -> None:
        columns = _core.column_stats(rows.core, setting.weights, setting.n_threads)
        useful = np.flatnonzero(self._useful(rows, setting))
        size = min(self._seed_rows, len(useful))
        sample = np.sort(setting.random_state.choice(useful, size, replace=False))
        seeding = time.perf_counter()
        start = self._start(Nesting(rows, columns, setting, useful), sample)
        seeding = time.perf_counter() - seeding
        stream = Stream(start, setting.random_state, self._stream_setting)
        history, cost, converged = run_batches(
            rows,
            stream,
            setting,
            batch_size=min(self._batch_rows, rows.n_rows),
            max_passes=self.max_iter,
            max_no_improvement=self.max_no_improvement,
            tolerance=self.tol * columns.mean_variance,
            on_iteration=self._reporter(),
        )
        labels = None
        if self.compute_labels:
            centers = centers_.to_core(stream.centers)
            labels = self._assign(rows, centers, setting.n_threads)
            cost = _core.own_cost(rows.core, centers, labels, setting.weights, setting.n_threads)
        self._set_history(history, converged, seeding, started)
        self._finish(stream, labels, cost)

    def _finish(self, stream: Stream, labels: np.ndarray | None, inertia: float) -> None:
        self._stream = stream
        self.inertia_ = inertia
        self.__dict__.pop("labels_", None)
        if labels is not None:
            self.labels_ = labels

    def _start(self, data: Nesting, sample: np.ndarray) -> _core.Centers:
        """Centers to start from: by these rows; by all where these have too few distinct ones."""
        setting = data.setting
        if len(sample) < data.rows.n_rows:
            weights = None if setting.weights is None else setting.weights[sample]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                centers = self._best_start(data.picked(sample), replace(setting, weights=weights))
            if centers.n_clusters == self.n_clusters:
                return centers
        centers = self._best_start(data.here(), setting)
        warn_if_fewer(centers.n_clusters, self.n_clusters)
        return centers

    @property
    def _batch_rows(self) -> int:
        return self.batch_size or max(LEAST_BATCH, ROWS_PER_CLUSTER * self.n_clusters)

    @property
    def _seed_rows(self) -> int:
        return max(self.init_size or BATCHES_TO_SEED * self._batch_rows, self.n_clusters)
