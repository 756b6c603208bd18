"""Columns that have names are matched by name: wherever a file has them, they go to the places that
a fitted recipe knows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.source import Block, ReadError
from sparsecluster.rows.errors import counted

MISSING = ("error", "zero")  # what becomes of columns that are known and that a file lacks
SHOWN = 3  # names in a message
ADVICE = "Read it with missing_columns='zero' to take them as zeros."


def places_of_columns(
    n_features: int,
    names: Any,
    known: Any,
    n_columns: int,
    *,
    origin: Any,
    kept: np.ndarray | None = None,
    missing: str = "error",
    advice: str = ADVICE,
) -> np.ndarray | None:
    """Where each of `n_features` columns goes, -1 for nowhere; None: where it is.

    Of `n_columns` those at the places `kept` (None: all) have the names `known`, where any have.
    Columns without names must be as many. Errors and warnings name the `origin`.
    """
    if names is None or known is None:
        if n_features == n_columns:
            return None
        raise ReadError(
            f"{origin} has {counted(n_features, 'column')}, but {n_columns:,} are expected."
        )
    names, places = np.asarray(names), np.arange(n_columns) if kept is None else kept
    if len(names) == n_columns and np.array_equal(names[places], known):
        return None
    found, lacking = _found_by_name(names.tolist(), known, origin)
    if len(lacking) and missing == "error":
        raise ReadError(
            f"{origin} lacks {len(lacking):,} of the {len(known):,} expected columns "
            f"({_some(lacking)}). {advice}"
        )
    if len(lacking):
        _warn(
            f"{origin} lacks {len(lacking):,} of the {len(known):,} expected columns: taken as 0."
        )
    # Columns that were dropped in the fit are known no more: so many others are no surprise.
    n_extra = int(np.sum(found < 0)) - (n_columns - len(places))
    if n_extra > 0:
        _warn(f"{origin} has {counted(n_extra, 'unexpected column')}: left out.")
    return np.where(found < 0, -1, places[found]).astype(np.int32)


def _found_by_name(names: list[str], known: Any, origin: Any) -> tuple[np.ndarray, Any]:
    """The place of each name among those known, or -1; and the known names that are not there."""
    numbers = {name: number for number, name in enumerate(known)}
    places = np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
    found = np.bincount(places[places >= 0], minlength=len(known))
    if len(numbers) < len(known) or found.max(initial=0) > 1:
        raise ReadError(
            f"{origin} has its columns in another order than expected, and some names occur more "
            f"than once{_twice(names, numbers)}, so that columns cannot be told apart. Make the "
            f"names unique, or bring the columns to the same order."
        )
    lacking = np.asarray(known, dtype=object)[found == 0]
    if len(lacking) == len(known):
        raise ReadError(
            f"{origin} has none of the expected columns: it has {_some(names)}, not "
            f"{_some(lacking)}."
        )
    return places, lacking


def moved(block: Block, places: np.ndarray) -> Block:
    """A block whose columns go to these places; those that go to -1 are left out."""
    columns = places[block.indices]
    kept = columns >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[block.indptr]
    # A copy of the values: they may be mapped, and are sorted in place.
    shape = (block.n_rows, int(columns.max(initial=0)) + 1)
    matrix = sp.csr_array((block.data[kept], columns[kept], indptr), shape=shape)
    matrix.sort_indices()
    indices = matrix.indices.astype(np.int32, copy=False)
    return replace(block, indptr=indptr, indices=indices, data=matrix.data)


def _twice(names: list[str], numbers: dict[str, int]) -> str:
    """One of the names in question, in brackets."""
    seen = set[str]()
    for name in names:
        if name in seen and name in numbers:
            return f" ({name})"
        seen.add(name)
    return ""


def _some(names: Any) -> str:
    return ", ".join(names[:SHOWN]) + (" and others" if len(names) > SHOWN else "")


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)
