"""Spherical k-means: rows and centers on the unit sphere, compared by their cosine."""

from __future__ import annotations

from typing import Any

from sparsecluster.kmeans.kmeans import KMeans
from sparsecluster.rows.parameters import Choice
from sparsecluster.run.history import Callback


class SphericalKMeans(KMeans):
    """K-means by cosine: :class:`~sparsecluster.KMeans` whose `metric` is "cosine" by default.

    Parameters
    ----------
    n_clusters, metric, zero_rows, init, init_options, n_init, algorithm, refine, max_iter, tol, \
    random_state, n_threads, memory_limit, verbose, callback, checkpoint, checkpoint_every, copy_x
        As for :class:`~sparsecluster.KMeans`; `init` may also be "spkm++". Centers that are given
        are taken at unit length.

    Attributes
    ----------
    cluster_centers_, labels_, inertia_, objective_, n_iter_, n_clusters_, history_, converged_, \
    seconds_, algorithm_, feature_names_
        As for :class:`~sparsecluster.KMeans`; the centers have unit length.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import SphericalKMeans
    >>> X = csr_array([[1.0, 0], [5.0, 0.1], [0, 2.0], [0.1, 1.0]])
    >>> km = SphericalKMeans(n_clusters=2, random_state=0).fit(X)
    >>> km.labels_[0] == km.labels_[1], km.labels_[2] == km.labels_[3]
    (np.True_, np.True_)
    """

    _parameters = KMeans._parameters | {"metric": Choice(["cosine"])}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        metric: str = "cosine",
        zero_rows: str = "error",
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        n_init: int | str = 1,
        algorithm: str = "auto",
        refine: str | None = None,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
        checkpoint: Any = None,
        checkpoint_every: float | str = 60,
        copy_x: bool = True,
    ) -> None:
        super().__init__(
            n_clusters,
            metric=metric,
            zero_rows=zero_rows,
            init=init,
            init_options=init_options,
            n_init=n_init,
            algorithm=algorithm,
            refine=refine,
            max_iter=max_iter,
            tol=tol,
            random_state=random_state,
            n_threads=n_threads,
            memory_limit=memory_limit,
            verbose=verbose,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            copy_x=copy_x,
        )
