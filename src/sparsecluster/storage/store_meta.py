"""meta.json, the description of a store: everything in it is checked before it is used."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from sparsecluster.rows.rows import MAX_INDEX
from sparsecluster.storage.store_files import StoreError, damaged
from sparsecluster.storage.store_writer import BY_BLOCKS, FORMAT, VERSIONS, meta_checksum

VALUE_TYPES = ("<f4", "<f8")
NUMBERS = re.compile(r"<[iuf][248]|\|[iu]1")  # what arrays can hold, as numpy writes it
MOST_ENTRIES = 2**62


def read_meta(path: Path, text: bytes) -> dict[str, Any]:
    """The description that a store has, checked."""
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged(path, "meta.json is not as it was written") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise StoreError(f"{path} is not a store of this library.")
    if meta.get("version") not in VERSIONS:
        raise StoreError(
            f"{path} has version {meta.get('version')!r} of the store's format; this library "
            f"reads up to {VERSIONS[-1]}. Update the library, or convert the source again."
        )
    if meta.get("checksum") != meta_checksum(meta):
        raise damaged(path, "meta.json is not as it was written")
    try:
        _check(meta)
    except (ValueError, KeyError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else error
        raise damaged(path, f"meta.json is not as it was written ({what})") from None
    return meta


def _check(meta: dict[str, Any]) -> None:
    """Refuse what is of a wrong type or does not fit together; arrays are checked against it."""
    for name, most in (
        ("n_rows", MAX_INDEX),
        ("n_features", MAX_INDEX),
        ("n_entries", MOST_ENTRIES),
    ):
        _require(_is_number(meta[name], most), f"{name} is out of range")
    _require(meta["dtype"] in list(VALUE_TYPES), "values of another type")
    n_labels = meta["n_labels"]
    _require(n_labels is None or _is_number(n_labels, MAX_INDEX), "n_labels is out of range")
    _require(isinstance(meta["named"], bool), "named is neither true nor false")
    _require(not meta["named"] or _is_number(meta["vocabulary"]), "no checksum of the vocabulary")
    _require(isinstance(meta["recipe"], dict | None), "the recipe is none")
    _check_arrays(meta)
    _check_blocks(meta["blocks"], meta["n_rows"])
    _check_checksums(meta)


def _check_arrays(meta: dict[str, Any]) -> None:
    arrays, n_rows, n_entries = meta["arrays"], meta["n_rows"], meta["n_entries"]
    _require(isinstance(arrays, dict), "arrays are not described")
    for name, about in arrays.items():
        fine = (
            name.isidentifier()
            and isinstance(about, list)
            and len(about) == 2
            and isinstance(about[0], str)
            and NUMBERS.fullmatch(about[0])
            and _is_number(about[1], MOST_ENTRIES)
        )
        _require(bool(fine), f"the array {name!r} cannot be")
    expected = {
        "indptr": ["<i8", n_rows + 1],
        "indices": ["<i4", n_entries],
        "data": [meta["dtype"], n_entries],
        "norm2": ["<f8", n_rows],
    }
    if "labels" in arrays:
        expected["labels"] = ["<f8", n_rows]
    elif "label_indptr" in arrays or "label_indices" in arrays:
        expected["label_indptr"] = ["<i8", n_rows + 1]
        expected["label_indices"] = ["<i4", arrays["label_indices"][1]]
    if "ids" in arrays or "id_ends" in arrays:
        expected["ids"] = ["|u1", arrays["ids"][1]]
        expected["id_ends"] = ["<i8", n_rows]
    for name, value in expected.items():
        _require(arrays[name] == value, f"{name} is of another type or length")


def _check_blocks(ends: Any, n_rows: int) -> None:
    _require(
        isinstance(ends, list)
        and all(_is_number(end, MAX_INDEX) for end in ends)
        and ends == sorted(ends)
        and ends[-1:] == [n_rows],
        "blocks do not end with the rows",
    )


def _check_checksums(meta: dict[str, Any]) -> None:
    checksums = meta["checksums"]
    _require(
        isinstance(checksums, dict) and checksums.keys() == meta["arrays"].keys(),
        "checksums of other arrays",
    )
    for name, sums in checksums.items():
        n_sums = len(meta["blocks"]) if name in BY_BLOCKS else 1
        _require(
            isinstance(sums, list) and len(sums) == n_sums and all(map(_is_number, sums)),
            f"the checksums of {name} cannot be",
        )


def _is_number(value: Any, most: int = 2**32 - 1) -> bool:
    """Whether JSON gave a whole number in range; True and False are none."""
    return type(value) is int and 0 <= value <= most


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
