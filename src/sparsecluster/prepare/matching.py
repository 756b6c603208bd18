"""Columns that have names are matched by name: wherever a file has them, they go to the places that
a fitted recipe knows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.source import Block, ReadError, Source

MISSING = ("error", "zero")  # what becomes of columns that are known and that a file lacks
SHOWN = 3  # names in a message


def places_of_columns(
    source: Source, known: Any, n_columns: int, *, kept: np.ndarray | None, missing: str
) -> np.ndarray | None:
    """Where each column of a file goes, -1 for nowhere; None: where it is.

    Of `n_columns` those at the places `kept` (None: all) have the names `known`, where any have. A
    file whose columns have no names must have as many.
    """
    names = source.feature_names
    if names is None or known is None:
        if source.n_features == n_columns:
            return None
        raise ReadError(
            f"{source.path} has {source.n_features:,} columns, where {n_columns:,} are known. It "
            f"must have the same columns."
        )
    names, places = np.asarray(names), np.arange(n_columns) if kept is None else kept
    if len(names) == n_columns and np.array_equal(names[places], known):
        return None
    n_dropped = n_columns - len(places)
    found = places_by_name(
        names, known, origin=str(source.path), missing=missing, n_dropped=n_dropped
    )
    return np.where(found < 0, -1, places[found]).astype(np.int32)


def places_by_name(
    names: Iterable[str], known: Any, *, origin: str, missing: str, n_dropped: int = 0
) -> np.ndarray:
    """Where each column goes: the place of its name among those known, or -1.

    `n_dropped` columns were known once, and were dropped: so many others are no surprise.
    """
    names = list(names)
    numbers = {name: number for number, name in enumerate(known)}
    places = np.array([numbers.get(name, -1) for name in names], dtype=np.int32)
    found = np.bincount(places[places >= 0], minlength=len(known))
    if len(numbers) < len(known) or found.max(initial=0) > 1:
        raise ReadError(
            f"{origin} has its columns in another order than the known ones, and some names occur "
            f"more than once{_twice(names, numbers)}: which column is which is not known. Make "
            f"the names unique, or bring the columns to the same order."
        )
    lacking = np.asarray(known, dtype=object)[found == 0]
    if len(lacking) == len(known):
        raise ReadError(
            f"{origin} has no column of a known name: {_some(names)} instead of {_some(lacking)}."
        )
    if len(lacking) and missing == "error":
        raise ReadError(
            f"{origin} lacks {len(lacking):,} of the {len(known):,} known columns "
            f"({_some(lacking)}). Read it with missing_columns='zero' to take them as zeros."
        )
    if len(lacking):
        _warn(f"{origin} lacks {len(lacking):,} of the {len(known):,} known columns: taken as 0.")
    n_extra = int(np.sum(places < 0)) - n_dropped
    if n_extra > 0:
        columns = "1 column that is" if n_extra == 1 else f"{n_extra:,} columns that are"
        _warn(f"{origin} has {columns} not known: left out.")
    return places


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
