"""Matrices in numpy's files: sparse ones by scipy's ``save_npz`` (.npz) and dense ones (.npy)."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from sparsecluster.formats.compressed import (
    Numbers,
    checked_block,
    checked_shape,
    csc_triples,
    csr_blocks,
    dense_blocks,
    first_bytes,
    integer_type,
    reading,
    value_type,
)
from sparsecluster.formats.limits import refuse_empty_rows, refuse_growth
from sparsecluster.formats.source import Block, ReadError, Source
from sparsecluster.formats.triples import Triples, blocks_of_triples
from sparsecluster.rows.resources import available_memory

ZIP_MAGIC = b"PK"
LONGEST_HEADER = 1 << 16  # bytes, as version 1 of the format has them
LARGEST_ITEM = 64  # bytes of a number, or of the name of a format
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    MemoryError,  # by Python's parser, for headers
)


class NpzSource(Source):
    """A scipy.sparse matrix in a file by ``scipy.sparse.save_npz``, compressed or not.

    CSR, CSC and COO are read piece by piece; BSR and DIA, which scipy converts, at once.
    """

    def blocks(self) -> Iterator[Block]:
        if first_bytes(self.path, len(ZIP_MAGIC)) != ZIP_MAGIC:
            raise ReadError(f"{self.path} is not an .npz file: it does not start as a zip file.")
        with reading(self.path, *_BROKEN), zipfile.ZipFile(self.path) as archive:
            yield from self._matrix(archive)

    def _matrix(self, archive: zipfile.ZipFile) -> Iterator[Block]:
        claimed = sum(info.file_size for info in archive.infolist())
        refuse_growth(self.path, claimed, self.path.stat().st_size)
        kind = self._format(archive)
        shape = _Member(self.path, archive, "shape")
        integer_type(self.path, shape)
        if shape.size != 2:
            raise ReadError(f"{self.path}: a matrix with two axes is needed, it has {shape.size}.")
        n_rows, n_columns = checked_shape(self.path, *shape.read(2).tolist())
        self.n_features = n_columns
        if kind == "csr":
            arrays = [_Member(self.path, archive, name) for name in ("indptr", "indices", "data")]
            yield from csr_blocks(
                self.path, *arrays, shape=(n_rows, n_columns), block_entries=self.block_entries
            )
        elif kind in ("csc", "coo"):
            data = _Member(self.path, archive, "data")
            refuse_empty_rows(self.path, n_rows, data.size)
            yield from blocks_of_triples(
                self.path,
                lambda: self._triples(archive, kind, n_rows, n_columns),
                n_rows=n_rows,
                n_columns=n_columns,
                dtype=value_type(self.path, data.dtype),
                block_entries=self.block_entries,
            )
        else:
            yield from self._whole(archive, n_rows)

    def _format(self, archive: zipfile.ZipFile) -> str:
        """The name of the sparse format; the error says what else the file holds."""
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if "format" not in names:
            raise ReadError(
                f"{self.path} does not hold a scipy.sparse matrix but the arrays "
                f"{', '.join(names[:10]) or '(none)'}. Write it with scipy.sparse.save_npz, or a "
                f"dense array with numpy.save."
            )
        member = _Member(self.path, archive, "format")
        name = member.read(1)[0] if member.size == 1 and member.dtype.kind in "SU" else ""
        kind = name.decode("latin-1") if isinstance(name, bytes) else str(name)
        if kind not in ("csr", "csc", "coo", "bsr", "dia"):
            raise ReadError(
                f"{self.path}: unknown sparse format {kind!r}. Convert the matrix with tocsr() "
                f"and save it again."
            )
        return kind

    def _triples(
        self, archive: zipfile.ZipFile, kind: str, n_rows: int, n_columns: int
    ) -> Iterator[Triples]:
        names = ("indptr", "indices", "data") if kind == "csc" else ("row", "col", "data")
        first, second, data = (_Member(self.path, archive, name) for name in names)
        size = max(1, self.block_entries // 4)
        if kind == "csc":
            yield from csc_triples(
                self.path, first, second, data, shape=(n_rows, n_columns), block_entries=size
            )
            return
        integer_type(self.path, first)
        integer_type(self.path, second)
        if not first.size == second.size == data.size:
            raise ReadError(
                f"{self.path}: row, col and data have {first.size}, {second.size} and {data.size} "
                f"elements."
            )
        dtype = value_type(self.path, data.dtype)
        for begin in range(0, data.size, size):
            count = min(size, data.size - begin)
            entries = Triples(
                first.read(count).astype(np.int64),
                second.read(count).astype(np.int64),
                data.read(count).astype(dtype, copy=False),
                (begin + count) / data.size,
            )
            entries.check(n_rows, n_columns, partial(Triples.place, self.path, begin))
            yield entries

    def _whole(self, archive: zipfile.ZipFile, n_rows: int) -> Iterator[Block]:
        """The rows of a matrix that scipy loads and converts, where memory allows."""
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        sizes = [_Member(self.path, archive, name).size for name in names]
        refuse_empty_rows(self.path, n_rows, sum(sizes))
        # The arrays as they are, as COO and as CSR, with indices for each value.
        need = 56 * sum(sizes) + 16 * n_rows
        free = available_memory()
        if need > free:
            raise ReadError(
                f"{self.path}: to convert this matrix to CSR takes up to {need / 1e9:.1f} GB, but "
                f"{free / 1e9:.1f} GB are free. Convert it with tocsr() on a larger machine and "
                f"save it again; CSR, CSC and COO are read piece by piece."
            )
        matrix = sp.load_npz(self.path)
        check = getattr(matrix, "check_format", None)
        if check is not None:
            check(full_check=True)
        matrix = matrix.tocsr()
        yield checked_block(
            self.path,
            matrix.indptr.astype(np.int64),
            matrix.indices,
            matrix.data.astype(value_type(self.path, matrix.dtype), copy=False),
            n_columns=matrix.shape[1],
            first_row=0,
            done=1.0,
        )


class _Member(Numbers):
    """An array in an .npz file. What its headers claim is checked against the archive."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, name: str) -> None:
        self.path, self.name = path, name
        try:
            info = archive.getinfo(f"{name}.npy")
        except KeyError:
            raise ReadError(
                f"{path}: the array {name!r} is missing. Save the matrix again."
            ) from None
        if info.compress_type not in _METHODS:
            raise ReadError(
                f"{path}: {name} is compressed by method {info.compress_type}, which is not read. "
                f"Save the matrix again with scipy.sparse.save_npz."
            )
        self._file = cast(BinaryIO, archive.open(info))
        shape, _, self.dtype, header = read_npy_header(path, self._file)
        self.size = int(np.prod(shape, dtype=object))
        if header + self.size * self.dtype.itemsize != info.file_size:
            raise ReadError(
                f"{path}: the array {name!r} claims {self.size} numbers of type {self.dtype}, "
                f"which the file does not hold."
            )

    def read(self, count: int) -> np.ndarray:
        numbers = np.empty(count, self.dtype)
        if self._file.readinto(numbers.view(np.uint8)) != numbers.nbytes:  # type: ignore[attr-defined]
            raise ReadError(f"{self.path}: the array {self.name!r} ends early.")
        return numbers.astype(self.dtype.newbyteorder("="), copy=False)


def read_npy_header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether in Fortran's order, type and bytes of the header of an .npy file.

    The type can be taken from bytes: no objects, nothing that would need pickle.
    """
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ReadError(f"{path}: version {version} of the .npy format is not known.")
    length = file.read(2 if version == (1, 0) else 4)
    n_bytes = int.from_bytes(length, "little")
    if n_bytes > LONGEST_HEADER:
        raise ReadError(f"{path}: an array with a header of {n_bytes:,} bytes; numbers are needed.")
    header = io.BytesIO(length + file.read(n_bytes))
    parse = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = parse(header)
    if dtype.hasobject or dtype.fields or dtype.subdtype or not 0 < dtype.itemsize <= LARGEST_ITEM:
        raise ReadError(f"{path}: an array of type {dtype}; numbers are needed.")
    if any(length < 0 for length in shape):
        raise ReadError(f"{path}: an array of shape {shape}.")
    return shape, fortran, dtype, file.tell()


class NpySource(Source):
    """A dense matrix in a file by ``numpy.save``; its zeros are left out."""

    def blocks(self) -> Iterator[Block]:
        if first_bytes(self.path, len(npy.MAGIC_PREFIX)) != npy.MAGIC_PREFIX:
            raise ReadError(f"{self.path} is not an .npy file, by its first bytes.")
        with open(self.path, "rb") as file, reading(self.path, *_BROKEN):
            shape, fortran, dtype, offset = read_npy_header(self.path, file)
            if len(shape) != 2:
                raise ReadError(
                    f"{self.path}: an array of shape {shape}; a matrix of rows x columns is needed."
                )
            n_rows, self.n_features = checked_shape(self.path, *shape)
            held = self.path.stat().st_size - offset
            if n_rows * self.n_features * dtype.itemsize > held:
                raise ReadError(
                    f"{self.path}: the header claims {n_rows} x {self.n_features} numbers of type "
                    f"{dtype}, but only {held} bytes follow."
                )
            if n_rows * self.n_features:
                order = "F" if fortran else "C"
                cells = np.memmap(self.path, dtype, "r", offset, shape, order)  # type: ignore[call-overload]
            else:
                cells = np.zeros(shape, dtype)
            yield from dense_blocks(
                self.path,
                lambda begin, end: cells[begin:end],
                shape=shape,
                dtype=dtype,
                block_entries=self.block_entries,
            )
