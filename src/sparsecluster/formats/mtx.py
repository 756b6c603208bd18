"""Matrix Market files: coordinates (real, integer, pattern) and arrays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from sparsecluster.formats.compressed import checked_shape
from sparsecluster.formats.lines import NumberLines, NumberLinesSource
from sparsecluster.formats.source import Block, Option, ReadError
from sparsecluster.formats.triples import Triples

_FORMATS = ("coordinate", "array")
_KINDS: dict[str, Literal["real", "integer", "pattern"]] = {
    "real": "real",
    "double": "real",
    "integer": "integer",
    "unsigned-integer": "integer",
    "pattern": "pattern",
}
LARGEST_SYMMETRIC = 1 << 20  # rows of an array, which is more than files hold
_SYMMETRIES = ("general", "symmetric", "skew-symmetric")


class _Header(NamedTuple):
    """The first lines of a file; the shape is that of the file, not of its transpose."""

    format: str
    field: str
    symmetry: str
    n_rows: int
    n_columns: int
    n_entries: int


class MtxSource(NumberLinesSource):
    """A matrix in the Matrix Market exchange format (.mtx), compressed or not.

    The entries may come in any order; those of the same place are summed. With `transpose` the
    columns are the rows, as for the genes x cells of 10x Genomics. Whole numbers that are too large
    to be exact are refused.
    """

    options = (Option("transpose", "Take the columns for rows.", bool),)

    def __init__(
        self,
        path: Path,
        *,
        transpose: bool = False,
        dtype: Literal["float32", "float64"] = "float32",
        n_threads: int = 1,
        **blocks: int,
    ) -> None:
        super().__init__(path, dtype=dtype, n_threads=n_threads, **blocks)
        self.transpose = transpose

    def blocks(self) -> Iterator[Block]:
        with self._lines() as lines:
            header = self._header(lines)
        n_rows, n_columns = header.n_rows, header.n_columns
        if self.transpose:
            n_rows, n_columns = n_columns, n_rows
        self.n_features = n_columns
        cells = header.format == "array"
        yield from self._blocks(
            n_rows, n_columns, n_rows * n_columns if cells else header.n_entries
        )

    def _header(self, lines: NumberLines) -> _Header:
        banner = lines.next_line().lower().split()
        if banner[:1] != ["%%matrixmarket"]:
            raise ReadError(
                f"{self.path} is not a Matrix Market file: it does not start with %%MatrixMarket."
            )
        if len(banner) != 5 or banner[1] != "matrix":
            raise ReadError(
                f"{self.path}, line 1: '%%MatrixMarket matrix' is needed, with format, type and "
                f"symmetry."
            )
        form, field, symmetry = banner[2:]
        for word, known in ((form, _FORMATS), (field, tuple(_KINDS)), (symmetry, _SYMMETRIES)):
            if word not in known or (form, word) == ("array", "pattern"):
                raise ReadError(
                    f"{self.path}, line 1: {word!r} is not read, only {', '.join(known)}."
                )
        lines.skip_comments()
        sizes = lines.header_line("the number of rows, of columns and of entries")
        if len(sizes) != (3 if form == "coordinate" else 2):
            raise ReadError(
                f"{self.path}, line {lines.line}: {len(sizes)} numbers where the size of the "
                f"matrix is needed."
            )
        n_rows, n_columns = checked_shape(self.path, sizes[0], sizes[1])
        if symmetry != "general" and n_rows != n_columns:
            raise ReadError(
                f"{self.path}, line {lines.line}: a {symmetry} matrix of {n_rows} x {n_columns}."
            )
        return _Header(form, field, symmetry, n_rows, n_columns, sizes[-1])

    def _triples(self) -> Iterator[Triples]:
        with self._lines() as lines:
            header = self._header(lines)
            if header.format == "array":
                found = self._cells(lines, header)
            else:
                found = lines.entries(
                    header.n_rows,
                    header.n_columns,
                    n_entries=header.n_entries,
                    kind=_KINDS[header.field],
                    dtype=self.dtype,
                )
            for entries in found:
                if self.transpose:
                    entries = entries._replace(rows=entries.columns, columns=entries.rows)
                yield entries
                if header.symmetry != "general":
                    yield _mirrored(entries, -1 if header.symmetry == "skew-symmetric" else 1)

    def _cells(self, lines: NumberLines, header: _Header) -> Iterator[Triples]:
        """The cells of an array that are not zero; the file has them column by column, of symmetric
        matrices those from the diagonal downwards."""
        n_rows, n_columns = header.n_rows, header.n_columns
        if header.symmetry == "general":
            for position, values, done in lines.values(n_rows * n_columns, self.dtype):
                cell = position + np.flatnonzero(values)
                yield Triples(cell % n_rows, cell // n_rows, values[values != 0], done)
            return
        if n_rows > LARGEST_SYMMETRIC:
            raise ReadError(
                f"{self.path}: a symmetric array of {n_rows} rows. Write it as coordinates."
            )
        first = int(header.symmetry == "skew-symmetric")  # has no diagonal
        lengths = np.maximum(np.arange(n_rows, 0, -1) - first, 0)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        for position, values, done in lines.values(int(starts[-1]), self.dtype):
            cell = position + np.flatnonzero(values)
            column = np.searchsorted(starts, cell, side="right") - 1
            row = cell - starts[column] + column + first
            yield Triples(row, column, values[values != 0], done)


def _mirrored(entries: Triples, sign: int) -> Triples:
    """The other half of a matrix of which one half was written."""
    off = np.flatnonzero(entries.rows != entries.columns)
    return Triples(
        entries.columns[off],
        entries.rows[off],
        (sign * entries.values[off]).astype(entries.values.dtype),
        entries.done,
    )
