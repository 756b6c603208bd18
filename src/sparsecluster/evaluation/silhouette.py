"""Silhouettes (Rousseeuw 1987) from sums of clusters: exact, without a distance between rows."""

from __future__ import annotations

from typing import Any

from sparsecluster.evaluation.elsewhere import silhouettes_there
from sparsecluster.evaluation.geometry import Geometry, check_metric
from sparsecluster.evaluation.labelling import Progress, label_rows
from sparsecluster.evaluation.silhouette_values import (
    silhouettes,
    simplified_silhouettes,
    weighted_mean,
)

METRICS = ("cosine", "sqeuclidean")
SIMPLIFIED_METRICS = ("cosine", "euclidean", "sqeuclidean")


def silhouette(
    X: Any,
    labels: Any,
    *,
    metric: str = "cosine",
    samples: bool = False,
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    executor: Any = None,
    progress: Progress | None = None,
) -> Any:
    """How much nearer rows are to their own cluster than to the next one: the mean silhouette.

    The silhouette of a row is (b - a) / max(a, b), where a is its mean distance to the other rows
    of its cluster and b the least of its mean distances to the rows of another. It is 0 for a row
    that is alone in its cluster. For these metrics all of it follows from the sums of the clusters,
    in time of entries x clusters: the values are those of scikit-learn's ``silhouette_score``,
    which computes the distances of all pairs.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    labels : array-like of shape (n_samples,)
        The cluster of each row: integers, or strings. -1 is noise: these rows are left out.
    metric : {"cosine", "sqeuclidean"}, default="cosine"
        1 - cos, or the squared Euclidean distance. A row of zeros is at a cosine distance of 1 from
        every other row.
    samples : bool, default=False
        Whether to return the silhouette of each row (NaN for noise) in place of their mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows: a weight of 2 is the row twice. Of a row whose weight is above 1 one
        copy is compared with the others, and what weighs less than 1 is left out of its cluster
        whole.
    n_threads : int, default=None
        Threads to use; all CPUs by default. No result depends on it.
    memory_limit : int or str, default=None
        Bytes, or like "2GB", for what is kept of the clusters; by default half of what is free.
    executor : Client, str, int or None, default=None
        Who has the rows, as for :class:`~sparsecluster.KMeans`; the values are the same to the bit.
    progress : callable, default=None
        Called now and then with the share that is done, from 0 to 1.

    Returns
    -------
    float, or ndarray of shape (n_samples,)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import silhouette
    >>> X = csr_array([[1.0, 0], [2.0, 0.1], [0, 1.0], [0.1, 3.0]])
    >>> round(silhouette(X, [0, 0, 1, 1]), 4)
    0.9991
    >>> silhouette(X, [0, 1, 0, 1], samples=True).round(2)
    array([-0.52, -0.48, -0.52, -0.47])
    """
    if metric == "euclidean":
        raise ValueError(
            "metric='euclidean' would need the distances of all pairs of rows. Pass 'sqeuclidean', "
            "or use simplified_silhouette, which has both."
        )
    check_metric(metric, METRICS)
    if executor is not None:
        return silhouettes_there(
            X,
            labels,
            executor,
            cosine=metric == "cosine",
            samples=samples,
            sample_weight=sample_weight,
            n_threads=n_threads,
            memory_limit=memory_limit,
            progress=progress,
        )
    labelling = label_rows(
        X,
        labels,
        sample_weight=sample_weight,
        n_threads=n_threads,
        memory_limit=memory_limit,
        progress=progress,
        distinct=True,
    )
    values, _ = silhouettes(Geometry.of(labelling.to_scale(), cosine=metric == "cosine"))
    return values if samples else weighted_mean(values, labelling)


def simplified_silhouette(
    X: Any,
    labels: Any,
    *,
    metric: str = "cosine",
    samples: bool = False,
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Any:
    """The silhouette by distances to centers in place of mean distances to rows.

    Here a is the distance of a row to the center of its own cluster, and b to the nearest other
    center (Hruschka, de Castro and Campello 2004). A center is the mean of its rows, or with the
    cosine the direction of their mean. It is 0 for a row that is alone in its cluster.

    Parameters
    ----------
    X, labels, samples, sample_weight, n_threads, memory_limit, progress
        As for :func:`silhouette`. A weight of 2 is the row twice.
    metric : {"cosine", "euclidean", "sqeuclidean"}, default="cosine"
        How rows are compared with centers.

    Returns
    -------
    float, or ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import simplified_silhouette
    >>> X = np.array([[0.0], [2.0], [10.0], [12.0]])
    >>> simplified_silhouette(X, [0, 0, 1, 1], metric="euclidean", samples=True).round(3)
    array([0.909, 0.889, 0.889, 0.909])
    """
    check_metric(metric, SIMPLIFIED_METRICS)
    labelling = label_rows(
        X,
        labels,
        sample_weight=sample_weight,
        n_threads=n_threads,
        memory_limit=memory_limit,
        progress=progress,
        distinct=True,
    )
    geometry = Geometry.of(labelling.to_scale(), cosine=metric == "cosine")
    values = simplified_silhouettes(geometry, root=metric == "euclidean")
    return values if samples else weighted_mean(values, labelling)
