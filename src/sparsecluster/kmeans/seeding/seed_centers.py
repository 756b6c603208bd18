"""The public functions: what `init` of the estimators does, on its own."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state

from sparsecluster.kmeans.seeding.starting import check_method, seed_by_name
from sparsecluster.kmeans.setting import Progress, SeedSetting, unheard
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.parameters import check_number
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for


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
    executor: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[Any, np.ndarray | None]:
    """Choose starting centers, by any of the ways that `init` of the estimators knows.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features), Rows, or path
        The rows.
    n_clusters : int
        How many centers to find.
    method : str, default="k-means++"
        - "k-means++": greedy, the best of several draws by squared distance at each step
          (`n_local_trials`, by default ``2 + ln(n_clusters)``);
        - "plain-k-means++": one draw per step;
        - "spkm++": draws in proportion to 1.5 - cosine (for the cosine only);
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
    executor : Client, str, int or None, default=None
        Who has the rows, as for :class:`~sparsecluster.KMeans`.
    progress : callable, optional
        Called now and then with the share that is done, from 0 to 1.
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
    measure = metric_of(metric)
    check_method(method, metric, options, name="method")
    threads, random_state = effective_n_threads(n_threads), check_random_state(random_state)
    if executor is not None:
        # Which knows this package.
        from sparsecluster.kmeans.remote import PartSetting, open_rows

        parts = PartSetting(metric=metric, n_threads=n_threads, memory_limit=memory_limit)
        with open_rows(X, executor, parts) as remote:
            _check_n_rows(remote.n_rows, n_clusters)
            remote.weigh(sample_weight)
            setting = remote.seed_setting(random_state)
            setting = replace(setting, progress=progress or unheard)
            centers, indices = remote.seeds(method, n_clusters, setting, options)
            _warn_if_fewer(centers.shape[0], n_clusters, method)
            return centers, indices
    rows = enter(X, n_threads=threads)
    _check_n_rows(rows.n_rows, n_clusters)
    rows = measure.rows_to_fit(rows, n_threads=threads)
    setting = SeedSetting(
        random_state=random_state,
        weights=check_weights(sample_weight, rows),
        memory_limit=effective_memory_limit(memory_limit),
        n_threads=threads_for(rows.core.nnz * n_clusters, threads),
        metric=measure,
        progress=progress or unheard,
    )
    columns = Columns.occurring(rows)
    points = rows if columns is None else columns.rows(rows, n_threads=threads)
    centers, indices = seed_by_name(method, points, n_clusters, setting, options)
    _warn_if_fewer(centers.shape[0], n_clusters, method)
    if indices is not None:
        return rows.picked(indices), indices
    if columns is not None:
        centers = columns.outside(centers)
    return (centers if rows.sparse else centers.toarray()), None


def _check_n_rows(n_rows: int, n_clusters: int) -> None:
    if n_rows < n_clusters:
        raise ValueError(f"n_samples={n_rows} should be >= n_clusters={n_clusters}.")


def _warn_if_fewer(found: int, n_clusters: int, method: str) -> None:
    if found < n_clusters:
        warnings.warn(
            f"Found only {found} of {n_clusters} centers: X has too few distinct rows for "
            f"{method!r}.",
            ConvergenceWarning,
            stacklevel=3,
        )


def kmeans_plusplus(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    x_squared_norms: Any = None,
    random_state: Any = None,
    n_local_trials: int | None = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> tuple[Any, np.ndarray]:
    """Choose starting centers by greedy k-means++; :func:`seed_centers` has other ways.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features), Rows, or path
        The rows.
    n_clusters : int
        How many to choose.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.
    x_squared_norms : array of shape (n_samples,), optional
        Accepted for compatibility with scikit-learn and not needed: norms are computed anyway.
    random_state : int, RandomState or None, default=None
        Seed.
    n_local_trials : int, optional
        Candidates tried per step, by default ``2 + ln(n_clusters)``; 1 is the plain form.
    n_threads : int, optional
        Threads to use; the result does not depend on it.
    memory_limit : int or str, optional
        Bytes (or "2GB") for a copy of X by columns, by default half of the memory that is free; the
        result does not depend on it.
    progress : callable, optional
        Called now and then with the share that is done, from 0 to 1.

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
    if x_squared_norms is not None:
        X = enter(X, n_threads=effective_n_threads(n_threads))
        length = len(check_array(x_squared_norms, ensure_2d=False, input_name="x_squared_norms"))
        if length != X.n_rows:
            raise ValueError(
                f"The length of x_squared_norms {length} should be equal to the length of "
                f"n_samples {X.n_rows}."
            )
    options: dict[str, Any] = {} if n_local_trials is None else {"n_local_trials": n_local_trials}
    centers, indices = seed_centers(
        X,
        n_clusters,
        sample_weight=sample_weight,
        random_state=random_state,
        n_threads=n_threads,
        memory_limit=memory_limit,
        progress=progress,
        **options,
    )
    assert indices is not None
    return centers, indices
