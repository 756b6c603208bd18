"""AnnData objects as rows, in memory or backed by a file, with the names of their variables and
observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from sparsecluster.prepare.matching import places_of_columns
from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.recipe import Recipe
from sparsecluster.rows.rows import Provenance, Rows, as_rows, check_input

ADVICE = (
    "Write it to an .h5ad file and read that with like=model, missing_columns='zero' to take them "
    "as zeros."
)


def is_annotated(X: Any) -> bool:
    """Whether this is an AnnData, by what it has."""
    return all(hasattr(X, name) for name in ("obs_names", "var_names", "X"))


def in_memory(X: Any) -> Any:
    """The matrix of a dataset that a backed AnnData gives, and anything else as it is."""
    return X.to_memory() if hasattr(X, "to_memory") and hasattr(X, "format") else X


def annotated_rows(adata: Any, *, like: Recipe | None, n_threads: int) -> Rows:
    """The rows of ``adata.X``; in the columns of a fitted recipe, by name, where there is one."""
    if adata.X is None:
        raise ValueError("X is an AnnData without a matrix X. Pass one of its layers.")
    matrix = check_array(check_input(in_memory(adata.X)), input_name="X", **INPUT)
    names, ids = (
        np.array([str(name) for name in index], dtype=object)
        for index in (adata.var_names, adata.obs_names)
    )
    if like is not None:
        places = places_of_columns(
            matrix.shape[1],
            names,
            like.column_names,
            like.n_features,
            origin="X",
            advice=ADVICE,
        )
        if places is not None:
            matrix, names = _moved(matrix, places, like.n_features), np.asarray(like.names)
    n_features = matrix.shape[1]
    recipe = Recipe(n_columns=n_features, n_features=n_features, names=names)
    provenance = Provenance(feature_names=names, ids=ids, recipe=recipe)
    return as_rows(matrix, n_threads=n_threads, provenance=provenance)


def _moved(matrix: Any, places: np.ndarray, n_columns: int) -> Any:
    """A matrix whose columns go to these places: a product with ones, which changes no value."""
    kept = np.flatnonzero(places >= 0)
    ones = np.ones(len(kept), dtype=matrix.dtype)
    shape = (len(places), n_columns)
    moved = matrix @ sp.csr_array((ones, (kept, places[kept])), shape=shape)
    return sp.csr_array(moved) if sp.issparse(matrix) else np.ascontiguousarray(moved)
