"""Centers between numpy, scipy and the core; and those that come from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.rows import LARGEST_NORM2, MAX_INDEX, canonical, check_input
from sparsecluster.storage.fields import check_array_of


def to_core(centers: Any, n_features: int | None = None) -> _core.Centers:
    """Core centers of an array or sparse matrix, one center per row; zero in further features."""
    # What scipy would do takes longer than all else that a small fit does with its centers.
    if type(centers) is np.ndarray and centers.ndim == 2:
        return _dense_to_core(centers, n_features)
    matrix = canonical(centers, np.float64)
    return _core.Centers.from_csr(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
        max(matrix.shape[1], n_features or 0),
    )


def _dense_to_core(centers: np.ndarray, n_features: int | None) -> _core.Centers:
    rows, columns = np.nonzero(centers)
    indptr = np.searchsorted(rows, np.arange(len(centers) + 1))
    values = centers[rows, columns].astype(np.float64, copy=False)
    width = max(centers.shape[1], n_features or 0)
    return _core.Centers.from_csr(
        indptr.astype(np.int64, copy=False), columns.astype(np.int32), values, width
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
    given = given if sp.issparse(given) else np.asarray(given)
    if given.shape != (n_clusters, n_features):
        clusters_match = given.shape[:1] == (n_clusters,)
        wrong = f"features of the data {n_features}" if clusters_match else f"clusters {n_clusters}"
        raise ValueError(
            f"The shape of the initial centers {given.shape} does not match the number of {wrong}: "
            f"init must have the shape {(n_clusters, n_features)}."
        )
    if given.dtype.kind not in "biuf":
        raise ValueError(f"init must hold real numbers, got {given.dtype}.")
    given = canonical(given, np.float64) if sp.issparse(given) else given
    values = given.data if sp.issparse(given) else given
    if not np.isfinite(values).all():
        raise ValueError("init contains NaN or infinity.")
    with np.errstate(over="ignore"):
        if sp.issparse(given):
            squares = given.power(2).sum(axis=1)
        else:
            squares = np.square(given, dtype=np.float64).sum(axis=1)
    if not np.all(squares <= LARGEST_NORM2):
        raise ValueError("init contains values too large to square; scale them and X first.")
    return given


def check_stored(centers: Any, *, verify: bool) -> Any:
    """Centers of a file whose type and shape fit; their values are read with `verify` alone."""
    if sp.issparse(centers):
        check_array_of(centers.data, np.float64, 1, "centers")
    else:
        check_array_of(centers, np.float64, 2, "centers")
    if not 0 < min(centers.shape) <= max(centers.shape) <= MAX_INDEX:
        raise ValueError(f"has centers of the shape {centers.shape}")
    if verify:
        values = centers.data if sp.issparse(centers) else centers
        largest = float(max(-values.min(initial=0.0), values.max(initial=0.0)))
        # The norms themselves take longer, and are rarely in doubt.
        doubtful = not largest * (largest / LARGEST_NORM2) * centers.shape[1] <= 1
        if doubtful and not np.all(to_core(centers).norm2 <= LARGEST_NORM2):
            raise ValueError("has centers that are not finite, or too large to square")
    return centers
