"""K-means for sparse data, by distance or by cosine."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from sparsecluster import _core
from sparsecluster.kmeans import assignment, refine, sizes
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.center_estimator import CenterEstimator
from sparsecluster.kmeans.cluster_terms import cluster_weights
from sparsecluster.kmeans.embedded import FINISHES, EmbeddedFit, check_embedding, described
from sparsecluster.kmeans.keeping import keeping
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.merging import MergingEstimator
from sparsecluster.kmeans.on_workers import OnWorkers, written_labels
from sparsecluster.kmeans.remote import PartSetting, RemoteRows, open_rows
from sparsecluster.kmeans.runs import DECIDING, Runs, warn_unless_converged
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.parameters import Anything, By, Choice, Flag, integer
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import Callback
from sparsecluster.storage.checkpoint import check_folder, fingerprint, seconds
from sparsecluster.storage.fields import TEXT


class KMeans(OnWorkers, MergingEstimator):
    """K-means, exact for every algorithm, on sparse or dense rows.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    metric : {"euclidean", "cosine"}, default="euclidean"
        How rows are compared; with "cosine" they count by their direction alone. That is spherical
        k-means (Dhillon and Modha 2001): rows are taken at unit length, and so are the centers,
        each of which is the direction of the mean of its rows. The bounds of "elkan" and "hamerly"
        are then kept as angles (Schubert, Lang and Feher 2021).
    zero_rows : {"error", "first"}, default="error"
        With "cosine", what to do with rows that are zero and have no direction: refuse them, or put
        them into the first cluster, because their cosine with every center is 0. They do not move
        its center.
    init : str, array, sparse matrix or callable, default="k-means++"
        Where to start: one of the names that :func:`seed_centers` lists; "k-means++" is the greedy
        form, ``2 + ln(n_clusters)`` candidates per step. An array or sparse matrix holds one center
        per row. A callable gets ``(X, n_clusters, random_state=...)`` and returns such centers.
    init_options : dict or None, default=None
        Options of the named way to start, for example ``{"chain_length": 30}`` with "mcmc".
    n_init : int or "auto", default=1
        Number of runs from different starts; the one with the lowest cost is kept. Runs share X and
        go side by side where there are several threads. "auto" is 10 for "random" and callables,
        else 1.
    algorithm : {"auto", "lloyd", "elkan", "elkan-rows", "hamerly", "block-max"}, default="auto"
        How rows are assigned; all give the same labels, but differ in speed and memory. "elkan",
        center by center, and "elkan-rows", in the original order, keep a float per row and cluster.
        "block-max" rules out blocks of centers by their largest values, where X is not negative.
    size_min : int or None, default=None
        Smallest number of rows in a cluster; 1 where only `size_max` is given. Of all ways to
        assign the rows within the bounds, each iteration takes one of the lowest cost. Weights
        count in the cost, not in the sizes. `algorithm` has to be "auto". The bounds hold for
        `labels_`; `predict` gives the nearest centers.
    size_max : int or None, default=None
        Largest number of rows in a cluster.
    refine : {"first-variation"} or None, default=None
        What to do when a run has settled: "first-variation" moves single rows while that lowers the
        cost. It counts how both centers follow, in turns with further iterations: a lower cost for
        more time, above all with few rows per cluster.
    embedding : int, transformer or None, default=None
        Cluster in so many columns first, made by a :class:`~sparsecluster.SparseEmbedding`; or in
        those that a given transformer makes of X (by "cosine" of its rows at unit length). The
        clusters are then lifted: centers are the means of their rows of X, and `predict` takes rows
        of X. A function as `init` gets the embedded rows.
    finish : {"exact", "none"}, default="exact"
        How a fit with an embedding ends: "exact" iterates on in the original space, from the lifted
        centers, until they settle there; "none" keeps the lifted clusters, as in the paper (Liu,
        Shen and Tsang 2017). Then `labels_` are those of the embedded rows, and some of them may
        have another nearest center, which `predict` gives.
    max_iter : int, default=300
        Most iterations of a run, in each space where there is an embedding; a warning says when
        they were not enough, but for single steps: ``max_iter=1`` from given centers.
    tol : float, default=1e-4
        Stop when the sum of the squared shifts of the centers is at most `tol` times the mean
        variance of the features. With 0 a run ends when no label changes.
    random_state : int, RandomState or None, default=None
        Seed of the starting centers.
    n_threads : int or None, default=None
        Threads to use; by default all CPUs of the process, within threadpoolctl's limits. The
        results do not depend on it.
    executor : Client, str, int or None, default=None
        Who computes: this process; or the workers of a dask.distributed Client, of the scheduler at
        an address, or so many worker processes here. X is then a store that all of them see, a dask
        array of rows, or a list of delayed CSR matrices. The results are the same to the bit, and a
        worker that is lost costs only time. Some starts are found by this process, which reads all
        rows for that: all but "random", "k-means||", "oversample" and "hierarchical".
    memory_limit : int, str or None, default=None
        Bytes (or "2GB", "500 MiB") that a fit may take beyond its data; by default half of the
        memory that is free. It covers Elkan's bounds, the SIMD rows of the centers and the copy of
        X by columns that makes k-means++ fast; each is replaced by something smaller where it does
        not fit. What grows with the rows or the columns alone is not counted.
    verbose : int, default=0
        With 1 each iteration is shown on standard output, as scikit-learn does.
    callback : callable or None, default=None
        Called with an :class:`~sparsecluster.IterationRecord` after each iteration; a true answer
        ends the fit, with all its runs. The record makes centers and labels when asked for them. A
        method `on_seeding` of the callback, if it has one, is called now and then before that, with
        a :class:`~sparsecluster.SeedingRecord`; `on_assignment` within iterations that keep size
        bounds, with an :class:`~sparsecluster.AssignmentRecord`.
    checkpoint : str, path or None, default=None
        A folder that keeps the state of the fit, so that it resumes there if it was killed. The
        same fit (the same data and parameters, any number of threads, with `executor` or without)
        ends with the same result.
        What has ended stays there too: remove the folder to start again. A fit that Ctrl-C or an
        error ends first saves its last iteration, and says so by the logger "sparsecluster".
    checkpoint_every : float or str, default=60
        Seconds (or "90s", "5m", "1h") after which an iteration is followed by a checkpoint.
    copy_x : bool, default=True
        Has no effect: X is never changed, and not copied. For scikit-learn's signature.

    Attributes
    ----------
    cluster_centers_ : csr_array or ndarray of shape (n_clusters_, n_features)
        The means, in float64; a CSR array for sparse and an ndarray for dense input.
    labels_ : ndarray of shape (n_samples,), int32
        Nearest center of each row, equal to ``predict(X)``; with `size_min` or `size_max` the
        cluster of each row within the bounds.
    cluster_weights_ : ndarray of shape (n_clusters_,)
        Weight of the rows of each cluster.
    inertia_ : float
        Weighted sum of the squared distances of the rows to their centers; with "cosine" twice that
        of 1 - cos.
    objective_ : float
        What the literature minimises: the inertia, or with "cosine" the weighted sum of 1.5 - cos,
        as in SPKM++.
    n_iter_ : int
        Iterations of the run that was kept.
    converged_ : bool
        Whether that run met the stopping rule: False where `max_iter` was up, or where a callback
        ended it.
    seconds_ : dict
        Seconds of that run by phase: "embedding" (if there is one), "seeding", "assignment",
        "update" and "other" (filling empty clusters, single moves, exact costs); and "total", those
        of the whole call of `fit`. A run that resumed from a checkpoint counts its phases from the
        beginning, but for the embedding.
    n_clusters_ : int
        Number of clusters found: smaller than `n_clusters` if X has fewer distinct rows.
    history_ : list of IterationRecord
        One :class:`~sparsecluster.IterationRecord` per iteration of the run that was kept; its
        `space` says whether it was one of embedded rows.
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

    _parameters = OnWorkers._parameters | {
        "algorithm": Choice(_core.ALGORITHMS),
        "size_min": integer(1).optional,
        "size_max": integer(1).optional,
        "refine": Choice(refine.METHODS).optional,
        "embedding": Anything(),
        "finish": Choice(FINISHES),
        "checkpoint": By(check_folder).optional,
        "checkpoint_every": By(seconds),
        "copy_x": Flag(),
    }
    _fitted = CenterEstimator._fitted | {"algorithm_": TEXT}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "euclidean",
        zero_rows: str = "error",
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        n_init: int | str = 1,
        algorithm: str = "auto",
        size_min: int | None = None,
        size_max: int | None = None,
        refine: str | None = None,
        embedding: Any = None,
        finish: str = "exact",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        n_threads: int | None = None,
        executor: Any = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        checkpoint: Any = None,
        checkpoint_every: float | str = 60,
        copy_x: bool = True,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.zero_rows = zero_rows
        self.init = init
        self.init_options = init_options
        self.n_init = n_init
        self.algorithm = algorithm
        self.size_min = size_min
        self.size_max = size_max
        self.refine = refine
        self.embedding = embedding
        self.finish = finish
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_threads = n_threads
        self.executor = executor
        self.memory_limit = memory_limit
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.copy_x = copy_x

    def check_parameters(self) -> None:
        super().check_parameters()
        sizes.check_parameters(
            self.size_min, self.size_max, algorithm=self.algorithm, refine=self.refine
        )
        check_embedding(self.embedding, self.n_clusters, self.init)
        for name in ("size_min", "size_max", "refine", "embedding"):
            if self.executor is not None and getattr(self, name) is not None:
                raise ValueError(f"{name} cannot be combined with executor.")

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None,
        labels_file: Any = None,
    ) -> KMeans:  # fmt: skip
        """Cluster the rows of X.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), Rows, or path
            Any scipy sparse format, or an array; what :func:`read` or :func:`open_store` gave, or
            the path of a file or a store. CSR and C-ordered arrays of float32 or float64 are used
            as they are, without a copy, so they must not change during the fit; with "cosine" the
            values are copied, unless all rows have unit length.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Weights of the rows, not negative.
        feature_names : sequence of str, optional
            Names of the columns, for :meth:`top_terms`.
        labels_file : str or path, optional
            With `executor`, a file ``*.npy`` that all workers see: they write the labels there, and
            `labels_` is mapped from it, so that no process holds all of them.
        """
        started = time.perf_counter()
        self.check_parameters()
        self._check_labels_file(labels_file)
        if self.executor is not None:
            with open_rows(X, self.executor, PartSetting.of(self, self.metric)) as remote:
                remote.measure(sample_weight)
                return self._fit_remotely(remote, feature_names, labels_file, started)
        rows = self._rows_to_fit(X)
        bounds = sizes.bounds_of(self.size_min, self.size_max, rows.n_rows, self.n_clusters)
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        setting = self._setting(rows, weights, check_random_state(self.random_state))
        algorithm = assignment.choose_algorithm(
            self.algorithm, rows, self.n_clusters, setting.memory_limit
        )
        algorithm = algorithm if bounds is None else sizes.ALGORITHM
        init, points, embedded = self.init, rows, None
        # A function gets X as it is.
        occurring = None if callable(init) else Columns.occurring(rows, self._given_centers(rows))
        if occurring is not None:
            points = occurring.rows(rows, n_threads=setting.n_threads)
        if self.embedding is not None:
            embedded = EmbeddedFit(self.embedding, self.finish, self.algorithm, self.tol, rows)
        elif occurring is not None and not isinstance(init, str):
            init = occurring.inside(self._given_centers(rows))
        columns = _core.column_stats(points.core, weights, setting.n_threads)

        def shown(centers: sp.csr_array) -> Any:
            centers = centers if occurring is None else occurring.outside(centers)
            return centers if rows.sparse else centers.toarray()

        task = Task(
            rows=points,
            setting=setting,
            columns=columns,
            occurring=occurring,
            algorithm=algorithm,
            bounds=bounds,
            max_iter=self.max_iter,
            tolerance=self.tol * columns.mean_variance,
            shown=shown,
        )
        deciding = {name: getattr(self, name) for name in DECIDING}
        if embedded is not None:
            deciding |= {"embedding": described(self.embedding), "finish": self.finish}
        same_fit = {} if self.checkpoint is None else fingerprint(deciding, rows, weights)
        best = self._best_run(task, init, embedded, same_fit)
        self._remember(rows, names)
        self.objective_ = setting.metric.objective(best.inertia, rows.core.norm2, weights)
        self._take(best, task, started)
        if embedded is not None:
            self.seconds_ = {"embedding": embedded.seconds, **self.seconds_}
        return self

    def _fit_remotely(self, remote: RemoteRows, names: Any, file: Any, started: float) -> KMeans:
        """Cluster rows that workers have."""
        rows = remote.described
        self._check_n_rows(rows)
        names = check_feature_names(names, rows.n_features)
        task = remote.task(self.max_iter, self.tol, check_random_state(self.random_state))
        task = replace(task, takes_labels=file is None or self.checkpoint is not None)
        deciding = {name: getattr(self, name) for name in DECIDING}
        same_fit = {} if self.checkpoint is None else remote.fingerprint(deciding)
        self._enter_unread(rows)
        best = self._best_run(task, self.init, None, same_fit)
        if file is not None:
            best = replace(best, labels=written_labels(remote, best.centers, file))
        self._remember(rows, names)
        self.objective_ = remote.objective(best.inertia)
        self._take(best, task, started)
        return self

    def _take(self, best: RunState, task: Task, started: float) -> None:
        """Make the end of a run that of the fit."""
        self.algorithm_, self.metric_ = task.algorithm, self.metric
        self._set_centers(task.shown(best.centers))
        self.labels_ = best.labels
        weights = task.setting.weights
        self.cluster_weights_ = cluster_weights(best.labels, weights, self.n_clusters_)
        self.inertia_ = best.inertia
        self._set_history(best.history, best.converged, best.seeding_seconds, started)

    def _set_centers(self, centers: Any) -> None:
        self.cluster_centers_ = centers
        self.n_clusters_ = self._n_features_out = centers.shape[0]

    def _given_centers(self, rows: Rows) -> Any:
        """Centers to start from that were given; None for a name."""
        if isinstance(self.init, str):
            return None
        return centers_.check_centers(self.init, self.n_clusters, rows.n_features)

    def _best_run(
        self, task: Task, init: Any, embedded: EmbeddedFit | None, same_fit: dict[str, Any]
    ) -> RunState:
        """The run of the lowest cost, of those from several starts."""
        # An embedding has a seed, too.
        n_seeds = self._n_init + (embedded is not None)
        seeds = task.setting.random_state.randint(np.iinfo(np.int32).max, size=n_seeds)
        with keeping(self.checkpoint, same_fit, self.checkpoint_every) as keeper:
            seeds = keeper.seeds(seeds) if keeper else seeds
            runs = Runs(
                n_clusters=self.n_clusters,
                n_init=self._n_init,
                init_options=self.init_options,
                refine=self.refine,
                show=self._show,
                report=self._reporter(),
                keeper=keeper,
            )
            if embedded is None:
                best = runs.best(task, init, seeds)
            else:
                best = embedded.run(task, init, runs, seeds)
        # A single iteration from given centers is a step that was asked for.
        stepping = self.max_iter == 1 and not (isinstance(init, str) or callable(init))
        warn_unless_converged(best, self.max_iter, stepping=stepping)
        return best

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        return super().get_state() | {"cluster_centers_": self.cluster_centers_}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave."""
        centers = centers_.check_stored(state.pop("cluster_centers_"), verify=verify)
        self._set_centers(centers)
        self.n_features_in_ = int(centers.shape[1])
        super().set_state(state, verify=verify)
