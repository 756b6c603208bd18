"""The systems compared: one small adapter a system for fit, seeding and predict.

A new system is a few lines: functions with the signatures of `System` and an entry in `SYSTEMS`.
Libraries are imported inside the adapters, which only the worker calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from .measure import means
from .task import Task

OURS = "sparsecluster"
COMPONENTS = 1000  # of an embedding


@dataclass(frozen=True)
class Fitted:
    """What a fit gives back: labels, and the cost and iterations that the system states."""

    labels: np.ndarray
    cost: float | None = None
    iterations: int | None = None


@dataclass(frozen=True)
class System:
    """A system and what it can do; an absent function means that it cannot.

    fit(X, task) clusters; seed(X, task) gives the indices of the k rows chosen by greedy
    k-means++; predict(X, start, task) makes a model out of the start centers by one iteration and
    gives back a function whose call alone is timed; sphere(X, task) clusters by cosine.
    """

    name: str
    module: str
    fit: Callable[[sp.csr_matrix, Task], Fitted] | None = None
    seed: Callable[[sp.csr_matrix, Task], np.ndarray] | None = None
    predict: Callable[[sp.csr_matrix, sp.csr_matrix, Task], Callable[[], np.ndarray]] | None = None
    sphere: Callable[[sp.csr_matrix, Task], Fitted] | None = None
    densifies: bool = False

    @property
    def ours(self) -> bool:
        return self.module == "sparsecluster"

    def installed(self) -> bool:
        return find_spec(self.module) is not None


def sparsecluster_kmeans(algorithm: str, task: Task, **options: Any) -> Any:
    from sparsecluster import KMeans

    options = {"max_iter": task.max_iter, "tol": task.tol} | options
    return KMeans(
        task.k, n_init=1, algorithm=algorithm, random_state=task.seed, n_threads=task.threads,
        **options,
    )  # fmt: skip


def sparsecluster_sphere(task: Task) -> Any:
    from sparsecluster import SphericalKMeans

    return SphericalKMeans(
        task.k, random_state=task.seed, n_threads=task.threads, max_iter=task.max_iter, tol=task.tol
    )


def soyclustering_sphere(X: sp.csr_matrix, task: Task) -> Fitted:
    """Its k-means++ start; it stops by the change of its inertia."""
    for kind in (float, int, bool):  # names that numpy had before 1.24
        vars(np).setdefault(kind.__name__, kind)
    from soyclustering import SphericalKMeans

    model = SphericalKMeans(
        task.k, init="k-means++", max_iter=task.max_iter, tol=task.tol, random_state=task.seed
    )
    return Fitted(model.fit_predict(X))


def sparsecluster_seed(X: sp.csr_matrix, task: Task) -> np.ndarray:
    from sparsecluster import kmeans_plusplus

    return kmeans_plusplus(X, task.k, random_state=task.seed, n_threads=task.threads)[1]


def sklearn_kmeans(algorithm: str, task: Task, **options: Any) -> Any:
    from sklearn.cluster import KMeans

    options = {"max_iter": task.max_iter, "tol": task.tol} | options
    return KMeans(task.k, n_init=1, algorithm=algorithm, random_state=task.seed, **options)


def sklearn_seed(X: sp.csr_matrix, task: Task) -> np.ndarray:
    from sklearn.cluster import kmeans_plusplus

    return kmeans_plusplus(X, task.k, random_state=task.seed)[1]


def sklearnex_kmeans(task: Task, **options: Any) -> Any:
    import daal4py
    from sklearnex.cluster import KMeans

    daal4py.daalinit(task.threads)
    options = {"max_iter": task.max_iter, "tol": task.tol} | options
    return KMeans(task.k, n_init=1, random_state=task.seed, **options)


def fit_estimator(make: Callable[..., Any], X: sp.csr_matrix, task: Task) -> Fitted:
    """Fit any estimator that follows scikit-learn's KMeans."""
    model = make(task).fit(X)
    return Fitted(model.labels_, float(model.inertia_), int(model.n_iter_))


def predict_estimator(
    make: Callable[..., Any], X: sp.csr_matrix, start: sp.csr_matrix, task: Task, *, dense: bool
) -> Callable[[], np.ndarray]:
    """One iteration from the start centers, then predict of any such estimator."""
    centers = start.toarray() if dense else start
    model = make(task, init=centers, max_iter=1, tol=0.0).fit(X)
    return partial(model.predict, X)


def sparsekmeans_fit(algorithm: str, X: sp.csr_matrix, task: Task) -> Fitted:
    """It keeps no count of iterations: count the calls of its update."""
    import graphblas
    import sparsekmeans

    graphblas.ss.config["nthreads"] = task.threads  # some of its products take no argument
    classes = {"lloyd": sparsekmeans.LloydKmeans, "elkan": sparsekmeans.ElkanKmeans}
    model = classes[algorithm](
        n_clusters=task.k, n_threads=task.threads, max_iter=task.max_iter, tol=task.tol,
        random_state=task.seed,
    )  # fmt: skip
    iterations = 0
    update = model._update_centroids

    def counted(X: Any) -> Any:
        nonlocal iterations
        iterations += 1
        return update(X)

    model._update_centroids = counted
    labels = model.fit(X)
    return Fitted(labels, None, iterations)


def sparsekmeans_predict(
    X: sp.csr_matrix, start: sp.csr_matrix, task: Task
) -> Callable[[], np.ndarray]:
    from sparsekmeans import kmeans_predict

    labels = kmeans_predict(X, start, n_threads=task.threads)
    centers = means(X, labels, task.k)
    return partial(kmeans_predict, X, centers, n_threads=task.threads)


def faiss_fit(X: sp.csr_matrix, task: Task, *, spherical: bool = False) -> Fitted:
    """All rows (it would sample 256 a cluster), k-means++ without greedy candidates.

    It knows no tolerance on the shift of the centers: it stops when the cost does not fall.
    """
    import faiss

    faiss.omp_set_num_threads(task.threads)
    dense = X.toarray()
    model = faiss.Kmeans(
        X.shape[1], task.k, niter=task.max_iter, seed=task.seed,
        min_points_per_centroid=1, max_points_per_centroid=X.shape[0], spherical=spherical,
        init_method=faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS,
    )  # fmt: skip
    model.train(dense)
    distances, labels = model.assign(dense)
    return Fitted(labels, float(distances.sum(dtype=np.float64)), int(np.asarray(model.obj).size))


def _ours(algorithm: str) -> System:
    make = partial(sparsecluster_kmeans, algorithm)
    return System(
        "sparsecluster" if algorithm == "auto" else f"sparsecluster-{algorithm}",
        "sparsecluster",
        fit=partial(fit_estimator, make),
        seed=sparsecluster_seed if algorithm == "auto" else None,
        predict=partial(predict_estimator, make, dense=False) if algorithm == "auto" else None,
        sphere=partial(fit_estimator, sparsecluster_sphere) if algorithm == "auto" else None,
    )


def _embedded(finish: str) -> System:
    """K-means in COMPONENTS columns first."""
    make = partial(sparsecluster_kmeans, "auto", embedding=COMPONENTS, finish=finish)
    return System(f"sparsecluster-embedded-{finish}", OURS, fit=partial(fit_estimator, make))


def _sklearn(algorithm: str) -> System:
    make = partial(sklearn_kmeans, algorithm)
    return System(
        f"sklearn-{algorithm}",
        "sklearn",
        fit=partial(fit_estimator, make),
        seed=sklearn_seed if algorithm == "lloyd" else None,
        predict=partial(predict_estimator, make, dense=True) if algorithm == "lloyd" else None,
        sphere=partial(fit_estimator, make),
    )


def _sparsekmeans(algorithm: str) -> System:
    return System(
        f"sparsekmeans-{algorithm}",
        "sparsekmeans",
        fit=partial(sparsekmeans_fit, algorithm),
        predict=sparsekmeans_predict if algorithm == "lloyd" else None,
    )


SYSTEMS = {
    system.name: system
    for system in (
        _ours("auto"),
        _ours("lloyd"),
        _ours("elkan"),
        _ours("hamerly"),
        _embedded("exact"),
        _embedded("none"),
        _sklearn("elkan"),
        _sklearn("lloyd"),
        _sparsekmeans("lloyd"),
        _sparsekmeans("elkan"),
        System("sklearnex", "sklearnex", partial(fit_estimator, sklearnex_kmeans), densifies=True),
        System(
            "faiss", "faiss", faiss_fit, sphere=partial(faiss_fit, spherical=True), densifies=True
        ),
        System("soyclustering", "soyclustering", sphere=soyclustering_sphere),
    )
}
