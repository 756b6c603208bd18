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
from sparsecluster.formats.stop_words import find_stop_words

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
        try:
            "".encode(self.encoding)
        except (LookupError, TypeError):
            raise ValueError(f"encoding={self.encoding!r} is not known to Python.") from None
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
    options = (
        Option("column", "Column, or field, with the text."),
        Option("encoding", "Of the file; utf-8 by default.", default="utf-8"),
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
        try:
            while line := file.readline(LONGEST_TEXT + 1):
                n_lines += 1
                if len(line) > LONGEST_TEXT:
                    raise ReadError(
                        f"{self.path}, line {n_lines}: has more than {LONGEST_TEXT:,} characters. "
                        f"Split the document."
                    )
                yield line
        except UnicodeDecodeError as error:
            raise ReadError(
                f"{self.path}: what follows line {n_lines} is not text in {self.text.encoding} "
                f"({error.reason}). Pass the encoding of the file, for example latin-1."
            ) from None

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
        return (line.removesuffix("\n") for line in self._lines(stream))


class JsonLinesSource(TextSource):
    """One JSON object per line, one of whose fields is the document; blank lines do not count."""

    def _documents(self, stream: FileStream) -> Iterator[str]:
        column = None
        for line, text in enumerate(self._lines(stream), 1):
            if not text.strip():
                continue
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise ReadError(f"{self.path}, line {line}: not JSON: {error}.") from None
            if isinstance(record, str):
                yield record
                continue
            if not isinstance(record, dict):
                raise ReadError(
                    f"{self.path}, line {line}: an object (or a string) is needed, not "
                    f"{type(record).__name__}."
                )
            if column is None or column not in record:
                column = self._column_of(list(record), line)
            if not isinstance(record[column], str):
                raise ReadError(f"{self.path}, line {line}: the field {column!r} is not a string.")
            yield record[column]


class CsvSource(TextSource):
    """A table with a header line, one of whose columns is the document; by commas or, for .tsv, by
    tabs."""

    def _documents(self, stream: FileStream) -> Iterator[str]:
        tabs = ".tsv" in self.path.suffixes
        csv.field_size_limit(LONGEST_TEXT)
        reader = csv.reader(self._lines(stream, newline=""), delimiter="\t" if tabs else ",")
        try:
            header = next(reader, None)
            if header is None:
                raise ReadError(f"{self.path} is empty: a header line is needed.")
            place = header.index(self._column_of(header, 1))
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ReadError(
                        f"{self.path}, line {reader.line_num}: {len(row)} columns, where the "
                        f"header has {len(header)}."
                    )
                yield row[place]
        except csv.Error as error:
            raise ReadError(
                f"{self.path}, line {reader.line_num}: {error}. Check its quotes, or split the "
                f"document."
            ) from None
