"""Every measure of a clustering at once, and cluster by cluster."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsecluster.evaluation.agreement import (
    adjusted_rand,
    clustering_accuracy,
    normalized_mutual_info,
    purity,
)
from sparsecluster.evaluation.geometry import Geometry, check_metric
from sparsecluster.evaluation.labelling import Labelling, Progress, check_labels, label_rows
from sparsecluster.evaluation.scores import cost, mean_similarity, scatter_ratio
from sparsecluster.evaluation.silhouette import METRICS
from sparsecluster.evaluation.silhouette_values import (
    silhouettes,
    simplified_silhouettes,
    weighted_mean,
)
from sparsecluster.rows.errors import counted


@dataclass(frozen=True, kw_only=True)
class ClusterQuality:
    """One cluster: how large it is, how tight, and how far from the others.

    Attributes
    ----------
    cluster : int or str
        Its label.
    rows, weight : int, float
        How many rows it has, and what they weigh.
    cohesion : float
        Mean distance of its rows to its center: squared, or with the cosine 1 - cos.
    separation : float
        Distance of its center to the nearest other center, in the same terms.
    nearest : int or str
        The label of that other cluster.
    silhouette : float
        Mean silhouette of its rows.
    """

    cluster: Any
    rows: int
    weight: float
    cohesion: float
    separation: float
    nearest: Any
    silhouette: float


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well clusters agree with known classes; see the functions of these names."""

    accuracy: float
    purity: float
    normalized_mutual_info: float
    adjusted_rand: float


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What :func:`evaluate` found.

    Attributes
    ----------
    rows, noise, n_clusters : int
        How many rows there are, how many of them are noise (-1), and how many clusters.
    metric : str
        "cosine" or "sqeuclidean".
    cost : float
        As :func:`clustering_cost`.
    silhouette, simplified_silhouette : float
        As the functions of these names.
    calinski_harabasz, davies_bouldin : float
        The same; with the cosine of rows at unit length.
    agreement : Agreement or None
        With the true labels, where these were given.
    clusters : list of ClusterQuality
        Cluster by cluster, in the order of the labels.
    """

    rows: int
    noise: int
    n_clusters: int
    metric: str
    cost: float
    silhouette: float
    simplified_silhouette: float
    calinski_harabasz: float
    davies_bouldin: float
    agreement: Agreement | None
    clusters: list[ClusterQuality]

    def __str__(self) -> str:
        noise = f", {counted(self.noise, 'row')} of noise" if self.noise else ""
        lines = [f"{counted(self.n_clusters, 'cluster')} of {counted(self.rows, 'row')}{noise}"]
        lines += [f"{name:22} {value:.6g}" for name, value in self.scores().items()]
        return "\n".join(lines)

    def scores(self) -> dict[str, float]:
        """The single numbers, by name."""
        names = ["cost", "silhouette", "simplified_silhouette", "calinski_harabasz"]
        found = {name: float(getattr(self, name)) for name in [*names, "davies_bouldin"]}
        if self.agreement is not None:
            found |= {one.name: getattr(self.agreement, one.name) for one in fields(Agreement)}
        return found


def evaluate(
    X: Any,
    labels: Any,
    labels_true: Any = None,
    *,
    metric: str = "cosine",
    sample_weight: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Judge a clustering: by its rows and, where they are known, by the true labels.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    labels : array-like of shape (n_samples,)
        The cluster of each row: integers, or strings. -1 is noise: these rows are left out of what
        is computed from X; in `agreement` accuracy and purity count them as wrong.
    labels_true : array-like of shape (n_samples,), default=None
        Known classes of the rows.
    metric : {"cosine", "sqeuclidean"}, default="cosine"
        How rows are compared: by 1 - cos, or by the squared Euclidean distance.
    sample_weight, n_threads, memory_limit, progress
        As for :func:`silhouette`.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import evaluate
    >>> X = csr_array([[1.0, 0, 0], [0.9, 0.1, 0], [0, 0, 1.0], [0, 0.2, 1.0]])
    >>> found = evaluate(X, [0, 0, 1, 1], ["red", "red", "blue", "blue"])
    >>> round(found.silhouette, 3), found.agreement.accuracy
    (0.987, 1.0)
    >>> [round(one.separation, 3) for one in found.clusters]
    [0.995, 0.995]
    """
    check_metric(metric, METRICS)
    labelling = label_rows(
        X,
        labels,
        sample_weight=sample_weight,
        n_threads=n_threads,
        memory_limit=memory_limit,
        progress=progress,
        distinct=True,
    )
    if labels_true is not None:
        _, classes = check_labels(labels_true, "labels_true")
        if len(classes) != labelling.rows.n_rows:
            raise ValueError(
                f"There are {counted(len(classes), 'true label')} for "
                f"{counted(labelling.rows.n_rows, 'row')} of X: one per row is needed."
            )
    geometry = Geometry.of(labelling, cosine=metric == "cosine")
    values, _ = silhouettes(geometry)
    simplified = simplified_silhouettes(geometry, root=False)
    return Evaluation(
        rows=labelling.rows.n_rows,
        noise=int(np.count_nonzero(~labelling.inside)),
        n_clusters=labelling.n_clusters,
        metric=metric,
        cost=cost(geometry),
        silhouette=weighted_mean(values, labelling),
        simplified_silhouette=weighted_mean(simplified, labelling),
        calinski_harabasz=scatter_ratio(geometry),
        davies_bouldin=mean_similarity(geometry),
        agreement=None if labels_true is None else _agreement(labels_true, labels, sample_weight),
        clusters=qualities(geometry, values),
    )


def _agreement(labels_true: Any, labels: Any, sample_weight: Any) -> Agreement:
    given = (labels_true, labels)
    return Agreement(
        accuracy=clustering_accuracy(*given, sample_weight=sample_weight),
        purity=purity(*given, sample_weight=sample_weight),
        normalized_mutual_info=normalized_mutual_info(*given, sample_weight=sample_weight),
        adjusted_rand=adjusted_rand(*given, sample_weight=sample_weight),
    )


def qualities(geometry: Geometry, values: np.ndarray) -> list[ClusterQuality]:
    """Cohesion and separation of each cluster, and the mean of these silhouettes of its rows."""
    found, weights = geometry.labelling, geometry.weights
    cosine = geometry.zero is not None
    centers = geometry.directions if cosine else geometry.means
    distance2 = geometry.own_distances(centers)
    if geometry.zero is not None:
        # Half of the squared distance of unit rows is 1 - cos; without a direction that is 1.
        directed = np.diff(centers.indptr)[np.maximum(found.numbers, 0)] > 0
        distance2 = np.where(directed & ~geometry.zero, distance2 / 2, 1.0)
    cohesion = _mean(found, found.weights * distance2, weights)
    silhouette = _mean(found, found.weights * np.where(found.inside, values, 0.0), weights)
    separation, nearest = _separations(geometry, cosine=cosine)
    return [
        ClusterQuality(
            cluster=found.clusters[k].item(),
            rows=int(geometry.n_rows[k]),
            weight=float(weights[k]),
            cohesion=float(cohesion[k]),
            separation=float(separation[k]),
            nearest=found.clusters[nearest[k]].item(),
            silhouette=float(silhouette[k]),
        )
        for k in range(geometry.n_clusters)
    ]


def _mean(found: Labelling, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Of the rows of each cluster; NaN where they have no weight."""
    totals = found.total(values)
    return np.divide(totals, weights, out=np.full_like(totals, np.nan), where=weights > 0)


def _separations(geometry: Geometry, *, cosine: bool) -> tuple[np.ndarray, np.ndarray]:
    """The distance of each center to the nearest other one, and which that is."""
    centers = geometry.directions if cosine else geometry.means
    separation, nearest = np.empty(geometry.n_clusters), np.empty(geometry.n_clusters, dtype=int)
    absent = geometry.weights == 0
    undirected = np.diff(centers.indptr) == 0
    for begin, end in geometry.blocks_of_clusters():
        apart = geometry.center_distances(centers, begin, end) ** 2
        if cosine:
            apart /= 2
            apart[undirected[begin:end], :] = 1.0
            apart[:, undirected] = 1.0
        apart[:, absent] = np.inf
        np.fill_diagonal(apart[:, begin:], np.inf)
        nearest[begin:end] = apart.argmin(axis=1)
        separation[begin:end] = apart.min(axis=1)
    separation[absent] = np.nan
    return separation, nearest
