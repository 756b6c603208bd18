"""Files as streams of bytes: decompressed on the way where their first bytes say that they are
compressed, and with errors that name the file."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from sparsecluster.formats.limits import LONGEST_LINE, LONGEST_TEXT, refuse_growth
from sparsecluster.formats.source import ReadError

#: the first bytes of a compressed file, whatever its name ends in
MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "zstd": b"\x28\xb5\x2f\xfd"}
BLOCK_BYTES = 1 << 25  #: of text; its arrays take up to three times as much


class FileStream(io.RawIOBase):
    """The bytes of a file, decompressed. Made by `open_stream`."""

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        super().__init__()
        self.path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        start = file.peek(max(map(len, MAGIC.values())))
        #: name of the compression, or None
        self.compression = next((n for n, magic in MAGIC.items() if start.startswith(magic)), None)
        opener = OPENERS.get(self.compression or "")
        self._bytes: Any = opener(file, path) if opener else file
        self.given = 0  #: bytes that were decompressed so far

    @property
    def done(self) -> float:
        """Share of the file that was read so far."""
        return min(self._file.tell() / self._size, 1.0) if self._size else 1.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count = int(self._bytes.readinto(buffer))
        except _read_errors() as error:
            # Decompressors raise OSErrors too, but without a number of the system's.
            if getattr(error, "errno", None) is not None:
                raise ReadError(f"{self.path}: cannot be read ({error}).") from error
            raise ReadError(
                f"{self.path}: the {self.compression} data are broken or cut off ({error}). "
                f"Fetch or compress the file again."
            ) from error
        if self.compression is not None:
            self.given += count
            refuse_growth(self.path, self.given, self._file.tell())
        return count

    def close(self) -> None:
        if not self.closed:
            if self._bytes is not self._file:
                self._bytes.close()
            self._file.close()
        super().close()


def open_stream(path: Path) -> FileStream:
    """Open a file for reading; gzip, bzip2 and zstd are recognised by the first bytes.

    Raises ReadError where it cannot be opened, and on reading, where it is broken or cut off.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        raise ReadError(f"{path}: cannot be opened ({error.strerror}).") from error
    try:
        return FileStream(path, file)
    except OSError as error:
        file.close()
        raise ReadError(f"{path}: cannot be read ({error.strerror}).") from error
    except BaseException:
        file.close()
        raise


def whole_lines(stream: FileStream, block_bytes: int | None) -> Iterator[memoryview]:
    """Whole lines, about so many bytes at a time (None: all at once).

    A view holds until the next one is asked for.
    """
    buffer = bytearray(block_bytes or BLOCK_BYTES)
    filled, ended = 0, False
    while not ended:
        searched = filled  # the rest of a line, without its newline
        filled, ended = _fill(stream, buffer, filled)
        cut = filled if ended else buffer.rfind(b"\n", searched, filled) + 1
        if not ended and (cut == 0 or block_bytes is None):
            if block_bytes is not None and len(buffer) >= LONGEST_LINE:
                raise ReadError(
                    f"{stream.path}: has a line of more than {LONGEST_LINE:,} bytes. Check that it "
                    f"is a text file, with one row per line."
                )
            buffer.extend(bytes(len(buffer)))
            continue
        if cut:
            with memoryview(buffer) as view, view[:cut] as text:
                yield text
        buffer[: filled - cut] = buffer[cut:filled]
        filled -= cut


def _fill(stream: FileStream, buffer: bytearray, filled: int) -> tuple[int, bool]:
    """Read into the rest of the buffer; how much it holds then, and whether the stream ended."""
    with memoryview(buffer) as view:
        while filled < len(buffer):
            n = stream.readinto(view[filled:])
            if n == 0:
                return filled, True
            filled += n
    return filled, False


def text_lines(stream: FileStream, encoding: str, newline: str | None = None) -> Iterator[str]:
    """The lines of a file of text with their newlines, none of them too long."""
    n_lines, file = 0, _decoded(stream, encoding, newline)
    try:
        while line := file.readline(LONGEST_TEXT + 1):
            n_lines += 1
            if len(line) > LONGEST_TEXT:
                raise ReadError(
                    f"{stream.path}, line {n_lines}: has more than {LONGEST_TEXT:,} characters. "
                    f"Split the document."
                )
            yield line
    except UnicodeDecodeError as error:
        where = f"what follows line {n_lines}" if n_lines else "its first line"
        raise _undecodable(stream.path, where, encoding, error) from None
    finally:
        _let_go(file, stream)


def whole_text(stream: FileStream, encoding: str) -> str:
    """All of a file of text, which is one document."""
    file = _decoded(stream, encoding, None)
    try:
        text = file.read(LONGEST_TEXT + 1)
    except UnicodeDecodeError as error:
        raise _undecodable(stream.path, "the file", encoding, error) from None
    finally:
        _let_go(file, stream)
    if len(text) > LONGEST_TEXT:
        raise ReadError(
            f"{stream.path}: has more than {LONGEST_TEXT:,} characters. Split the document."
        )
    return text


def _decoded(stream: FileStream, encoding: str, newline: str | None) -> io.TextIOWrapper:
    buffered: Any = stream
    # A byte order mark is no part of the text.
    encoding = "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding
    return io.TextIOWrapper(buffered, encoding=encoding, newline=newline)


def _let_go(file: io.TextIOWrapper, stream: FileStream) -> None:
    """Have the stream stay open when the file that decodes it goes."""
    if not stream.closed:
        file.detach()


def _undecodable(path: Path, what: str, encoding: str, error: UnicodeDecodeError) -> ReadError:
    with open(path, "rb") as file:
        probably = (
            "utf-16" if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
        )
    return ReadError(
        f"{path}: {what} is not text in {encoding} ({error.reason}). Pass the encoding of the "
        f"file, as in encoding={probably!r}."
    )


def _open_zstd(file: BinaryIO, path: Path) -> Any:
    """The decompressor of Python 3.14, or the package zstandard."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        return zstd.ZstdFile(file, "rb")
    try:
        import zstandard
    except ImportError:
        raise ReadError(
            f"{path} is compressed with zstd: pip install 'sparsecluster[zstd]' to read it."
        ) from None
    return _ZstdReader(file, zstandard)


class _ZstdReader:
    """Frames one after the other; unlike zstandard's own reader it tells of a file cut off."""

    CHUNK = 1 << 10  # small, because hostile data grow 30,000-fold

    def __init__(self, file: BinaryIO, zstandard: Any) -> None:
        self._file = file
        self._new_frame = zstandard.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._rest = b""  # compressed bytes behind the end of a frame
        self._ready = memoryview(b"")  # decompressed and not yet given

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            read = self._rest or self._file.read(self.CHUNK)
            self._rest = b""
            if not read:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            if self._frame is None:
                self._frame = self._new_frame()
            self._ready = memoryview(self._frame.decompress(read))
            if self._frame.eof:
                self._rest = self._frame.unused_data
                self._frame = None
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def close(self) -> None:
        self._ready = memoryview(b"")


def _read_errors() -> tuple[type[Exception], ...]:
    """What files and the decompressors that are loaded raise on reading."""
    loaded = (sys.modules.get(name) for name in ("zstandard", "compression.zstd"))
    zstd = (module.ZstdError for module in loaded if module is not None)
    return (OSError, EOFError, zlib.error, *zstd)


OPENERS: dict[str, Callable[[BinaryIO, Path], Any]] = {
    "gzip": lambda file, _: gzip.GzipFile(fileobj=file, mode="rb"),
    "bzip2": lambda file, _: bz2.BZ2File(file, "rb"),
    "zstd": _open_zstd,
}
