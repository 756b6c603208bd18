"""Tables of text, by commas or whatever stands between two cells: CSV, TSV and the like."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain, islice

from sparsecluster.formats.files import FileStream, text_lines
from sparsecluster.formats.limits import LONGEST_TEXT
from sparsecluster.formats.source import Option, ReadError

DELIMITERS = ",;\t|"
LINES_LOOKED_AT = 20
LOOKED_AT = 1 << 16  # characters of these lines
DELIMITER = Option(
    "delimiter",
    "What stands between two cells; by default , ; tab or |, as the first lines show.",
    parse=lambda given: "\t" if given in ("tab", "\\t") else given,
)


ENCODING = Option("encoding", "Of the file; utf-8 by default.", default="utf-8")


def check_delimiter(delimiter: str | None) -> str | None:
    """Refuse what cannot stand between two cells."""
    if delimiter is None:
        return None
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(f"delimiter must be one character, for example ';', got {delimiter!r}.")
    return delimiter


def check_encoding(encoding: str) -> None:
    """Refuse an encoding of text that Python does not have."""
    try:
        "".encode(encoding)
    except (LookupError, TypeError):
        raise ValueError(f"encoding={encoding!r} is not known to Python.") from None


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


class CsvRows:
    """The header and the rows of a table of text, each with its line; blank lines do not count."""

    def __init__(
        self, stream: FileStream, encoding: str, delimiter: str | None, *, header: bool = True
    ) -> None:
        csv.field_size_limit(LONGEST_TEXT)
        self.path = stream.path
        lines = text_lines(stream, encoding, newline="")
        first, looked_at = list[str](), 0
        for line in islice(lines, LINES_LOOKED_AT):
            first.append(line)
            looked_at += len(line)
            if looked_at > LOOKED_AT:
                break
        usual = "\t" if ".tsv" in self.path.suffixes else ","
        self._reader = csv.reader(
            chain(first, lines), delimiter=delimiter or _sniffed(first, usual), strict=False
        )
        found = next(self._rows(), None)
        if found is None:
            raise ReadError(f"{self.path} is empty: a header line is needed.")
        #: names of the columns; where the first line does not tell them, their numbers
        self.header = found if header else [str(number) for number in range(len(found))]
        self._first = [] if header else [found]

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        for row in chain(self._first, self._rows()):
            if len(row) != len(self.header):
                raise ReadError(
                    f"{self.path}, line {self._reader.line_num}: {len(row)} columns, where the "
                    f"header has {len(self.header)}."
                )
            yield self._reader.line_num, row

    def _rows(self) -> Iterator[list[str]]:
        try:
            yield from filter(None, self._reader)
        except csv.Error as error:
            raise ReadError(
                f"{self.path}, line {self._reader.line_num}: {error}. Check its quotes, or split "
                f"the document."
            ) from None


def _sniffed(lines: list[str], usual: str) -> str:
    """The delimiter that gives the header several cells, and the lines below it as many."""

    def fit(delimiter: str) -> tuple[bool, bool, int]:
        try:
            cut = (line[:LOOKED_AT] for line in lines)
            rows = [row for row in csv.reader(cut, delimiter=delimiter) if row]
        except csv.Error:
            return False, False, 0
        rows[1:] = rows[1:-1] or rows[1:]  # the last may go on in the next line
        widths = [len(row) for row in rows] or [0]
        several = widths[0] > 1
        return several, several and len(set(widths)) == 1, widths[0]

    return max((usual, *DELIMITERS), key=fit)
