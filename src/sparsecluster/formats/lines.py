"""Text files that hold a matrix as lines of numbers, `row column [value]`, both counted from one:
a header line by line, then the entries in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np

from sparsecluster import _core
from sparsecluster.formats.files import BLOCK_BYTES, open_stream, whole_lines
from sparsecluster.formats.limits import refuse_empty_rows
from sparsecluster.formats.source import Block, ReadError, Source
from sparsecluster.formats.triples import Triples, blocks_of_triples

LONGEST_NUMBER = 100  # characters
NUMBERS = 1 << 16  # that are converted at a time
INEXACT_IN_FLOAT32 = 1 << 24  # the next whole number is rounded to this one


class NumberLines:
    """A text file, compressed or not, that is read from front to back."""

    def __init__(self, path: Path, *, block_entries: int, n_threads: int) -> None:
        self.path = path
        self.line = 0  #: number of the last line that was read
        self._stream = open_stream(path)
        # Few lines take less than eight bytes, so that a chunk has no more lines than a block.
        self._chunks = whole_lines(self._stream, min(BLOCK_BYTES, 8 * block_entries))
        self._chunk = memoryview(b"")
        self._n_threads = n_threads

    def close(self) -> None:
        self._stream.close()

    def next_line(self) -> str:
        """The next line, without blanks around it; "" at the end of the file."""
        line = self._look_ahead()
        self._chunk = self._chunk[len(line) :]
        self.line += 1
        return line.decode("latin-1").strip()

    def skip_comments(self) -> None:
        """Go on to the next line that is neither empty nor starts with %."""
        while (line := self._look_ahead()) and (not line.strip() or line.startswith(b"%")):
            self.next_line()

    def _look_ahead(self) -> bytes:
        """The next line as it is, with its newline; nothing at the end of the file."""
        self._next_chunk()
        length, start = 0, b""
        while b"\n" not in start and length < len(self._chunk):
            length = max(1024, 2 * length)
            start = bytes(self._chunk[:length])
        return start[: start.find(b"\n") + 1] or start

    def header_line(self, what: str) -> list[int]:
        """The next line, which must hold whole numbers only, none of them negative."""
        words = self.next_line().split()
        if not words or not all(w.isascii() and w.isdigit() and len(w) < 19 for w in words):
            shown = " ".join(words)[:80]
            raise ReadError(f"{self.path}, line {self.line}: {what} is needed, not {shown!r}.")
        return [int(word) for word in words]

    def entries(
        self,
        n_rows: int,
        n_columns: int,
        *,
        n_entries: int,
        kind: Literal["real", "integer", "pattern"],
        dtype: str,
    ) -> Iterator[Triples]:
        """All entries that follow, checked against what a header claimed."""
        found = 0
        while self._next_chunk():
            rows, columns, values = self._parse(2 if kind == "pattern" else 3, dtype)
            if found + len(rows) > n_entries:
                raise ReadError(
                    f"{self._place(n_entries - found)}: there are more than the {n_entries} "
                    f"entries that the header claims."
                )
            found += len(rows)
            rows -= 1
            columns -= 1
            entries = Triples(rows, columns, values, self._stream.done)
            entries.check(n_rows, n_columns, self._place, first=1)
            if kind == "integer" and dtype == "float32":
                self._refuse_inexact(values)
            # Chunks wait until they make a block.
            yield entries._replace(rows=rows.astype(np.int32), columns=columns.astype(np.int32))
            self.line += _core.count_lines(self._chunk, self._n_threads)
            self._chunk = memoryview(b"")
        self._refuse_few(found, n_entries)

    def values(self, n_values: int, dtype: str) -> Iterator[tuple[int, np.ndarray, float]]:
        """All single numbers that follow: the position of the first, some of them, share read."""
        found = 0
        while self._next_chunk():
            values = _numbers(bytes(self._chunk).split(), dtype)
            if values is None:
                raise ReadError(f"{self._first_wrong()}: a finite number is needed.")
            if found + len(values) > n_values:
                raise ReadError(
                    f"{self.path}: there are more than the {n_values} numbers that the "
                    f"header claims."
                )
            yield found, values, self._stream.done
            found += len(values)
            self.line += _core.count_lines(self._chunk, self._n_threads)
            self._chunk = memoryview(b"")
        self._refuse_few(found, n_values)

    def _first_wrong(self) -> str:
        """The first line of the chunk with a word that is not a finite number."""
        for number, line in enumerate(bytes(self._chunk).split(b"\n"), self.line + 1):
            for word in line.split():
                try:
                    finite = len(word) <= LONGEST_NUMBER and np.isfinite(np.float32(word))
                except ValueError:
                    finite = False
                if not finite:
                    return f"{self.path}, line {number}"
        return f"{self.path}, after line {self.line}"

    def _refuse_few(self, found: int, claimed: int) -> None:
        if found < claimed:
            raise ReadError(
                f"{self.path}: the file ends after {found} of the {claimed} entries that its "
                f"header claims. Fetch or write it again."
            )

    def _next_chunk(self) -> bool:
        """Go on to the next chunk where one is used up; False at the end of the file."""
        if not self._chunk:
            # The buffer behind the old chunk may have to grow, so that nothing may look at it.
            self._chunk = memoryview(b"")
            self._chunk = next(self._chunks, self._chunk)
        return len(self._chunk) > 0

    def _parse(self, n_columns: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        try:
            return _core.parse_numbers(self._chunk, n_columns, dtype == "float64", self._n_threads)
        except _core.TextError as error:
            line, reason = error.args
            raise ReadError(f"{self.path}, line {self.line + line}: {reason}.") from None

    def _refuse_inexact(self, values: np.ndarray) -> None:
        wrong = np.flatnonzero(np.abs(values) >= INEXACT_IN_FLOAT32)
        if len(wrong):
            raise ReadError(
                f"{self._place(int(wrong[0]))}: {values[wrong[0]]:.0f} is too large for whole "
                f'numbers in float32. Read the file with dtype="float64".'
            )

    def _place(self, entry: int) -> str:
        """The line of an entry of the chunk; empty lines and comments are none."""
        for number, line in enumerate(bytes(self._chunk).split(b"\n"), self.line + 1):
            if line.strip() and not line.strip().startswith(b"%"):
                if entry == 0:
                    return f"{self.path}, line {number}"
                entry -= 1
        return f"{self.path}, after line {self.line}"


def _numbers(words: list[bytes], dtype: str) -> np.ndarray | None:
    """Words as numbers; None where one is not a finite number."""
    values = np.empty(len(words), dtype)
    for begin in range(0, len(words), NUMBERS):
        # Some at a time: each takes as many bytes as the longest of them.
        part = words[begin : begin + NUMBERS]
        if max(map(len, part)) > LONGEST_NUMBER:
            return None
        try:
            values[begin : begin + NUMBERS] = np.array(part, dtype=bytes).astype(dtype)
        except ValueError:
            return None
    return values if np.isfinite(values).all() else None


class NumberLinesSource(Source):
    """A source whose file is read as lines of numbers; `_triples` gives its entries."""

    def __init__(
        self,
        path: Path,
        *,
        dtype: Literal["float32", "float64"] = "float32",
        n_threads: int = 1,
        **blocks: int,
    ) -> None:
        super().__init__(path, **blocks)
        self.dtype = dtype
        self.n_threads = n_threads

    def _lines(self) -> closing[NumberLines]:
        return closing(
            NumberLines(self.path, block_entries=self.block_entries, n_threads=self.n_threads)
        )

    @abstractmethod
    def _triples(self) -> Iterator[Triples]:
        """All entries, in the order of the file."""

    def _blocks(self, n_rows: int, n_columns: int, n_entries: int) -> Iterator[Block]:
        """The entries as rows of a matrix of this shape."""
        refuse_empty_rows(self.path, n_rows, n_entries)
        return blocks_of_triples(
            self.path,
            self._triples,
            n_rows=n_rows,
            n_columns=n_columns,
            dtype=np.dtype(self.dtype).type,
            block_entries=self.block_entries,
        )
