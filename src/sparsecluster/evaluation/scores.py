"""Numbers that judge a clustering by its rows: cost, Calinski-Harabasz, Davies-Bouldin."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.evaluation.geometry import Geometry, check_metric
from sparsecluster.evaluation.labelling import label_rows
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.rows import as_rows

METRICS = ("euclidean", "cosine")
SQUARED = ("euclidean", "sqeuclidean", "cosine")  # where the squares count, both names mean them


def clustering_cost(
    X: Any,
    labels: Any,
    *,
    metric: str = "euclidean",
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
) -> float:
    """The cost of any labelling: what `inertia_` of :class:`KMeans` is for its own labels.

    The weighted sum of the squared distances of rows to the mean of their cluster; with "cosine"
    rows are at unit length, a center is the direction of the mean, and the cost is twice the sum of
    1 - cos.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    labels : array-like of shape (n_samples,)
        The cluster of each row: integers, or strings. -1 is noise: these rows are left out.
    metric : {"euclidean", "sqeuclidean", "cosine"}, default="euclidean"
        How rows are compared. The cost is of squared distances by either of the first two names.
    sample_weight, n_threads, memory_limit
        As for :func:`silhouette`.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import clustering_cost
    >>> clustering_cost(np.array([[0.0], [2.0], [5.0]]), ["a", "a", "b"])
    2.0
    """
    check_metric(metric, SQUARED)
    geometry = _entered(X, labels, metric, sample_weight, n_threads, memory_limit, least=1)
    return cost(geometry)


def calinski_harabasz(
    X: Any,
    labels: Any,
    *,
    metric: str = "euclidean",
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
) -> float:
    """How far clusters are apart against how wide they are; higher is better.

    The ratio of the scatter between clusters, by their number less one, to that within them, by the
    number of rows less that of clusters (Calinski and Harabasz 1974): scikit-learn's
    ``calinski_harabasz_score``, also for sparse rows. With "cosine" rows are at unit length.

    Parameters
    ----------
    X, labels, metric, sample_weight, n_threads, memory_limit
        As for :func:`clustering_cost`. A weight of 2 is the row twice.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import calinski_harabasz
    >>> calinski_harabasz(np.array([[0.0], [2.0], [10.0], [12.0]]), [0, 0, 1, 1])
    50.0
    """
    check_metric(metric, SQUARED)
    geometry = _entered(X, labels, metric, sample_weight, n_threads, memory_limit, distinct=True)
    return scatter_ratio(geometry)


def davies_bouldin(
    X: Any,
    labels: Any,
    *,
    metric: str = "euclidean",
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
) -> float:
    """How similar each cluster is to the one that it is most similar to; lower is better.

    The mean over the clusters of the largest (s_i + s_j) / d_ij, where s is the mean distance of
    rows to the mean of their cluster and d the distance of two means (Davies and Bouldin 1979):
    scikit-learn's ``davies_bouldin_score``, also for sparse rows. With "cosine" rows are at unit
    length.

    Parameters
    ----------
    X, labels, sample_weight, n_threads, memory_limit
        As for :func:`clustering_cost`. Weights count in the mean distances.
    metric : {"euclidean", "cosine"}, default="euclidean"
        How rows are compared; distances are not squared.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import davies_bouldin
    >>> davies_bouldin(np.array([[0.0], [2.0], [10.0], [12.0]]), [0, 0, 1, 1])
    0.2
    """
    check_metric(metric, METRICS)
    geometry = _entered(X, labels, metric, sample_weight, n_threads, memory_limit, distinct=True)
    return mean_similarity(geometry)


def _entered(
    X: Any,
    labels: Any,
    metric: str,
    sample_weight: Any,
    n_threads: int | None,
    memory_limit: int | str | None,
    **needs: Any,
) -> Geometry:
    labelling = label_rows(
        X,
        labels,
        sample_weight=sample_weight,
        n_threads=n_threads,
        memory_limit=memory_limit,
        **needs,
    )
    return Geometry.of(labelling, cosine=metric == "cosine")


def cost(geometry: Geometry) -> float:
    """What k-means would call the inertia of this labelling."""
    if geometry.zero is None:
        return float(geometry.scatters.sum())
    distance2 = geometry.own_distances(geometry.directions)
    return float(np.sum(geometry.labelling.weights * distance2))


def scatter_ratio(geometry: Geometry) -> float:
    """Calinski and Harabasz's ratio."""
    weights, within = geometry.weights, float(geometry.scatters.sum())
    total, n_clusters = float(weights.sum()), int(np.count_nonzero(weights))
    if within == 0:
        return 1.0  # as scikit-learn says
    middle = sp.csr_array((weights / total)[None, :] @ geometry.means)
    distance2 = _core.own_distances(
        as_rows(geometry.means, n_threads=1).core,
        centers_.to_core(middle),
        np.zeros(geometry.n_clusters, dtype=np.int32),
        geometry.n_threads,
    )
    between = float(np.sum(weights * distance2))
    return between * (total - n_clusters) / (within * (n_clusters - 1))


def mean_similarity(geometry: Geometry) -> float:
    """Davies and Bouldin's index."""
    found = geometry.labelling
    distances = np.sqrt(geometry.distances_to_means)
    weights = geometry.weights
    kept = np.flatnonzero(weights)
    widths = found.total(found.weights * distances)[kept] / weights[kept]
    means = geometry.means[kept]
    if np.allclose(widths, 0):
        return 0.0
    worst = np.zeros(len(kept))
    for begin, end in geometry.blocks_of_clusters():
        end = min(end, len(kept))
        if begin >= end:
            break
        apart = geometry.center_distances(means, begin, end)
        np.fill_diagonal(apart[:, begin:], np.inf)
        # Two clusters at one place count for nothing, as in scikit-learn.
        apart[apart == 0] = np.inf
        worst[begin:end] = ((widths[begin:end, None] + widths) / apart).max(axis=1)
    return float(worst.mean())
