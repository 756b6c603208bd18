"""Rows from files in the svmlight (libsvm) format, and in that of the extreme classification
repository, which is the same behind a first line `n_rows n_features n_labels`."""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sparsecluster import _core
from sparsecluster.formats.files import BLOCK_BYTES, open_stream, whole_lines
from sparsecluster.formats.source import Block, Labels, Option, ReadError, Source
from sparsecluster.rows.rows import MAX_INDEX

HEADER = re.compile(rb"[ \t]*(\d{1,18})[ \t]+(\d{1,18})[ \t]+(\d{1,18})[ \t\r]*")


class SvmlightSource(Source):
    """Rows of lines ``label[,label...] [qid:n] index:value ... [# comment]``.

    Lines without any of these are left out, queries are ignored. Explicit zeros are kept. Rows may
    be unsorted; a column that occurs twice in a row is refused.

    `zero_based` says whether columns count from zero. "auto": from one, if no column zero occurs;
    "told": the file must tell it, by a first line of counts, behind which they always do.
    `block_bytes` are those of text in a block; with None the whole file is one block, mapped into
    memory if it is not compressed.
    """

    options = (
        Option(
            "zero_based",
            "Whether columns count from zero; by default, if a column 0 occurs.",
            bool,
            negative="--one-based",
        ),
    )
    # A guess would shift all columns where it is wrong.
    options_of_others: ClassVar[dict[str, Any]] = {"zero_based": "told"}

    def __init__(
        self,
        path: Path,
        *,
        dtype: Literal["float32", "float64"] = "float32",
        zero_based: bool | Literal["auto", "told"] = "auto",
        n_threads: int = 1,
        block_bytes: int | None = BLOCK_BYTES,
    ) -> None:
        super().__init__(path)
        self.dtype = dtype
        self.zero_based = zero_based
        self.n_threads = n_threads
        self.block_bytes = block_bytes

    def options_found(self) -> dict[str, Any]:
        return {"zero_based": self.first_column == 0}

    def blocks(self) -> Iterator[Block]:
        reading = _Reading(self)
        with open_stream(self.path) as stream:
            if self.block_bytes is None and stream.compression is None:
                yield reading.whole_file()
            else:
                for text in whole_lines(stream, self.block_bytes):
                    yield reading.parse(text, stream.done)
        reading.finish()


class _Reading:
    """One pass through a file: counts lines and rows, and knows the header."""

    def __init__(self, source: SvmlightSource) -> None:
        self.source = source
        self.n_lines = 0
        self.n_rows = 0
        self.smallest: int | None = None
        self.expected: tuple[int, int, int] | None = None  # rows, features, labels
        source.n_features = source.n_labels = None
        source.first_column = 0

    def whole_file(self) -> Block:
        """All of a plain file; the mapping ends before the block is used."""
        with open(self.source.path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:  # cannot be mapped
                return self.parse(memoryview(b""), 1.0)
            return self.parse(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), 1.0)

    def parse(self, text: memoryview, done: float) -> Block:
        """A block of whole lines."""
        if self.n_lines == 0:
            text = self._take_header(text)
        source = self.source
        if source.zero_based == "told" and self.expected is None:
            raise ReadError(
                f"{source.path}: whether its columns count from zero or from one is not known. Say "
                f"it (zero_based; --zero-based or --one-based)."
            )
        largest = MAX_INDEX - 1 if self.expected is None else self.expected[1] - 1
        least = int(source.zero_based is False and self.expected is None)
        try:
            indptr, indices, data, label_indptr, values, smallest, _ = _core.parse_svmlight(
                text, source.dtype == "float64", source.n_threads, least, largest
            )
        except _core.TextError as error:
            line, reason = error.args
            raise ReadError(f"{source.path}, line {self.n_lines + line}: {reason}.") from None
        labels = Labels(indptr=label_indptr, values=values)
        self._check_labels(labels)
        self.n_lines += _core.count_lines(text, source.n_threads)
        self.n_rows += len(indptr) - 1
        if smallest >= 0:
            self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        source.first_column = self._first_column()
        return Block(indptr=indptr, indices=indices, data=data, labels=labels, done=done)

    def finish(self) -> None:
        """Tell what only the whole file shows."""
        if self.expected is not None and self.n_rows != self.expected[0]:
            raise ReadError(
                f"{self.source.path}: its first line tells of {self.expected[0]} rows, but there "
                f"are {self.n_rows}. Fetch the file again, or correct its first line."
            )
        unknown = self.smallest is None and self.source.zero_based == "auto"
        self.source.first_column = 0 if unknown else self._first_column()

    def _first_column(self) -> int:
        """By what was seen so far; where it is to be found out it can still go from one to zero."""
        if self.expected is not None:
            return 0
        if self.source.zero_based == "auto":
            return int(self.smallest is None or self.smallest > 0)
        return int(not self.source.zero_based)

    def _take_header(self, text: memoryview) -> memoryview:
        """Text behind a first line of three counts, or all of it."""
        first = bytes(text[:100]).partition(b"\n")
        match = HEADER.fullmatch(first[0])
        if match is None or not (first[1] or len(text) <= 100):
            return text
        n_rows, n_features, n_labels = map(int, match.groups())
        for number, what in ((n_features, "columns"), (n_labels, "labels")):
            if number > MAX_INDEX:
                raise ReadError(
                    f"{self.source.path}, line 1: tells of {number} {what}; at most 2**31 - 1 are "
                    f"supported."
                )
        self.expected = n_rows, n_features, n_labels
        self.source.n_features, self.source.n_labels = n_features, n_labels
        self.n_lines = 1
        return text[len(first[0]) + len(first[1]) :]

    def _check_labels(self, labels: Labels) -> None:
        """With a header labels are whole numbers below the number that it tells."""
        if self.expected is None:
            return
        values, n_labels = labels.values, self.expected[2]
        wrong = np.flatnonzero((values < 0) | (values >= n_labels) | (values != np.floor(values)))
        if len(wrong):
            row = int(np.searchsorted(labels.indptr, wrong[0], side="right")) - 1
            raise ReadError(
                f"{self.source.path}: row {self.n_rows + row} (counted from 0) has the label "
                f"{values[wrong[0]]:g}, but the first line tells of {n_labels} labels, from 0 on."
            )
