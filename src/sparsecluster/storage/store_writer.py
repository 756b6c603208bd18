"""Writing a store, from front to back in blocks of rows; storage/store.py says what is in it."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster import _core
from sparsecluster.formats.labels import label_columns, without_repeats
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.rows.recipe import Recipe, without_arrays
from sparsecluster.rows.rows import MAX_INDEX, explain, mapped_csr

FORMAT = "sparsecluster store"
VERSION = 3
# Those that are read. 1 had a recipe in other words, 2 one checksum for all of indptr and norm2.
VERSIONS = 1, 2, 3
BLOCK_ENTRIES = 1 << 22
HEADER = 128  # bytes of a .npy header: room for any length
ENTRIES = ("indices", "data")  # larger than all others
BY_BLOCKS = (*ENTRIES, "indptr", "norm2")  # have a checksum for each block of rows, others one
PIECE = 1 << 20  # bytes, or elements, that are looked at together


class GrowingArray:
    """A one-dimensional .npy file that is written from front to back."""

    def __init__(self, path: Path, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.length = 0
        self.checksums: list[int] = []  #: of the blocks that were cut
        self._crc = 0
        self.file = path.open("wb")
        self.file.write(bytes(HEADER))

    def append(self, values: np.ndarray) -> None:
        """Write these values behind the others."""
        values = np.ascontiguousarray(values, dtype=self.dtype)
        if len(values):
            self._crc = zlib.crc32(values.data, self._crc)
            self.file.write(values.data)
        self.length += len(values)

    def cut(self) -> None:
        """Let a block end here."""
        self.checksums.append(self._crc)
        self._crc = 0

    def close(self) -> None:
        """Write the header, which knows the length."""
        self.file.seek(0)
        self.file.write(npy_header(self.dtype.str, self.length))
        self.file.close()


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
        if largest >= MAX_INDEX:
            raise ReadError(
                "A store holds at most 2**31 - 1 columns. Drop the empty columns, or hash the "
                "features into fewer."
            )
        view = _core.Rows.sparse(block.indptr, block.indices, block.data, max(largest + 1, 1))
        fault, row = view.inspect(self._n_threads)
        if fault != "none":
            matrix = mapped_csr(block.indptr, block.indices, block.data, largest + 1)
            if fault == "unsorted":
                raise ReadError(f"Row {self.n_rows + row} has columns that do not ascend.")
            raise ReadError(explain(fault, row, matrix, f"(rows from {self.n_rows} on)"))
        self._append_rows(block, view.norm2)
        if block.labels is not None:
            self._append_labels(block)
        if block.ids is not None:
            self._append_ids(block.ids)
        self.n_rows += block.n_rows
        self.n_entries += len(block.indices)
        self.n_features = max(self.n_features, largest + 1)

    def abandon(self) -> None:
        """Close all files as they are: what is still to be written must not come later."""
        for array in (*self._arrays.values(), self._label_values, self._label_indptr):
            if array is not None:
                array.file.close()

    def _append_rows(self, block: Block, norm2: np.ndarray) -> None:
        """Write the rows, in blocks of about BLOCK_ENTRIES that end with a row."""
        done = self.n_entries // BLOCK_ENTRIES * BLOCK_ENTRIES
        before = self.n_entries
        targets = np.arange(done + BLOCK_ENTRIES, before + len(block.indices) + 1, BLOCK_ENTRIES)
        ends = np.unique(np.searchsorted(block.indptr, targets - before))
        begin = 0
        for end in ends:
            self._append_piece(block, norm2, begin, int(end))
            for name in BY_BLOCKS:
                self._arrays[name].cut()
            self._block_ends.append(self.n_rows + int(end))
            begin = int(end)
        self._append_piece(block, norm2, begin, block.n_rows)

    def _append_piece(self, block: Block, norm2: np.ndarray, begin: int, end: int) -> None:
        entries = slice(int(block.indptr[begin]), int(block.indptr[end]))
        self._arrays["indptr"].append(block.indptr[begin + 1 : end + 1] + self.n_entries)
        self._arrays["indices"].append(block.indices[entries])
        self._arrays["data"].append(block.data[entries])
        self._arrays["norm2"].append(norm2[begin:end])

    def _append_ids(self, ids: np.ndarray) -> None:
        if "ids" not in self._arrays:
            self._arrays["ids"] = GrowingArray(self._folder / "ids.npy", np.uint8)
            self._arrays["id_ends"] = GrowingArray(self._folder / "id_ends.npy", np.int64)
        encoded = [str(name).encode(errors="surrogatepass") for name in ids]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        self._arrays["id_ends"].append(self._arrays["ids"].length + ends)
        self._arrays["ids"].append(np.frombuffer(b"".join(encoded), np.uint8))

    def _append_labels(self, block: Block) -> None:
        assert block.labels is not None
        if self._label_values is None or self._label_indptr is None:
            self._label_values = GrowingArray(self._folder / "labels.npy", np.float64)
            self._label_indptr = GrowingArray(self._folder / "label_indptr.npy", np.int64)
            self._label_indptr.append(np.zeros(1, dtype=np.int64))
        labels = without_repeats(block.labels)
        self._one_label_each &= bool(np.all(np.diff(labels.indptr) == 1))
        self._label_indptr.append(labels.indptr[1:] + self._label_values.length)
        self._label_values.append(labels.values)

    def finish(
        self,
        *,
        n_labels: int | None = None,
        recipe: Recipe | None = None,
        origin: str = "",
    ) -> None:
        """Write what is known after the last block, and the checksums."""
        self._block_ends.append(self.n_rows)
        if self._label_values is not None:
            self._finish_labels(n_labels)
        arrays: dict[str, np.ndarray] = {}
        names = None if recipe is None else recipe.names
        state = None
        if recipe is not None:
            state = without_arrays(recipe.get_state() | {"names": None}, arrays)
        for name, array in arrays.items():
            self._arrays[name] = GrowingArray(self._folder / f"{name}.npy", array.dtype)
            self._arrays[name].append(array)
        for growing in self._arrays.values():
            growing.cut()
            growing.close()
        meta: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "origin": origin,
            "n_rows": self.n_rows,
            "n_features": self.n_features if recipe is None else recipe.n_features,
            "n_entries": self.n_entries,
            "dtype": self._arrays["data"].dtype.str,
            "n_labels": n_labels,
            "named": names is not None,
            "recipe": state,
            "arrays": {name: [one.dtype.str, one.length] for name, one in self._arrays.items()},
            "blocks": self._block_ends,
            "checksums": {name: one.checksums for name, one in self._arrays.items()},
        }
        if names is not None:
            text = json.dumps([str(name) for name in names], ensure_ascii=False)
            # JSON lines can hold half of a surrogate pair; json.loads takes it back from bytes.
            encoded = text.encode(errors="surrogatepass")
            (self._folder / "vocabulary.json").write_bytes(encoded)
            meta["vocabulary"] = zlib.crc32(encoded)
        meta["checksum"] = meta_checksum(meta)
        (self._folder / "meta.json").write_text(json.dumps(meta, indent=1))

    def _finish_labels(self, n_labels: int | None) -> None:
        """Keep the labels as they turned out to be: one per row, or an indicator matrix."""
        assert self._label_values is not None
        assert self._label_indptr is not None
        if self._one_label_each:
            self._label_indptr.close()
            (self._folder / "label_indptr.npy").unlink()
            self._arrays["labels"] = self._label_values
            return
        self._label_values.close()
        # An empty file cannot be mapped.
        path, empty = self._folder / "labels.npy", self._label_values.length == 0
        values: np.ndarray = np.load(path, mmap_mode=None if empty else "r")
        indices = GrowingArray(self._folder / "label_indices.npy", np.int32)
        for begin in range(0, len(values), PIECE):
            indices.append(label_columns(values[begin : begin + PIECE], n_labels))
        path.unlink()
        self._arrays |= {"label_indptr": self._label_indptr, "label_indices": indices}


def meta_checksum(meta: dict[str, Any]) -> int:
    """Of all of the meta data but itself."""
    content = {key: value for key, value in meta.items() if key != "checksum"}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def by_blocks(version: int) -> tuple[str, ...]:
    """The arrays that have a checksum for each block in a store of this version."""
    return BY_BLOCKS if version >= 3 else ENTRIES


def npy_header(dtype: str, length: int) -> bytes:
    """How the .npy file of an array begins."""
    about = {"descr": dtype, "fortran_order": False, "shape": (length,)}
    start = b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little")
    return start + repr(about).encode("ascii").ljust(HEADER - 11) + b"\n"
