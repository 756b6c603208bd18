"""Centers between numpy, scipy and the core; and those that come from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.rows import LARGEST_NORM2, check_input


def to_core(centers: Any, n_features: int | None = None) -> _core.Centers:
    """Core centers from an array or a sparse matrix, one center a row; zero in further features."""
    matrix = sp.csr_array(centers, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _core.Centers.from_csr(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
        max(matrix.shape[1], n_features or 0),
    )


def from_core(centers: _core.Centers) -> sp.csr_array:
    """The centers as a CSR array in float64."""
    indptr, indices, values = centers.to_csr()
    shape = (centers.n_clusters, centers.n_features)
    if centers.nnz <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((values, indices, indptr), shape=shape)


def check_centers(given: Any, n_clusters: int, n_features: int) -> Any:
    """Starting centers from outside: an array or sparse matrix of the right shape, all finite."""
    given = check_input(given, "init")
    if sp.issparse(given):
        given = sp.csr_array(given)
    else:
        given = np.asarray(given)
    if given.ndim != 2 or given.shape != (n_clusters, n_features):
        raise ValueError(
            f"init has the shape {given.shape}; n_clusters={n_clusters} centers of {n_features} "
            f"features are needed."
        )
    if given.dtype.kind not in "biuf":
        raise ValueError(f"init must hold real numbers, got {given.dtype}.")
    values = given.data if sp.issparse(given) else given
    if not np.isfinite(values).all():
        raise ValueError("init contains NaN or infinity.")
    with np.errstate(over="ignore"):
        squares = sp.csr_array(given, dtype=np.float64).power(2).sum(axis=1)
    if not np.all(squares <= LARGEST_NORM2):
        raise ValueError("init contains values too large to square; scale them and X first.")
    return given


def on_sphere(centers: Any) -> sp.csr_array:
    """The directions of centers, for the cosine."""
    centers = sp.csr_array(centers, dtype=np.float64, copy=True)
    largest = abs(centers).max(axis=1).toarray().ravel()
    if not largest.all():
        raise ValueError(
            f"Center {int(np.flatnonzero(largest == 0)[0])} to start from is zero and has no "
            f"direction."
        )
    # By the largest value first, because the squares of tiny ones would vanish.
    centers.data /= np.repeat(largest, np.diff(centers.indptr))
    lengths = np.sqrt(np.asarray(centers.power(2).sum(axis=1)).ravel())
    centers.data /= np.repeat(lengths, np.diff(centers.indptr))
    return centers
