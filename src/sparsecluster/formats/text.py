"""Documents as rows of term counts: a line, a field of JSON lines or a column of CSV each, through
scikit-learn's analyzers."""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sparsecluster.formats.files import FileStream, open_stream
from sparsecluster.formats.limits import LONGEST_TEXT, refuse_empty_rows
from sparsecluster.formats.source import Block, Option, ReadError, Source

BLOCK_TOKENS = 1 << 21


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
    stop_words : {"english"}, tuple of str or None
        Words that are left out.
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
        for name in ("stop_words", "ngram_range"):
            if isinstance(value := getattr(self, name), list):
                object.__setattr__(self, name, tuple(value))
        if not (self.column is None or isinstance(self.column, str)):
            raise ValueError(f"column must be a name or None, got {self.column!r}.")
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError):
            raise ValueError(f"encoding={self.encoding!r} is not known to Python.") from None
        if not _is_range(self.ngram_range):
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


def _is_range(value: Any) -> bool:
    whole = isinstance(value, tuple) and all(type(bound) is int for bound in value)
    return whole and len(value) == 2 and 1 <= value[0] <= value[1]


def _stop_words(given: str) -> str | tuple[str, ...]:
    return given if given == "english" else tuple(word for word in given.split(",") if word)


def _ngram_range(given: str) -> tuple[int | str, ...]:
    return tuple(int(bound) if bound.isdigit() else bound for bound in given.split(","))


class TextSource(Source):
    """Documents as counts of their terms; columns in the order of the terms.

    With `vocabulary` these are the columns, and other terms do not count.
    """

    terms = True
    options = (
        Option("column", "Column, or field, with the text."),
        Option("encoding", "Of the file; utf-8 by default.", default="utf-8"),
        Option(
            "lowercase", "Ignore case, or keep it.", bool, True, negative="--keep-case", fixed=True
        ),
        Option(
            "stop_words",
            "Words to leave out: english, or words separated by commas.",
            parse=_stop_words,
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
        dtype: str = "float32",
        vocabulary: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path)
        self.text = TextOptions(**options)
        self.dtype = np.dtype(dtype)
        self._given = None if vocabulary is None else list(vocabulary)

    def blocks(self) -> Iterator[Block]:
        """Counts of the terms, numbered as they come."""
        analyze = self.text.analyzer()
        nothing = analyze("")  # of blank lines, of which there can be millions
        numbers: dict[str, int] = {}
        fixed = self._given is not None
        if self._given is not None:
            numbers = {term: i for i, term in enumerate(self._given)}
        indptr, indices, counts = [0], [], []
        n_rows = n_entries = 0
        with open_stream(self.path) as stream:
            for document in self._documents(stream):
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
                if max(len(indices), len(indptr)) >= BLOCK_TOKENS:
                    n_rows, n_entries = n_rows + len(indptr) - 1, n_entries + len(indices)
                    refuse_empty_rows(self.path, n_rows, n_entries)
                    yield self._block(indptr, indices, counts, stream.done)
                    indptr, indices, counts = [0], [], []
        if len(indptr) > 1:
            yield self._block(indptr, indices, counts, 1.0)
        self._name_columns(list(numbers))

    def documents(self) -> Iterator[str]:
        """The documents as they are, in order."""
        with open_stream(self.path) as stream:
            yield from self._documents(stream)

    def _block(
        self, indptr: list[int], indices: list[int], counts: list[int], done: float
    ) -> Block:
        return Block(
            indptr=np.array(indptr, dtype=np.int64),
            indices=np.array(indices, dtype=np.int32),
            data=np.array(counts, dtype=self.dtype),
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
    def _documents(self, stream: FileStream) -> Iterator[str]:
        """The documents of the file, in order."""

    def _lines(self, stream: FileStream, newline: str | None = None) -> Iterator[str]:
        """The lines of the file with their newlines, none of them too long."""
        encoding = "utf-8-sig" if self.text.encoding.lower() in ("utf-8", "utf8") else None
        buffered: Any = stream
        file = io.TextIOWrapper(buffered, encoding=encoding or self.text.encoding, newline=newline)
        n_lines = 0
        while line := file.readline(LONGEST_TEXT + 1):
            n_lines += 1
            if len(line) > LONGEST_TEXT:
                raise ReadError(
                    f"{self.path}, line {n_lines}: has more than {LONGEST_TEXT:,} characters. "
                    f"Split the document."
                )
            yield line

    def _undecodable(self, line: int, error: UnicodeDecodeError) -> ReadError:
        return ReadError(
            f"{self.path}: what follows line {line} is not text in {self.text.encoding} "
            f"({error.reason}). Pass the encoding of the file, for example latin-1."
        )

    def _column_of(self, names: list[str], line: int) -> str:
        wanted = self.text.column
        if wanted is None:
            if len(names) == 1:
                return names[0]
            wanted = "text"
        if wanted not in names:
            raise ReadError(
                f"{self.path}, line {line}: there is no column {wanted!r}. Pass one of "
                f"{', '.join(repr(name[:80]) for name in names[:30])} as the column."
            )
        return wanted


class LinesSource(TextSource):
    """One document per line."""

    def _documents(self, stream: FileStream) -> Iterator[str]:
        n_lines = 0
        try:
            for document in self._lines(stream):
                n_lines += 1
                yield document.removesuffix("\n")
        except UnicodeDecodeError as error:
            raise self._undecodable(n_lines, error) from None


class RecordsSource(TextSource):
    """Documents among other fields, which `records` gives too."""

    def records(self) -> Iterator[tuple[str, Any]]:
        """The file piece by piece, as it is written and as what that means; a piece that means
        nothing (a blank line) is no row."""
        with open_stream(self.path) as stream:
            yield from self._records(stream)

    @abstractmethod
    def _records(self, stream: FileStream) -> Iterator[tuple[str, Any]]:
        """The pieces of an open file."""


class JsonLinesSource(RecordsSource):
    """One JSON object per line, one of whose fields is the document; blank lines do not count."""

    def _records(self, stream: FileStream) -> Iterator[tuple[str, Any]]:
        """Lines with the object or string that each holds."""
        line = 0
        try:
            for line, text in enumerate(self._lines(stream, newline=""), 1):
                if not text.strip():
                    yield text, None
                    continue
                try:
                    record = json.loads(text)
                except (ValueError, RecursionError) as error:
                    raise ReadError(f"{self.path}, line {line}: not JSON: {error}.") from None
                if not isinstance(record, str | dict):
                    raise ReadError(
                        f"{self.path}, line {line}: an object (or a string) is needed, not "
                        f"{type(record).__name__}."
                    )
                yield text, record
        except UnicodeDecodeError as error:
            raise self._undecodable(line, error) from None

    def _documents(self, stream: FileStream) -> Iterator[str]:
        column = None
        for line, (_, record) in enumerate(self._records(stream), 1):
            if isinstance(record, dict):
                if column is None or column not in record:
                    column = self._column_of(list(record), line)
                record = record[column]
                if not isinstance(record, str):
                    raise ReadError(
                        f"{self.path}, line {line}: the field {column!r} is not a string."
                    )
            if record is not None:
                yield record


class CsvSource(RecordsSource):
    """A table with a header line, one of whose columns is the document; by commas or, for .tsv, by
    tabs."""

    @property
    def delimiter(self) -> str:
        """What separates the columns."""
        return "\t" if ".tsv" in self.path.suffixes else ","

    def _records(self, stream: FileStream) -> Iterator[tuple[str, list[str]]]:
        """The header, then the rows, as lists of fields; a blank line is an empty one. Quotes that
        are open at the end of the file are closed."""
        csv.field_size_limit(LONGEST_TEXT)
        taken = list[str]()  # lines that the parser took for a record

        def lines() -> Iterator[str]:
            for line in self._lines(stream, newline=""):
                taken.append(line)
                yield line
            taken.append('"')  # the parser asks for another line only within quotes

        reader = csv.reader(lines(), delimiter=self.delimiter)
        width = None
        try:
            for fields in reader:
                width = len(fields) if width is None else width
                if fields and len(fields) != width:
                    raise ReadError(
                        f"{self.path}, line {reader.line_num}: {len(fields)} columns, where the "
                        f"header has {width}."
                    )
                yield "".join(taken), fields
                taken.clear()
        except csv.Error as error:
            raise ReadError(
                f"{self.path}, line {reader.line_num}: {error}. Check its quotes, or split the "
                f"document."
            ) from None
        except UnicodeDecodeError as error:
            raise self._undecodable(reader.line_num, error) from None
        if width is None:
            raise ReadError(f"{self.path} is empty: a header line is needed.")

    def _documents(self, stream: FileStream) -> Iterator[str]:
        records = self._records(stream)
        _, header = next(records)
        place = header.index(self._column_of(header, 1))
        for _, fields in records:
            if fields:
                yield fields[place]
