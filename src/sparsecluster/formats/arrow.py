"""Parquet, Feather and Arrow files as batches of columns; what they claim is not believed."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparsecluster.formats.claims import arrow_claims, parquet_claims
from sparsecluster.formats.compressed import first_bytes
from sparsecluster.formats.limits import refuse_growth
from sparsecluster.formats.source import ReadError

PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
ARROW_START = 8  # the first message of a file that starts so
STREAM_MAGIC = b"\xff\xff\xff\xff"
BROKEN = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    RuntimeError,
    NotImplementedError,
    MemoryError,  # lengths of broken files are allocated
    struct.error,
)
ENTRY_LINES = 1 << 18  # of single entries that are read at once
TEXT_LINES = 1 << 12  # with texts or names, or lists of some thousand entries
STRINGS = ("string", "large_string")


def load_pyarrow() -> Any:
    """The module; the error names the extra that brings it."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Reading Parquet and Arrow files needs pyarrow: pip install 'sparsecluster[parquet]'."
        ) from None
    return pyarrow


def is_type(kind: Any, *families: str) -> bool:
    """Whether an Arrow type is of one of these families ("integer", "floating", ...)."""
    return any(getattr(load_pyarrow().types, f"is_{family}")(kind) for family in families)


class ArrowTable(NamedTuple):
    """The columns of a file and, for some of them, its batches with the share that was read."""

    schema: Any
    batches: Callable[[list[str]], Iterator[tuple[Any, float]]]


@contextmanager
def open_table(path: Path, n_lines: int = ENTRY_LINES) -> Iterator[ArrowTable]:
    """Open a file of any of the formats, by its first bytes."""
    pa = load_pyarrow()
    magic = first_bytes(path, 6)
    if magic.startswith(PARQUET_MAGIC):
        with pa.parquet.ParquetFile(path, buffer_size=1 << 20) as parquet:
            schema = parquet.schema_arrow
        # A short dictionary can stand for very long columns.
        texts = [field.name for field in schema if is_type(field.type, *STRINGS)]
        with pa.parquet.ParquetFile(path, buffer_size=1 << 20, read_dictionary=texts) as parquet:
            yield ArrowTable(schema, lambda names: _parquet_batches(parquet, names, n_lines))
    elif magic == ARROW_MAGIC or magic.startswith(STREAM_MAGIC):
        with _arrow(path) as source, pa.ipc.open_stream(source) as reader:
            yield ArrowTable(
                reader.schema, lambda names: _arrow_batches(source, reader, names, n_lines)
            )
    else:
        raise ReadError(
            f"{path} is not a Parquet, Feather (version 2) or Arrow file, by its first bytes. "
            f"Write it with pyarrow.parquet.write_table or pyarrow.feather.write_feather."
        )


@contextmanager
def _arrow(path: Path) -> Iterator[Any]:
    """An Arrow file at the start of its messages. A file is a stream between its first bytes and an
    index, which is left alone: it could name other messages than those that were looked at."""
    with load_pyarrow().memory_map(os.fspath(path)) as source:
        if first_bytes(path, len(ARROW_MAGIC)) == ARROW_MAGIC:
            source.seek(ARROW_START)
        yield source


def refuse_claims(path: Path, names: list[str]) -> None:
    """Refuse a file whose few bytes stand for very many values."""
    if first_bytes(path, len(PARQUET_MAGIC)) == PARQUET_MAGIC:
        claimed = parquet_claims(path, names)
    else:
        with _arrow(path) as source:
            claimed = arrow_claims(load_pyarrow().ipc.MessageReader.open_stream(source))
    refuse_growth(path, claimed, path.stat().st_size)


def _parquet_batches(parquet: Any, names: list[str], n_lines: int) -> Iterator[tuple[Any, float]]:
    """Batches of so many lines. The file's metadata about columns would tell how long lists are,
    but where they are broken, to ask pyarrow for them ends the process."""
    read, claimed = 0, max(parquet.metadata.num_rows, 1)
    for batch in parquet.iter_batches(n_lines, columns=names):
        read += len(batch)
        yield batch, min(1.0, read / claimed)


def _arrow_batches(
    source: Any, reader: Any, names: list[str], n_lines: int
) -> Iterator[tuple[Any, float]]:
    """The batches of an Arrow file or stream, whose buffers are not trusted."""
    for batch in reader:
        done = source.tell() / source.size()
        chosen = batch.select(names)
        chosen.validate(full=True)
        for begin in range(0, len(chosen), n_lines):
            yield chosen.slice(begin, n_lines), done


class Strings:
    """Columns of a file as Python's strings, counted: a few bytes can stand for many of them."""

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, path.stat().st_size
        self._length = 0

    def of(self, batch: Any, name: str, first_row: int) -> list[str]:
        """The cells of a column as text; those without a value are refused."""
        column = batch.column(name)
        if is_type(column.type, "dictionary"):
            indices = column.indices.to_numpy(zero_copy_only=False)
            used = np.unique(indices[~np.isnan(indices)]).astype(np.int64)
            taken = column.dictionary.take(load_pyarrow().array(used)).to_pylist()
            known = dict(zip(used.tolist(), taken, strict=True))
            cells = [known.get(at) for at in column.indices.to_pylist()]
            cells = [None if cell is None else str(cell) for cell in cells]
        else:
            cells = [None if cell is None else str(cell) for cell in column.to_pylist()]
        texts = list[str]()
        for row, cell in enumerate(cells, first_row):
            if cell is None:
                raise ReadError(
                    f"{self._path}: row {row} has no value in the column {name!r}. Fill it in, or "
                    f"leave the row out."
                )
            texts.append(cell)
        self._length += sum(map(len, texts))
        refuse_growth(self._path, self._length, self._size)
        return texts
