"""The minimum spanning tree of rows, by distance or by mutual reachability."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsecluster import _core
from sparsecluster.neighbors.search import Progress, Search, entered_search
from sparsecluster.rows.parameters import check_number


class SpanningTree(NamedTuple):
    """The edges of a spanning tree, by ascending weight: one less than there are rows."""

    first: np.ndarray  #: of int32: one end, the lower number
    second: np.ndarray  #: of int32: the other
    weights: np.ndarray  #: of float64


def minimum_spanning_tree(
    X: Any,
    *,
    metric: str = "cosine",
    min_samples: int = 1,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> SpanningTree:
    """The minimum spanning tree of all rows, exact and without their distances in memory.

    With ``min_samples=1`` edges weigh the distances, and the tree holds what single linkage needs.
    With more they weigh mutual reachability, as HDBSCAN has it: the largest of the distance and of
    the core distances of both rows, where the core distance is that to the nearest `min_samples`
    rows, the row itself among them (Campello, Moulavi and Sander 2013).

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    metric : {"cosine", "euclidean"}, default="cosine"
        How rows are compared.
    min_samples : int, default=1
        Rows that the core distance reaches.
    n_threads, memory_limit, progress
        As for :func:`~sparsecluster.radius_graph`.

    Returns
    -------
    SpanningTree
        Arrays `first`, `second` and `weights`, sorted by weight; equal weights by distance, then by
        the numbers of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import minimum_spanning_tree
    >>> tree = minimum_spanning_tree(np.array([[0.0], [5.0], [1.0], [3.0]]), metric="euclidean")
    >>> tree.first, tree.second, tree.weights
    (array([0, 1, 2], dtype=int32), array([2, 3, 3], dtype=int32), array([1., 2., 2.]))
    """
    search = entered_search(
        X, metric=metric, n_threads=n_threads, memory_limit=memory_limit, progress=progress
    )
    return spanning_tree(search, min_samples)


def spanning_tree(search: Search, min_samples: int) -> SpanningTree:
    """The tree of checked rows."""
    check_number("min_samples", min_samples, (int, np.integer), 1)
    n_rows = search.rows.n_rows
    if min_samples > n_rows:
        raise ValueError(f"min_samples={min_samples} is more than the {n_rows} rows of X.")
    return SpanningTree(
        *_core.spanning_tree(search.rows.core, int(min_samples), **search.options())
    )
