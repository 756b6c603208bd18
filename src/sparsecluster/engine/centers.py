"""Centers between numpy, scipy and the core."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core


def to_core(centers: Any) -> _core.Centers:
    """Core centers from an array or a sparse matrix, one center a row."""
    matrix = sp.csr_array(centers, dtype=np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return _core.Centers.from_csr(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data,
        matrix.shape[1],
    )


def from_core(centers: _core.Centers) -> sp.csr_array:
    """The centers as a CSR array in float64."""
    indptr, indices, values = centers.to_csr()
    shape = (centers.n_clusters, centers.n_features)
    if centers.nnz <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    return sp.csr_array((values, indices, indptr), shape=shape)
