"""Bags of words in the format of the UCI repository: `docword.name.txt`, with `vocab.name.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from sparsecluster.formats.compressed import checked_shape
from sparsecluster.formats.files import BLOCK_BYTES, open_stream, whole_lines
from sparsecluster.formats.lines import NumberLines, NumberLinesSource
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.formats.triples import Triples


class DocwordSource(NumberLinesSource):
    """Counts of words in documents: a line each for the number of documents, of words and of
    entries, then lines of ``document word count``, compressed or not.

    The names of the words are read from ``vocab.name.txt`` beside ``docword.name.txt``, if it is
    there. Counts that are too large to be exact are refused.
    """

    def blocks(self) -> Iterator[Block]:
        with self._lines() as lines:
            n_rows, n_columns, n_entries = self._header(lines)
        self.n_features = n_columns
        self.feature_names = self._names(n_columns)
        yield from self._blocks(n_rows, n_columns, n_entries)

    def _header(self, lines: NumberLines) -> tuple[int, int, int]:
        sizes = []
        for what in ("documents", "words", "entries"):
            numbers = lines.header_line(f"the number of {what}")
            if len(numbers) != 1:
                raise ReadError(
                    f"{self.path}, line {lines.line}: only the number of {what} is needed, not "
                    f"{len(numbers)} numbers."
                )
            sizes += numbers
        return (*checked_shape(self.path, sizes[0], sizes[1]), sizes[2])

    def _triples(self) -> Iterator[Triples]:
        with self._lines() as lines:
            n_rows, n_columns, n_entries = self._header(lines)
            for entries in lines.entries(
                n_rows, n_columns, n_entries=n_entries, kind="integer", dtype=self.dtype
            ):
                negative = np.flatnonzero(entries.values < 0)
                if len(negative):
                    row, column, value, _ = entries.part(negative[:1])
                    raise ReadError(
                        f"{self.path}: document {row[0] + 1}, word {column[0] + 1}: the count is "
                        f"{value[0]:g}. Write other numbers than counts as a Matrix Market file."
                    )
                yield entries

    def _names(self, n_columns: int) -> np.ndarray | None:
        """The words, where a vocabulary lies beside the file."""
        match = re.fullmatch(r"docword\.(.+?\.txt)(\.\w+)?", self.path.name)
        if not match:
            return None
        for name in (f"vocab.{match[1]}", f"vocab.{match[1]}{match[2] or '.gz'}"):
            path = self.path.with_name(name)
            if path.exists():
                break
        else:
            return None
        names: list[str] = []
        with open_stream(path) as stream:
            for text in whole_lines(stream, BLOCK_BYTES):
                lines = bytes(text).removesuffix(b"\n").split(b"\n")
                names += (line.decode(errors="replace").strip() for line in lines)
        while names and not names[-1]:
            names.pop()
        if len(names) != n_columns:
            raise ReadError(
                f"{path}: {len(names)} words for the {n_columns} columns of {self.path.name}. Put "
                f"the right vocabulary there, or take this one away."
            )
        return np.array(names, dtype=object)
