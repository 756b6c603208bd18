"""Centers as they travel: arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core

Arrays = dict[str, Any]


def packed(centers: sp.csr_array) -> Arrays:
    """Centers as arrays."""
    return {
        "indptr": np.asarray(centers.indptr, dtype=np.int64),
        "indices": np.asarray(centers.indices, dtype=np.int32),
        "data": centers.data,
        "shape": centers.shape,
    }


def unpacked(arrays: Arrays) -> sp.csr_array:
    """The same as a matrix."""
    entries = (arrays["data"], arrays["indices"], arrays["indptr"])
    return sp.csr_array(entries, shape=arrays["shape"])


def packed_core(centers: _core.Centers) -> Arrays:
    """Centers of the core in the same way."""
    indptr, indices, data = centers.to_csr()
    shape = (len(indptr) - 1, centers.n_features)
    return {"indptr": indptr, "indices": indices, "data": data, "shape": shape}


def unpacked_core(arrays: Arrays) -> _core.Centers:
    """Back to the core."""
    return _core.Centers.from_csr(
        arrays["indptr"], arrays["indices"], arrays["data"], arrays["shape"][1]
    )
