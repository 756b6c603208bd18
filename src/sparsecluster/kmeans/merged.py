"""Answers of several partitions as one, in any order and grouping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.deltas import joined

Arrays = dict[str, Any]
LIMBS = ("baseline", "weight", "filled_weight")
SPREADS = ("sizes", "squares", "counts")
SEEN = ("counts", "lengths")


def merge_measured(found: Sequence[Arrays]) -> Arrays:
    """Of `Partition.measured`."""
    return {
        "range": merge_ranges([one["range"] for one in found]),
        **{key: merge_limbs([one[key] for one in found]) for key in LIMBS},
        "n_entries": sum(one["n_entries"] for one in found),
        "has_values": any(one["has_values"] for one in found),
    }


def merge_ranges(found: Sequence[tuple]) -> tuple:
    """Of the ranges of rows."""
    n_rows, *largest = zip(*found, strict=True)
    max_norm, max_weight, min_weight = largest
    return sum(n_rows), max(max_norm), max(max_weight), min(min_weight)


def merge_totals(found: Sequence[tuple]) -> tuple:
    """Of `Partition.column_totals`."""
    return _core.merge_totals(found)


def merge_limbs(found: Sequence[np.ndarray]) -> np.ndarray:
    """Exact sums as one."""
    return np.sum(found, axis=0)


def merge_steps(found: Sequence[Arrays]) -> Arrays:
    """Of the turns."""
    merged: Arrays = {"delta": joined([one["delta"] for one in found])}
    if "sizes" in found[0]:
        merged["sizes"] = np.sum([one["sizes"] for one in found], axis=0)
        merged["scatter"] = merge_limbs([one["scatter"] for one in found])
        merged["seconds"] = max(one["seconds"] for one in found)
        merged["update"] = found[0]["update"]  # the same everywhere
        merged.update(merge_found(found))
    return merged


def merge_nothing(found: Sequence[None]) -> None:
    """Of turns that answer nothing."""


def merge_spreads(found: Sequence[Arrays]) -> Arrays:
    """Of `Partition.spreads`."""
    added = {key: np.sum([one[key] for one in found], axis=0) for key in SPREADS}
    return {**added, "mean_norm2": found[0]["mean_norm2"]}


def merge_seen(found: Sequence[Arrays]) -> Arrays:
    """Of `Partition.seen`."""
    return {key: np.sum([one[key] for one in found], axis=0) for key in SEEN}


def merge_found(found: Sequence[Arrays]) -> Arrays:
    """What assigning took."""
    counts = ("distances", "skipped", "center_distances")
    merged: Arrays = {key: sum(one[key] for one in found) for key in counts}
    return {**merged, "path": found[0]["path"]}


def merge_candidates(found: Sequence[Arrays]) -> Arrays:
    """Of `Partition.candidates`."""
    return {key: np.concatenate([one[key] for one in found]) for key in ("rows", "ranks", "labels")}
