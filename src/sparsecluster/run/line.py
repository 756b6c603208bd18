"""Lines to workers beside Dask's connections: a socket with a thread at each end, for the many
small messages of a fit. They pass no event loop, which takes most of the time of such a round trip.

A worker opens a door, which is for one line, and says over Dask's connections where it is and which
token opens it. Where no line can be had (another network, TLS) messages go by Dask as well.
"""

from __future__ import annotations

import hmac
import importlib
import pickle
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np

OPEN_SECONDS = 2.0  # to open a line; then messages go by Dask
DOOR_SECONDS = 10.0  # in which somebody has to come
SMALL = 1 << 16  # bytes of frames that are sent in one go
TOKEN_BYTES = 32
WELCOME = b"sparsecluster"  # what a door says, signed by the token
COUNT_BYTES = 8
PLAIN = "tcp://"  # Dask's addresses without TLS
# A firewall may forget a line that is idle, and a machine may vanish: seconds until the first look,
# between looks, and how many of them come to nothing.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


class Broken(Exception):
    """A line ended before the answer came."""


@dataclass(frozen=True)
class Door:
    """Where a worker waits for a line."""

    host: str
    port: int
    token: bytes


# --- the worker's end ---------------------------------------------------------------------------


def open_door(address: str, answer: Callable[[Any], Any]) -> Door | None:
    """Wait for one line at the address of a Dask worker, in a thread, then answer what comes over
    it until it is closed. None where there is no door."""
    if not address.startswith(PLAIN):
        return None
    host = address.removeprefix(PLAIN).rsplit(":", 1)[0].strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family, backlog=1)
    except OSError:
        return None
    door = Door(host, listening.getsockname()[1], secrets.token_bytes(TOKEN_BYTES))
    given = (listening, door.token, answer)
    try:
        threading.Thread(target=_wait_for_line, args=given, daemon=True).start()
    except RuntimeError:  # there are no more threads
        listening.close()
        return None
    return door


def _wait_for_line(listening: socket.socket, token: bytes, answer: Callable[[Any], Any]) -> None:
    until = time.monotonic() + DOOR_SECONDS
    with suppress(OSError, Broken, MemoryError):
        with listening:
            listening.settimeout(DOOR_SECONDS)
            line, _ = listening.accept()
        with line:
            if not hmac.compare_digest(bytes(_received_bytes(line, TOKEN_BYTES, until)), token):
                return
            _keep(line)
            line.sendall(_welcome(token))
            while True:
                _answer(line, answer)


def _answer(line: socket.socket, answer: Callable[[Any], Any]) -> None:
    frames = _receive_frames(line)
    try:
        told = _frames_of(answer(_loaded(frames)))
    except Exception as error:  # what was sent cannot be understood here, or the answer not be sent
        told = _frames_of(RuntimeError(f"{type(error).__name__}: {error}"))
    _send_frames(line, told)


def _welcome(token: bytes) -> bytes:
    return hmac.digest(token, WELCOME, "sha256")


# --- the end of the process that asks -----------------------------------------------------------


def open_line(door: Door | None) -> Line | None:
    """A line through a door, if there is one that can be reached."""
    try:
        return None if door is None else Line(door)
    except (OSError, Broken, RuntimeError):
        return None


class Line:
    """A line to a worker. What is asked over it is answered in that order."""

    def __init__(self, door: Door) -> None:
        self._socket = socket.create_connection((door.host, door.port), timeout=OPEN_SECONDS)
        self._asked: SimpleQueue[tuple[Any, Future[Any]] | None] = SimpleQueue()
        try:
            self._socket.sendall(door.token)
            welcome = _welcome(door.token)
            until = time.monotonic() + OPEN_SECONDS
            if not hmac.compare_digest(
                bytes(_received_bytes(self._socket, len(welcome), until)), welcome
            ):
                raise Broken("something else answers")
            _keep(self._socket)
            threading.Thread(target=self._run, daemon=True).start()
        except BaseException:
            self._socket.close()
            raise

    def ask(self, value: Any) -> Future[Any]:
        """The answer to come; `Broken` where the line ends before."""
        future: Future[Any] = Future()
        self._asked.put((value, future))
        return future

    def close(self) -> None:
        """Answers that are still to come do not."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._asked.put(None)

    def _run(self) -> None:
        with self._socket:
            while (asked := self._asked.get()) is not None:
                self._answer(*asked)
                del asked  # nothing is held on to while there is nothing to do

    def _answer(self, value: Any, future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            try:
                _send_frames(self._socket, _frames_of(value))
                frames = _receive_frames(self._socket)
            except BaseException:  # nobody knows what comes next
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                raise
            told = _loaded(frames)
            if isinstance(told, Exception):
                raise told
            future.set_result(told)
        except BaseException as error:
            future.set_exception(Broken(str(error)) if isinstance(error, OSError) else error)
        finally:
            del value, future  # which the error would hold on to


# --- what goes over it --------------------------------------------------------------------------


def _keep(line: socket.socket) -> None:
    """For messages at any time: nothing waits, and what breaks is noticed."""
    line.settimeout(None)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _frames_of(value: Any) -> list[memoryview]:
    """A value as it travels: arrays as they are in memory."""
    dumps: Any = importlib.import_module("distributed.protocol").pickle.dumps
    buffers: list[pickle.PickleBuffer] = []
    pickled = dumps(value, buffer_callback=buffers.append)
    return [memoryview(pickled), *(buffer.raw() for buffer in buffers)]


def _loaded(frames: list[memoryview]) -> Any:
    loads: Any = importlib.import_module("distributed.protocol").pickle.loads
    pickled, *arrays = frames
    return loads(pickled, buffers=arrays)


def _send_frames(line: socket.socket, frames: list[memoryview]) -> None:
    sizes = [len(frames), *(frame.nbytes for frame in frames)]
    together = struct.pack(f"<{len(sizes)}Q", *sizes)
    for frame in frames:
        if frame.nbytes + len(together) <= SMALL:
            together += bytes(frame)
            continue
        line.sendall(together)
        line.sendall(frame)
        together = b""
    line.sendall(together)


def _receive_frames(line: socket.socket) -> list[memoryview]:
    (n_frames,) = _received_sizes(line, 1)
    return [_received_bytes(line, size) for size in _received_sizes(line, n_frames)]


def _received_sizes(line: socket.socket, n: int) -> tuple[int, ...]:
    # Bytes, and no iterator over the memory that they came into: CPython 3.11 crashes where it
    # collects both as garbage, as part of an error, in an order of its own.
    return struct.unpack(f"<{n}Q", bytes(_received_bytes(line, COUNT_BYTES * n)))


def _received_bytes(line: socket.socket, size: int, until: float | None = None) -> memoryview:
    """So many bytes, in memory of their own, as arrays want it; until some time, if it is given."""
    found = np.empty(size, dtype=np.uint8).data
    done = 0
    while done < size:
        if until is not None:
            line.settimeout(max(until - time.monotonic(), 1e-3))
        more = line.recv_into(found[done:])
        if more == 0:
            raise Broken("the line was closed")
        done += more
    return found
