"""Projection onto an L1 ball, which makes vectors sparse."""

from __future__ import annotations

from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.parameters import check_name, check_number
from sparsecluster.rows.rows import canonical, check_input

METHODS = ("exact", "epsilon")


def project_l1(v: Any, radius: float, *, method: str = "exact", epsilon: float = 0.01) -> Any:
    """The nearest point of the L1 ball: all magnitudes shrink by the same, none below zero.

    Parameters
    ----------
    v : array or sparse matrix
        A vector, or vectors as rows; sparse ones stay sparse.
    radius : float
        Sum of the magnitudes that is allowed.
    method : {"exact", "epsilon"}, default="exact"
        "exact" finds the projection in linear time (Duchi et al. 2008). "epsilon" stops bisecting
        when the sum is between `radius` and ``(1 + epsilon) * radius`` (Sculley 2010): faster.
    epsilon : float, default=0.01
        For method "epsilon".

    Returns
    -------
    projected : ndarray or csr_array of float64
        In the shape of `v`. What lies inside the ball stays as it is.

    Examples
    --------
    >>> from sparsecluster import project_l1
    >>> project_l1([3.0, -1.0, 0.5], 2.0)
    array([2., 0., 0.])
    """
    check_name("method", method, METHODS)
    for name, value in (("radius", radius), ("epsilon", epsilon)):
        check_number(name, value, Real, 0)
        if not np.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value!r}.")
    v = check_input(v, "v")
    if sp.issparse(v):
        rows = canonical(v)
        values, bounds = rows.data.astype(np.float64), rows.indptr
    else:
        projected = np.array(v, dtype=np.float64, order="C")
        if projected.ndim not in (1, 2):
            raise ValueError(f"v must be a vector or a matrix, got {projected.ndim} dimensions.")
        values = projected.reshape(-1)
        bounds = np.arange(0, values.size + 1, max(projected.shape[-1], 1))
    if not np.isfinite(values.sum()):
        raise ValueError("v contains NaN or infinity, or values too large to add up.")
    for begin, end in pairwise(bounds):
        _core.project_l1(values[begin:end], float(radius), method, float(epsilon))
    if not sp.issparse(v):
        return projected
    # Only what is left gets columns.
    kept = np.flatnonzero(values)
    indptr = np.searchsorted(kept, bounds).astype(bounds.dtype)
    return sp.csr_array((values[kept], rows.indices[kept], indptr), shape=rows.shape)
