"""Checkpoints: the states of a fit in a folder, from which a killed fit resumes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.errors import SparseClusterError
from sparsecluster.rows.resources import quantity
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.tensors import Packer, TensorFile, unpack, write_tensors

FORMAT = "sparsecluster checkpoint"
VERSION = 1
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
            file = TensorFile(self._path, mmap=False)
            document = file.document
            if document.get("format") != FORMAT:
                raise ValueError("is not a checkpoint")
            if document.get("version") != VERSION:
                raise ValueError(f"is of version {document.get('version')}, not {VERSION}")
            found = document["fit"]
            if found == self._fingerprint:
                return restore(dict(unpack(document["state"], file.tensors(verify=True))))
            other = [name for name, value in self._fingerprint.items() if found.get(name) != value]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(
                f"Cannot resume from {self._path}: it {error}. Remove {self._path.parent} to start "
                f"again."
            ) from None
        raise CheckpointError(
            f"{self._path.parent} holds the checkpoint of another fit (different "
            f"{', '.join(other)}). Remove it, or choose another folder."
        )


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
    return described_fit(parameters, rows, weights, _checksums(rows.matrix))


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


def _checksums(matrix: Any) -> list[Any]:
    """What tells data apart, byte by byte: -0.0 is another value than 0.0, and a zero that is
    stored another than one that is not. Indices count as numbers, whatever their type."""
    if not sp.issparse(matrix):
        return [matrix.dtype.name, _crc(matrix)]
    n_entries = int(matrix.indptr[-1])  # arrays may be longer
    return [
        _crc(matrix.indptr, np.int64),
        _crc(matrix.indices[:n_entries], np.int32),
        _crc(matrix.data[:n_entries]),
    ]


def _crc(array: np.ndarray, dtype: Any = None) -> int:
    """CRC-32 of an array, piece by piece: it may be mapped from a file."""
    flat, crc, step = array.reshape(-1), 0, 1 << 20
    for begin in range(0, len(flat), step):
        piece = np.ascontiguousarray(flat[begin : begin + step], dtype=dtype)
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
        matrix = sp.csr_array(value)
        matrix.sum_duplicates()
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
