"""Parquet and Arrow files: sparse matrices, as lists of indices and values, one of each for a row
of the matrix, or as a table of (row, column, value); and columns of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.arrow import (
    BROKEN,
    STRINGS,
    TEXT_LINES,
    Strings,
    is_type,
    load_pyarrow,
    open_table,
    refuse_claims,
)
from sparsecluster.formats.compressed import (
    checked_block,
    checked_shape,
    reading,
    runs,
    value_type,
)
from sparsecluster.formats.files import FileStream
from sparsecluster.formats.limits import refuse_empty_rows
from sparsecluster.formats.source import (
    COLUMNS,
    ID_COLUMN,
    Block,
    ReadError,
    Source,
    check_columns,
    ids_in,
)
from sparsecluster.formats.text import COLUMN, Document, TextSource
from sparsecluster.formats.triples import Triples, blocks_of_triples
from sparsecluster.rows.rows import MAX_INDEX


class ParquetSource(Source):
    """A matrix in a Parquet, Feather or Arrow file.

    Two layouts are read: a line for each row of the matrix, with a list of indices and one of
    values; or a line for each entry, with its row, column and value, in any order. Indices count
    from zero. `columns` names the two, or the three. Where they are not given: "indices" and
    "values", or the only list of integers and the only list of floats; or "row", "column" (or
    "col") and "value".
    """

    options = (COLUMNS, ID_COLUMN)

    def __init__(
        self,
        path: Path,
        *,
        columns: tuple[str, ...] | None = None,
        id_column: str | None = None,
        **blocks: int,
    ) -> None:
        super().__init__(path, **blocks)
        check_columns(columns)
        if columns is not None and len(columns) not in (2, 3):
            raise ValueError(
                f"columns must name two columns of lists (indices and values) or three of entries "
                f"(row, column and value), got {columns!r}."
            )
        self.id_column = id_column
        none = (None, None, None)
        self.lists = columns if columns is not None and len(columns) == 2 else none
        self.entries = columns if columns is not None and len(columns) == 3 else none

    def blocks(self) -> Iterator[Block]:
        with reading(self.path, *BROKEN):
            with open_table(self.path) as table:
                lists, entries = self.layout(table.schema)
                ids = ids_in(self.path, self.id_column, table.schema.names)
            refuse_claims(self.path, [*(lists or entries), *([ids] if ids else [])])
            if lists is not None:
                yield from self._from_lists(lists, ids)
            elif ids is not None:
                raise ReadError(
                    f"{self.path}: a table of single entries has no ids of rows; its rows are "
                    f"known by number."
                )
            else:
                yield from self._from_entries(entries)

    def lines_are_rows(self) -> bool:
        """Whether each line of the table is a row of the matrix, not an entry."""
        with reading(self.path, *BROKEN), open_table(self.path) as table:
            return self.layout(table.schema)[0] is not None

    def layout(self, schema: Any) -> tuple[list[str] | None, list[str]]:
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
            f"{self.path}: its columns {there or '(none)'} are not those of a sparse matrix: lists "
            f"of indices and of values, or row, column and value of single entries."
        )

    def _from_lists(self, names: list[str], of_ids: str | None) -> Iterator[Block]:
        pa = load_pyarrow()
        first_row, strings = 0, Strings(self.path)
        with open_table(self.path, TEXT_LINES) as table:
            kind = value_type(
                self.path, np.dtype(table.schema.field(names[1]).type.value_type.to_pandas_dtype())
            )
            for batch, done in table.batches([*names, *([of_ids] if of_ids else [])]):
                ids = np.array(strings.of(batch, of_ids, first_row), object) if of_ids else None
                indices, values = (batch.column(name) for name in names)
                self._check_lists(indices, values, first_row)
                indptr = np.zeros(len(batch) + 1, np.int64)
                lengths = indices.value_lengths().cast(pa.int64()).to_numpy(zero_copy_only=False)
                np.cumsum(lengths, out=indptr[1:])
                columns = indices.flatten().to_numpy(zero_copy_only=False)
                data = values.flatten().to_numpy(zero_copy_only=False)
                for begin, end in runs(indptr, self.block_entries):
                    part = slice(int(indptr[begin]), int(indptr[end]))
                    block = checked_block(
                        self.path,
                        indptr[begin : end + 1] - indptr[begin],
                        columns[part].astype(np.int64),
                        data[part].astype(kind),
                        n_columns=None,
                        first_row=first_row + begin,
                        done=done,
                    )
                    yield block if ids is None else replace(block, ids=ids[begin:end])
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
        with open_table(self.path) as table:
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
        with reading(self.path, *BROKEN), open_table(self.path) as table:
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


def _names_of(types: dict[str, Any], *families: str, lists: bool = False) -> list[str]:
    """The columns of numbers of these families, or of lists of them."""
    if lists:
        is_list = ("list", "large_list", "fixed_size_list")
        types = {name: kind.value_type for name, kind in types.items() if is_type(kind, *is_list)}
    return [name for name, kind in types.items() if is_type(kind, *families)]


def _pick(given: str | None, usual: tuple[str, ...], fit: list[str], likely: list[str]) -> str:
    """The name that was given, else a usual one, else the only likely one; "" where none fits."""
    if given is not None:
        return given if given in fit else ""
    for name in usual:
        if name in fit:
            return name
    return likely[0] if len(likely) == 1 else ""


class ParquetTextSource(TextSource):
    """A column of text in a Parquet, Feather or Arrow file."""

    options = (COLUMN, ID_COLUMN, *(one for one in TextSource.options if one.name != "encoding"))

    def _documents(self, stream: FileStream) -> Iterator[Document]:
        path, row, strings = stream.path, 0, Strings(stream.path)
        with reading(path, *BROKEN), open_table(path, TEXT_LINES) as table:
            of_ids = ids_in(path, self.id_column, table.schema.names)
            column = self._column_of(texts_in(table.schema), path)
            names = [column, *([of_ids] if of_ids else [])]
            refuse_claims(path, names)
            for batch, _ in table.batches(names):
                texts = strings.of(batch, column, row)
                ids = strings.of(batch, of_ids, row) if of_ids else [None] * len(texts)
                yield from zip(texts, ids, strict=True)
                row += len(texts)


def texts_in(schema: Any) -> list[str]:
    """The names of the columns of text."""
    found = dict(zip(schema.names, schema.types, strict=True))
    kinds = {
        name: kind.value_type if is_type(kind, "dictionary") else kind
        for name, kind in found.items()
    }
    return [name for name, kind in kinds.items() if is_type(kind, *STRINGS)]
