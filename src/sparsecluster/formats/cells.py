"""Tables of text, by commas or whatever stands between two cells: CSV, TSV and the like."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice

from sparsecluster.formats.files import FileStream, text_lines
from sparsecluster.formats.limits import LONGEST_TEXT
from sparsecluster.formats.source import Option, ReadError

DELIMITERS = ",;\t|^~\x01"  # the last one is Hive's
EXCEL_DELIMITER = re.compile(r"sep=(.)\s*")  # a line above the header
LINES_LOOKED_AT = 20
LOOKED_AT = 1 << 16  # characters of these lines
DELIMITER = Option(
    "delimiter",
    "What stands between two cells; by default , ; tab | ^ or ~, as the first lines show.",
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
        check_encoding(encoding)
        csv.field_size_limit(LONGEST_TEXT)
        self.path, self.encoding = stream.path, encoding
        lines = text_lines(stream, encoding, newline="")
        first, looked_at = list[str](), 0
        for line in islice(lines, LINES_LOOKED_AT):
            first.append(line)
            looked_at += len(line)
            if looked_at > LOOKED_AT:
                break
        usual = "\t" if ".tsv" in self.path.suffixes else ","
        told = EXCEL_DELIMITER.fullmatch(first[0]) if header and first else None
        self.delimiter = check_delimiter(delimiter) or (told[1] if told else _sniffed(first, usual))
        self._taken = list[str]()  # lines that the parser took for a record
        self._reader = csv.reader(
            self._taking(chain(first, lines)), delimiter=self.delimiter, strict=True
        )
        self._records: Iterator[tuple[str, list[str]]] = self._parsed()
        above = list[tuple[str, list[str]]]()
        for record in self._records:
            above.append(record)
            if record[1] and not (told and len(above) == 1):
                break
        found = above[-1][1] if above else []
        if not found:
            raise ReadError(f"{self.path} is empty: its first line must name the columns.")
        #: names of the columns; where the first line does not tell them, their numbers
        self.header = (
            [name.strip() for name in found] if header else list(map(str, range(len(found))))
        )
        #: the header as it is written, and lines before it
        self.header_text = "".join(text for text, _ in above) if header else ""
        if not header:
            self._records = chain(above, self._records)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        return ((self._reader.line_num, row) for _, row in self.records() if row)

    def records(self) -> Iterator[tuple[str, list[str]]]:
        """The rows as they are written and as cells; a blank line has none."""
        for text, row in self._records:
            if row and len(row) != len(self.header):
                raise ReadError(
                    f"{self.path}, line {self._reader.line_num}: {len(row)} columns, where the "
                    f"header has {len(self.header)}. Put cells that hold {self.delimiter!r} into "
                    f"quotes; lines that are documents as they are need format='txt'."
                )
            yield text, row

    def _taking(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            self._taken.append(line)
            yield line

    def _parsed(self) -> Iterator[tuple[str, list[str]]]:
        try:
            for row in self._reader:
                yield "".join(self._taken), row
                self._taken.clear()
        except csv.Error as error:
            first = self._reader.line_num - len(self._taken) + 1
            raise ReadError(
                f"{self.path}, line {first}: {self._fault(str(error))} Write a quote within quotes "
                f"twice, or read each line as a document with format='txt'."
            ) from None

    def _fault(self, error: str) -> str:
        """What is wrong with a record, of what the parser says."""
        if error == "unexpected end of data":
            return "a quote that opens here is not closed."
        if "expected after" in error:
            last = self._reader.line_num
            return f"a quote that opens here is closed in the middle of a cell, in line {last}."
        return f"{error}."


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
