"""Distances and neighbors in float64 numpy: all pairs, and sorted rows of them."""

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from support.data import directions


def distances(X, Y=None, metric="cosine"):
    """All distances; a row of zeros has the cosine distance 1 to all but itself."""
    own = Y is None
    X = np.asarray(X, dtype=np.float64)
    Y = X if own else np.asarray(Y, dtype=np.float64)
    if metric == "euclidean":
        found = cdist(X, Y)
    else:
        found = np.clip(1 - directions(X) @ directions(Y).T, 0, 2)
        found[found < 1e-14] = 0
    if own:
        np.fill_diagonal(found, 0)
        found = np.maximum(found, found.T)
    return found


def gap_near(found, share):
    """A radius in the widest gap between distances near a quantile, away from rounding."""
    values = np.unique(found)
    at = int(share * (len(values) - 2))
    window = values[at : at + 50]
    widest = int(np.argmax(np.diff(window)))
    return float(window[widest : widest + 2].mean())


def assert_sorted_graph(graph, expected, radius=np.inf, atol=1e-9):
    """Exactly the pairs within a radius, at their distances, each row sorted by these."""
    within = expected <= radius
    stored = sp.csr_array((np.ones(graph.nnz), graph.indices, graph.indptr), shape=graph.shape)
    assert np.array_equal(stored.toarray() > 0, within)
    values = sp.csr_array((graph.data + 1, graph.indices, graph.indptr), shape=graph.shape)
    np.testing.assert_allclose(values.toarray()[within] - 1, expected[within], atol=atol)
    for begin, end in zip(graph.indptr[:-1], graph.indptr[1:], strict=True):
        assert np.all(np.diff(graph.data[begin:end]) >= 0)
