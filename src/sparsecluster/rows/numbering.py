"""The numbers of clusters."""

from __future__ import annotations

import numpy as np


def numbered_by_first(groups: np.ndarray) -> np.ndarray:
    """Labels from 0 for any names of groups, in the order of the first members."""
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number].astype(np.int32)
