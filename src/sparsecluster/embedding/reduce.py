"""All ways to shrink rows before they are clustered, behind one function.

A method is a line in METHODS: how its transformer is made, and what it has to refuse beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from sparsecluster.embedding.laplacian import LaplacianScore
from sparsecluster.embedding.random_signs import RandomSigns
from sparsecluster.embedding.reducing import refuse_beyond
from sparsecluster.embedding.selection import LeverageSelection
from sparsecluster.embedding.sparse_embedding import SparseEmbedding
from sparsecluster.embedding.sparsification import Sparsification
from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.parameters import Constraint, check_name, check_number, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows

# As in the examples of Roweis and Saul; scikit-learn has 5.
LLE_NEIGHBORS = 12


@dataclass(frozen=True)
class Setting:
    """What every method may use."""

    n_components: int
    random_state: Any
    n_threads: int | None
    memory_limit: int | str | None

    def ours(self) -> dict[str, Any]:
        """The parameters of a transformer of this package that draws nothing."""
        return {"n_threads": self.n_threads, "memory_limit": self.memory_limit}

    def drawn(self) -> dict[str, Any]:
        return self.ours() | {"random_state": self.random_state}

    def refuse(self, needed: float, what: str, advice: str) -> None:
        refuse_beyond(needed, self.memory_limit, what, advice)


@dataclass(frozen=True)
class Method:
    """A function of rows, a Setting and options by keyword, and what these options may be."""

    reduce: Callable[..., Any]
    options: dict[str, Constraint]


def _sparse_embedding(rows: Rows, setting: Setting) -> Any:
    return SparseEmbedding(setting.n_components, **setting.drawn()).fit_transform(rows)


def _random_signs(rows: Rows, setting: Setting) -> Any:
    return RandomSigns(setting.n_components, **setting.drawn()).fit_transform(rows)


def _sparsified(rows: Rows, setting: Setting) -> Any:
    return Sparsification(setting.n_components, **setting.drawn()).fit_transform(rows)


def _laplacian_score(rows: Rows, setting: Setting, **options: Any) -> Any:
    return LaplacianScore(setting.n_components, **setting.ours(), **options).fit_transform(rows)


def _svd_selection(rows: Rows, setting: Setting, **options: Any) -> Any:
    selection = LeverageSelection(setting.n_components, **setting.drawn(), **options)
    return selection.fit_transform(rows)


def _svd(rows: Rows, setting: Setting, *, n_iter: int = 5) -> np.ndarray:
    from sklearn.decomposition import TruncatedSVD

    k, most = setting.n_components, min(rows.shape)
    if k > most:
        raise ValueError(
            f"n_components={k} singular vectors are asked for, and X, of {rows.n_rows} rows and "
            f"{rows.n_features} columns, has {most}."
        )
    needed = 3 * 8 * sum(rows.shape) * (k + 10)
    setting.refuse(needed, "The SVD of X", "Take fewer components")
    svd = TruncatedSVD(k, n_iter=n_iter, random_state=setting.random_state)
    return svd.fit_transform(rows.matrix)


def _lle(rows: Rows, setting: Setting, *, n_neighbors: int = LLE_NEIGHBORS) -> np.ndarray:
    from sklearn.manifold import LocallyLinearEmbedding

    n, k = rows.n_rows, setting.n_components
    if k >= n or k > rows.n_features:
        raise ValueError(
            f"n_components={k} must be below the number of rows, {n}, and at most that of columns, "
            f"{rows.n_features}."
        )
    if n_neighbors >= n:
        raise ValueError(f"n_neighbors={n_neighbors} needs more rows than that, got {n}.")
    # All eigenvectors are taken where many are asked for.
    columns = min(rows.shape) if rows.sparse else rows.n_features
    needed = 8 * n * columns * 2 + 4 * 8 * n * n
    advice = "Take fewer rows, or another method: LLE needs n x n values"
    setting.refuse(needed, "Local linear embedding of X", advice)
    embedding = LocallyLinearEmbedding(
        n_neighbors=n_neighbors, n_components=k, random_state=setting.random_state
    )
    return embedding.fit_transform(_dense_points(rows))


def _dense_points(rows: Rows) -> np.ndarray:
    """Points as far from each other as the rows, in no more columns than there are rows."""
    if not rows.sparse:
        return np.asarray(rows.matrix, dtype=np.float64)
    matrix = sp.csr_array(rows.matrix, dtype=np.float64)
    if rows.n_rows >= rows.n_features:
        return matrix.toarray()
    # scikit-learn's is for dense rows, and looks at nothing but their inner products.
    values, vectors = np.linalg.eigh((matrix @ matrix.T).toarray())
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _sparse_projection(rows: Rows, setting: Setting) -> Any:
    from sklearn.random_projection import SparseRandomProjection

    if setting.n_components > rows.n_features:
        raise ValueError(
            f"n_components={setting.n_components} is more than the {rows.n_features} columns of X."
        )
    size = rows.n_rows * setting.n_components
    table = 12 * setting.n_components * np.sqrt(rows.n_features)
    setting.refuse(8 * size + table, "The projection of X", "Take fewer components")
    projection = SparseRandomProjection(
        setting.n_components, random_state=setting.random_state, dense_output=True
    )
    return projection.fit_transform(rows.matrix)


NEIGHBORS: dict[str, Constraint] = {"n_neighbors": integer(1)}
METHODS: dict[str, Method] = {
    "sparse-embedding": Method(_sparse_embedding, {}),
    "random-signs": Method(_random_signs, {}),
    "sparse-projection": Method(_sparse_projection, {}),
    "svd": Method(_svd, {"n_iter": integer(0)}),
    "svd-selection": Method(_svd_selection, {"n_clusters": integer(1)}),
    "laplacian-score": Method(
        _laplacian_score,
        NEIGHBORS | {name: LaplacianScore._parameters[name] for name in ("metric", "weights", "t")},
    ),
    "lle": Method(_lle, NEIGHBORS),
    "sparsified": Method(_sparsified, {}),
}


def reduce(
    X: Any,
    method: str = "sparse-embedding",
    n_components: int = 100,
    *,
    random_state: Any = None,
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    **options: Any,
) -> Any:
    """The rows of X in fewer columns, by any of the ways that people use before k-means.

    Parameters
    ----------
    X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        The rows.
    method : str, default="sparse-embedding"
        - "sparse-embedding": each column goes to one component, with a random sign
          (:class:`SparseEmbedding`); one pass over the entries
        - "random-signs": a dense matrix of +-1 (:class:`RandomSigns`)
        - "sparse-projection": scikit-learn's SparseRandomProjection
        - "svd": scikit-learn's TruncatedSVD, randomised; option `n_iter` (5)
        - "svd-selection": columns drawn by leverage scores (:class:`LeverageSelection`); option
          `n_clusters` (8)
        - "laplacian-score": columns that follow the graph of near rows (:class:`LaplacianScore`);
          options `n_neighbors` (5), `metric`, `weights`, `t`
        - "lle": scikit-learn's LocallyLinearEmbedding, for few rows; option `n_neighbors` (12)
        - "sparsified": a random rotation, of which `n_components` entries per row are kept
          (:class:`Sparsification`): cluster it with :class:`SparsifiedKMeans`
    n_components : int, default=100
        Columns of the result; with "sparsified", entries per row; with "svd-selection", draws:
        columns that are drawn more than once come out once.
    random_state : int, RandomState or None, default=None
        Of what is drawn; "laplacian-score" draws nothing.
    n_threads : int or None, default=None
        Threads of this package; scikit-learn's methods use those of the linear algebra below them.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that may be used beyond X; what takes more is refused before any work. By
        default half of the memory that is free.
    **options
        Of the method, see above; others are refused.

    Returns
    -------
    csr_array or ndarray

    Notes
    -----
    The methods of this package give the same bits for any number of threads. "svd" and "lle" are
    scikit-learn's: the same for the same seed and the same linear algebra.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import reduce
    >>> X = csr_array([[1.0, 0, 2, 0, 0], [0, 3, 0, 0, 1], [0, 2, 0, 1, 1]])
    >>> reduce(X, "svd", 2, random_state=0).shape
    (3, 2)
    >>> reduce(X, "laplacian-score", 3, n_neighbors=1).toarray()
    array([[1., 2., 0.],
           [0., 0., 1.],
           [0., 0., 1.]])
    """
    check_name("method", method, METHODS)
    check_number("n_components", n_components, integer(1).kind, 1)
    known = METHODS[method].options
    for name, value in options.items():
        if name not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ValueError(f"method={method!r} has no option {name!r}; {takes}.")
        known[name].check(name, value)
    check_random_state(random_state)
    if memory_limit is not None:
        effective_memory_limit(memory_limit)
    rows = enter(X, n_threads=effective_n_threads(n_threads))
    setting = Setting(int(n_components), random_state, n_threads, memory_limit)
    found = METHODS[method].reduce(rows, setting, **options)
    return sp.csr_array(found) if sp.issparse(found) else found
