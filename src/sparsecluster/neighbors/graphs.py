"""Graphs of near rows as CSR arrays of distances, as scikit-learn takes them for precomputed."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.neighbors import trees
from sparsecluster.neighbors.search import Progress, Search, entered_search
from sparsecluster.rows.rows import MAX_INDEX


def radius_graph(
    X: Any,
    radius: float,
    *,
    metric: str = "cosine",
    Y: Any = None,
    include_self: bool = True,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> sp.csr_array:
    """The distances of all pairs of rows that are at most `radius` apart.

    The search is exact: pairs are screened in float32 with a bound of the rounding error, and those
    in doubt are decided in float64. The result does not depend on the number of threads.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    radius : float
        The largest distance, included.
    metric : {"cosine", "euclidean"}, default="cosine"
        How rows are compared. The cosine distance is 1 - cos, from 0 to 2; a row of zeros has no
        direction, and its distance to every other row is 1.
    Y : matrix, frame, Rows, store or path, default=None
        Rows that those of X are compared with; by default with each other.
    include_self : bool, default=True
        Whether each row is its own first neighbor, with an explicit zero, as scikit-learn's
        transformers and its estimators with ``metric="precomputed"`` have it. Without effect where
        Y is given.
    n_threads : int, default=None
        Threads to use; all CPUs by default.
    memory_limit : int or str, default=None
        Bytes, or like "2GB", that the graph and the index may take; by default half of what is
        free. A graph that is larger is refused with its size, once its entries are counted.
    progress : callable, default=None
        Called with the share that is done, from 0 to 1, at most ten times per second.

    Returns
    -------
    csr_array of float64
        One row for each of X, one column for each of Y or of X, sorted by distance, then by column.
        What is not stored is farther away than `radius`; zeros are stored.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import radius_graph
    >>> X = csr_array([[1.0, 0], [2.0, 0], [1.0, 1.0], [0, 3.0]])
    >>> graph = radius_graph(X, 0.3)
    >>> graph.toarray().round(2)
    array([[0.  , 0.  , 0.29, 0.  ],
           [0.  , 0.  , 0.29, 0.  ],
           [0.29, 0.29, 0.  , 0.29],
           [0.  , 0.  , 0.29, 0.  ]])
    >>> graph.nnz  # zeros between equal directions are stored
    12

    scikit-learn takes it as it is:

    >>> from sklearn.cluster import DBSCAN
    >>> DBSCAN(eps=0.3, min_samples=3, metric="precomputed").fit(graph).labels_
    array([0, 0, 0, 0])
    """
    check_radius("radius", radius)
    search = entered_search(
        X, Y, metric=metric, n_threads=n_threads, memory_limit=memory_limit, progress=progress
    )
    if trees.useful(search):
        return _finished(trees.within(search, float(radius)), search, include_self)
    n_entries, fits, indptr, indices, distances = _core.radius_graph(
        search.queries.core, search.rows.core, float(radius), **search.options()
    )
    if not fits:
        refuse(n_entries, search.memory_limit, "a smaller radius")
    return _finished((indptr, indices, distances), search, include_self)


def knn_graph(
    X: Any,
    k: int,
    *,
    metric: str = "cosine",
    Y: Any = None,
    include_self: bool = True,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> sp.csr_array:
    """The distances of each row to the k rows that are nearest to it.

    The search is exact, as that of :func:`radius_graph`. Of rows at equal distances those with
    lower numbers come first.

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    k : int
        How many neighbors each row has, itself not counted.
    metric, Y, include_self, n_threads, memory_limit, progress
        As for :func:`radius_graph`. With `include_self` (and without Y) each row has k + 1 entries,
        the first of which is the row itself, at zero: the form of scikit-learn's
        KNeighborsTransformer.

    Returns
    -------
    csr_array of float64
        One row for each of X, one column for each of Y or of X, sorted by distance, then by column.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import knn_graph
    >>> X = csr_array([[1.0, 0], [2.0, 0.1], [1.0, 1.0], [0, 3.0]])
    >>> graph = knn_graph(X, 1, include_self=False)
    >>> graph.indices
    array([1, 0, 1, 2], dtype=int32)
    >>> graph.data.round(2)
    array([0.  , 0.  , 0.26, 0.29])
    """
    search = entered_search(
        X, Y, metric=metric, n_threads=n_threads, memory_limit=memory_limit, progress=progress
    )
    indices, distances = nearest(search, k)
    n_queries = search.queries.n_rows
    indptr = np.arange(0, n_queries * k + 1, k, dtype=np.int64)
    if search.one_set:
        own = np.arange(n_queries, dtype=np.int32)[:, None]
        indices = np.hstack([own, indices.reshape(n_queries, k)]).ravel()
        distances = np.insert(distances.reshape(n_queries, k), 0, 0.0, axis=1).ravel()
        indptr = np.arange(0, n_queries * (k + 1) + 1, k + 1, dtype=np.int64)
    return _finished((indptr, indices, distances), search, include_self)


def nearest(search: Search, k: int, *, radius: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and distances of the k nearest rows of each query, query by query."""
    check_k(k, search)
    if search.queries.n_rows * k * _core.GRAPH_ENTRY_BYTES > search.memory_limit:
        refuse(search.queries.n_rows * k, search.memory_limit, "a smaller k")
    if trees.useful(search) and np.isinf(radius):
        found = trees.nearest(search, int(k))
        if found is not None:
            return found
    return _core.nearest_rows(
        search.queries.core, search.rows.core, int(k), radius, **search.options()
    )


def check_radius(name: str, radius: Any) -> None:
    """Refuse what is no distance."""
    number = isinstance(radius, Real) and not isinstance(radius, bool)
    if not number or not 0 <= radius < np.inf:
        raise ValueError(f"{name} must be a finite number of at least 0, got {radius!r}.")


def check_k(k: Any, search: Search, name: str = "k") -> None:
    """Refuse a number of neighbors that the rows do not have."""
    if isinstance(k, bool) or not isinstance(k, Integral) or int(k) < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {k!r}.")
    most, others = search.rows.n_rows - search.one_set, "others" if search.one_set else "rows in Y"
    if int(k) > most:
        raise ValueError(f"{name}={k} neighbors are asked for, and a row has only {most} {others}.")


def refuse(n_entries: int, memory_limit: int, instead: str) -> None:
    """Say how large a graph is that does not fit."""
    size = n_entries * _core.GRAPH_ENTRY_BYTES / 1e9
    raise ValueError(
        f"The graph has {n_entries:,} entries ({size:.3g} GB), which with room to put it together "
        f"is more than the memory limit of {memory_limit / 1e9:.3g} GB. Choose {instead}, or raise "
        f"memory_limit."
    )


def _finished(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray], search: Search, include_self: bool
) -> sp.csr_array:
    """A CSR array around these arrays, whose rows begin with themselves where it is one set."""
    indptr, indices, distances = parts
    if search.one_set and not include_self:
        others = np.ones(len(indices), dtype=bool)
        others[indptr[:-1]] = False
        indices, distances = indices[others], distances[others]
        indptr = indptr - np.arange(len(indptr))
    if indptr[-1] <= MAX_INDEX:
        indptr = indptr.astype(np.int32)
    graph = sp.csr_array((search.queries.n_rows, search.rows.n_rows), dtype=np.float64)
    graph.indptr, graph.indices, graph.data = indptr, indices, distances
    return graph
