"""Sums by group that neither the order of the rows nor their division into parts changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

N_PIECES = 3  # of a value


def sums_by_group(groups: np.ndarray, values: np.ndarray, n_groups: int) -> np.ndarray:
    """The sum of the values of each group."""
    largest = float(np.abs(values).max(initial=0.0))
    return group_sums([pieces_by_group(groups, values, n_groups, len(values), largest)])


def pieces_by_group(
    groups: np.ndarray, values: np.ndarray, n_groups: int, n_rows: int, largest: float
) -> np.ndarray:
    """Sums by group over some of `n_rows` rows, none of whose values exceeds `largest`.

    Values are cut into pieces, whole numbers of so few bits that sums over all rows are exact in
    float64: in any order, and in any parts. What is below 2**-60 of the largest is cut off.
    """
    pieces = np.zeros((N_PIECES, n_groups))
    if not largest > 0:
        return pieces
    bits, exponent = 53 - int(n_rows).bit_length(), int(np.frexp(largest)[1])
    rest = np.ldexp(values, -exponent)  # below 1
    for piece in pieces:
        rest = np.ldexp(rest, bits)
        whole = np.floor(rest)
        rest -= whole
        exponent -= bits
        piece[:] = np.ldexp(np.bincount(groups, whole, minlength=n_groups), exponent)
    return pieces


def group_sums(pieces: Sequence[np.ndarray]) -> np.ndarray:
    """The sums by group, of the pieces of all parts."""
    coarse, *finer = np.sum(pieces, axis=0)
    for piece in finer:
        coarse = coarse + piece
    return coarse
