"""Tables of numbers as dense rows: columns of CSV, Parquet, Feather and Arrow files, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
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
from sparsecluster.formats.cells import (
    DELIMITER,
    ENCODING,
    CsvRows,
    check_delimiter,
    check_encoding,
    is_number,
)
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
    check_columns,
    ids_in,
    known_column,
)

HEADER = Option(
    "header",
    "Whether the first line names the columns; without, they are called 0, 1, ...",
    bool,
    negative="--no-header",
)
#: names that columns have which number or name rows
INDEX_NAMES = re.compile(r"|unnamed: 0|(.*[-_. ])?(id|index|row|key)|.*[a-z]I[dD]")
NUMBERS = ("floating", "integer", "boolean", "decimal")

#: some rows: their cells, their ids, what messages call each of them, the share of the file read
Cells = tuple[np.ndarray, list[str] | None, Callable[[int], str], float]


class TableSource(Source):
    """Columns of numbers of a table, each of which is a feature; zeros are left out.

    Several files must have the same columns, in any order. Cells without a number are refused.
    """

    options = (COLUMNS, ID_COLUMN, DELIMITER, HEADER, ENCODING)

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
        dtype: str | None = None,
        **blocks: int,
    ) -> None:
        super().__init__(path, **blocks)
        self.files = files or [path]
        self.columns = check_columns(columns)
        self._takes_all = columns is None
        self.id_column = id_column
        self.delimiter = check_delimiter(delimiter)
        self.header = header
        check_encoding(encoding)
        self.encoding = encoding
        self._typed = dtype is not None
        self._dtype = None if dtype is None else np.dtype(dtype)

    def options_found(self) -> dict[str, Any]:
        return {"columns": self.columns}

    def blocks(self) -> Iterator[Block]:
        growth, named, n_rows = Growth(self.path, self.files), None, 0
        for path in self.files:
            growth.open(path)
            for cells, ids, place, done in self._cells(path):
                if named not in (None, ids is not None):
                    raise ReadError(f"{path}: only some of the files have ids of rows.")
                named = ids is not None
                self._refuse_not_finite(cells, place)
                block = dense_block(path, cells, first_row=n_rows, done=growth.share(done))
                growth.add_arrays(block.indptr, block.indices, block.data)
                yield block if ids is None else replace(block, ids=np.array(ids, dtype=object))
                n_rows += block.n_rows
                checked_shape(path, n_rows, 0)

    def _cells(self, path: Path) -> Iterator[Cells]:
        if is_arrow(path):
            with reading(path, *BROKEN):
                yield from self._of_arrow(path)
        else:
            yield from self._of_csv(path)

    def _choose(self, path: Path, names: list[str], numbers: list[str]) -> str | None:
        """Settle which columns are taken, by the first file; the column of ids."""
        ids = ids_in(path, self.id_column, names)
        if self.columns is not None:
            wanted = self.columns
            self.columns = [one for one in wanted if one in names or not isinstance(one, IfThere)]
            for name in self.columns or wanted[:1]:
                known_column(path, name, names)
        others = [name for name in names if name != ids]
        if self._takes_all and set(others) != set(self.columns or others):
            raise ReadError(
                f"{path}: its columns are not those of {self.files[0]}. Name those to take, as in "
                f"columns={_tuple(others)}."
            )
        if self.columns is None:
            if not others:
                raise ReadError(f"{path}: has no columns but the ids.")
            self.columns = others
            for name in others:
                if INDEX_NAMES.fullmatch(name) or INDEX_NAMES.fullmatch(name.lower()):
                    raise ReadError(
                        f"{path}: does the column {name!r} name the rows? Then pass it as "
                        f"id_column={name!r}; else name all columns to take, as in "
                        f"columns={_tuple(others)}."
                    )
        for name in self.columns:
            if name not in numbers:
                raise ReadError(
                    f"{path}: the column {name!r} does not hold numbers. Name those that do, as in "
                    f"columns={_tuple(numbers or others)}; the one that names the rows, if any, as "
                    f"in id_column={name!r}."
                )
        if self.feature_names is None:
            self.tell_columns(len(self.columns), np.array(self.columns, dtype=object))
        return ids

    def csv_rows(self, stream: FileStream) -> CsvRows:
        """The rows of a file, all columns of them."""
        return CsvRows(stream, self.encoding, self.delimiter, header=self.header is not False)

    def _of_csv(self, path: Path) -> Iterator[Cells]:
        with open_stream(path) as stream:
            rows = self.csv_rows(stream)
            if self.header is None and self._takes_all and any(map(is_number, rows.header)):
                raise ReadError(
                    f"{path}, line 1: holds numbers. Say whether it names the columns: header=True "
                    f"or header=False."
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
        def place(row: int) -> str:
            return f"{path}, line {lines[row]}"

        try:
            numbers = np.array(cells, dtype=np.float64)
        except ValueError:
            raise self._wrong_cell(place, cells) from None
        return numbers, names if ids is not None else None, place, done

    def _wrong_cell(self, place: Callable[[int], str], cells: list[tuple[str, ...]]) -> ReadError:
        """The error for the first cell that is not a number."""
        for number, row in enumerate(cells):
            for name, cell in zip(self.columns or (), row, strict=True):
                if not is_number(cell):
                    if not cell.strip():
                        return _missing(place(number), name)
                    point = " Write decimals with a point." * is_number(cell.replace(",", "."))
                    return ReadError(
                        f"{place(number)}: the column {name!r} holds {cell[:40]!r}, which is not "
                        f"a number.{point}"
                    )
        return ReadError(f"{place(0)}: a cell from here on is not a number.")

    def _of_arrow(self, path: Path) -> Iterator[Cells]:
        with open_table(path) as table:
            ids = self._choose(path, list(table.schema.names), numbers_in(table.schema))
            taken = self.columns or []
            kinds = [table.schema.field(name).type.to_pandas_dtype() for name in taken]
        dtype = np.dtype(np.float32 if all(np.can_cast(k, np.float32) for k in kinds) else float)
        self._dtype = self._dtype or dtype
        if self._dtype != dtype and not self._typed:
            raise ReadError(
                f"{path}: its columns are of type {dtype}, those of the files before of "
                f"{self._dtype}. Say which is wanted (dtype)."
            )
        names = [*taken, *([ids] if ids else [])]
        refuse_claims(path, names)
        n_lines = max(1, min(TEXT_LINES, self.block_entries // max(len(taken), 1)))
        first_row, strings = 0, Strings(path)
        with open_table(path, n_lines) as table:
            for batch, done in table.batches(names):
                place = partial(_place, path, first_row)
                cells = np.empty((len(batch), len(taken)), self._dtype)
                for i, name in enumerate(taken):
                    column = batch.column(name)
                    if column.null_count:
                        missing = np.flatnonzero(column.is_null().to_numpy(False))[0]
                        raise _missing(place(int(missing)), name)
                    cells[:, i] = column.to_numpy(zero_copy_only=False)
                of_ids = strings.of(batch, ids, first_row) if ids else None
                yield cells, of_ids, place, done
                first_row += len(batch)

    def _refuse_not_finite(self, cells: np.ndarray, place: Callable[[int], str]) -> None:
        finite = np.isfinite(cells)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            name = (self.columns or [])[column]
            if np.isnan(cells[row, column]):
                raise _missing(place(row), name)
            raise ReadError(f"{place(row)}: the column {name!r} holds infinity.")


def _tuple(names: list[str]) -> str:
    """Names as they would be passed; of many the first ones."""
    shown = [*map(repr, names[:3]), *(["..."] if len(names) > 3 else [])]
    return f"({', '.join(shown)}{',' * (len(shown) == 1)})"


def _place(path: Path, first_row: int, row: int) -> str:
    return f"{path}: row {first_row + row}"


def _missing(place: str, name: str) -> ReadError:
    return ReadError(
        f"{place}: the column {name!r} has no value. Fill it in, leave the row out, or take other "
        f"columns."
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
