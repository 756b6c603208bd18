"""Column selection: what selectors share, and leverage scores, by which columns are drawn.

Boutsidis, Mahoney and Drineas, "Unsupervised Feature Selection for the k-means Clustering Problem"
(NIPS 2009)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.extmath import randomized_svd
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted
from threadpoolctl import threadpool_limits

from sparsecluster.embedding.reducing import Reducer, refuse_beyond, rounded
from sparsecluster.rows.checks import check_feature_names, check_weights
from sparsecluster.rows.parameters import By, integer
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import Array

OVERSAMPLES, POWER_ITERATIONS = 10, 7  # of the randomised SVD


class ColumnSelection(Reducer):
    """The base of transformers that keep some columns as they are, or scaled."""

    _fitted = Reducer._fitted | {"columns_": Array(np.int32), "scores_": Array(np.float64)}

    columns_: np.ndarray
    scores_: np.ndarray
    scale_: np.ndarray | None

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Which columns are kept: a mask of all columns, or their numbers."""
        check_is_fitted(self, "columns_")
        if indices:
            return self.columns_.astype(np.intp)
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self.columns_] = True
        return mask

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that are kept.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of all columns; by default those of the data that were fitted, or x0, x1, ...
        """
        check_is_fitted(self, "columns_")
        if input_features is None and self.feature_names_ is not None:
            return np.asarray(self.feature_names_, dtype=object)[self.columns_]
        return _check_feature_names_in(self, input_features)[self.columns_]

    def _reduced(self, rows: Rows) -> Any:
        matrix = rows.matrix
        kept = matrix[:, self.columns_]
        if sp.issparse(kept):
            kept = sp.csr_array(kept)
            kept.sort_indices()
        scale = getattr(self, "scale_", None)
        if scale is None:
            return kept if sp.issparse(kept) else np.ascontiguousarray(kept)
        if not sp.issparse(kept):
            return rounded(kept.astype(np.float64) * scale, matrix.dtype)
        kept.data = rounded(kept.data.astype(np.float64) * scale[kept.indices], matrix.dtype)
        return kept

    def _check_components(self, n_features: int) -> None:
        if self.n_components > n_features:
            raise ValueError(
                f"n_components={self.n_components} columns are to be kept, and X has {n_features}."
            )

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves."""
        super().set_state(state, verify=verify)
        columns, n_features = self.columns_, self.n_features_in_
        if not len(columns) or columns.min() < 0 or columns.max() >= n_features:
            raise ValueError("has columns that its rows do not have")
        if len(self.scores_) != n_features:
            raise ValueError("has scores of other columns")
        if len(getattr(self, "scale_", columns)) != len(columns):
            raise ValueError("has another number of scales than of columns")


class LeverageSelection(ColumnSelection):
    """Column selection by the SVD: columns are drawn by their leverage scores, and rescaled.

    The leverage score of a column is the squared length of its row in the first `n_clusters` right
    singular vectors, over `n_clusters`. By these probabilities p `n_components` columns are drawn
    with replacement; a column that was drawn t times is scaled by sqrt(t / (n_components p)), by
    which squared distances are kept in expectation. With enough columns the k-means cost is kept
    within a factor of 2 + eps (`dimensions("svd-selection", ...)`).

    Parameters
    ----------
    n_components : int, default=100
        How many columns are drawn. Those drawn more than once come out once, so there may be fewer;
        the distances are the same as with all of them side by side.
    n_clusters : int, default=8
        How many singular vectors are used: the number of clusters that will be looked for.
    random_state : int, RandomState or None, default=None
        Of the singular vectors, which are found by a randomised method, and of the draws.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that the singular vectors may take; more is refused before any work. By
        default half of the memory that is free.

    Attributes
    ----------
    columns_ : ndarray of int32
        The columns that were drawn, ascending.
    scale_ : ndarray of float64
        What each of them is multiplied by.
    scores_ : ndarray of float64
        Leverage scores of all columns; their sum is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import LeverageSelection
    >>> X = np.array([[9.0, 0, 0.1, 0], [8, 0, 0, 0.1], [0, 7, 0.1, 0], [0, 9, 0, 0.2]])
    >>> selection = LeverageSelection(20, n_clusters=2, random_state=0).fit(X)
    >>> selection.columns_, selection.scores_.round(2)
    (array([0, 1], dtype=int32), array([0.5, 0.5, 0. , 0. ]))
    """

    _parameters = ColumnSelection._parameters | {
        "n_clusters": integer(1),
        "random_state": By(check_random_state),
    }
    _fitted = ColumnSelection._fitted | {"scale_": Array(np.float64)}

    def __init__(
        self,
        n_components: int = 100,
        *,
        n_clusters: int = 8,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, feature_names: Any = None
    ) -> LeverageSelection:
        """Compute the leverage scores of the columns of X, and draw columns.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        y : ignored
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows, not negative.
        feature_names : sequence of str, optional
            Names of the columns.
        """
        self._learn(X, sample_weight=sample_weight, feature_names=feature_names)
        return self

    def _learn(self, X: Any, *, sample_weight: Any = None, feature_names: Any = None) -> Rows:
        self.check_parameters()
        rows = self._enter(X, reset=True)
        weights = check_weights(sample_weight, rows)
        names = check_feature_names(feature_names, rows.n_features)
        rank = self.n_clusters
        if rank > min(rows.shape):
            raise ValueError(
                f"n_clusters={rank} singular vectors are asked for, and X has "
                f"n_samples={rows.n_rows} rows and {rows.n_features} columns."
            )
        needed = 24 * sum(rows.shape) * (rank + OVERSAMPLES) + 12 * rows.core.nnz
        refuse_beyond(needed, self.memory_limit, "The SVD of X", "Use fewer n_clusters")
        random_state = check_random_state(self.random_state)
        scores = leverage_scores(rows, weights, rank, random_state)
        drawn = random_state.choice(rows.n_features, size=self.n_components, p=scores)
        columns, counts = np.unique(drawn, return_counts=True)
        self.scores_, self.columns_ = scores, columns.astype(np.int32)
        self.scale_ = np.sqrt(counts / (self.n_components * scores[columns]))
        self._remember(rows, names)
        return rows


def leverage_scores(
    rows: Rows, weights: np.ndarray | None, rank: int, random_state: np.random.RandomState
) -> np.ndarray:
    """Squared lengths of the columns in the first right singular vectors, as probabilities."""
    matrix = sp.csr_array(rows.matrix, dtype=np.float64)
    if weights is not None:
        matrix = sp.csr_array(sp.diags_array(np.sqrt(weights)) @ matrix)
    # One thread of BLAS, so that rounding does not depend on their number; X is not transposed, so
    # that the start depends on the columns only, and copies of rows count as weights do.
    with threadpool_limits(limits=1, user_api="blas"):
        _, values, vectors = randomized_svd(
            matrix, rank, n_oversamples=min(OVERSAMPLES, min(rows.shape)), transpose=False,
            n_iter=POWER_ITERATIONS, power_iteration_normalizer="LU", random_state=random_state,
        )  # fmt: skip
    if not values.any():
        raise ValueError("X is zero everywhere: its columns have no leverage scores.")
    # Vectors of singular values that are zero are arbitrary.
    lengths = np.square(vectors[values > values[0] * max(rows.shape) * 1e-15]).sum(axis=0)
    return lengths / lengths.sum()
