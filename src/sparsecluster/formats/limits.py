"""How much a file may become: what all readers refuse, so that a small file fills neither memory
nor disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsecluster.formats.source import ReadError

LONGEST_LINE = 1 << 30  #: bytes, where a file of numbers is read in blocks
LONGEST_TEXT = 1 << 24  #: characters of a line, or a field, of text; its terms take 20 times that
FREE_BYTES = 1 << 24  #: that any file may become
LARGEST_GROWTH = 100  #: more bytes than this for each byte of the file are not believed
FREE_ROWS = 1 << 20  #: that may be empty in any file
EMPTY_ROWS = 100  #: for each entry; more are not believed


def refuse_growth(path: Path, grown: int, size: int) -> None:
    """Refuse contents that are far larger than the bytes of the file that hold them.

    Honest data become some ten times smaller by compression; those made to fill a disk a thousand
    times and more.
    """
    if grown > max(FREE_BYTES, LARGEST_GROWTH * size):
        raise ReadError(
            f"{path}: {size:,} bytes of the file hold {grown:,} bytes or more, over "
            f"{LARGEST_GROWTH} times as much: it may be made to fill memory or disk. If it is "
            f"right, decompress it, or write it without compression, and read that."
        )


def refuse_empty_rows(path: Path, n_rows: int, n_entries: int) -> None:
    """Refuse rows that cost a file nothing, where nearly all are empty."""
    if n_rows > max(FREE_ROWS, EMPTY_ROWS * n_entries):
        raise ReadError(
            f"{path} claims {n_rows:,} rows for {n_entries:,} "
            f"{'entry' if n_entries == 1 else 'entries'}: this seems to be wrong. Leave out the "
            f"empty rows."
        )


class Growth:
    """What several files become together: many small ones must not fill memory or disk either."""

    def __init__(self, path: Path, files: list[Path]) -> None:
        self._path = path
        self._total = sum(file.stat().st_size for file in files)
        self._before = self._size = self._grown = 0

    def open(self, file: Path) -> None:
        """Go on to the next file."""
        self._before, self._size = self._before + self._size, file.stat().st_size

    def add(self, *arrays: np.ndarray) -> None:
        """Count what was read; refuse it where it is too much."""
        self._grown += sum(array.nbytes for array in arrays)
        refuse_growth(self._path, self._grown, self._before + self._size)

    def share(self, done: float) -> float:
        """The share of all files that was read, with this share of the current one."""
        return min((self._before + done * self._size) / max(self._total, 1), 1.0)
