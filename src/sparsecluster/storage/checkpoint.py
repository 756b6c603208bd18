"""Checkpoints: the states of a fit in a folder, from which a killed fit resumes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.errors import SparseClusterError
from sparsecluster.rows.resources import quantity
from sparsecluster.rows.rows import Rows, canonical
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.tensors import NONSENSE, Packer, TensorFile, unpack, write_tensors

FORMAT = "sparsecluster checkpoint"
VERSION = 2
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
State = TypeVar("State")


class CheckpointError(SparseClusterError, ValueError):
    """A checkpoint that a fit cannot resume from: of another fit, in use, or damaged."""


class StateFile:
    """A file in the folder of a fit that holds one state, which is written again and again."""

    def __init__(self, path: Path, fingerprint: dict[str, Any], every: float) -> None:
        self._path, self._fingerprint, self._every = path, fingerprint, every
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= self._every

    def save(self, state: dict[str, Any]) -> None:
        """Write a state, of arrays and what JSON can hold, in the place of the one before."""
        packer = Packer()
        document = {
            "format": FORMAT,
            "version": VERSION,
            "fit": self._fingerprint,
            "state": packer.pack(state, "state"),
        }
        with atomic_file(self._path) as partial:
            write_tensors(partial, document, packer.tensors)
        self._last = time.monotonic()

    def load(self, restore: Callable[[dict[str, Any]], State]) -> State | None:
        """What `restore` makes of the state that was written last; None where none was."""
        if not self._path.exists():
            return None
        try:
            document, tensors = self._read()
        except IsADirectoryError:
            raise self._unusable("it is a folder") from None
        except ValueError as error:
            raise self._unusable(f"it {error}") from None
        except NONSENSE as error:
            raise self._unusable(f"it is damaged ({_detail(error)})") from None
        found = document["fit"]
        if found != self._fingerprint:
            other = [name for name, value in self._fingerprint.items() if found.get(name) != value]
            raise CheckpointError(
                f"{self._path.parent} holds the checkpoint of another fit (different "
                f"{', '.join(other)}). Remove it, or choose another folder."
            )
        try:
            return restore(dict(unpack(document["state"], tensors)))
        except NONSENSE as error:
            detail = _detail(error)
            raise self._unusable(f"it does not hold what was expected ({detail})") from None

    def _read(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The document and its arrays; a ValueError says what the file is or has."""
        file = TensorFile(self._path, mmap=False)
        document = file.document
        if document.get("format") != FORMAT or not isinstance(document.get("fit"), dict):
            raise ValueError("is not a checkpoint")
        if document.get("version") != VERSION:
            raise ValueError(f"is of version {document.get('version')}, not {VERSION}")
        return document, file.tensors(verify=True)

    def _unusable(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"Cannot resume from {self._path}: {reason}. Remove {self._path.parent} to start again."
        )


def _detail(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")


class Checkpoint:
    """The folder of a fit: what its runs start from, and a file for each of them."""

    def __init__(self, folder: Path, fingerprint: dict[str, Any], every: float) -> None:
        self._folder, self._fingerprint, self._every = folder, fingerprint, every

    def _file(self, name: str) -> StateFile:
        path = self._folder / f"{name}.safetensors"
        return StateFile(path, self._fingerprint, self._every)

    def seeds(self, drawn: np.ndarray) -> np.ndarray:
        """The seeds of the runs: those that the fit began with, or those that were drawn now."""

        def restored(state: dict[str, Any]) -> np.ndarray:
            seeds = state.get("seeds")
            if not isinstance(seeds, np.ndarray) or seeds.shape != drawn.shape:
                raise ValueError("the seeds are of a wrong shape")
            return np.array(seeds)

        file = self._file("fit")
        known = file.load(restored)
        if known is not None:
            return known
        file.save({"seeds": drawn.astype(np.int64)})
        return drawn

    def run(self, number: int) -> StateFile:
        """What belongs to one run."""
        return self._file(f"run-{number}")


@contextlib.contextmanager
def open_checkpoint(
    folder: Any, fingerprint: dict[str, Any], every: Any
) -> Iterator[Checkpoint | None]:
    """The checkpoint in a folder, which is made where there is none; None without a folder."""
    if folder is None:
        yield None
        return
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; a checkpoint is a folder. Choose another name.")
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"Another fit is using the checkpoint {folder}. Choose another folder."
            ) from None
        yield Checkpoint(folder, fingerprint, seconds(every))
    finally:
        os.close(lock)


def check_folder(checkpoint: Any, name: str = "checkpoint") -> None:
    """Refuse what names no folder: an empty path would be the current one."""
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise ValueError(f"{name} must be the path of a folder, got {checkpoint!r}.")


def seconds(every: Any) -> float:
    """A time in seconds: a number, or like '90s', '5m', '1h'."""
    found = quantity(every, _UNITS)
    if not found >= 0:
        raise ValueError(
            f"checkpoint_every must be a number of seconds, or like '90s', '5m' or '1h'; got "
            f"{every!r}."
        )
    return found


def fingerprint(
    parameters: dict[str, Any], rows: Rows, weights: np.ndarray | None
) -> dict[str, Any]:
    """What tells one fit from another: all that its result depends on."""
    return described_fit(parameters, rows, weights, joined_checksums([checksums(rows.matrix)]))


def described_fit(
    parameters: dict[str, Any], rows: Rows, weights: np.ndarray | None, values: Any
) -> dict[str, Any]:
    """The same where it is known what tells the values apart."""
    return {
        **{name: _described(name, value) for name, value in parameters.items()},
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "values": values,
        "sample_weight": None if weights is None else _crc(weights),
    }


#: Of some rows: the type of dense values, or None, and of each array its checksum and its length.
PartChecksums = tuple[str | None, list[tuple[int, int]]]


def checksums(matrix: Any, first_entry: int | None = None) -> PartChecksums:
    """What tells rows apart, byte by byte: -0.0 is another value than 0.0, and a zero that is
    stored another than one that is not. Indices count as numbers, whatever their type. Of rows
    behind others `first_entry` says how many entries these have."""
    if not sp.issparse(matrix):
        return matrix.dtype.name, [(_crc(matrix), matrix.nbytes)]
    begin, end = int(matrix.indptr[0]), int(matrix.indptr[-1])  # arrays may be longer
    # Where the first entry is, is told by the rows before, if there are any.
    ends = matrix.indptr if first_entry is None else matrix.indptr[1:]
    indices, values = matrix.indices[begin:end], matrix.data[begin:end]
    return None, [
        (_crc(ends, np.int64, (first_entry or 0) - begin), 8 * len(ends)),
        (_crc(indices, np.int32), 4 * len(indices)),
        (_crc(values), values.nbytes),
    ]


def joined_checksums(parts: Sequence[PartChecksums]) -> list[Any] | None:
    """The same of all rows, from those of parts that follow each other; None where some are dense
    and others are not."""
    kinds = {kind for kind, _ in parts}
    if len(kinds) != 1:
        return None
    kind = kinds.pop()
    found = [0] * len(parts[0][1])
    for _, arrays in parts:
        found = [_crc_behind(before, *array) for before, array in zip(found, arrays, strict=True)]
    return found if kind is None else [kind, *found]


def _crc_behind(before: int, checksum: int, length: int) -> int:
    """CRC-32 of bytes behind others: as polynomials over GF(2) the checksum before times x to the
    power of the bits that follow, plus that of these."""
    power, square, n_bits = 1 << 31, 1 << 30, 8 * length
    while n_bits:
        power = _crc_product(square, power) if n_bits & 1 else power
        square, n_bits = _crc_product(square, square), n_bits >> 1
    return _crc_product(power, before) ^ checksum


def _crc_product(one: int, other: int) -> int:
    """The product of two polynomials by that of CRC-32; the highest bit is the lowest power."""
    product = 0
    for bit in range(31, -1, -1):
        product ^= other if one >> bit & 1 else 0
        other = other >> 1 ^ (0xEDB88320 if other & 1 else 0)
    return product


def _crc(array: np.ndarray, dtype: Any = None, plus: int = 0) -> int:
    """CRC-32 of an array, plus a number, piece by piece: it may be mapped from a file."""
    flat, crc, step = array.reshape(-1), 0, 1 << 20
    for begin in range(0, len(flat), step):
        piece = np.ascontiguousarray(flat[begin : begin + step], dtype=dtype)
        piece = piece + piece.dtype.type(plus) if plus else piece
        crc = zlib.crc32(piece.data, crc)
    return crc


def _described(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it: what is large by its checksum."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {str(key): _described(name, item) for key, item in sorted(value.items())}
    if isinstance(value, np.random.RandomState):
        return _described(name, value.get_state(legacy=False))
    if sp.issparse(value):
        matrix = canonical(value)
        parts = (matrix.indptr, matrix.indices, matrix.data)
        return [list(matrix.shape), *(_crc(part) for part in parts)]
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return [list(array.shape), str(array.dtype), _crc(np.ascontiguousarray(array))]
    raise CheckpointError(
        f"A checkpoint cannot tell whether {name} is the same when the fit resumes: it is of the "
        f"type {type(value).__name__}. Give a name or numbers."
    )
