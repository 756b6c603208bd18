"""What a table holds, where its format leaves that open: text, numbers, or a sparse matrix.

What was asked for decides first, then what the rows are to be like, then the columns themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from sparsecluster.formats.arrow import BROKEN, is_type, open_table
from sparsecluster.formats.cells import CsvRows, is_number
from sparsecluster.formats.compressed import reading
from sparsecluster.formats.files import open_stream
from sparsecluster.formats.parquet import ParquetSource, texts_in
from sparsecluster.formats.source import ReadError
from sparsecluster.formats.table import numbers_in
from sparsecluster.formats.text import TextSource

ROWS_LOOKED_AT, CELLS_LOOKED_AT = 20, 1 << 16
MISSING = ("", "na", "nan", "n/a", "null", "none")
#: options that only text has
OF_TEXT = {"column", *(option.name for option in TextSource.options)} - {"encoding"}
#: names by which three columns are those of single entries
ENTRIES = ({"row"}, {"column", "col"}, {"value"})


def kind_of(format: str, path: Path, options: dict[str, Any], terms: bool | None) -> str:
    """The format by which a file is read, where `format` is how its table is written.

    `terms` says whether the columns are to be terms, where that is known.
    """
    if format == "csv":
        return _of_csv(path, options, terms)
    return _of_arrow(path, options, terms) if format == "parquet" else format


def _of_csv(path: Path, options: dict[str, Any], terms: bool | None) -> str:
    if OF_TEXT & options.keys():
        return "csv"
    if options.keys() & {"columns", "header"}:
        return "table"
    if terms is not None:
        return "csv" if terms else "table"
    with open_stream(path) as stream:
        rows = CsvRows(stream, options.get("encoding", "utf-8"), options.get("delimiter"))
        n_rows = max(1, min(ROWS_LOOKED_AT, CELLS_LOOKED_AT // len(rows.header)))
        cells = list(zip(*(row for _, row in islice(rows, n_rows)), strict=True))
    found = dict(zip(rows.header, cells, strict=False))
    columns = {name: found[name] for name in found if name != options.get("id_column")}
    numbers = [name for name, cells in columns.items() if _holds_numbers(cells)]
    if "text" in rows.header or (len(rows.header) == 1 and not numbers):
        return "csv"
    if numbers == list(columns):
        return "table"
    if all(_holds_numbers(cell.replace(",", ".") for cell in cells) for cells in columns.values()):
        return "table"  # which says that decimals need a point
    if len(columns) == 1:
        return "csv"
    there = ", ".join(repr(name[:80]) for name in rows.header[:30])
    texts = [name for name in columns if name not in numbers]
    advice = f", or take those with numbers, as in columns={tuple(numbers[:3])}" * bool(numbers)
    raise ReadError(
        f"{path}, line 1: there is no column 'text'. Name the column with the text, as in "
        f"column={texts[0][:80]!r}{advice}. There are {there}."
    )


def _holds_numbers(cells: Iterable[str]) -> bool:
    filled = [cell for cell in cells if cell.strip().lower() not in MISSING]
    return bool(filled) and all(map(is_number, filled))


def _of_arrow(path: Path, options: dict[str, Any], terms: bool | None) -> str:
    if terms or OF_TEXT & options.keys():
        return "parquet-text"
    with reading(path, *BROKEN), open_table(path) as table:
        schema = table.schema
    names, numbers, texts = list(schema.names), numbers_in(schema), texts_in(schema)
    chosen = options.get("columns")
    if chosen is not None:
        return _of_columns(path, list(chosen), schema)
    try:
        ParquetSource(path).layout(schema)
        return "parquet"
    except ReadError as error:
        others = [name for name in names if name != options.get("id_column")]
        if others and set(others) <= set(numbers):
            return "table"
        if terms is False:
            return "table"
        if "text" in texts or others == texts == others[:1]:
            return "parquet-text"
        advice = [f"the column with the text, as in column={texts[0]!r}"] if texts else []
        if numbers:
            advice.append(f"those with numbers, as in columns={tuple(numbers[:3])}")
        advice.append("those of the matrix, as in columns=('indices', 'values')")
        raise ReadError(f"{error} Name {', or '.join(advice)}.") from None


def _of_columns(path: Path, chosen: list[str], schema: Any) -> str:
    """By the columns that were chosen: three of them can be a table, or single entries."""
    if not set(chosen) <= set(numbers_in(schema)):
        return "parquet"
    kinds = [schema.field(name).type for name in chosen]
    if len(chosen) != 3 or not is_type(kinds[0], "integer") or not is_type(kinds[1], "integer"):
        return "table"
    if all(name in usual for name, usual in zip(chosen, ENTRIES, strict=True)):
        return "parquet"
    raise ReadError(
        f"{path}: {', '.join(chosen)} can be columns of a table, or row, column and value of "
        f"single entries. Say which: format='table' or format='parquet'."
    )
