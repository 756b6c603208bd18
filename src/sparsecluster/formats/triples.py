"""Files of (row, column, value) in any order as blocks of rows: as they come where the rows ascend,
else sorted by row in bounded memory, through a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.source import Block, ReadError

BUCKETS = 128


class Triples(NamedTuple):
    """Some entries of a matrix; rows and columns count from zero."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray  #: float32 or float64
    done: float  #: share of the input that was read with these

    def check(
        self, n_rows: int, n_columns: int, place: Callable[[int], str], *, first: int = 0
    ) -> None:
        """Refuse entries outside of the matrix or not finite; `place` names the i-th entry.

        Errors show indices as the file has them, counted from `first`.
        """
        for name, index, limit in (
            ("row", self.rows, n_rows),
            ("column", self.columns, n_columns),
        ):
            if len(index) and (index.min() < 0 or index.max() >= limit):
                entry = int(np.flatnonzero((index < 0) | (index >= limit))[0])
                raise ReadError(
                    f"{place(entry)}: {name} {int(index[entry]) + first} lies "
                    f"outside of {first} .. {limit - 1 + first}."
                )
        if not np.isfinite(self.values).all():
            entry = int(np.flatnonzero(~np.isfinite(self.values))[0])
            raise ReadError(
                f"{place(entry)}: the value {self.values[entry]} is not a "
                f"finite number. Clean or impute the values first."
            )

    @staticmethod
    def place(path: Path, position: int, entry: int) -> str:
        """Where an entry stands, for files without lines."""
        return f"{path}, entry {position + entry}"

    def part(self, which: slice | np.ndarray) -> Triples:
        return Triples(self.rows[which], self.columns[which], self.values[which], self.done)


def blocks_of_triples(
    path: Path,
    read: Callable[[], Iterator[Triples]],
    *,
    n_rows: int,
    n_columns: int,
    dtype: type[np.float32] | type[np.float64],
    block_entries: int,
) -> Iterator[Block]:
    """The rows of a matrix whose entries come in any order; duplicates are summed.

    `read` gives all entries from the start whenever it is called, checked. It is called twice: to
    look whether the rows ascend, which ends where they do not, and to read. Blocks have at most
    `block_entries` entries, except for longer rows, and rows.
    """
    cutter = _Cutter(path, n_columns, dtype, block_entries)
    if _ascend(read()):
        yield from _in_order(read(), n_rows, cutter)
    else:
        try:
            yield from _in_any_order(read(), range(n_rows), cutter)
        except OSError as error:
            raise ReadError(
                f"{path}: the rows are not in order and were to be sorted in a temporary file in "
                f"{tempfile.gettempdir()}, but: {error}. Set TMPDIR to a folder with more room."
            ) from error


def _ascend(chunks: Iterable[Triples]) -> bool:
    """Whether no row comes after a higher one."""
    last = 0
    for chunk in chunks:
        if len(chunk.rows):
            if chunk.rows[0] < last or np.any(chunk.rows[1:] < chunk.rows[:-1]):
                return False
            last = chunk.rows[-1]
    return True


class _Cutter:
    """Makes blocks of entries."""

    def __init__(self, path: Path, n_columns: int, dtype: type, block_entries: int) -> None:
        self.path = path
        self.n_columns = n_columns
        self.block_entries = block_entries
        self.dtype = np.dtype(dtype)
        self.record = np.dtype([("row", np.int32), ("column", np.int32), ("value", self.dtype)])

    def cut(self, entries: Triples, rows: range) -> Iterator[Block]:
        """The blocks of these rows, whose entries are all there and whose rows ascend."""
        first, begin, count = rows.start, 0, len(entries.rows)
        while first < rows.stop:
            end = begin + self.block_entries
            stop = rows.stop if end >= count else max(int(entries.rows[end]), first + 1)
            stop = min(stop, first + self.block_entries)
            end = int(np.searchsorted(entries.rows, stop, side="left"))
            yield self.block(entries.part(slice(begin, end)), range(first, stop))
            first, begin = stop, end

    def block(self, entries: Triples, rows: range) -> Block:
        """One block of these rows, whose entries are all there, in any order."""
        matrix = sp.coo_array(
            (entries.values, (entries.rows - rows.start, entries.columns)),
            shape=(len(rows), self.n_columns),
        ).tocsr()
        if not np.isfinite(matrix.data).all():
            entry = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
            row = rows.start + int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
            raise ReadError(
                f"{self.path}: row {row}, column {matrix.indices[entry]} (from 0): entries of the "
                f"same place add up to infinity."
            )
        return Block(
            indptr=matrix.indptr.astype(np.int64),
            indices=matrix.indices.astype(np.int32, copy=False),
            data=matrix.data,
            done=entries.done,
        )

    def join(self, parts: list[Triples]) -> Triples:
        """The parts as one; at the end of the input where there are none."""
        if not parts:
            none = np.zeros(0, np.int32)
            return Triples(none, none, np.zeros(0, self.dtype), 1.0)
        if len(parts) == 1:
            return parts[0]
        rows, columns, values, done = zip(*parts, strict=True)
        return Triples(
            np.concatenate(rows), np.concatenate(columns), np.concatenate(values), done[-1]
        )


def _in_order(chunks: Iterable[Triples], n_rows: int, cutter: _Cutter) -> Iterator[Block]:
    """The blocks of entries whose rows ascend."""
    first, held, count = 0, list[Triples](), 0
    for chunk in chunks:
        if not len(chunk.rows):
            continue
        held.append(chunk)
        count += len(chunk.rows)
        last = int(chunk.rows[-1])
        # The last row may go on in the next chunk.
        if count >= cutter.block_entries and held[0].rows[0] < last:
            entries = cutter.join(held)
            cut = int(np.searchsorted(entries.rows, last, side="left"))
            yield from cutter.cut(entries.part(slice(0, cut)), range(first, last))
            first, held, count = last, [entries.part(slice(cut, None))], len(entries.rows) - cut
    yield from cutter.cut(cutter.join(held), range(first, n_rows))


def _in_any_order(
    chunks: Iterable[Triples], rows: range, cutter: _Cutter, done: float = 0.0, share: float = 1.0
) -> Iterator[Block]:
    """The blocks of these rows, whose entries come in any order; they are this share of all, of
    which some are done."""
    with tempfile.TemporaryFile() as file:
        buckets = _Buckets(file, rows, cutter)
        for batch in _batches(chunks, cutter):
            buckets.add(batch)
        total = max(sum(buckets.sizes), 1)
        for begin, end in buckets.groups():
            size = sum(buckets.sizes[begin:end])
            part, its_share = buckets.rows_of(begin, end), share * size / total
            done += its_share
            if size > cutter.block_entries and len(part) > 1:
                inner = buckets.read(begin, end)
                yield from _in_any_order(inner, part, cutter, done - its_share, its_share)
                continue
            entries = cutter.join(list(buckets.read(begin, end)))._replace(done=min(done, 1.0))
            if len(part) > cutter.block_entries:
                order = np.argsort(entries.rows, kind="stable")
                yield from cutter.cut(entries.part(order), part)
            else:
                yield cutter.block(entries, part)


def _batches(chunks: Iterable[Triples], cutter: _Cutter) -> Iterator[Triples]:
    """The chunks, joined or cut into batches that take less memory than a block."""
    most = max(1, cutter.block_entries // 4)
    held, count = list[Triples](), 0
    for chunk in chunks:
        for begin in range(0, len(chunk.rows), most):
            part = chunk.part(slice(begin, begin + most))
            if count + len(part.rows) > most:
                yield cutter.join(held)
                held, count = [], 0
            held.append(part)
            count += len(part.rows)
    yield cutter.join(held)


class _Buckets:
    """Entries in a temporary file, in buckets by ranges of rows. Each batch is written at one go,
    sorted by bucket, so that a bucket is a piece of every batch."""

    def __init__(self, file: BinaryIO, rows: range, cutter: _Cutter) -> None:
        self.file = file
        self.rows = rows
        self.cutter = cutter
        self.width = max(1, -(-len(rows) // BUCKETS))
        self.sizes = [0] * -(-len(rows) // self.width)
        self.pieces: list[list[tuple[int, int]]] = [[] for _ in self.sizes]
        self.written = 0

    def add(self, batch: Triples) -> None:
        bucket = ((batch.rows - self.rows.start) // self.width).astype(np.uint8)
        order = np.argsort(bucket, kind="stable")
        records = np.empty(len(order), self.cutter.record)
        records["row"] = batch.rows[order]
        records["column"] = batch.columns[order]
        records["value"] = batch.values[order]
        self.file.write(records.data)
        for i, size in enumerate(np.bincount(bucket, minlength=len(self.sizes)).tolist()):
            if size:
                self.pieces[i].append((self.written, size))
                self.sizes[i] += size
                self.written += size

    def groups(self) -> Iterator[tuple[int, int]]:
        """Runs of buckets that together fit into a block, or single ones."""
        begin, held = 0, 0
        for i, size in enumerate(self.sizes):
            if i > begin and held + size > self.cutter.block_entries:
                yield begin, i
                begin, held = i, 0
            held += size
        if self.sizes:
            yield begin, len(self.sizes)

    def rows_of(self, begin: int, end: int) -> range:
        """The rows of a run of buckets."""
        return self.rows[begin * self.width : end * self.width]

    def read(self, begin: int, end: int) -> Iterator[Triples]:
        """The entries of a run of buckets; those of a row in the order in which they came."""
        record = self.cutter.record
        for pieces in self.pieces[begin:end]:
            for position, size in pieces:
                self.file.seek(position * record.itemsize)
                records = np.frombuffer(self.file.read(size * record.itemsize), record)
                yield Triples(records["row"], records["column"], records["value"], 0.0)
