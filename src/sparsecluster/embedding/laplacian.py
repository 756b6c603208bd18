"""The Laplacian score: columns that vary little among near rows are kept.

He, Cai and Niyogi, "Laplacian Score for Feature Selection" (NIPS 2005)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.embedding.reducing import refuse_beyond
from sparsecluster.embedding.selection import ColumnSelection
from sparsecluster.neighbors.graphs import knn_graph
from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.parameters import Choice, Positive, integer
from sparsecluster.rows.rows import Rows

METRICS, WEIGHTS = ("euclidean", "cosine"), ("heat", "binary")
BLOCK_ENTRIES = 1 << 22  # of the products of the graph with the rows, at a time


class LaplacianScore(ColumnSelection):
    """Column selection by the Laplacian score: the columns that follow the graph of near rows best.

    Each row is linked with its nearest rows by weights S. The score of a column f, its values less
    their mean weighted by the degrees D, is f' (D - S) f / f' D f: how much it varies along the
    links for how much it varies at all. Columns with the lowest scores are kept.

    Parameters
    ----------
    n_components : int, default=100
        How many columns are kept.
    n_neighbors : int, default=5
        Nearest rows that each row is linked with; a link counts in both directions.
    metric : {"euclidean", "cosine"}, default="euclidean"
        How rows are compared. With "cosine" they are compared at unit length.
    weights : {"heat", "binary"}, default="heat"
        Weights of the links: exp(-distance^2 / t), or 1.
    t : float or None, default=None
        Of the heat kernel. None: the mean of the squared distances along the links.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that the graph may take; more is refused. By default half of the memory
        that is free.

    Attributes
    ----------
    columns_ : ndarray of int32
        The columns that are kept, ascending.
    scores_ : ndarray of float64
        Scores of all columns; infinity where a column is constant.

    Notes
    -----
    The graph is that of :func:`knn_graph`: exact, and sparse. Nothing of size n x n is made.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import LaplacianScore
    >>> X = [[0, 5, 1], [0.1, 5, 2], [0.2, 5, 1.4], [9, 5, 1.2], [9.1, 5, 1.9], [9.2, 5, 1]]
    >>> score = LaplacianScore(1, n_neighbors=2).fit(np.array(X))
    >>> score.columns_, score.scores_.round(2)
    (array([0], dtype=int32), array([0.  ,  inf, ...]))
    """

    _parameters = ColumnSelection._parameters | {
        "n_neighbors": integer(1),
        "metric": Choice(METRICS),
        "weights": Choice(WEIGHTS),
        "t": Positive().optional,
    }

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_neighbors: int = 5,
        metric: str = "euclidean",
        weights: str = "heat",
        t: float | None = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights
        self.t = t
        self.n_threads = n_threads
        self.memory_limit = memory_limit

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        super().check_parameters()
        if self.t is not None and self.weights != "heat":
            raise ValueError(
                f"t={self.t} has no effect with weights={self.weights!r}: leave it out."
            )

    def fit(self, X: Any, y: Any = None, *, feature_names: Any = None) -> LaplacianScore:
        """Compute the scores of the columns of X.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        y : ignored
        feature_names : sequence of str, optional
            Names of the columns.
        """
        self._learn(X, feature_names=feature_names)
        return self

    def _learn(self, X: Any, *, feature_names: Any = None) -> Rows:
        self.check_parameters()
        rows = self._enter(X, reset=True)
        names = check_feature_names(feature_names, rows.n_features)
        self._check_components(rows.n_features)
        if rows.n_rows <= self.n_neighbors:
            raise ValueError(
                f"n_neighbors={self.n_neighbors} needs more rows than that, got n_samples="
                f"{rows.n_rows}."
            )
        needed = 12 * rows.core.nnz + 24 * 2 * self.n_neighbors * rows.n_rows
        refuse_beyond(needed, self.memory_limit, "The graph of X with a copy of its entries",
                      "Use fewer rows")  # fmt: skip
        scores = laplacian_scores(rows, self._links(rows))
        # Of equal scores the first columns.
        best = np.argsort(scores, kind="stable")[: self.n_components]
        self.scores_, self.columns_ = scores, np.sort(best).astype(np.int32)
        self._remember(rows, names)
        return rows

    def _links(self, rows: Rows) -> sp.csr_array:
        """Weights of the links, symmetric, without the diagonal."""
        graph = knn_graph(
            rows, self.n_neighbors, metric=self.metric, include_self=False,
            n_threads=self.n_threads, memory_limit=self.memory_limit,
        )  # fmt: skip
        squares = 2 * graph.data if self.metric == "cosine" else np.square(graph.data)
        if self.weights == "binary":
            weights = np.ones_like(squares)
        else:
            # Equal rows are at zero; where all links are, each weighs 1.
            t = float(squares.mean()) if self.t is None else float(self.t)
            weights = np.exp(-squares / t) if t > 0 else np.ones_like(squares)
        links = sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)
        return sp.csr_array(links.maximum(links.T))


def laplacian_scores(rows: Rows, links: sp.csr_array) -> np.ndarray:
    """The score of each column, by blocks of rows; infinity where it is constant."""
    degrees = np.asarray(links.sum(axis=1)).ravel()
    total = degrees.sum()
    if total == 0:
        raise ValueError("t is so small that all links weigh nothing. Raise t, or leave it out.")
    matrix = sp.csr_array(rows.matrix, dtype=np.float64)
    n_features = rows.n_features
    along, squares, means = (np.zeros(n_features) for _ in range(3))
    per_row = max(1.0, matrix.nnz / rows.n_rows) * max(1.0, links.nnz / rows.n_rows)
    n_block = int(max(1, BLOCK_ENTRIES // per_row))
    for begin in range(0, rows.n_rows, n_block):
        block = matrix[begin : begin + n_block]
        weights = np.repeat(degrees[begin : begin + n_block], np.diff(block.indptr))
        near = block.multiply(links[begin : begin + n_block] @ matrix).tocsr()
        along += np.bincount(near.indices, near.data, minlength=n_features)
        squares += np.bincount(block.indices, weights * block.data**2, minlength=n_features)
        means += np.bincount(block.indices, weights * block.data, minlength=n_features)
    spread = squares - means**2 / total
    constant = spread <= 1e-12 * np.maximum(squares, np.finfo(float).tiny)
    scores = np.maximum(squares - along, 0.0) / np.where(constant, 1.0, spread)
    scores[constant] = np.inf
    return scores
