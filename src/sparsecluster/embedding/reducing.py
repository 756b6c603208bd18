"""What transformers that shrink rows share: parameters, memory, names of what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.embedding.hashing import seed_of
from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.parameters import By, integer
from sparsecluster.rows.resources import effective_memory_limit
from sparsecluster.rows.rows import MAX_INDEX, Rows
from sparsecluster.storage.fields import INTEGER


class Reducer(TransformerMixin, SparseEstimator):
    """The base of transformers to fewer columns: they `_learn` from X, and make rows `_reduced`."""

    _parameters = {
        name: SparseEstimator._parameters[name] for name in ("n_threads", "memory_limit")
    } | {"n_components": integer(1, MAX_INDEX)}

    n_components: int

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """Fit to X, and transform it."""
        return self._reduced(self._learn(X, **options))

    def transform(self, X: Any) -> Any:
        """The rows of X with fewer columns.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        """
        check_is_fitted(self, "n_features_in_")
        return self._reduced(self._enter(X, reset=False))

    def _learn(self, X: Any, *, feature_names: Any = None) -> Rows:
        """Fit to X; its checked rows."""
        raise NotImplementedError

    def _reduced(self, rows: Rows) -> Any:
        raise NotImplementedError

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        check_is_fitted(self, "n_features_in_")
        return super().get_state()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SeededReducer(Reducer):
    """The base of those that learn nothing of X but its number of columns, and draw a seed."""

    _parameters = Reducer._parameters | {"random_state": By(check_random_state)}
    _fitted = Reducer._fitted | {"seed_": INTEGER}

    seed_: int

    def __init__(
        self,
        n_components: int = 100,
        *,
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit

    def fit(self, X: Any, y: Any = None, *, feature_names: Any = None) -> SeededReducer:
        """Take the number of columns of X, and a seed.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        y : ignored
        feature_names : sequence of str, optional
            Names of the columns, kept as `feature_names_`.
        """
        self._learn(X, feature_names=feature_names)
        return self

    def _learn(self, X: Any, *, feature_names: Any = None) -> Rows:
        self.check_parameters()
        rows = self._enter(X, reset=True)
        names = check_feature_names(feature_names, rows.n_features)
        self._check_memory(rows)
        self.seed_ = seed_of(self.random_state)
        self._remember(rows, names)
        return rows

    def _check_memory(self, rows: Rows) -> None:
        """Refuse rows whose reduction does not fit."""
        raise NotImplementedError


def refuse_beyond(needed: float, memory_limit: Any, what: str, advice: str) -> None:
    """Refuse what would take more memory than it may, before any work."""
    limit = effective_memory_limit(memory_limit)
    if needed > limit:
        raise ValueError(
            f"{what} takes {needed / 1e9:.3g} GB, more than the memory limit of "
            f"{limit / 1e9:.3g} GB. {advice}, or raise memory_limit."
        )


def rounded(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Values of float64 in this type; refused where they are too large for it."""
    with np.errstate(over="ignore"):
        found = values.astype(dtype, copy=False)
    if not np.isfinite(found).all():
        raise ValueError(f"X has values whose sums are too large for {np.dtype(dtype)}: scale X.")
    return found
