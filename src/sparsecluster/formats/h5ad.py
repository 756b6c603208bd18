"""Matrices of cells x genes in AnnData's files (.h5ad), in the encodings of all its versions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.compressed import (
    Numbers,
    checked_shape,
    csc_triples,
    csr_blocks,
    dense_blocks,
    first_bytes,
    reading,
    value_type,
)
from sparsecluster.formats.limits import FREE_BYTES, refuse_empty_rows, refuse_growth
from sparsecluster.formats.source import Block, Option, ReadError, Source
from sparsecluster.formats.triples import blocks_of_triples

RAW = "raw/X"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_BROKEN = (OSError, KeyError, RuntimeError, ValueError, TypeError, AttributeError, OverflowError)
_FEWEST_NAMES = 64  # that are read at a time
_CHUNK_SLACK = 4096  # bytes by which filters may make a chunk larger


class H5adSource(Source):
    """A matrix of an AnnData file, with the names of its variables: ``X``, a layer, or "raw/X",
    that of ``raw``, with its own variables."""

    options = (Option("layer", "Layer to take instead of X, or raw/X."),)

    def __init__(self, path: Path, *, layer: str | None = None, **blocks: int) -> None:
        super().__init__(path, **blocks)
        self.layer = layer
        self.raw = layer == RAW

    def blocks(self) -> Iterator[Block]:
        h5py = load_h5py()
        if first_bytes(self.path, len(HDF5_MAGIC)) != HDF5_MAGIC:
            raise ReadError(f"{self.path} is not an .h5ad file: it does not start as HDF5.")
        with reading(self.path, *_BROKEN), h5py.File(self.path, "r") as file:
            matrix = self._find(file)
            if isinstance(matrix, h5py.Dataset):
                shape = matrix.shape or ()
            else:
                shape = _shape(matrix)
            if len(shape) != 2:
                raise ReadError(
                    f"{self.path}: {matrix.name} has the shape {shape}, not a matrix's."
                )
            n_rows, n_columns = checked_shape(self.path, *shape)
            self.n_features = n_columns
            self.feature_names = self._names(file, n_columns)
            if isinstance(matrix, h5py.Dataset):
                _refuse_unstored(self.path, matrix)
                yield from dense_blocks(
                    self.path,
                    lambda begin, end: matrix[begin:end],
                    shape=shape,
                    dtype=matrix.dtype,
                    block_entries=self.block_entries,
                )
            else:
                yield from self._sparse(matrix, n_rows, n_columns)

    def _find(self, file: Any) -> Any:
        """The group or dataset of the matrix; the error says what else there is."""
        name = "X"
        if self.layer is not None:
            name = RAW if self.raw else f"layers/{self.layer}"
        # Old files keep a sparse raw.X in the group raw.X.
        for path in (name, name.replace("/", ".") if self.raw else name):
            if path in file:
                return file[path]
        layers = list(file["layers"]) if "layers" in file else []
        there = [path for path in ("X", RAW) if path in file]
        there += [f"layer {layer!r}" for layer in layers]
        raise ReadError(
            f"{self.path}: there is no {name}. The file holds {', '.join(there) or 'no matrix'}."
        )

    def _sparse(self, group: Any, n_rows: int, n_columns: int) -> Iterator[Block]:
        kind = _attribute(group, "encoding-type", "h5sparse_format").removesuffix("_matrix")
        if kind not in ("csr", "csc"):
            raise ReadError(
                f"{self.path}: {group.name} is encoded as {kind!r}; csr, csc and dense arrays are "
                f"read. Convert X with scipy's csr_matrix and write the file again."
            )
        shape = (n_rows, n_columns)
        if kind == "csr":
            yield from csr_blocks(
                self.path, *self._arrays(group), shape=shape, block_entries=self.block_entries
            )
            return
        refuse_empty_rows(self.path, n_rows, group["data"].size)
        piece = max(1, self.block_entries // 4)
        yield from blocks_of_triples(
            self.path,
            lambda: csc_triples(self.path, *self._arrays(group), shape=shape, block_entries=piece),
            n_rows=n_rows,
            n_columns=n_columns,
            dtype=value_type(self.path, group["data"].dtype),
            block_entries=self.block_entries,
        )

    def _arrays(self, group: Any) -> list[Numbers]:
        return [_Dataset(self.path, group, name) for name in ("indptr", "indices", "data")]

    def _names(self, file: Any, n_columns: int) -> np.ndarray | None:
        """The index of the variables; None where the file has none."""
        h5py = load_h5py()
        table = None
        for path in ("raw/var", "raw.var") if self.raw else ("var",):
            table = file.get(path) if table is None else table
        if isinstance(table, h5py.Dataset):
            names = _old_names(self.path, table, n_columns)
        elif table is not None:
            names = _strings(self.path, table.get(_attribute(table, "_index", default="_index")))
        else:
            return None
        if names is not None and len(names) != n_columns:
            raise ReadError(
                f"{self.path}: {len(names)} names of variables for the {n_columns} columns."
            )
        return names


def load_h5py() -> Any:
    """The library that reads HDF5; the error says how to install it."""
    try:
        import h5py
    except ImportError:
        raise ImportError(
            "Reading .h5ad files needs h5py: pip install 'sparsecluster[h5ad]'."
        ) from None
    return h5py


def _shape(group: Any) -> tuple[int, ...]:
    for name in ("shape", "h5sparse_shape"):
        if name in group.attrs:
            return tuple(int(length) for length in np.ravel(group.attrs[name])[:3])
    return ()


def _attribute(group: Any, *names: str, default: str = "") -> str:
    """The text of the first of these attributes that is there."""
    for name in names:
        if name in group.attrs:
            text = group.attrs[name]
            return text.decode() if isinstance(text, bytes) else str(text)
    return default


def _old_names(path: Path, table: Any, n_columns: int) -> np.ndarray | None:
    """The names from a table with a field for the index, as versions before 0.7 wrote them."""
    field = next((name for name in ("index", "_index") if name in (table.dtype.names or ())), None)
    if field is None or len(table) != n_columns:
        return None
    return _texts(path, table, field)


def _strings(path: Path, node: Any) -> np.ndarray | None:
    """Names in any encoding of a column of strings; numbers become their digits."""
    if node is None:
        return None
    if "categories" in node if hasattr(node, "keys") else False:
        categories, codes = _strings(path, node["categories"]), node["codes"]
        if categories is None:
            return None
        _refuse_unstored(path, codes)
        codes = np.asarray(codes)
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(categories):
            return None
        return categories[codes]
    if hasattr(node, "keys"):
        node = node["values"]
    return _texts(path, node) if node.ndim == 1 else None


def _texts(path: Path, dataset: Any, field: str | None = None) -> np.ndarray:
    """The texts of a dataset. Many of them can be one and the same place of the file, so that they
    are read in pieces, and counted."""
    _refuse_unstored(path, dataset)
    size = path.stat().st_size
    piece = max(_FEWEST_NAMES, 4 * FREE_BYTES // size)
    texts, length = list[str](), 0
    for begin in range(0, len(dataset), piece):
        part = dataset[begin : begin + piece]
        for name in (part if field is None else part[field]).tolist():
            text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            texts.append(text)
            length += len(text)
        refuse_growth(path, length, size)
    return np.array(texts, dtype=object)


def _refuse_unstored(path: Path, dataset: Any) -> None:
    """Refuse a dataset that claims far more than the file holds of it."""
    stored = min(int(dataset.id.get_storage_size()), path.stat().st_size)
    itemsize = int(dataset.dtype.itemsize)
    refuse_growth(path, int(dataset.size) * itemsize, stored)
    if dataset.chunks is None:
        return
    chunk = math.prod(dataset.chunks) * itemsize
    refuse_growth(path, chunk, stored)
    sizes = [0]
    if hasattr(dataset.id, "chunk_iter"):  # as of HDF5 1.12.3
        dataset.id.chunk_iter(lambda info: sizes.append(info.size))
    largest = max(sizes)
    # The library decompresses all that a chunk holds, whatever its length.
    if largest > chunk + chunk // 8 + _CHUNK_SLACK:
        raise ReadError(
            f"{path}: a chunk of {dataset.name} takes {largest:,} bytes in the file for {chunk:,} "
            f"bytes of data. Write the file again."
        )


class _Dataset(Numbers):
    """A dataset of a group, read from front to back."""

    def __init__(self, path: Path, group: Any, name: str) -> None:
        if name not in group:
            raise ReadError(f"{path}: {group.name} has no dataset {name!r}.")
        self._dataset = group[name]
        if getattr(self._dataset, "ndim", 0) != 1:
            raise ReadError(f"{path}: {group.name}/{name} is not a one-dimensional dataset.")
        _refuse_unstored(path, self._dataset)
        self.name = f"{group.name}/{name}"
        self.size = int(self._dataset.size)
        self.dtype = self._dataset.dtype
        self._position = 0

    def read(self, count: int) -> np.ndarray:
        begin, self._position = self._position, self._position + count
        numbers = self._dataset[begin : self._position]
        return numbers.astype(self.dtype.newbyteorder("="), copy=False)
