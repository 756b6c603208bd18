"""Lines to workers beside Dask's connections: a socket with a thread at each end, for the many
small messages of a fit. They pass no event loop, which takes most of the time of such a round trip.

A worker opens a door for one line at a time, and says over Dask's connections where it is and which
token opens it. Where the line cannot be had (another network, TLS) messages go by Dask as well.
"""

from __future__ import annotations

import hmac
import importlib
import pickle
import secrets
import socket
import struct
import threading
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
COUNT = struct.Struct("<Q")
PLAIN = "tcp://"  # Dask's addresses without TLS


@dataclass(frozen=True)
class Door:
    """Where a worker waits for a line."""

    host: str
    port: int
    token: bytes


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
    listening.settimeout(DOOR_SECONDS)
    door = Door(host, listening.getsockname()[1], secrets.token_bytes(TOKEN_BYTES))
    threading.Thread(target=_serve, args=(listening, door.token, answer), daemon=True).start()
    return door


def _serve(listening: socket.socket, token: bytes, answer: Callable[[Any], Any]) -> None:
    with suppress(OSError, EOFError):
        with listening:
            line, _ = listening.accept()
        with line:
            line.settimeout(DOOR_SECONDS)
            if not hmac.compare_digest(bytes(_received_bytes(line, TOKEN_BYTES)), token):
                return
            line.settimeout(None)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                send(line, _answered(line, answer))


def _answered(line: socket.socket, answer: Callable[[Any], Any]) -> Any:
    try:
        return answer(receive(line))
    except (OSError, EOFError):  # of the line
        raise
    except Exception as error:  # of what was sent, which cannot be understood here
        return error


def open_line(door: Door | None) -> Line | None:
    """A line through a door, if there is one that can be reached."""
    try:
        return None if door is None else Line(door)
    except OSError:
        return None


class Line:
    """A line to a worker. What is asked over it is answered in that order."""

    def __init__(self, door: Door) -> None:
        self._socket = socket.create_connection((door.host, door.port), timeout=OPEN_SECONDS)
        self._socket.sendall(door.token)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked: SimpleQueue[tuple[Any, Future[Any]] | None] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, value: Any) -> Future[Any]:
        """The answer to come; an OSError or EOFError where the line breaks."""
        future: Future[Any] = Future()
        self._asked.put((value, future))
        return future

    def close(self) -> None:
        """Answers that are still to come do not."""
        self._asked.put(None)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        with self._socket:
            while (asked := self._asked.get()) is not None:
                self._answer(*asked)
                del asked  # nothing is held on to while there is nothing to do

    def _answer(self, value: Any, future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            send(self._socket, value)
            told = receive(self._socket)
            if isinstance(told, Exception):
                raise told
            future.set_result(told)
        except BaseException as error:
            future.set_exception(error)


def send(line: socket.socket, value: Any) -> None:
    """Send a value: arrays as they are in memory."""
    dumps: Any = importlib.import_module("distributed.protocol").pickle.dumps
    buffers: list[pickle.PickleBuffer] = []
    pickled = dumps(value, buffer_callback=buffers.append)
    frames = [memoryview(pickled), *(buffer.raw() for buffer in buffers)]
    sizes = [len(frames), *(frame.nbytes for frame in frames)]
    together = b"".join(COUNT.pack(size) for size in sizes)
    for frame in frames:
        if frame.nbytes + len(together) <= SMALL:
            together += bytes(frame)
            continue
        line.sendall(together)
        line.sendall(frame)
        together = b""
    line.sendall(together)


def receive(line: socket.socket) -> Any:
    """The value that was sent."""
    loads: Any = importlib.import_module("distributed.protocol").pickle.loads
    (n_frames,) = COUNT.unpack(_received_bytes(line, COUNT.size))
    told = _received_bytes(line, COUNT.size * n_frames)
    pickled, *arrays = [_received_bytes(line, size) for (size,) in COUNT.iter_unpack(told)]
    return loads(pickled, buffers=arrays)


def _received_bytes(line: socket.socket, size: int) -> memoryview:
    """So many bytes, in memory of their own, as arrays want it."""
    found = np.empty(size, dtype=np.uint8).data
    done = 0
    while done < size:
        more = line.recv_into(found[done:])
        if more == 0:
            raise EOFError("the line was closed")
        done += more
    return found
