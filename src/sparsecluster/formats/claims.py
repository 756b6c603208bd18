"""How many bytes Parquet and Arrow files claim to hold, by the headers of their pages and buffers.
What reads them would allocate that first; a few bytes of a file can stand for any number of values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

VALUE_BYTES = 8  # that a value takes in memory, at most
PAGE_HEADER = 1 << 9, 1 << 16, 1 << 24  # bytes that are read for a header; few take more than 512
RECORD_BATCH, DICTIONARY_BATCH = 3, 2
CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4", 6: "zstd", 7: "lz4"}


def parquet_claims(path: Path, names: Iterable[str]) -> int:
    """Bytes of the pages of these columns, decompressed, and of all of their values.

    Raises ValueError, IndexError, KeyError or struct.error where the file is broken.
    """
    chosen = {name.encode() for name in names}
    claimed = 0
    with open(path, "rb") as file:
        for column in _column_chunks(file):
            if column[3][0] not in chosen or column[5] == column[9] == 0:  # of no values, nowhere
                continue
            begin = column[9]
            if 0 < column.get(11, 0) < begin:  # a dictionary, in front of the data
                begin = column[11]
            for page in _pages(file, begin, begin + column[7]):
                about = page.get(5) or page.get(8)  # of version 1 or 2
                claimed += page[2] + (VALUE_BYTES * about[1] if about else 0)
    return claimed


def parquet_codec(path: Path) -> str:
    """The compression of a Parquet file, by its first column, as pyarrow calls it."""
    with open(path, "rb") as file:
        first = next(_column_chunks(file), {4: 0})
    return CODECS.get(first[4], "snappy")


def _column_chunks(file: BinaryIO) -> Iterator[dict[int, Any]]:
    """What the end of a Parquet file says of its columns, row group by row group."""
    end = file.seek(-8, 2)
    (length,) = struct.unpack("<I4x", file.read(8))
    if length > end:
        raise ValueError("the length of its last part is wrong")
    file.seek(end - length)
    for group in _Thrift(file.read(length)).fields()[4]:
        for chunk in group[1]:
            yield chunk[3]


def _pages(file: BinaryIO, begin: int, end: int) -> Iterator[dict[int, Any]]:
    """The headers of the pages between two places of a Parquet file."""
    while begin < end:
        for length in PAGE_HEADER:
            file.seek(begin)
            thrift = _Thrift(file.read(length))
            try:
                header = thrift.fields()
                break
            except IndexError:
                if length == PAGE_HEADER[-1]:
                    raise
        if header[3] < 0 or header[2] < 0:
            raise ValueError("a page has a negative size")
        yield header
        begin += thrift.at + header[3]


class _Thrift:
    """Structures in Thrift's compact protocol, as dictionaries by the numbers of their fields."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def fields(self) -> dict[int, Any]:
        """The next structure."""
        found, number = dict[int, Any](), 0
        while byte := self._byte():
            number = number + (byte >> 4) if byte >> 4 else self._integer()
            found[number] = bool(byte & 1) if byte & 15 in (1, 2) else self._value(byte & 15)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            byte = self._byte()
            count = byte >> 4 if byte >> 4 < 15 else self._varint()
            return [self._value(byte & 15) for _ in range(count)]
        if kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        if kind == 12:
            return self.fields()
        raise ValueError("its header cannot be read")

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.content):
            raise IndexError("its header is cut off")
        return self.content[self.at - count : self.at]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise ValueError("its header cannot be read")

    def _integer(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)


def arrow_claims(messages: Iterable[Any]) -> int:
    """Bytes of the buffers of the messages of an Arrow file, decompressed."""
    claimed = 0
    for message in messages:
        metadata = memoryview(message.metadata)
        table = _Table(metadata, struct.unpack_from("<I", metadata)[0])
        kind, header = table.number(1, "<B"), table.table(2)
        if kind == DICTIONARY_BATCH and header is not None:
            header = header.table(1)
        if header is None or kind not in (RECORD_BATCH, DICTIONARY_BATCH):
            continue
        body = memoryview(message.body or b"")
        compressed = header.table(3) is not None
        for offset, length in header.pairs(2):
            if compressed and length >= 8:
                (length,) = struct.unpack_from("<q", body, offset)
            claimed += max(length, 0)
    return claimed


class _Table:
    """A table of a flatbuffer: a place in it, with the places of its fields."""

    def __init__(self, content: memoryview, at: int) -> None:
        self.content, self.at = content, at
        self._places = at - self._read("<i", at)
        self._size = self._read("<H", self._places)

    def number(self, field: int, form: str) -> int:
        place = self._place(field)
        return 0 if place is None else self._read(form, place)

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return None if place is None else _Table(self.content, place + self._read("<I", place))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """The pairs of integers of a vector."""
        place = self._place(field)
        if place is None:
            return
        start = place + self._read("<I", place)
        count = self._read("<I", start)
        yield from struct.iter_unpack("<qq", self.content[start + 4 : start + 4 + 16 * count])

    def _place(self, field: int) -> int | None:
        if 4 + 2 * field >= self._size:
            return None
        offset = self._read("<H", self._places + 4 + 2 * field)
        return self.at + offset if offset else None

    def _read(self, form: str, at: int) -> int:
        if at < 0:
            raise ValueError("its messages cannot be read")
        number: int = struct.unpack_from(form, self.content, at)[0]
        return number
