"""Sparse matrices in Parquet and Arrow files: lists of indices and values, one of each for a row of
the matrix, or a table of (row, column, value)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparsecluster.formats.claims import arrow_claims, parquet_claims
from sparsecluster.formats.compressed import (
    BLOCK_ENTRIES,
    checked_block,
    checked_shape,
    first_bytes,
    reading,
    value_type,
)
from sparsecluster.formats.limits import refuse_empty_rows, refuse_growth
from sparsecluster.formats.source import Block, Option, ReadError, Source
from sparsecluster.formats.triples import Triples, blocks_of_triples
from sparsecluster.rows.parameters import check_number
from sparsecluster.rows.rows import MAX_INDEX

PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"
ARROW_START = 8  # the first message of a file that starts so
STREAM_MAGIC = b"\xff\xff\xff\xff"
_BROKEN = (
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
LIST_LINES = 1 << 12  # of lists that are read at once, some thousand entries each at most
ENTRY_LINES = 1 << 18  # of single entries


class ParquetSource(Source):
    """A matrix in a Parquet, Feather or Arrow file.

    Two layouts are read: a line for each row of the matrix, with a list of indices and one of
    values; or a line for each entry, with its row, column and value, in any order. Indices count
    from zero. Names that are not given are found where only one choice is possible.

    Parameters
    ----------
    columns : tuple of str or None
        Two names: the columns of lists, indices and values. Three: those of single entries, with
        row, column and value. Where they are not given: "indices" and "values", or the only list of
        integers and the only list of floats; or "row", "column" (or "col") and "value".
    block_entries : int
        Largest number of entries in a block, except for longer rows.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> table = pyarrow.table({"terms": [[0, 4], [2]], "tfidf": [[0.6, 0.8], [1.0]]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "documents.parquet")
    ...     pyarrow.parquet.write_table(table, path)
    ...     [block.indptr.tolist() for block in ParquetSource(path).blocks()]
    [[0, 2, 3]]
    """

    options = (
        Option(
            "columns",
            "Columns by name: indices,values or row,column,value.",
            parse=lambda names: tuple(names.split(",")),
        ),
    )

    def __init__(
        self,
        path: Path,
        *,
        columns: tuple[str, ...] | None = None,
        block_entries: int = BLOCK_ENTRIES,
    ) -> None:
        super().__init__(path)
        check_number("block_entries", block_entries, Integral, 1)
        if columns is not None and len(columns) not in (2, 3):
            raise ValueError(
                f"columns must name two columns of lists (indices and values) or three of entries "
                f"(row, column and value), got {columns!r}."
            )
        none = (None, None, None)
        self.lists = columns if columns is not None and len(columns) == 2 else none
        self.entries = columns if columns is not None and len(columns) == 3 else none
        self.block_entries = block_entries

    def blocks(self) -> Iterator[Block]:
        with reading(self.path, *_BROKEN):
            with _table(self.path) as table:
                lists, entries = self._columns(table.schema)
            _refuse_claims(self.path, lists or entries)
            if lists is not None:
                yield from self._from_lists(lists)
            else:
                yield from self._from_entries(entries)

    def lines_are_rows(self) -> bool:
        """Whether each line of the table is a row of the matrix, not an entry."""
        with reading(self.path, *_BROKEN), _table(self.path) as table:
            return self._columns(table.schema)[0] is not None

    def _columns(self, schema: Any) -> tuple[list[str] | None, list[str]]:
        """The two columns of lists, or None and the three columns of entries."""
        types = dict(zip(schema.names, schema.types, strict=True))
        numbers = ("floating", "integer", "boolean")
        integer_lists = _names_of(types, "integer", lists=True)
        lists = [
            _pick(self.lists[0], ("indices",), integer_lists, integer_lists),
            _pick(
                self.lists[1],
                ("values",),
                _names_of(types, *numbers, lists=True),
                _names_of(types, "floating", lists=True),
            ),
        ]
        if all(lists) and not any(self.entries):
            return lists, []
        integers = _names_of(types, "integer")
        entries = [
            _pick(self.entries[0], ("row",), integers, []),
            _pick(self.entries[1], ("column", "col"), integers, []),
            _pick(self.entries[2], ("value",), _names_of(types, *numbers), []),
        ]
        if all(entries) and not any(self.lists):
            return None, entries
        there = ", ".join(f"{name} ({kind})" for name, kind in list(types.items())[:30])
        raise ReadError(
            f"{self.path}: no sparse matrix was found in the columns {there or '(none)'}. Name a "
            f"column of lists of integers and one of lists of numbers, or the three columns of "
            f"single entries (row, column, value), as the columns."
        )

    def _from_lists(self, names: list[str]) -> Iterator[Block]:
        pa = _pyarrow()
        first_row = 0
        with _table(self.path, LIST_LINES) as table:
            kind = value_type(
                self.path, np.dtype(table.schema.field(names[1]).type.value_type.to_pandas_dtype())
            )
            for batch, done in table.batches(names):
                indices, values = (batch.column(name) for name in names)
                self._check_lists(indices, values, first_row)
                indptr = np.zeros(len(batch) + 1, np.int64)
                lengths = indices.value_lengths().cast(pa.int64()).to_numpy(zero_copy_only=False)
                np.cumsum(lengths, out=indptr[1:])
                columns = indices.flatten().to_numpy(zero_copy_only=False)
                data = values.flatten().to_numpy(zero_copy_only=False)
                for begin, end in _runs(indptr, self.block_entries):
                    part = slice(int(indptr[begin]), int(indptr[end]))
                    yield checked_block(
                        self.path,
                        indptr[begin : end + 1] - indptr[begin],
                        columns[part].astype(np.int64),
                        data[part].astype(kind),
                        n_columns=None,
                        first_row=first_row + begin,
                        done=done,
                    )
                first_row += len(batch)
                checked_shape(self.path, first_row, 0)

    def _check_lists(self, indices: Any, values: Any, first_row: int) -> None:
        """Refuse rows without a list, and lists of different lengths."""
        for lists in (indices, values):
            if lists.null_count:
                row = first_row + int(np.flatnonzero(lists.is_null().to_numpy(False))[0])
                raise ReadError(
                    f"{self.path}: row {row} is null. Write an empty list for an empty row."
                )
            if lists.flatten().null_count:
                raise ReadError(
                    f"{self.path}: a list between the rows {first_row} and "
                    f"{first_row + len(lists) - 1} holds null. Leave such entries out."
                )
        differ = indices.value_lengths().to_numpy(False) != values.value_lengths().to_numpy(False)
        if differ.any():
            row = int(np.flatnonzero(differ)[0])
            raise ReadError(
                f"{self.path}: row {first_row + row} has {len(indices[row])} indices, but "
                f"{len(values[row])} values."
            )

    def _from_entries(self, names: list[str]) -> Iterator[Block]:
        with _table(self.path) as table:
            types = [table.schema.field(name).type for name in names]
        dtype = value_type(self.path, np.dtype(types[2].to_pandas_dtype()))
        n_rows = n_columns = n_entries = 0
        for entries in self._triples(names, dtype):
            n_rows = max(n_rows, int(entries.rows.max(initial=-1)) + 1)
            n_columns = max(n_columns, int(entries.columns.max(initial=-1)) + 1)
            n_entries += len(entries.rows)
        refuse_empty_rows(self.path, n_rows, n_entries)
        yield from blocks_of_triples(
            self.path,
            lambda: self._triples(names, dtype),
            n_rows=n_rows,
            n_columns=n_columns,
            dtype=dtype,
            block_entries=self.block_entries,
        )

    def _triples(self, names: list[str], dtype: type) -> Iterator[Triples]:
        with reading(self.path, *_BROKEN), _table(self.path) as table:
            position = 0
            for batch, done in table.batches(names):
                for name in names:
                    if batch.column(name).null_count:
                        raise ReadError(
                            f"{self.path}: the column {name!r} holds null between the entries "
                            f"{position} and {position + len(batch) - 1}. Leave such entries out."
                        )
                rows, columns, values = (
                    batch.column(name).to_numpy(zero_copy_only=False) for name in names
                )
                entries = Triples(
                    rows.astype(np.int64), columns.astype(np.int64), values.astype(dtype), done
                )
                entries.check(MAX_INDEX, MAX_INDEX, partial(Triples.place, self.path, position))
                yield entries
                position += len(batch)


def _runs(indptr: np.ndarray, block_entries: int) -> Iterator[tuple[int, int]]:
    """Runs of rows of at most so many entries."""
    begin = 0
    while begin < len(indptr) - 1:
        end = int(np.searchsorted(indptr, indptr[begin] + block_entries, side="right")) - 1
        end = max(end, begin + 1)
        yield begin, end
        begin = end


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "Reading Parquet and Arrow files needs pyarrow: pip install 'sparsecluster[parquet]'."
        ) from None
    return pyarrow


def _is(kind: Any, *families: str) -> bool:
    """Whether an Arrow type is of one of these families ("integer", "floating", ...)."""
    return any(getattr(_pyarrow().types, f"is_{family}")(kind) for family in families)


def _names_of(types: dict[str, Any], *families: str, lists: bool = False) -> list[str]:
    """The columns of numbers of these families, or of lists of them."""
    if lists:
        is_list = ("list", "large_list", "fixed_size_list")
        types = {name: kind.value_type for name, kind in types.items() if _is(kind, *is_list)}
    return [name for name, kind in types.items() if _is(kind, *families)]


def _pick(given: str | None, usual: tuple[str, ...], fit: list[str], likely: list[str]) -> str:
    """The name that was given, else a usual one, else the only likely one; "" where none fits."""
    if given is not None:
        return given if given in fit else ""
    for name in usual:
        if name in fit:
            return name
    return likely[0] if len(likely) == 1 else ""


class _Table(NamedTuple):
    """The columns of a file and, for some of them, its batches with the share that was read."""

    schema: Any
    batches: Callable[[list[str]], Iterator[tuple[Any, float]]]


@contextmanager
def _table(path: Path, n_lines: int = ENTRY_LINES) -> Iterator[_Table]:
    """Open a file of any of the formats, by its first bytes."""
    pa = _pyarrow()
    magic = first_bytes(path, 6)
    if magic.startswith(PARQUET_MAGIC):
        with pa.parquet.ParquetFile(path, buffer_size=1 << 20) as parquet:
            yield _Table(
                parquet.schema_arrow, lambda names: _parquet_batches(parquet, names, n_lines)
            )
    elif magic == ARROW_MAGIC or magic.startswith(STREAM_MAGIC):
        with _arrow(path) as source, pa.ipc.open_stream(source) as reader:
            yield _Table(
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
    with _pyarrow().memory_map(str(path)) as source:
        if first_bytes(path, len(ARROW_MAGIC)) == ARROW_MAGIC:
            source.seek(ARROW_START)
        yield source


def _refuse_claims(path: Path, names: list[str]) -> None:
    """Refuse a file whose few bytes stand for very many values."""
    if first_bytes(path, len(PARQUET_MAGIC)) == PARQUET_MAGIC:
        claimed = parquet_claims(path, names)
    else:
        with _arrow(path) as source:
            claimed = arrow_claims(_pyarrow().ipc.MessageReader.open_stream(source))
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
