"""Clusters beside the rows of text files: every row as it is written in the file, and its cluster
at the end."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, TextIO

import numpy as np

from sparsecluster.formats.files import FileStream, open_stream
from sparsecluster.formats.source import ReadError, Source

PIECE_ROWS = 1 << 16
LINES_LOOKED_AT = 1000  # of JSON, for fields that are there already
OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".bz2": lambda file: bz2.BZ2File(file, "wb"),
}


class Results(NamedTuple):
    """What is known of some rows, in the order of the file."""

    labels: np.ndarray
    distances: np.ndarray | None = None  #: to the center; of all rows or of none
    ids: np.ndarray | None = None  #: of all rows or of none

    def part(self, rows: slice) -> Results:
        """Those of some of the rows."""
        labels, *others = self
        return Results(labels[rows], *(None if one is None else one[rows] for one in others))

    def pieces(self) -> Iterator[Results]:
        """A few rows at a time: as Python's own numbers all would take far more memory."""
        for begin in range(0, len(self.labels), PIECE_ROWS):
            yield self.part(slice(begin, begin + PIECE_ROWS))

    def cells(self) -> Iterator[tuple[int, ...]]:
        """Label and distance of each row."""
        columns = [self.labels.tolist()]
        if self.distances is not None:
            columns.append(self.distances.tolist())
        return zip(*columns, strict=True)


class JoinedFile(ABC):
    """Files that are written once more, as one, with further columns: `names`, one for the cluster
    and, where there are distances, one for these."""

    def __init__(self, source: Source, files: list[Path], names: list[str]) -> None:
        self.source = source
        self.files = files
        self.path = files[0] if len(files) == 1 else source.path  #: for messages
        self.names = names

    #: whether the file can be a compressed one
    compressible = True

    @abstractmethod
    def endings(self) -> tuple[str, ...]:
        """What the name of the file may end in."""

    def what(self) -> str:
        """What is written, with its verb."""
        return f"{self.path} with its clusters is"

    @abstractmethod
    def taken(self) -> list[str]:
        """The names of the columns that there are already."""

    @abstractmethod
    def writing(self, path: Path, ending: str) -> Any:
        """A context in which `path` is written; it gives the function that takes results. The
        ending is that of the final name."""

    def taken_already(self, name: str) -> ReadError:
        """The error where there is a column of this name."""
        return ReadError(
            f"{self.path}: there is a column {name!r} already. Name another one for the clusters "
            f"with join_column."
        )

    def not_alike(self, file: Path) -> ReadError:
        """The error where a file cannot be appended to the first one."""
        return ReadError(
            f"{file} does not have the columns of {self.files[0]}, in the same order and form: the "
            f"two cannot be joined into one file."
        )

    def too_few(self) -> ReadError:
        """The error where there are more labels than rows."""
        return ReadError(f"{self.path} has fewer rows than there are labels.")

    def too_many(self) -> ReadError:
        """The error where there are more rows than labels."""
        return ReadError(f"{self.path} has more rows than there are labels.")


@contextmanager
def text_file(path: Path, ending: str, encoding: str = "utf-8") -> Iterator[TextIO]:
    """A text file whose newlines are written as they are, compressed as its ending says."""
    with ExitStack() as opened:
        file: Any = opened.enter_context(path.open("wb"))
        if ending in OPENERS:
            file = opened.enter_context(OPENERS[ending](file))
        yield opened.enter_context(io.TextIOWrapper(file, encoding=encoding, newline=""))


class TableOfRows(JoinedFile):
    """Numbers of rows, ids and clusters alone, for data that cannot be written again as a table."""

    def endings(self) -> tuple[str, ...]:
        return (".csv",)

    def what(self) -> str:
        return f"row numbers, ids and clusters of {self.source.path} are"

    def taken(self) -> list[str]:
        return ["row", "id"]

    @contextmanager
    def writing(self, path: Path, ending: str) -> Iterator[Callable[[Results], None]]:
        with text_file(path, ending) as file:
            n_rows, first = 0, True

            def write(results: Results) -> None:
                nonlocal n_rows, first
                ids = [] if results.ids is None else [results.ids.tolist()]
                if first:
                    file.write(csv_line(["row", *(["id"] if ids else []), *self.names]))
                numbers = range(n_rows, n_rows + len(results.labels))
                for row, *id, cells in zip(numbers, *ids, results.cells(), strict=True):
                    file.write(csv_line([row, *id, *cells]))
                n_rows, first = n_rows + len(results.labels), False

            yield write


class TextJoin(JoinedFile):
    """A file of text, which is read and written side by side, in its own encoding."""

    source: Any

    @contextmanager
    def writing(self, path: Path, ending: str) -> Iterator[Callable[[Results], None]]:
        with (
            text_file(path, ending, self._encoding()) as file,
            closing(self._all_rows(file)) as rows,
        ):
            end = "\n"

            def write(results: Results) -> None:
                nonlocal end
                for cells in results.cells():
                    row = next(rows, None)
                    if row is None:
                        raise self.too_few()
                    if end not in ("\n", "\r"):  # the last line of the file before
                        file.write("\n")
                    text = self._extended(row, cells)
                    file.write(text)
                    end = text[-1]

            yield write
            if next(rows, None) is not None:
                raise self.too_many()

    def _all_rows(self, file: TextIO) -> Generator[Any, None, None]:
        for number, path in enumerate(self.files):
            with open_stream(path) as stream:
                yield from self._rows(stream, file, first=number == 0)

    @abstractmethod
    def _rows(self, stream: FileStream, file: TextIO, *, first: bool) -> Iterator[Any]:
        """The rows of one of the files; what is before and between them goes to `file`."""

    @abstractmethod
    def _extended(self, row: Any, cells: tuple[Any, ...]) -> str:
        """The text of a row with further cells."""

    def _encoding(self) -> str:
        options = getattr(self.source, "text", self.source)
        encoding: str = options.encoding
        with open_stream(self.files[0]) as stream:
            marked = stream.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8
        utf8 = codecs.lookup(encoding).name == "utf-8"
        return "utf-8-sig" if marked and utf8 else encoding


class LinesJoin(TextJoin):
    """Lines of text, which become a table."""

    def endings(self) -> tuple[str, ...]:
        return (".csv",)

    def taken(self) -> list[str]:
        return ["row", "text"]

    def _rows(self, stream: FileStream, file: TextIO, *, first: bool) -> Iterator[tuple[int, str]]:
        if not first:
            return iter(())  # the source gave the lines of all files
        file.write(csv_line(["row", *self.names, "text"]))
        return enumerate(self.source.documents())

    def _extended(self, row: tuple[int, str], cells: tuple[Any, ...]) -> str:
        number, text = row
        return csv_line([number, *cells, text])


class JsonLinesJoin(TextJoin):
    """Objects, each with further fields; a string becomes an object."""

    def endings(self) -> tuple[str, ...]:
        return (".jsonl", ".ndjson")

    def taken(self) -> list[str]:
        with open_stream(self.files[0]) as stream:
            first = islice(self.source.records(stream), LINES_LOOKED_AT)
            return [name for _, record in first for name in record or ()]

    def _rows(self, stream: FileStream, file: TextIO, *, first: bool) -> Iterator[tuple[str, Any]]:
        for text, record in self.source.records(stream):
            if record is None:
                file.write(text)
            else:
                yield text, record

    def _extended(self, row: tuple[str, Any], cells: tuple[Any, ...]) -> str:
        text, record = row
        if there := [name for name in self.names if name in record]:
            raise self.taken_already(there[0])
        written = text.rstrip()
        newline = text[len(written) :]
        if not written.lstrip().startswith("{"):
            (name,) = record
            written = f"{{{json.dumps(name)}: {written.lstrip()}}}"
        fields = ", ".join(
            f"{json.dumps(name)}: {cell}" for name, cell in zip(self.names, cells, strict=True)
        )
        return f"{written.removesuffix('}').rstrip()}, {fields}}}{newline}"


class CsvJoin(TextJoin):
    """Rows with further columns; quotes, newlines and blank lines stay as they are."""

    def endings(self) -> tuple[str, ...]:
        return (".csv", ".tsv")

    def taken(self) -> list[str]:
        first = None
        for path in self.files:
            with open_stream(path) as stream:
                rows = self.source.csv_rows(stream)
            first = first or rows
            if (rows.header, rows.delimiter) != (first.header, first.delimiter):
                raise self.not_alike(path)
        return list(rows.header)

    def _rows(self, stream: FileStream, file: TextIO, *, first: bool) -> Iterator[tuple[str, str]]:
        rows = self.source.csv_rows(stream)
        if first and rows.header_text:
            file.write(self._extended((rows.header_text, rows.delimiter), tuple(self.names)))
        for text, fields in rows.records():
            if fields:
                yield text, rows.delimiter
            else:
                file.write(text)

    def _extended(self, row: tuple[str, str], cells: tuple[Any, ...]) -> str:
        text, delimiter = row
        written = text.rstrip("\r\n")
        added = csv_line(cells, delimiter).rstrip("\n")
        return f"{written}{delimiter}{added}{text[len(written) :]}"


def csv_line(cells: Any, delimiter: str = ",") -> str:
    """A line of a table, with quotes where they are needed."""
    lines = list[str]()
    # Ends of lines inside of cells are quoted only if they are those of the lines.
    table = csv.writer(SimpleNamespace(write=lines.append), delimiter=delimiter)
    table.writerow(cells)
    return lines[0].removesuffix("\r\n") + "\n"
