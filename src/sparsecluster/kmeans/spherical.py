"""Spherical k-means: rows and centers on the unit sphere, compared by their cosine."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.kmeans.estimator import ZERO_ROWS
from sparsecluster.kmeans.kmeans import KMeans
from sparsecluster.rows.names import check_name
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import Callback


class SphericalKMeans(KMeans):
    """K-means by cosine, exact for every algorithm, on sparse or dense rows.

    Rows count by their direction alone: they are taken at unit length, and so are the centers, each
    of which is the direction of the mean of its rows (Dhillon and Modha 2001). The bounds of
    "elkan" and "hamerly" are kept as angles (Schubert, Lang and Feher 2021).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    zero_rows : {"error", "first"}, default="error"
        What to do with rows that are zero and have no direction. "first": their cosine with every
        center is 0, so they go to the first cluster; they do not move its center.
    init, init_options, n_init, algorithm, refine, max_iter, tol, random_state, n_threads, \
    memory_limit, verbose, callback, checkpoint, checkpoint_every
        As for :class:`~sparsecluster.KMeans`; `init` may also be "spkm++". Centers that are given
        are taken at unit length.

    Attributes
    ----------
    cluster_centers_ : csr_array or ndarray of shape (n_clusters_, n_features)
        Directions of the means, of unit length, in float64.
    labels_ : ndarray of shape (n_samples,), int32
        The center of the largest cosine; always equal to ``predict(X)``.
    inertia_ : float
        Weighted sum of the squared distances of the rows, at unit length, to their centers: twice
        the sum of 1 - cos.
    objective_ : float
        The weighted sum of 1.5 - cos, as in SPKM++.
    n_iter_, n_clusters_, history_, algorithm_, feature_names_
        As for :class:`~sparsecluster.KMeans`; `cost` of the history is the inertia.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import SphericalKMeans
    >>> X = csr_array([[1.0, 0], [5.0, 0.1], [0, 2.0], [0.1, 1.0]])
    >>> km = SphericalKMeans(n_clusters=2, random_state=0).fit(X)
    >>> km.labels_[0] == km.labels_[1], km.labels_[2] == km.labels_[3]
    (np.True_, np.True_)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        zero_rows: str = "error",
        init: Any = "k-means++",
        init_options: dict[str, Any] | None = None,
        n_init: int = 1,
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
    ) -> None:
        super().__init__(
            n_clusters,
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
        )
        self.zero_rows = zero_rows

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> SphericalKMeans:
        """Cluster the rows of X by their directions; the parameters are those of KMeans.fit.

        X is copied (its values alone, for CSR) unless its rows have unit length.
        """
        super().fit(X, sample_weight=sample_weight, feature_names=feature_names)
        return self

    @property
    def _metric(self) -> str:
        return "cosine"

    def _summarise(self, rows: Rows, weights: np.ndarray | None) -> None:
        # |x - c|^2 = |x|^2 + 1 - 2 cos, and |x| is 0 or 1.
        filled = rows.core.norm2 > 0
        if weights is None:
            total, with_direction = float(rows.n_rows), float(np.count_nonzero(filled))
        else:
            total, with_direction = float(weights.sum()), float(weights @ filled)
        cosines = 0.5 * (with_direction + total - self.inertia_)
        self.objective_ = 1.5 * total - cosines

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_name("zero_rows", self.zero_rows, ZERO_ROWS)
