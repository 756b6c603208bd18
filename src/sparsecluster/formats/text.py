"""Documents as rows of term counts: a line, a field of JSON lines, a column of CSV or a file each,
through scikit-learn's analyzers."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sparsecluster.formats.cells import (
    DELIMITER,
    ENCODING,
    CsvRows,
    check_delimiter,
    check_encoding,
)
from sparsecluster.formats.files import FileStream, open_stream, text_lines, whole_text
from sparsecluster.formats.limits import Growth, refuse_empty_rows
from sparsecluster.formats.source import (
    ID_COLUMN,
    Block,
    Option,
    ReadError,
    Source,
    ids_in,
    known_column,
)
from sparsecluster.formats.stop_words import find_stop_words

BLOCK_TOKENS = 1 << 21
COLUMN = Option("column", "Column, or field, with the text.")

#: a document, and the name of its row
Document = tuple[str, str | None]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How a document becomes terms; all but `column` and `encoding` as in CountVectorizer.

    Parameters
    ----------
    column : str or None
        The field of JSON lines or the column of CSV that holds the document; by default "text", or
        the only one there is.
    encoding : str
        Of the file.
    lowercase : bool
        Whether terms are brought to lower case.
    stop_words : str, tuple of str or None
        Words that are left out: themselves, or the name of a language ("english"; others, such as
        "german", with the extra "languages"), or a file with one word per line, or a string of
        words with commas between them. Kept are the words, not where they come from.
    ngram_range : tuple of int
        Shortest and longest term, in words.
    token_pattern : str
        Regular expression of a word.
    strip_accents : {"ascii", "unicode"} or None
        Whether accents are taken off.
    """

    column: str | None = None
    encoding: str = "utf-8"
    lowercase: bool = True
    stop_words: str | tuple[str, ...] | None = None
    ngram_range: tuple[int, int] = (1, 1)
    token_pattern: str = r"(?u)\b\w\w+\b"
    strip_accents: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_words", find_stop_words(self.stop_words))
        given: Any = self.ngram_range
        if isinstance(given, list):
            object.__setattr__(self, "ngram_range", tuple(given))
        if not (self.column is None or isinstance(self.column, str)):
            raise ValueError(f"column must be a name or None, got {self.column!r}.")
        check_encoding(self.encoding)
        bounds = self.ngram_range
        two = isinstance(bounds, tuple) and [type(bound) for bound in bounds] == [int, int]
        if not (two and 1 <= bounds[0] <= bounds[1]):
            raise ValueError(
                f"ngram_range must be two integers from 1 on, the shortest and the longest term, "
                f"got {self.ngram_range!r}."
            )
        self.analyzer()

    def analyzer(self) -> Any:
        """The function that gives the terms of a document, by scikit-learn."""
        import re

        from sklearn.feature_extraction.text import CountVectorizer

        stop_words: Any = self.stop_words
        vectorizer = CountVectorizer(
            lowercase=self.lowercase,
            stop_words=list(stop_words) if isinstance(stop_words, tuple) else stop_words,
            ngram_range=self.ngram_range,
            token_pattern=self.token_pattern,
            strip_accents=self.strip_accents,
        )
        try:
            analyze = vectorizer.build_analyzer()
            analyze("a document")
        except (ValueError, TypeError, re.error, AttributeError) as error:
            raise ValueError(f"The text options cannot be used: {error}.") from None
        return analyze


def _ngram_range(given: str) -> tuple[int | str, ...]:
    return tuple(int(bound) if bound.isdigit() else bound for bound in given.split(","))


class TextSource(Source):
    """Documents as counts of their terms; columns in the order of the terms.

    With `vocabulary` these are the columns, and other terms do not count.
    """

    terms = True
    options: ClassVar[tuple[Option, ...]] = (
        ENCODING,
        Option(
            "lowercase", "Ignore case, or keep it.", bool, True, negative="--keep-case", fixed=True
        ),
        Option(
            "stop_words",
            "Words to leave out: a language (english; others need an extra), a file with one word "
            "per line, or words separated by commas.",
            fixed=True,
        ),
        Option(
            "ngram_range",
            "Shortest and longest term, in words, as in 1,2; 1,1 by default.",
            default=(1, 1),
            parse=_ngram_range,
            fixed=True,
        ),
        Option(
            "token_pattern",
            "Regular expression of a word.",
            default=TextOptions.token_pattern,
            fixed=True,
        ),
        Option("strip_accents", "Strip accents.", Literal["ascii", "unicode"], fixed=True),
    )

    def __init__(
        self,
        path: Path,
        *,
        files: list[Path] | None = None,
        dtype: str = "float32",
        vocabulary: Iterable[str] | None = None,
        id_column: str | None = None,
        delimiter: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path)
        self.files = files or [path]
        self.text = TextOptions(**options)
        self.dtype = np.dtype(dtype)
        self.id_column = id_column
        self.delimiter = check_delimiter(delimiter)
        self._given = None if vocabulary is None else list(vocabulary)
        self._share: Callable[[], float] = lambda: 1.0  # of the files that was read

    def blocks(self) -> Iterator[Block]:
        """Counts of the terms, numbered as they come."""
        analyze = self.text.analyzer()
        nothing = analyze("")  # of blank lines, of which there can be millions
        numbers: dict[str, int] = {}
        fixed = self._given is not None
        if self._given is not None:
            numbers = {term: i for i, term in enumerate(self._given)}
        indptr, indices, counts, ids = [0], [], [], []
        n_rows = n_entries = 0
        for document, name in self._of_all_files():
            found: dict[int, int] = {}
            for term in analyze(document) if document else nothing:
                number = numbers.get(term)
                if number is None:
                    if fixed:
                        continue
                    number = numbers[term] = len(numbers)
                found[number] = found.get(number, 0) + 1
            for number in sorted(found):
                indices.append(number)
                counts.append(found[number])
            indptr.append(len(indices))
            if name is not None:
                ids.append(name)
            if max(len(indices), len(indptr)) >= BLOCK_TOKENS:
                n_rows, n_entries = n_rows + len(indptr) - 1, n_entries + len(indices)
                refuse_empty_rows(self.path, n_rows, n_entries)
                yield self._block(indptr, indices, counts, ids, self._share())
                indptr, indices, counts, ids = [0], [], [], []
        if len(indptr) > 1:
            yield self._block(indptr, indices, counts, ids, 1.0)
        self._name_columns(list(numbers))

    def documents(self) -> Iterator[str]:
        """The documents as they are, in order."""
        return (document for document, _ in self._of_all_files())

    def _of_all_files(self) -> Iterator[Document]:
        """The documents of one file after the other."""
        growth, named = Growth(self.path, self.files), None
        for path in self.files:
            growth.open(path)
            with open_stream(path) as stream:
                self._share = partial(_share_of, growth, stream)
                for document, name in self._documents(stream):
                    if named is not None and named != (name is not None):
                        raise ReadError(f"{path}: only some of the files have ids of rows.")
                    named = name is not None
                    yield document, name
                growth.add(stream.given)

    def _block(
        self,
        indptr: list[int],
        indices: list[int],
        counts: list[int],
        ids: list[str],
        done: float,
    ) -> Block:
        return Block(
            indptr=np.array(indptr, dtype=np.int64),
            indices=np.array(indices, dtype=np.int32),
            data=np.array(counts, dtype=self.dtype),
            ids=np.array(ids, dtype=object) if ids else None,
            done=done,
        )

    def _name_columns(self, terms: list[str]) -> None:
        self.n_features = len(terms)
        if self._given is None:
            order = sorted(range(len(terms)), key=terms.__getitem__)
            self.column_order = np.empty(len(terms), dtype=np.int32)
            self.column_order[order] = np.arange(len(terms), dtype=np.int32)
            terms = [terms[i] for i in order]
        self.feature_names = np.array(terms, dtype=object)

    @abstractmethod
    def _documents(self, stream: FileStream) -> Iterator[Document]:
        """The documents of a file, in order."""

    def _column_of(self, names: list[str], place: Any) -> str:
        wanted = self.text.column
        others = [name for name in names if name != self.id_column]
        if wanted is None:
            if len(others) == 1:
                return others[0]
            wanted = "text"
        return known_column(place, wanted, names)


def _share_of(growth: Growth, stream: FileStream) -> float:
    return growth.share(stream.done)


class LinesSource(TextSource):
    """One document per line."""

    def _documents(self, stream: FileStream) -> Iterator[Document]:
        for line in text_lines(stream, self.text.encoding):
            yield line.removesuffix("\n"), None


class FilesSource(TextSource):
    """One document per file; the names of the files, below the folder that all are in, are ids."""

    @property
    def folder(self) -> Path:
        """The folder that all files are in."""
        if self.path.is_dir():
            return self.path.absolute()
        return Path(os.path.commonpath([file.absolute().parent for file in self.files]))

    def _documents(self, stream: FileStream) -> Iterator[Document]:
        relative = stream.path.absolute().relative_to(self.folder)
        # A name can be any bytes, and ids are text.
        name = os.fsencode(relative.as_posix()).decode(errors="replace")
        yield whole_text(stream, self.text.encoding), name


class JsonLinesSource(TextSource):
    """One JSON object per line, one of whose fields is the document; blank lines do not count."""

    options = (COLUMN, ID_COLUMN, *TextSource.options)

    def records(self, stream: FileStream) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Every line as it is written, and its object; None for a blank line."""
        for line, text in enumerate(text_lines(stream, self.text.encoding, newline=""), 1):
            if not text.strip():
                yield text, None
                continue
            place = f"{stream.path}, line {line}"
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                # Its position is that in the line, which Python would call line 1.
                what = str(error).partition(": line 1 ")[0]
                raise ReadError(f"{place} is not JSON: {what[:1].lower()}{what[1:]}.") from None
            if isinstance(record, str):
                record = {self.text.column or "text": record}
            if not isinstance(record, dict):
                raise ReadError(
                    f"{place}: an object (or a string) is needed, not {type(record).__name__}."
                )
            yield text, record

    def _documents(self, stream: FileStream) -> Iterator[Document]:
        column, of_ids, first = None, None, True
        for line, (_, record) in enumerate(self.records(stream), 1):
            if record is None:
                continue
            place = f"{stream.path}, line {line}"
            if column is None or column not in record:
                column = self._column_of(list(record), place)
            if not isinstance(record[column], str):
                raise ReadError(f"{place}: the field {column!r} is not a string.")
            if first:
                of_ids, first = ids_in(place, self.id_column, list(record)), False
            name = None
            if of_ids is not None:
                name = record[known_column(place, of_ids, list(record))]
                if isinstance(name, bool) or not isinstance(name, str | int | float):
                    raise ReadError(f"{place}: the id is neither a string nor a number.")
                name = str(name)
            yield record[column], name


class CsvSource(TextSource):
    """A table with a header line, one of whose columns is the document."""

    options = (COLUMN, ID_COLUMN, DELIMITER, *TextSource.options)

    def csv_rows(self, stream: FileStream) -> CsvRows:
        """The rows of a file, all columns of them."""
        return CsvRows(stream, self.text.encoding, self.delimiter)

    def _documents(self, stream: FileStream) -> Iterator[Document]:
        rows = self.csv_rows(stream)
        first_line = f"{stream.path}, line 1"
        place = _only_place(rows.header, self._column_of(rows.header, first_line), first_line)
        of_ids = ids_in(first_line, self.id_column, rows.header)
        id_place = None if of_ids is None else _only_place(rows.header, of_ids, first_line)
        for _, row in rows:
            yield row[place], None if id_place is None else row[id_place]


def _only_place(header: list[str], name: str, first_line: str) -> int:
    """Where a column is; refuses a name that several have."""
    if header.count(name) > 1:
        raise ReadError(f"{first_line}: {header.count(name)} columns have the name {name!r}.")
    return header.index(name)
