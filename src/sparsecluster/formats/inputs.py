"""What a user names as data: a file, several, a pattern of names, a folder, or standard input."""

from __future__ import annotations

import errno
import glob
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from sparsecluster.formats.source import ReadError
from sparsecluster.rows.errors import counted
from sparsecluster.rows.resources import available_memory

STDIN = ("-", "/dev/stdin")
COMPRESSED = (".gz", ".bz2", ".zst")
SPOOLED_AT_ONCE = 1 << 20  # bytes
RESERVE = 1 << 28  # bytes of disk and of memory that standard input leaves free


class Inputs(NamedTuple):
    """Files that are read as one, in this order."""

    path: Path  #: what was named, for messages
    files: list[Path]


class _NamedPath(type(Path())):  # type: ignore[misc]
    """A file that messages call by another name."""

    shown = ""

    def __str__(self) -> str:
        return self.shown or os.fspath(self)

    def __fspath__(self) -> str:
        return str(super().__str__())


def inputs_of(given: Any) -> Inputs:
    """The files that were named; what does not exist, or cannot be read twice, is refused.

    A name with *, ? or [ is a pattern, unless there is a file of that name. A folder stands for all
    files in it and in the folders below, but for those whose names begin with a dot or an
    underscore.
    """
    if isinstance(given, str | os.PathLike):
        path = Path(given)
        files = list(_files(path))
        return Inputs(files[0] if str(path) in STDIN else path, files)
    if not isinstance(given, Iterable):
        raise ValueError(f"path must be a path, or a list of paths, got {given!r}.")
    paths = [Path(one) for one in given]
    if not paths:
        raise ValueError("path is an empty list: name at least one file.")
    if sum(str(path) in STDIN for path in paths) > 1:
        raise ReadError("Standard input is named twice.")
    return Inputs(shown(paths), [file for path in paths for file in _files(path)])


def shown(given: Any) -> Path:
    """What messages call the data that were named."""
    if isinstance(given, str | os.PathLike):
        return Path("standard input" if os.fspath(given) in STDIN else given)
    first, *others = map(Path, given)
    return Path(f"{first} and {counted(len(others), 'other')}") if others else first


def named(path: Path) -> list[Path]:
    """The files or the folder that a name stands for, without reading anything."""
    if str(path) in STDIN:
        return []
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    return [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]


def is_zarr(path: Path) -> bool:
    """Whether a folder is a group of zarr, of either version."""
    return any((path / name).is_file() for name in (".zgroup", "zarr.json"))


def _files(path: Path) -> Iterator[Path]:
    if str(path) in STDIN:
        yield _standard_input()
    elif path.is_dir() and not os.access(path, os.R_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    elif is_zarr(path):
        yield path
    elif path.is_dir():
        found = sorted(file for file in path.rglob("*") if _counts(file, path))
        if not found:
            raise ReadError(f"{path} is a folder without files, and not a store.")
        yield from found
    elif not path.exists() and glob.has_magic(str(path)):
        matched = named(path)
        if not matched:
            raise ReadError(f"{path}: no file has a name like this.")
        for one in matched:
            yield from _files(one)
    elif not path.exists():
        raise ReadError(f"{path} does not exist.")
    elif not path.is_file():
        raise ReadError(
            f"{path} is a pipe or a device. Write it to a file first: it is read twice."
        )
    else:
        yield path


def _counts(file: Path, folder: Path) -> bool:
    """Whether a file is one of the data: not a hidden one, nor a mark such as _SUCCESS."""
    parts = file.relative_to(folder).parts
    return file.is_file() and not any(part.startswith((".", "_")) for part in parts)


def ending(path: Path) -> str:
    """The ending of a name, without that of a compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


@cache
def _standard_input() -> Path:
    """Standard input as a file, which can be read twice. It is removed when the process ends."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        raise ReadError("Standard input is empty: pipe data into it, or name a file.")
    _FOLDERS.append(tempfile.TemporaryDirectory(prefix="sparsecluster-"))
    path = _NamedPath(_FOLDERS[-1].name, "standard-input")
    path.shown = "standard input"
    written = 0
    try:
        with open(path, "wb") as file:
            while piece := sys.stdin.buffer.read(SPOOLED_AT_ONCE):
                file.write(piece)
                written += len(piece)
                if written % (64 * SPOOLED_AT_ONCE) < SPOOLED_AT_ONCE:
                    _check_room(path.parent, written)
    except OSError as error:
        raise ReadError(f"Standard input cannot be kept ({error.strerror}). {_ADVICE}") from error
    if not written:
        raise ReadError("Standard input is empty.")
    return path


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
_ADVICE = "Write it to a file and name that, or set TMPDIR to a folder with more room."


def _check_room(folder: Path, written: int) -> None:
    if min(shutil.disk_usage(folder).free, available_memory()) < RESERVE:
        raise ReadError(
            f"Standard input holds more than {written / 1e9:.1f} GB, for which "
            f"{tempfile.gettempdir()} has no room. {_ADVICE}"
        )
