"""When to stop."""

from __future__ import annotations

import math

import numpy as np

from sparsecluster import _core


def shift_tolerance(tol: float, columns: _core.ColumnStats) -> float:
    """Right side of the stopping rule: tol times the mean variance of the features (eq. A.1)."""
    return tol * columns.mean_variance


def total_shift(shift: np.ndarray) -> float:
    """Left side of the stopping rule: the sum of the squared shifts of the centers."""
    return math.fsum(shift * shift)
