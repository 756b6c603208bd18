"""Deltas, as they travel: what changes of labels add to the sums of the clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsecluster import _core

#: How many rows moved; per cluster where it begins; features, sums in two parts, and weights. Of
#: one that stays where it was found only the first.
Delta = tuple[Any, ...]


def joined(deltas: Sequence[Delta]) -> Delta:
    """Several deltas as one; it is kept where one of them is."""
    if len(deltas) == 1:
        return deltas[0]
    if any(is_kept(delta) for delta in deltas):
        return (sum(delta[0] for delta in deltas),)
    return _core.merge_deltas(deltas)


def is_kept(delta: Delta) -> bool:
    """Whether a delta stayed where it was found."""
    return len(delta) == 1


def n_entries(delta: Delta) -> int:
    """Sums that a delta changes."""
    return len(delta[2])


def cuts(n_clusters: int, n_pieces: int) -> np.ndarray:
    """Where the clusters of each piece begin, and the last ones end."""
    return np.arange(n_pieces + 1) * n_clusters // n_pieces


def piece(delta: Delta, number: int, n_pieces: int) -> Delta:
    """What a delta has of a range of clusters: views, but for where they begin."""
    _, begin, features, coarse, fine, weights = delta
    first, last = cuts(len(begin) - 1, n_pieces)[number : number + 2]
    entries = slice(begin[first], begin[last])
    return (
        0,
        begin[first : last + 1] - begin[first],
        features[entries],
        coarse[entries],
        fine[entries],
        weights[2 * first : 2 * last],
    )
