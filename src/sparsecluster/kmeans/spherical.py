"""Spherical k-means: rows and centers on the unit sphere, compared by their cosine."""

from __future__ import annotations

from functools import partialmethod
from typing import TYPE_CHECKING

from sparsecluster.kmeans.kmeans import KMeans
from sparsecluster.rows.parameters import Choice


class SphericalKMeans(KMeans):
    """K-means by cosine: :class:`~sparsecluster.KMeans` whose `metric` is "cosine" by default.

    Parameters
    ----------
    n_clusters, metric, zero_rows, init, init_options, n_init, algorithm, size_min, size_max, \
    refine, embedding, finish, max_iter, tol, random_state, n_threads, executor, \
    memory_limit, verbose, callback, checkpoint, checkpoint_every, copy_x
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

    if not TYPE_CHECKING:  # where the signature of KMeans says the same
        __init__ = partialmethod(KMeans.__init__, metric="cosine")
