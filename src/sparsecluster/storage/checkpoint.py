"""Checkpoints: the states of the runs of a fit in a folder, from which a killed fit goes on.

Centers are a function of the labels, and labels of the centers, so a run that goes on from either
ends where it would have ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.tensors import Packer, TensorFile, unpack, write_tensors

FORMAT = "sparsecluster checkpoint"
VERSION = 1
_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


class CheckpointError(ValueError):
    """A checkpoint that cannot be gone on from: of another fit, in use, or damaged."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """Where a run is: at its start, in its loop, among single moves, or at its end."""

    centers: sp.csr_array
    history: list[IterationRecord]
    labels: np.ndarray | None = None  #: None at the start
    refining: bool = False
    finished: bool = False
    converged: bool = False
    stopped: bool = False

    def core_centers(self) -> _core.Centers:
        """The centers as the core wants them, a copy."""
        return centers_.to_core(self.centers)


class RunCheckpoint:
    """The file of one run."""

    def __init__(self, path: Path, fingerprint: dict[str, Any], every: float) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._every = every
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= self._every

    def save(self, state: RunState) -> None:
        """Write a state in the place of the one before."""
        packed = {
            "centers": state.centers,
            "labels": state.labels,
            "history": [asdict(record) for record in state.history],
            **{name: getattr(state, name) for name in _FLAGS},
        }
        _write(self._path, self._fingerprint, packed)
        self._last = time.monotonic()

    def load(self, rows: Rows) -> RunState | None:
        """The state that was written last; None where none was."""
        packed = _read(self._path, self._fingerprint)
        if packed is None:
            return None
        try:
            state = RunState(
                centers=packed["centers"],
                history=[IterationRecord(**record) for record in packed["history"]],
                labels=None if packed["labels"] is None else np.array(packed["labels"]),
                **{name: bool(packed[name]) for name in _FLAGS},
            )
            _check_state(state, rows)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(self._path, error) from None
        return state


_FLAGS = ("refining", "finished", "converged", "stopped")


def _check_state(state: RunState, rows: Rows) -> None:
    if not sp.issparse(state.centers) or state.centers.shape[1] != rows.n_features:
        raise ValueError("the centers are of a wrong shape")
    if not np.isfinite(state.centers.data).all():
        raise ValueError("the centers are not finite")
    if state.labels is None:
        return
    if state.labels.shape != (rows.n_rows,) or state.labels.dtype != np.int32:
        raise ValueError("the labels are of a wrong shape")
    if state.labels.min() < 0 or state.labels.max() >= state.centers.shape[0]:
        raise ValueError("a label is out of range")


class Checkpoint:
    """The folder of a fit: what its runs start from, and a file for each of them."""

    def __init__(self, folder: Path, fingerprint: dict[str, Any], every: float) -> None:
        self._folder = folder
        self._fingerprint = fingerprint
        self._every = every

    def seeds(self, drawn: np.ndarray) -> np.ndarray:
        """The seeds of the runs: those that the fit began with, or those that were drawn now."""
        path = self._folder / "fit.safetensors"
        packed = _read(path, self._fingerprint)
        if packed is None:
            _write(path, self._fingerprint, {"seeds": drawn.astype(np.int64)})
            return drawn
        seeds = packed.get("seeds")
        if not isinstance(seeds, np.ndarray) or seeds.shape != drawn.shape:
            raise _damaged(path, ValueError("the seeds are of a wrong shape"))
        return np.array(seeds)

    def run(self, number: int) -> RunCheckpoint:
        """What belongs to one run."""
        path = self._folder / f"run-{number}.safetensors"
        return RunCheckpoint(path, self._fingerprint, self._every)


@contextlib.contextmanager
def open_checkpoint(
    folder: Any, fingerprint: dict[str, Any], every: Any
) -> Iterator[Checkpoint | None]:
    """The checkpoint in a folder, which is made where there is none; None without a folder."""
    if folder is None:
        yield None
        return
    folder = Path(folder)
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
    found: float = -1
    if isinstance(every, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([a-z]*)\s*", every.lower())
        if match and match[2] in _UNITS:
            found = float(match[1]) * _UNITS[match[2]]
    elif not isinstance(every, bool) and isinstance(every, Real):
        found = float(every)
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
    return {
        **{name: _described(name, value) for name, value in parameters.items()},
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "values": _checksums(rows.matrix),
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
        f"A checkpoint cannot tell whether {name} is the same when the fit goes on: it is of the "
        f"type {type(value).__name__}. Give a name or numbers."
    )


def _write(path: Path, fingerprint: dict[str, Any], packed: dict[str, Any]) -> None:
    packer = Packer()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "fit": fingerprint,
        "state": packer.pack(packed, "state"),
    }
    with atomic_file(path) as partial:
        write_tensors(partial, document, packer.tensors)


def _read(path: Path, fingerprint: dict[str, Any]) -> dict[str, Any] | None:
    """What was written, for the same fit."""
    if not path.exists():
        return None
    try:
        file = TensorFile(path, mmap=False)
        document = file.document
        if document.get("format") != FORMAT:
            raise ValueError("is not a checkpoint")
        if document.get("version") != VERSION:
            raise ValueError(f"is of version {document.get('version')}, not {VERSION}")
        found = document["fit"]
        packed = unpack(document["state"], file.tensors(verify=True))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from None
    if found != fingerprint:
        other = [name for name in fingerprint if found.get(name) != fingerprint[name]]
        raise CheckpointError(
            f"{path.parent} holds the checkpoint of another fit (other {', '.join(other)}). Remove "
            f"it, or choose another folder."
        )
    return dict(packed)


def _damaged(path: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{path} cannot be gone on from: it {error}. Remove {path.parent} to start again."
    )
