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
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.data.recipe import Recipe, with_arrays, without_arrays
from sparsecluster.data.rows import MAX_INDEX, Rows, check_structure, core_rows, explain
from sparsecluster.data.source import Block, Labels, ReadError, Source
from sparsecluster.engine.resources import effective_n_threads

FORMAT = "sparsecluster store"
VERSION = 1
BLOCK_ENTRIES = 1 << 22
VALUE_TYPES = (np.dtype(np.float32), np.dtype(np.float64))
HEADER = 128  # bytes of a .npy header: room for any length
BY_BLOCKS = ("indices", "data")  # have a checksum for each block of rows, others one for all
PIECE = 1 << 24  # bytes that are looked at together


class StoreError(ReadError):
    """A store that cannot be opened: damaged, of a newer version, or none at all."""


class GrowingArray:
    """A one-dimensional .npy file that is written from front to back."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.checksums: list[int] = []  #: of the blocks that were cut
        self._crc = 0
        self._file = path.open("wb")
        self._file.write(bytes(HEADER))

    def append(self, values: np.ndarray) -> None:
        """Write these values behind the others."""
        values = np.ascontiguousarray(values, dtype=self.dtype)
        if len(values):
            self._crc = zlib.crc32(values.data, self._crc)
            self._file.write(values.data)
        self.length += len(values)

    def cut(self) -> None:
        """Let a block end here."""
        self.checksums.append(self._crc)
        self._crc = 0

    def abandon(self) -> None:
        """Close the file as it is: what is still to be written must not come later."""
        self._file.close()

    def close(self) -> None:
        """Write the header, which knows the length."""
        about = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.length,)}
        text = repr(about).encode("ascii")
        start = b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(start + text.ljust(HEADER - 11) + b"\n")
        self._file.close()


class StoreWriter:
    """Writes rows into a folder, block by block; `finish` makes a store of it."""

    def __init__(self, folder: Path, dtype: Any, *, n_threads: int) -> None:
        self._folder = folder
        self._n_threads = n_threads
        self._arrays = {
            "indptr": GrowingArray(folder / "indptr.npy", np.int64),
            "indices": GrowingArray(folder / "indices.npy", np.int32),
            "data": GrowingArray(folder / "data.npy", dtype),
            "norm2": GrowingArray(folder / "norm2.npy", np.float64),
        }
        self._label_values: GrowingArray | None = None
        self._label_indptr: GrowingArray | None = None
        self._one_label_each = True
        self._arrays["indptr"].append(np.zeros(1, dtype=np.int64))
        self._block_ends: list[int] = []
        self.n_rows = 0
        self.n_entries = 0
        self.n_features = 0

    def append(self, block: Block) -> None:
        """Write the rows of a block behind the others; what is wrong with them is refused."""
        largest = int(block.indices.max(initial=-1))
        if largest >= MAX_INDEX or self.n_rows + block.n_rows > MAX_INDEX:
            raise ReadError(
                "A store holds at most 2**31 - 1 rows and columns. Drop the empty columns, or hash "
                "the features into fewer."
            )
        view = _core.Rows.sparse(block.indptr, block.indices, block.data, max(largest + 1, 1))
        fault, row = view.inspect(self._n_threads)
        if fault != "none":
            matrix = mapped_csr(block.indptr, block.indices, block.data, largest + 1)
            if fault == "unsorted":
                raise ReadError(f"Row {self.n_rows + row} has columns that do not ascend.")
            raise ReadError(explain(fault, row, matrix, f"(rows from {self.n_rows} on)"))
        self._arrays["indptr"].append(block.indptr[1:] + self.n_entries)
        self._append_entries(block)
        self._arrays["norm2"].append(view.norm2)
        if block.labels is not None:
            self._append_labels(block)
        self.n_rows += block.n_rows
        self.n_entries += len(block.indices)
        self.n_features = max(self.n_features, largest + 1)

    def abandon(self) -> None:
        """Close all files as they are."""
        for array in (*self._arrays.values(), self._label_values, self._label_indptr):
            if array is not None:
                array.abandon()

    def _append_entries(self, block: Block) -> None:
        """Write the entries, in blocks of about BLOCK_ENTRIES that end with a row."""
        done = self.n_entries // BLOCK_ENTRIES * BLOCK_ENTRIES
        before = self.n_entries
        targets = np.arange(done + BLOCK_ENTRIES, before + len(block.indices) + 1, BLOCK_ENTRIES)
        ends = np.unique(np.searchsorted(block.indptr, targets - before))
        begin = 0
        for end in ends:
            self._append_piece(block, begin, int(end))
            for name in BY_BLOCKS:
                self._arrays[name].cut()
            self._block_ends.append(self.n_rows + int(end))
            begin = int(end)
        self._append_piece(block, begin, block.n_rows)

    def _append_piece(self, block: Block, begin: int, end: int) -> None:
        entries = slice(int(block.indptr[begin]), int(block.indptr[end]))
        self._arrays["indices"].append(block.indices[entries])
        self._arrays["data"].append(block.data[entries])

    def _append_labels(self, block: Block) -> None:
        assert block.labels is not None
        if self._label_values is None or self._label_indptr is None:
            self._label_values = GrowingArray(self._folder / "labels.npy", np.float64)
            self._label_indptr = GrowingArray(self._folder / "label_indptr.npy", np.int64)
            self._label_indptr.append(np.zeros(1, dtype=np.int64))
        self._one_label_each &= bool(np.all(np.diff(block.labels.indptr) == 1))
        self._label_indptr.append(block.labels.indptr[1:] + self._label_values.length)
        self._label_values.append(block.labels.values)

    def finish(
        self,
        *,
        n_features: int | None = None,
        feature_names: np.ndarray | None = None,
        n_labels: int | None = None,
        recipe: Recipe | None = None,
        origin: str = "",
    ) -> None:
        """Write what is known after the last block, and the checksums."""
        self._block_ends.append(self.n_rows)
        if self._label_values is not None:
            self._finish_labels(n_labels)
        arrays: dict[str, np.ndarray] = {}
        state = None if recipe is None else without_arrays(recipe.get_state(), arrays)
        for name, array in arrays.items():
            self._arrays[name] = GrowingArray(self._folder / f"{name}.npy", array.dtype)
            self._arrays[name].append(array)
        for growing in self._arrays.values():
            growing.cut()
            growing.close()
        n_features = self.n_features if n_features is None else n_features
        meta: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "origin": origin,
            "n_rows": self.n_rows,
            "n_features": n_features,
            "n_entries": self.n_entries,
            "dtype": self._arrays["data"].dtype.str,
            "n_labels": n_labels,
            "named": feature_names is not None,
            "recipe": state,
            "arrays": {name: [one.dtype.str, one.length] for name, one in self._arrays.items()},
            "blocks": self._block_ends,
            "checksums": {name: one.checksums for name, one in self._arrays.items()},
        }
        if feature_names is not None:
            text = json.dumps([str(name) for name in feature_names], ensure_ascii=False)
            (self._folder / "vocabulary.json").write_bytes(text.encode())
            meta["vocabulary"] = zlib.crc32(text.encode())
        meta["checksum"] = _checksum(meta)
        (self._folder / "meta.json").write_text(json.dumps(meta, indent=1))

    def _finish_labels(self, n_labels: int | None) -> None:
        """Keep the labels as they turned out to be: one a row, or an indicator matrix."""
        assert self._label_values is not None
        assert self._label_indptr is not None
        if self._one_label_each:
            self._label_indptr.close()
            (self._folder / "label_indptr.npy").unlink()
            self._arrays["labels"] = self._label_values
            return
        self._label_values.close()
        values = _mapped(self._folder / "labels.npy")
        indices = GrowingArray(self._folder / "label_indices.npy", np.int32)
        for begin in range(0, len(values), PIECE):
            indices.append(label_columns(values[begin : begin + PIECE], n_labels))
        (self._folder / "labels.npy").unlink()
        self._arrays |= {"label_indptr": self._label_indptr, "label_indices": indices}


def label_columns(values: np.ndarray, n_labels: int | None) -> np.ndarray:
    """Labels of rows that may have several, as columns of an indicator matrix."""
    largest = MAX_INDEX if n_labels is None else n_labels
    if not np.all((values >= 0) & (values < largest) & (values == np.floor(values))):
        raise ReadError(
            f"Where rows have several labels or none, labels must be whole numbers from 0 to "
            f"{largest - 1}."
        )
    return values.astype(np.int32)


def _checksums(name: str, arrays: dict[str, np.ndarray], ends: list[int]) -> list[int]:
    """CRC-32 of what each block has of an array, or of all of it."""
    array, indptr = arrays[name], arrays["indptr"]
    if name in BY_BLOCKS:
        cuts = [0, *(int(indptr[end]) for end in ends)]
    else:
        cuts = [0, len(array)]
    return [_crc(array[begin:end]) for begin, end in pairwise(cuts)]


def _crc(array: np.ndarray) -> int:
    crc, step = 0, PIECE // array.itemsize
    for begin in range(0, len(array), step):
        crc = zlib.crc32(np.ascontiguousarray(array[begin : begin + step]).data, crc)
    return crc


def _checksum(meta: dict[str, Any]) -> int:
    """Of all of the meta data but itself."""
    content = {key: value for key, value in meta.items() if key != "checksum"}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def _mapped(path: Path) -> np.ndarray:
    """A .npy file as a read-only array; an empty one cannot be mapped."""
    array = np.load(path, mmap_mode="r" if path.stat().st_size > HEADER else None)
    return array.view(np.ndarray)


def mapped_csr(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, n_features: int
) -> sp.csr_array:
    """A CSR array around these arrays as they are; scipy would bring their indices to one type."""
    matrix = sp.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    if indptr[-1] <= MAX_INDEX:
        indptr = indptr.astype(np.int32)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices, data
    return matrix


class StoredRows(Rows):
    """Rows of a store. They are looked at when they are first used, and again at every opening."""

    def __init__(self, path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        super().__init__(
            mapped_csr(arrays["indptr"], arrays["indices"], arrays["data"], meta["n_features"])
        )
        self.path = path
        self.meta = meta
        self.arrays = arrays

    @property
    def in_file(self) -> bool:
        return True

    def _checked(self) -> _core.Rows:
        try:
            core = core_rows(self.matrix)
        except ValueError as error:
            raise _damaged(self.path, str(error)) from None
        fault, row = core.inspect(effective_n_threads(None))
        if fault != "none":
            raise _damaged(self.path, f"row {row} is not as it was written ({fault})")
        changed = np.flatnonzero(core.norm2 != self.arrays["norm2"])
        if len(changed):
            raise _damaged(self.path, f"row {changed[0]} is not as it was written")
        return core


def _damaged(path: Path, what: str) -> StoreError:
    return StoreError(f"{path} is damaged: {what}. Convert its source again.")


def is_store(path: Path) -> bool:
    """Whether there is a store, or what was one."""
    return path.is_dir() and (path / "meta.json").is_file()


def open_store(path: Any, *, verify: bool = False) -> StoredRows:
    """Open a store that :func:`convert` wrote.

    The arrays are memory-mapped: opening takes no time, and a fit reads what it needs. Rows are
    checked when they are first used, against the norms that were written with them; a fit from a
    damaged store is refused.

    Parameters
    ----------
    path : str or path
        The folder.
    verify : bool, default=False
        Whether to read everything now and compare all checksums.

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
        _verify(path, arrays, meta)
    rows = StoredRows(path, arrays, meta)
    if meta["named"]:
        rows.feature_names = _read_vocabulary(path, meta)
    if "labels" in arrays:
        rows.labels = arrays["labels"]
    elif "label_indptr" in arrays:
        rows.labels = _indicator(arrays["label_indptr"], arrays["label_indices"], meta["n_labels"])
    if meta["recipe"] is not None:
        try:
            rows.recipe = Recipe.from_state(with_arrays(meta["recipe"], arrays))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, f"its recipe cannot be read ({error})") from None
    return rows


def _verify(path: Path, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
    """Read everything, and compare all checksums."""
    indptr = arrays["indptr"]
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
        raise _damaged(path, "indptr.npy is not as it was written")
    for name in arrays:
        if _checksums(name, arrays, meta["blocks"]) != meta["checksums"][name]:
            raise _damaged(path, f"{name}.npy is not as it was written")


class StoreSource(Source):
    """The rows of a store as blocks, to be read like any other file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.rows = open_store(path)
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


def rows_labels(parts: list[Labels], n_labels: int | None) -> Any:
    """Labels of all rows: a number each, or an indicator matrix where that is not all."""
    indptr = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)]).cumsum()
    values = np.concatenate([part.values for part in parts])
    if np.array_equal(indptr, np.arange(len(indptr))):
        return values
    return _indicator(indptr, label_columns(values, n_labels), n_labels)


def _indicator(indptr: np.ndarray, indices: np.ndarray, n_labels: int | None) -> sp.csr_array:
    """Which labels each row has, as ones in a matrix of rows x labels."""
    if n_labels is None:
        n_labels = int(indices.max(initial=-1)) + 1
    ones = np.ones(len(indices), dtype=np.float32)
    matrix = sp.csr_array((ones, indices, indptr), shape=(len(indptr) - 1, n_labels))
    check_structure(matrix, "Y")
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


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
        if meta.get("checksum") != _checksum(meta):
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
        array = _mapped(file) if whole else None
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
