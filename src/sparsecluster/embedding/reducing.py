"""What transformers that shrink rows share: parameters, memory, names of what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.rows.parameters import integer
from sparsecluster.rows.resources import effective_memory_limit
from sparsecluster.rows.rows import MAX_INDEX, Rows


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
