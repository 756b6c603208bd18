"""Matrices of cells x genes in AnnData's files (.h5ad), in the encodings of all its versions."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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
    """A matrix of an AnnData file, with the names of its variables and observations: ``X``, a
    layer, "raw/X" (that of ``raw``, with its own variables), or an embedding of ``obsm``, whose
    columns have no names."""

    options = (
        Option("layer", "Layer to take instead of X, or raw/X."),
        Option("obsm", "Embedding to take instead of X, such as X_pca."),
    )

    def __init__(
        self, path: Path, *, layer: str | None = None, obsm: str | None = None, **blocks: int
    ) -> None:
        super().__init__(path, **blocks)
        if layer is not None and obsm is not None:
            raise ValueError(
                f"layer={layer!r} and obsm={obsm!r} exclude each other: each takes the place of X."
            )
        self.layer, self.obsm = layer, obsm
        self.raw = layer == RAW

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The group of the file that holds all others."""
        if first_bytes(self.path, len(HDF5_MAGIC)) != HDF5_MAGIC:
            raise ReadError(f"{self.path} is not an .h5ad file: it does not start as HDF5.")
        with load_h5py().File(self.path, "r") as file:
            yield file

    def blocks(self) -> Iterator[Block]:
        with reading(self.path, *_BROKEN), self._opened() as file:
            matrix = self._find(file)
            dense = not hasattr(matrix, "keys")
            shape = (matrix.shape or ()) if dense else _shape(matrix)
            if len(shape) != 2:
                kind = "a data frame" if "_index" in matrix.attrs else f"of shape {shape}"
                raise ReadError(
                    f"{self.path}: {matrix.name} is {kind}; a matrix is needed, as in X."
                )
            n_rows, n_columns = checked_shape(self.path, *shape)
            self.tell_columns(n_columns, self._variables(file, n_columns))
            if dense:
                _refuse_unstored(self.path, matrix)
                blocks = dense_blocks(
                    self.path,
                    lambda begin, end: matrix[begin:end],
                    shape=shape,
                    dtype=matrix.dtype,
                    block_entries=self.block_entries,
                )
            else:
                blocks = self._sparse(matrix, n_rows, n_columns)
            begin = 0
            for block in blocks:
                end = begin + block.n_rows
                yield replace(block, ids=self._observations(file, begin, end))
                begin = end

    def _find(self, file: Any) -> Any:
        """The group or dataset of the matrix; the error says what else there is."""
        name = "X" if self.obsm is None else f"obsm/{self.obsm}"
        if self.layer is not None:
            name = RAW if self.raw else f"layers/{self.layer}"
        # Old files keep a sparse raw.X in the group raw.X.
        for path in (name, name.replace("/", ".") if self.raw else name):
            if path in file:
                return file[path]
        there = [path for path in ("X", RAW) if path in file]
        for group, noun in (("layers", "layer"), ("obsm", "obsm")):
            there += [f"{noun} {one!r}" for one in file.get(group, ())]
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

    def _variables(self, file: Any, n_columns: int) -> np.ndarray | None:
        """The names of the columns; None where the file has none."""
        if self.obsm is not None:
            return None
        names = None
        for path in ("raw/var", "raw.var") if self.raw else ("var",):
            names = _index(self.path, file.get(path)) if names is None else names
        if names is not None and len(names) != n_columns:
            raise ReadError(
                f"{self.path}: {len(names)} names of variables for the {n_columns} columns."
            )
        return names

    def _observations(self, file: Any, begin: int, end: int) -> np.ndarray | None:
        """The names of some rows; None where the file has none."""
        names = _index(self.path, file.get("obs"), slice(begin, end))
        if begin == 0:
            self._has_ids = names is not None
        if self._has_ids and (names is None or len(names) != end - begin):
            raise ReadError(
                f"{self.path}: the names of the observations {begin} to {end - 1} are missing."
            )
        return names if self._has_ids else None


class ZarrSource(H5adSource):
    """The same in a folder, as AnnData writes it for zarr; chunks are read one after the other."""

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        yield _load("zarr", "Reading .zarr folders", "zarr").open_group(self.path, mode="r")


def load_h5py() -> Any:
    """The library that reads HDF5; the error says how to install it."""
    return _load("h5py", "Reading .h5ad files", "h5ad")


def _load(library: str, purpose: str, extra: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise ImportError(
            f"{purpose} needs {library}: pip install 'sparsecluster[{extra}]'."
        ) from None


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


def _index(path: Path, table: Any, part: slice = slice(None)) -> np.ndarray | None:
    """The index of a table, or a part of it; None where there is none."""
    if table is None:
        return None
    if hasattr(table, "keys"):
        return _strings(path, table.get(_attribute(table, "_index", default="_index")), part)
    # Versions before 0.7 wrote a table with a field for the index.
    field = next((name for name in ("index", "_index") if name in (table.dtype.names or ())), None)
    return None if field is None else _texts(path, table, part, field)


def _strings(path: Path, node: Any, part: slice = slice(None)) -> np.ndarray | None:
    """Names in any encoding of a column of strings; numbers become their digits."""
    if node is None:
        return None
    if "categories" in node if hasattr(node, "keys") else False:
        categories, codes = _strings(path, node["categories"]), node["codes"]
        if categories is None:
            return None
        _refuse_unstored(path, codes)
        codes = np.asarray(codes[part])
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(categories):
            return None
        return categories[codes]
    if hasattr(node, "keys"):
        node = node["values"]
    return _texts(path, node, part) if node.ndim == 1 else None


def _texts(path: Path, dataset: Any, part: slice, field: str | None = None) -> np.ndarray:
    """Texts of a dataset. Many of them can be one and the same place of the file, so that they
    are read in pieces, and counted."""
    _refuse_unstored(path, dataset)
    size = max(_stored_bytes(path, dataset), 1)
    count = max(_FEWEST_NAMES, 4 * FREE_BYTES // size)
    texts, length = list[str](), 0
    first, last, _ = part.indices(dataset.shape[0])
    for begin in range(first, last, count):
        piece = dataset[begin : min(begin + count, last)]
        for name in (piece if field is None else piece[field]).tolist():
            text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            texts.append(text)
            length += len(text)
        refuse_growth(path, length, size)
    return np.array(texts, dtype=object)


def _stored_bytes(path: Path, dataset: Any) -> int:
    """Bytes of the file that may hold a dataset, or the strings that it points to."""
    return int(dataset.nbytes_stored()) if path.is_dir() else path.stat().st_size


def _refuse_unstored(path: Path, dataset: Any) -> None:
    """Refuse a dataset that claims far more than the file holds of it."""
    stored = _stored_bytes(path, dataset)
    if hasattr(dataset, "id"):
        stored = min(int(dataset.id.get_storage_size()), stored)
    itemsize = int(dataset.dtype.itemsize)
    refuse_growth(path, int(dataset.size) * itemsize, stored)
    if dataset.chunks is None:
        return
    chunk = math.prod(dataset.chunks) * itemsize
    refuse_growth(path, chunk, stored)
    sizes = [0]
    if hasattr(getattr(dataset, "id", None), "chunk_iter"):  # as of HDF5 1.12.3
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
