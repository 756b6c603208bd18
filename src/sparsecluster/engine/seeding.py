"""Starting centers: greedy k-means++, random rows, given centers, or a function of the user's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.data.rows import LARGEST_NORM2, Rows, check_structure
from sparsecluster.engine import centers as centers_
from sparsecluster.engine.names import check_name

METHODS = ("k-means++", "random")


def seed(
    init: Any,
    rows: Rows,
    n_clusters: int,
    *,
    weights: np.ndarray | None,
    random_state: np.random.RandomState,
    memory_limit: int,
    n_threads: int,
) -> _core.Centers:
    """Centers to start from; fewer, with a warning, where there are fewer distinct rows."""
    if callable(init):
        init = init(rows.matrix, n_clusters, random_state=random_state)
        if isinstance(init, tuple):
            raise ValueError(
                "The init function returned a tuple; it must return the centers alone."
            )
    if not isinstance(init, str):
        return centers_.to_core(check_centers(init, n_clusters, rows.n_features))
    check_name("init", init, METHODS)
    if init == "random":
        chance, possible = None, rows.n_rows
        if weights is not None:
            chance = weights / weights.sum()
            possible = int(np.count_nonzero(chance))
        if possible < n_clusters:
            warn_fewer_distinct(possible, n_clusters)
        found = min(possible, n_clusters)
        indices = random_state.choice(rows.n_rows, found, replace=False, p=chance)
    else:
        indices, _ = greedy_kmeans_plusplus(
            rows,
            n_clusters,
            weights=weights,
            random_state=random_state,
            memory_limit=memory_limit,
            n_threads=n_threads,
        )
    return centers_.to_core(rows.take(indices))


def check_centers(given: Any, n_clusters: int, n_features: int) -> Any:
    """Starting centers from outside: an array or sparse matrix of the right shape, all finite."""
    if sp.issparse(given):
        check_structure(given, "init")
        given = sp.csr_array(given)
    else:
        given = np.asarray(given)
    if given.ndim != 2 or given.shape != (n_clusters, n_features):
        raise ValueError(
            f"init has the shape {given.shape}; n_clusters={n_clusters} centers of {n_features} "
            f"features are needed."
        )
    if given.dtype.kind not in "biuf":
        raise ValueError(f"init must hold real numbers, got {given.dtype}.")
    values = given.data if sp.issparse(given) else given
    if not np.isfinite(values).all():
        raise ValueError("init contains NaN or infinity.")
    with np.errstate(over="ignore"):
        squares = sp.csr_array(given, dtype=np.float64).power(2).sum(axis=1)
    if not np.all(squares <= LARGEST_NORM2):
        raise ValueError("init contains values too large to square; scale them and X first.")
    return given


def n_candidates(n_clusters: int) -> int:
    """Rows that greedy k-means++ tries a step: 2 + ln K, as scikit-learn and sparsekmeans do."""
    return 2 + int(np.log(n_clusters))


def greedy_kmeans_plusplus(
    rows: Rows,
    n_clusters: int,
    *,
    weights: np.ndarray | None,
    random_state: np.random.RandomState,
    memory_limit: int,
    n_threads: int,
    n_local_trials: int | None = None,
) -> tuple[np.ndarray, float]:
    """Rows chosen by greedy k-means++ (Arthur and Vassilvitskii 2007), and their potential."""
    if weights is None:
        first = random_state.randint(rows.n_rows)
    else:
        first = random_state.choice(rows.n_rows, p=weights / weights.sum())
    trials = n_candidates(n_clusters) if n_local_trials is None else n_local_trials
    draws = random_state.random_sample((n_clusters - 1, trials))
    indices, potential = _core.greedy_kmeans_plusplus(
        rows.core, n_clusters, int(first), draws, weights, memory_limit, n_threads
    )
    if len(indices) < n_clusters:
        warn_fewer_distinct(len(indices), n_clusters)
    return indices, float(potential)


def warn_fewer_distinct(found: int, n_clusters: int) -> None:
    """Say that the number of clusters shrinks (SparseKmeans, appendix B.2)."""
    warnings.warn(
        f"Number of distinct clusters ({found}) found smaller than n_clusters ({n_clusters}): "
        f"there are not enough distinct rows. The clustering continues with {found} clusters; see "
        f"n_clusters_.",
        ConvergenceWarning,
        stacklevel=2,
    )
