"""The files of a store, all opened from one folder: where another store takes its place meanwhile,
what was opened is still whole. Checksums are compared of the very files that are mapped."""

from __future__ import annotations

import json
import mmap
import os
import re
import stat
import weakref
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sparsecluster.formats.source import ReadError
from sparsecluster.rows.rows import MAX_INDEX
from sparsecluster.rows.sharing import share_out
from sparsecluster.storage.store_writer import (
    ENTRIES,
    FORMAT,
    HEADER,
    PIECE,
    VERSIONS,
    by_blocks,
    meta_checksum,
    npy_header,
)
from sparsecluster.storage.tensors import require

# Only looked through, which takes no right to list it.
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
VALUE_TYPES = ("<f4", "<f8")
NUMBERS = re.compile(r"<[iuf][248]|\|[iu]1")  # what arrays can hold, as numpy writes it
MOST_ENTRIES = 2**62
Result = TypeVar("Result")


class StoreError(ReadError):
    """A store that cannot be opened: damaged, of a newer version, or none at all."""


def damaged(path: Path, what: str) -> StoreError:
    """The error for a store that is not as it was written."""
    return StoreError(f"{path} is damaged: {what}. Convert its source again.")


def from_folder(path: Path, use: Callable[[int], Result]) -> Result:
    """What is made of a folder that is open; again where another took its place meanwhile, because
    the files of the first are being removed then."""
    while True:
        folder = os.open(path, FOLDER)
        try:
            return use(folder)
        except (OSError, StoreError):
            if _is_still_there(folder, path):
                raise
        finally:
            os.close(folder)


def _is_still_there(folder: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(folder), os.stat(path))
    except OSError:
        return False


def is_store(path: Path) -> bool:
    """Whether there is a store, or what was one."""
    try:
        return from_folder(path, has_meta)
    except OSError:
        return False


def has_meta(folder: int) -> bool:
    """Whether meta.json is a file; an OSError where it is missing."""
    return stat.S_ISREG(os.stat("meta.json", dir_fd=folder).st_mode)


class StoreFiles:
    """The files of a store. Arrays stay open until their checksums were compared."""

    def __init__(self, path: Path, folder: int) -> None:
        self._path = path
        self._folder = folder
        self._opened = ExitStack()
        weakref.finalize(self, self._opened.close)
        self._arrays: dict[str, tuple[int, mmap.mmap]] = {}
        self.n_bytes = 0  #: of all files together
        self.verified = False
        self._closed = False

    def read(self, name: str) -> bytes:
        """All of a file."""
        with os.fdopen(self._open(name), "rb") as file:
            content = file.read()
        self.n_bytes += len(content)
        return content

    def map(self, name: str, dtype: str, length: int) -> np.ndarray:
        """An array, read-only, of this type and length; None of its values are read."""
        file = self._open(f"{name}.npy")
        self._opened.callback(os.close, file)
        size = HEADER + length * np.dtype(dtype).itemsize
        if os.fstat(file).st_size != size or os.pread(file, HEADER, 0) != npy_header(dtype, length):
            raise damaged(self._path, f"{name}.npy is not as it was written")
        try:
            mapped = mmap.mmap(file, size, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self._unreadable(f"{name}.npy", error) from None
        self._arrays[name] = file, mapped
        self.n_bytes += size
        return np.frombuffer(mapped, dtype, length, HEADER)

    def _open(self, name: str) -> int:
        try:
            # A pipe must not keep us waiting.
            file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self._folder)
        except FileNotFoundError:
            raise damaged(self._path, f"{name} is missing") from None
        except OSError as error:
            raise self._unreadable(name, error) from None
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise damaged(self._path, f"{name} is not a file")
        return file

    def _unreadable(self, name: str, error: OSError) -> StoreError:
        return StoreError(f"{self._path / name} cannot be read: {error.strerror}.")

    def read_as_asked(self, name: str) -> None:
        """Have the system read no more of a mapped file than what it is asked for: the core looks
        ahead by itself, and what else is read would drive out what is needed."""
        if hasattr(mmap, "MADV_RANDOM"):
            self._arrays[name][1].madvise(mmap.MADV_RANDOM)

    def descriptor(self, name: str) -> int:
        """Of the file of an array, which is open."""
        return self._arrays[name][0]

    @property
    def opened(self) -> bool:
        """Whether files can still be read by their descriptors."""
        return not self._closed

    def verify(
        self,
        arrays: dict[str, np.ndarray],
        meta: dict[str, Any],
        n_threads: int,
        *,
        entries: bool = True,
    ) -> None:
        """Read everything, and compare all checksums, once; without `entries`, all but theirs,
        because who reads them does that, and their files stay open."""
        if self.verified:
            return
        self.verify_indptr(arrays["indptr"], 0, meta["n_entries"], meta["n_entries"])
        names = arrays if entries else arrays.keys() - set(ENTRIES)
        for name in sorted(names):
            self.verify_blocks(name, arrays, meta, range(len(meta["blocks"])), n_threads)
        self.verified = True
        if entries:
            self._closed = True
            self._opened.close()

    def verify_indptr(self, indptr: np.ndarray, first: int, last: int, n_entries: int) -> None:
        """Refuse pointers that do not ascend from the first entry to the last, within all."""
        ascend = indptr[0] == first and indptr[-1] == last and np.all(indptr[1:] >= indptr[:-1])
        if not (ascend and 0 <= first <= last <= n_entries):
            raise damaged(self._path, "indptr.npy is not as it was written")

    def verify_blocks(
        self,
        name: str,
        arrays: dict[str, np.ndarray],
        meta: dict[str, Any],
        blocks: range,
        n_threads: int,
    ) -> None:
        """Compare the checksums of these blocks of an array; all of it where it has but one."""
        parts, sums = _parts(name, arrays, meta), meta["checksums"][name]
        if name in by_blocks(meta["version"]):
            some = slice(blocks.start, blocks.stop)
            parts, sums = parts[some], sums[some]
        crc = partial(_crc, self._arrays[name][0], arrays[name].itemsize, parts)
        if share_out(crc, len(parts), n_threads) != sums:
            raise damaged(self._path, f"{name}.npy is not as it was written")

    @staticmethod
    def blocks_of(meta: dict[str, Any], begin: int, end: int) -> range:
        """The blocks that these rows are in."""
        ends = meta["blocks"]
        if (begin, end) == (0, meta["n_rows"]):
            return range(len(ends))
        first = bisect_right(ends, begin)
        return range(first, max(bisect_left(ends, end) + 1, first) if end > begin else first)


def _parts(name: str, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> list[tuple[int, int]]:
    """Which elements each block has of an array, or all of them."""
    ends = meta["blocks"]
    if name not in by_blocks(meta["version"]):
        cuts = [len(arrays[name])]
    elif name in ENTRIES:
        cuts = [int(arrays["indptr"][end]) for end in ends]
    else:
        cuts = [end + (name == "indptr") for end in ends]  # which has one more, the first
    return list(pairwise([0, *cuts]))


def _crc(file: int, itemsize: int, parts: list[tuple[int, int]], number: int) -> int:
    """CRC-32 of some elements of a .npy file: read, not mapped, so that no more of it comes."""
    begin, end = (HEADER + element * itemsize for element in parts[number])
    crc = 0
    while begin < end:
        piece = os.pread(file, min(PIECE, end - begin), begin)
        if not piece:
            break
        crc = zlib.crc32(piece, crc)
        begin += len(piece)
    return crc


# --- meta.json: all of it is checked before it is used ------------------------------------------


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
    limits = {"n_rows": MOST_ENTRIES, "n_features": MAX_INDEX, "n_entries": MOST_ENTRIES}
    for name, most in limits.items():
        require(_is_number(meta[name], most), f"{name} is out of range")
    require(meta["dtype"] in list(VALUE_TYPES), "values of another type")
    n_labels = meta["n_labels"]
    require(n_labels is None or _is_number(n_labels, MAX_INDEX), "n_labels is out of range")
    require(isinstance(meta["named"], bool), "named is neither true nor false")
    require(not meta["named"] or _is_number(meta["vocabulary"]), "no checksum of the vocabulary")
    require(isinstance(meta["recipe"], dict | None), "the recipe is none")
    ends = meta["blocks"]
    require(
        isinstance(ends, list)
        and all(_is_number(end, MOST_ENTRIES) for end in ends)
        and ends == sorted(ends)
        and ends[-1:] == [meta["n_rows"]],
        "blocks do not end with the rows",
    )
    _check_arrays(meta)


def _check_arrays(meta: dict[str, Any]) -> None:
    arrays, n_rows, n_entries = meta["arrays"], meta["n_rows"], meta["n_entries"]
    checksums, blockwise = meta["checksums"], by_blocks(meta["version"])
    described = isinstance(arrays, dict) and isinstance(checksums, dict)
    require(described and arrays.keys() == checksums.keys(), "arrays are not described")
    for name, about in arrays.items():
        fine = (
            name.isidentifier()
            and isinstance(about, list)
            and len(about) == 2
            and isinstance(about[0], str)
            and NUMBERS.fullmatch(about[0])
            and _is_number(about[1], MOST_ENTRIES)
        )
        require(bool(fine), f"the array {name!r} cannot be")
        sums, n_sums = checksums[name], len(meta["blocks"]) if name in blockwise else 1
        fine = isinstance(sums, list) and len(sums) == n_sums and all(map(_is_number, sums))
        require(fine, f"the checksums of {name} cannot be")
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
        require(arrays[name] == value, f"{name} is of another type or length")


def _is_number(value: Any, most: int = 2**32 - 1) -> bool:
    """Whether JSON gave a whole number in range; True and False are none."""
    return type(value) is int and 0 <= value <= most
