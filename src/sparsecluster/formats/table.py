"""Tables of numbers as dense rows: columns of CSV, Parquet, Feather and Arrow files, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.arrow import (
    ARROW_MAGIC,
    BROKEN,
    PARQUET_MAGIC,
    STREAM_MAGIC,
    TEXT_LINES,
    Strings,
    is_type,
    open_table,
    refuse_claims,
)
from sparsecluster.formats.cells import DELIMITER, CsvRows, check_delimiter, is_number
from sparsecluster.formats.compressed import checked_shape, dense_block, first_bytes, reading
from sparsecluster.formats.files import FileStream, open_stream
from sparsecluster.formats.limits import Growth
from sparsecluster.formats.source import (
    COLUMNS,
    ID_COLUMN,
    Block,
    IfThere,
    Option,
    ReadError,
    Source,
)

HEADER = Option(
    "header",
    "Whether the first line names the columns; without, they are called 0, 1, ...",
    bool,
    negative="--no-header",
)
#: names that columns have which number rows
INDEX_NAMES = ("id", "index", "row", "row_id", "unnamed: 0", "")
NUMBERS = ("floating", "integer", "boolean", "decimal")

#: some rows: their cells, ids, the place of each for messages, and the share of the file read
Cells = tuple[np.ndarray, list[str] | None, list[str], float]


class TableSource(Source):
    """Columns of numbers of a table, each of which is a feature; zeros are left out.

    Several files must have the same columns, in any order. Cells without a number are refused.
    """

    options = (COLUMNS, ID_COLUMN, DELIMITER, HEADER, Option("encoding", "Of the file."))

    def __init__(
        self,
        path: Path,
        *,
        files: list[Path] | None = None,
        columns: tuple[str, ...] | None = None,
        id_column: str | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        encoding: str = "utf-8",
        **blocks: int,
    ) -> None:
        super().__init__(path, **blocks)
        self.files = files or [path]
        self.columns = None if columns is None else list(columns)
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            raise ValueError(f"columns names a column twice: {', '.join(self.columns)}.")
        self.id_column = id_column
        self.delimiter = check_delimiter(delimiter)
        self.header = header
        self.encoding = encoding

    def options_found(self) -> dict[str, Any]:
        return {"columns": self.columns}

    def blocks(self) -> Iterator[Block]:
        growth, named, n_rows = Growth(self.path, self.files), None, 0
        for path in self.files:
            growth.open(path)
            for cells, ids, places, done in self._cells(path):
                if named not in (None, ids is not None):
                    raise ReadError(f"{path}: only some of the files have ids of rows.")
                named = ids is not None
                self._refuse_not_finite(cells, places)
                block = dense_block(path, cells, first_row=n_rows, done=growth.share(done))
                growth.add(block.indptr, block.indices, block.data)
                yield block if ids is None else replace(block, ids=np.array(ids, dtype=object))
                n_rows += block.n_rows
                checked_shape(path, n_rows, 0)
        self.n_features = len(self.columns or ())
        self.feature_names = np.array(self.columns or (), dtype=object)

    def _cells(self, path: Path) -> Iterator[Cells]:
        if is_arrow(path):
            with reading(path, *BROKEN):
                yield from self._of_arrow(path)
        else:
            yield from self._of_csv(path)

    def _choose(self, path: Path, names: list[str], numbers: list[str]) -> str | None:
        """Settle which columns are taken, by the first file; the column of ids."""
        ids = self.id_column
        if isinstance(ids, IfThere) and ids not in names:
            ids = None
        for name in [*(self.columns or ()), *([ids] if ids is not None else [])]:
            if name not in names:
                there = ", ".join(repr(name[:80]) for name in names[:30])
                raise ReadError(f"{path}: there is no column {name!r}, only {there}.")
        if self.columns is None:
            self.columns = [name for name in names if name != ids]
            for name in self.columns:
                if name.lower() in INDEX_NAMES:
                    raise ReadError(
                        f"{path}: does the column {name!r} number the rows? Then pass it as "
                        f"id_column; else name the columns to take (columns, --columns)."
                    )
        for name in self.columns:
            if name not in numbers:
                raise ReadError(
                    f"{path}: the column {name!r} does not hold numbers. Name the columns to take "
                    f"(columns, --columns), and the one that names the rows as id_column."
                )
        return ids

    def csv_rows(self, stream: FileStream) -> CsvRows:
        """The rows of a file, all columns of them."""
        return CsvRows(stream, self.encoding, self.delimiter, header=self.header is not False)

    def _of_csv(self, path: Path) -> Iterator[Cells]:
        with open_stream(path) as stream:
            rows = self.csv_rows(stream)
            if self.header is None and all(is_number(name) for name in rows.header):
                raise ReadError(
                    f"{path}, line 1: holds numbers only. Say whether it names the columns "
                    f"(header; --header or --no-header)."
                )
            if len(set(rows.header)) < len(rows.header):
                raise ReadError(f"{path}, line 1: two columns have the same name.")
            ids = self._choose(path, rows.header, rows.header)
            taken = [rows.header.index(name) for name in self.columns or ()]
            id_place = None if ids is None else rows.header.index(ids)
            step = max(1, self.block_entries // max(len(taken), 1) // 8)  # strings take more
            pick = itemgetter(*taken) if len(taken) > 1 else lambda row: (row[taken[0]],)
            lines, cells, names = list[int](), list[tuple[str, ...]](), list[str]()
            for line, row in rows:
                lines.append(line)
                cells.append(pick(row))
                if id_place is not None:
                    names.append(row[id_place])
                if len(lines) >= step:
                    yield self._parsed(path, lines, cells, names, ids, stream.done)
                    lines, cells, names = [], [], []
            if lines:
                yield self._parsed(path, lines, cells, names, ids, 1.0)

    def _parsed(
        self,
        path: Path,
        lines: list[int],
        cells: list[tuple[str, ...]],
        names: list[str],
        ids: str | None,
        done: float,
    ) -> Cells:
        places = [f"{path}, line {line}" for line in lines]
        try:
            numbers = np.array(cells, dtype=np.float64)
        except ValueError:
            raise self._wrong_cell(places, cells) from None
        return numbers, names if ids is not None else None, places, done

    def _wrong_cell(self, places: list[str], cells: list[tuple[str, ...]]) -> ReadError:
        """The error for the first cell that is not a number."""
        for place, row in zip(places, cells, strict=True):
            for name, cell in zip(self.columns or (), row, strict=True):
                try:
                    float(cell)
                except ValueError:
                    if not cell.strip():
                        return _missing(place, name)
                    comma = (
                        " Write decimals with a point." if is_number(cell.replace(",", ".")) else ""
                    )
                    return ReadError(
                        f"{place}: the column {name!r} holds {cell[:40]!r}, which is not a number."
                        f"{comma}"
                    )
        return ReadError(f"{places[0]}: a cell from here on is not a number.")

    def _of_arrow(self, path: Path) -> Iterator[Cells]:
        first_row, strings = 0, Strings(path)
        with open_table(path, TEXT_LINES) as table:
            kinds = dict(zip(table.schema.names, table.schema.types, strict=True))
            ids = self._choose(path, list(kinds), numbers_in(table.schema))
            taken = self.columns or []
            refuse_claims(path, [*taken, *([ids] if ids else [])])
            for batch, done in table.batches([*taken, *([ids] if ids else [])]):
                places = [f"{path}: row {first_row + row}" for row in range(len(batch))]
                columns = [batch.column(name) for name in taken]
                for name, column in zip(taken, columns, strict=True):
                    if column.null_count:
                        missing = np.flatnonzero(column.is_null().to_numpy(False))
                        raise _missing(places[int(missing[0])], name)
                cells = np.empty((len(batch), len(taken)))
                for i, column in enumerate(columns):
                    cells[:, i] = column.to_numpy(zero_copy_only=False).astype(np.float64)
                yield cells, strings.of(batch, ids, first_row) if ids else None, places, done
                first_row += len(batch)

    def _refuse_not_finite(self, cells: np.ndarray, places: list[str]) -> None:
        finite = np.isfinite(cells)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            name = (self.columns or [])[column]
            if np.isnan(cells[row, column]):
                raise _missing(places[row], name)
            raise ReadError(f"{places[row]}: the column {name!r} holds infinity.")


def _missing(place: str, name: str) -> ReadError:
    return ReadError(
        f"{place}: the column {name!r} has no value. Fill it in, leave the row out, or name other "
        f"columns (columns, --columns)."
    )


def is_arrow(path: Path) -> bool:
    """Whether a file is one of Parquet, Feather or Arrow."""
    return first_bytes(path, 6).startswith((PARQUET_MAGIC, ARROW_MAGIC, STREAM_MAGIC))


def numbers_in(schema: Any) -> list[str]:
    """The names of the columns of numbers."""
    return [
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if is_type(kind, *NUMBERS)
    ]
