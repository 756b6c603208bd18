"""A store: rows in a folder of memory-mapped arrays, for data that are larger than memory, or that
many fits share. It is written from front to back in blocks, and is there whole or not at all.

    indptr.npy indices.npy data.npy   the rows, as CSR: int64, int32, float32 or float64
    norm2.npy                         squared norms of the rows
    labels.npy | label_indptr.npy label_indices.npy    one label a row, or any number
    vocabulary.json                   names of the columns
    recipe_*.npy                      what the recipe needs
    meta.json                         shape, types, blocks of rows, checksums of all of it
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.data.labels import indicator
from sparsecluster.data.recipe import Recipe, with_arrays
from sparsecluster.data.rows import MAX_INDEX, Rows, core_rows, mapped_csr
from sparsecluster.data.source import Block, Labels, ReadError, Source
from sparsecluster.data.store_writer import (
    BY_BLOCKS,
    FORMAT,
    HEADER,
    PIECE,
    VERSION,
    mapped_array,
    meta_checksum,
)
from sparsecluster.resources import available_memory, effective_n_threads
from sparsecluster.sharing import share_out

CHUNK_BYTES = 32 << 20  # of rows that are gone through in any order, where all are too many
MANY_ROWS = 1 << 20  # for which a second, 32-bit indptr is too much
VALUE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))


class StoreError(ReadError):
    """A store that cannot be opened: damaged, of a newer version, or none at all."""


class StoredRows(Rows):
    """Rows of a store. They are looked at when they are first used, and again at every opening."""

    def __init__(self, path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        parts = (arrays["indptr"], arrays["indices"], arrays["data"])
        many = meta["n_rows"] > MANY_ROWS
        super().__init__(mapped_csr(*parts, meta["n_features"], keep_indptr=many))
        self.path = path
        self.meta = meta
        self.arrays = arrays

    @property
    def in_file(self) -> bool:
        return True

    @property
    def core(self) -> _core.Rows:
        """The view in the core; what was not looked at yet is looked at now."""
        if self._core is None:
            self._core = self._checked()
        return self._core

    def _checked(self) -> _core.Rows:
        try:
            core = core_rows(self.matrix)
        except ValueError as error:
            raise _damaged(self.path, str(error)) from None
        entries = [self.arrays[name] for name in BY_BLOCKS]
        self.streamed = sum(array.nbytes for array in entries) > available_memory() // 2
        if self.streamed:
            core.stream(CHUNK_BYTES)
            for array in entries:
                _read_as_asked(array)
        n_threads = effective_n_threads(None)
        fault, row = core.inspect(n_threads)
        if fault != "none":
            raise _damaged(self.path, f"row {row} is not as it was written ({fault})")
        _verify(self.path, self.arrays, self.meta, n_threads)
        return core


def is_store(path: Path) -> bool:
    """Whether there is a store, or what was one."""
    return path.is_dir() and (path / "meta.json").is_file()


def open_store(path: Any, *, verify: bool = False) -> StoredRows:
    """Open a store that :func:`convert` wrote.

    The arrays are memory-mapped: opening takes no time, and a fit reads what it needs. When rows
    are first used they are read once to be checked against the checksums that were written with
    them: a fit from a damaged store is refused.

    Parameters
    ----------
    path : str or path
        The folder.
    verify : bool, default=False
        Whether to do that now.

    Returns
    -------
    Rows
        What every `fit` and `predict` takes in place of a matrix.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsecluster import KMeans, convert, open_store
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "rows.svm").write_text("0 1:1\\n0 1:2\\n1 3:5\\n")
    >>> _ = convert(folder / "rows.svm", folder / "rows.store")
    >>> rows = open_store(folder / "rows.store")
    >>> rows.shape
    (3, 3)
    >>> KMeans(n_clusters=2, random_state=0).fit_predict(rows).tolist().count(0) in (1, 2)
    True
    """
    path = Path(path)
    if not is_store(path):
        raise StoreError(f"{path} is not a store. Make one with convert.")
    meta = _read_meta(path)
    arrays = {
        name: _open_array(path, name, dtype, length)
        for name, (dtype, length) in meta["arrays"].items()
    }
    if verify:
        _verify(path, arrays, meta, effective_n_threads(None))
    rows = StoredRows(path, arrays, meta)
    if meta["named"]:
        rows.feature_names = _read_vocabulary(path, meta)
    if "labels" in arrays:
        rows.labels = arrays["labels"]
    elif "label_indptr" in arrays:
        rows.labels = indicator(arrays["label_indptr"], arrays["label_indices"], meta["n_labels"])
    if meta["recipe"] is not None:
        try:
            state = with_arrays(meta["recipe"], arrays) | {"names": rows.feature_names}
            rows.recipe = Recipe.from_state(state)
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, f"its recipe cannot be read ({error})") from None
    return rows


def _verify(
    path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any], n_threads: int
) -> None:
    """Read everything, and compare all checksums."""
    indptr = arrays["indptr"]
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise _damaged(path, "indptr.npy is not as it was written")
    for name, array in arrays.items():
        parts = _parts(name, arrays, meta["blocks"])
        crc = partial(_crc, path / f"{name}.npy", array.itemsize, parts)
        if share_out(crc, len(parts), n_threads) != meta["checksums"][name]:
            raise _damaged(path, f"{name}.npy is not as it was written")


def _parts(name: str, arrays: dict[str, np.ndarray], ends: list[int]) -> list[tuple[int, int]]:
    """Which elements each block has of an array, or all of them."""
    array, indptr = arrays[name], arrays["indptr"]
    if name in BY_BLOCKS:
        cuts = [0, *(int(indptr[end]) for end in ends)]
    else:
        cuts = [0, len(array)]
    return list(pairwise(cuts))


def _crc(path: Path, itemsize: int, parts: list[tuple[int, int]], number: int) -> int:
    """CRC-32 of some elements of a .npy file: read, not mapped, so that no more of it comes."""
    begin, end = (HEADER + element * itemsize for element in parts[number])
    crc = 0
    with path.open("rb", buffering=0) as file:
        file.seek(begin)
        while begin < end:
            piece = file.read(min(PIECE, end - begin))
            if not piece:
                break
            crc = zlib.crc32(piece, crc)
            begin += len(piece)
    return crc


def _read_as_asked(array: np.ndarray) -> None:
    """Have the system read no more of a mapped file than what it is asked for: the core looks ahead
    by itself, and what else is read would drive out what is needed."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
        base.madvise(mmap.MADV_RANDOM)


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path} is damaged: {what}. Convert its source again.")


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads((path / "meta.json").read_bytes())
        if not isinstance(meta, dict) or meta.get("format") != FORMAT:
            raise StoreError(f"{path} is not a store of this library.")
        if meta.get("version") != VERSION:
            raise StoreError(
                f"{path} has version {meta.get('version')!r} of the store's format; this library "
                f"reads version {VERSION}. Update the library, or convert the source again."
            )
        if meta.get("checksum") != meta_checksum(meta):
            raise _damaged(path, "meta.json is not as it was written")
        _check_meta(meta)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, StoreError):
            raise
        raise _damaged(path, "meta.json is not as it was written") from None
    return meta


def _check_meta(meta: dict[str, Any]) -> None:
    """Refuse what does not fit together; the arrays are checked against it."""
    rows, entries, arrays = meta["n_rows"], meta["n_entries"], meta["arrays"]
    for number, most in ((rows, MAX_INDEX), (meta["n_features"], MAX_INDEX), (entries, 2**62)):
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= most:
            raise ValueError("a number is out of range")
    expected = {
        "indptr": ["<i8", rows + 1],
        "indices": ["<i4", entries],
        "data": [meta["dtype"], entries],
        "norm2": ["<f8", rows],
    }
    if np.dtype(meta["dtype"]) not in VALUE_TYPES:
        raise ValueError("values of another type")
    if any(arrays[name] != value for name, value in expected.items()):
        raise ValueError("arrays of another length")
    if "labels" in arrays and arrays["labels"] != ["<f8", rows]:
        raise ValueError("labels of another length")
    if "label_indptr" in arrays and arrays["label_indptr"] != ["<i8", rows + 1]:
        raise ValueError("labels of another length")
    if any(not name.isidentifier() for name in arrays):
        raise ValueError("an array of another name")
    if meta["checksums"].keys() != arrays.keys():
        raise ValueError("checksums of other arrays")
    ends = meta["blocks"]
    if ends != sorted(ends) or not ends or ends[0] < 0 or ends[-1] != rows:
        raise ValueError("blocks that do not end with the rows")


def _open_array(path: Path, name: str, dtype: str, length: int) -> np.ndarray:
    file = path / f"{name}.npy"
    try:
        whole = file.stat().st_size == HEADER + length * np.dtype(dtype).itemsize
        array = mapped_array(file) if whole else None
    except FileNotFoundError:
        array = None
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, SyntaxError, TokenError):
        array = None  # numpy's parser of headers may raise any of these
    if array is None or array.dtype.str != dtype or array.shape != (length,):
        raise _damaged(path, f"{name}.npy is not as it was written")
    return array


def _read_vocabulary(path: Path, meta: dict[str, Any]) -> np.ndarray:
    try:
        text = (path / "vocabulary.json").read_bytes()
        names = json.loads(text) if zlib.crc32(text) == meta["vocabulary"] else None
    except (OSError, ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or len(names) != meta["n_features"]:
        raise _damaged(path, "vocabulary.json is not as it was written")
    return np.array(names, dtype=object)


class StoreSource(Source):
    """The rows of a store as blocks, to be read like any other file."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows.path)
        self.rows = rows
        self.n_features = self.rows.n_features
        self.n_labels = self.rows.meta["n_labels"]
        self.feature_names = self.rows.feature_names

    def blocks(self) -> Iterator[Block]:
        """The blocks of rows that were written together."""
        arrays = self.rows.arrays
        self.rows.core  # noqa: B018  (looks at all rows)
        begin = 0
        for end in self.rows.meta["blocks"]:
            indptr = arrays["indptr"][begin : end + 1]
            entries = slice(int(indptr[0]), int(indptr[-1]))
            yield Block(
                indptr=indptr - indptr[0],
                indices=arrays["indices"][entries],
                data=arrays["data"][entries],
                labels=_labels_between(arrays, begin, end),
                done=end / self.rows.n_rows,
            )
            begin = end


def _labels_between(arrays: dict[str, np.ndarray], begin: int, end: int) -> Labels | None:
    if "labels" in arrays:
        indptr = np.arange(end - begin + 1, dtype=np.int64)
        return Labels(indptr=indptr, values=arrays["labels"][begin:end])
    if "label_indptr" not in arrays:
        return None
    indptr = arrays["label_indptr"][begin : end + 1]
    values = arrays["label_indices"][indptr[0] : indptr[-1]]
    return Labels(indptr=indptr - indptr[0], values=values.astype(np.float64))
