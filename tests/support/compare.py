"""Equality to the bit."""

import numpy as np
import scipy.sparse as sp


def same(first, second):
    """Whether two values, matrices or trees of them are equal to the bit, types included."""
    if sp.issparse(first):
        parts = ("data", "indices", "indptr")
        return first.shape == second.shape and all(
            same(getattr(first, part), getattr(second, part)) for part in parts
        )
    if isinstance(first, np.ndarray):
        equal = first.tolist() == second.tolist() if first.dtype == object else None
        if equal is None:
            equal = np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        return first.dtype == second.dtype and equal
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)):
        alike = type(first) is type(second) and len(first) == len(second)
        return alike and all(map(same, first, second))
    return type(first) is type(second) and first == second
