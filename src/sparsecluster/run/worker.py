"""What a Dask worker keeps of a fit, and how it answers calls, which reach it directly: they are no
tasks, so the scheduler has nothing to do with them."""

from __future__ import annotations

import asyncio
import importlib
import pickle
import threading
import time
import traceback
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future as PoolFuture
from dataclasses import dataclass, field
from typing import Any

from sparsecluster.rows.sharing import share_out
from sparsecluster.run.line import Door, open_door
from sparsecluster.run.session import Factory, Leave, Merge, Recipe
from sparsecluster.version import __version__

FORGOTTEN = 600.0  # seconds after which parts go that nobody asks for: they can be made again
ONE_PIECE = 1 << 20  # bytes of arrays up to which a message travels in one piece


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call of a part."""

    fit: str
    number: int  #: of the part
    factory: Factory
    turn: int  #: turns before this call
    changes: bool  #: whether it is a turn itself
    method: str
    own: dict[str, Any]  #: arguments that are the part's own
    spec: dict[str, Any] | None  #: what makes the part, where the worker may need it
    recipe: Recipe | None  #: what restores it then
    delivered: bool  #: whether Dask brought the blocks that it is made of
    anew: bool  #: whether it does not matter which turns the part took
    #: the workers of all parts, where it is given what these left for it
    homes: tuple[str, ...] | None
    version: str = __version__  #: of the package where the call comes from


@dataclass(frozen=True)
class Errand:
    """What a worker is to do: call its own parts, and pass on what others are to do."""

    requests: list[Request]
    others: dict[str, Errand]  #: by their addresses


@dataclass(frozen=True)
class Sent:
    """An errand as it travels, with what is the same for all parts."""

    errand: Errand
    shared: dict[str, Any]
    merge: Merge | None


@dataclass(frozen=True)
class Answer:
    """What a part said."""

    value: Any
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Missing:
    """A part that is to be called again, with a recipe: the worker does not have it."""

    part: int


@dataclass(frozen=True)
class Left:
    """What some parts left for another one, as it travels; None: a part is not as it should be."""

    values: list[Any] | None


@dataclass(frozen=True)
class Failed:
    """What a part raised, and where."""

    error: Exception
    trace: str


@dataclass(frozen=True)
class Lost:
    """A worker that did not answer: it is gone, or out of reach."""

    address: str


Outcome = Answer | Missing | Failed | Lost


@dataclass(frozen=True)
class Outcomes:
    """Those of an errand, as they travel."""

    all: list[Outcome]


@dataclass
class _Held:
    """A part, and where it is."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    part: Any = None
    turn: int = 0
    answer: Any = None  #: of the last turn
    left: dict[int, Leave | None] = field(default_factory=dict)  #: by the last two turns
    waiting: PoolFuture[Any] | None = None  #: for what other parts left
    blocks: list[Any] | None = None  #: that the part is about to be made of
    used: float = 0.0
    latest: Request | None = None  #: the call that came last: those before were given up

    def comes(self, request: Request) -> bool:
        """Take a call for the latest one, unless it is late itself."""
        with _guard:
            if self.latest is not None and request.turn < self.latest.turn:
                return False
            self.latest = request
        self.give_up()  # what the call before waits for
        return True

    def give_up(self) -> None:
        """Wait no longer for what other parts left: nobody waits for the answer any more."""
        if (waiting := self.waiting) is not None:
            waiting.cancel()


_held: dict[tuple[str, int], _Held] = {}
_ended: deque[str] = deque(maxlen=1000)  # fits that are over: what still comes of them is too late
_guard = threading.Lock()
_looking = False  # whether a timer looks for parts that nobody asks for


# --- errands ------------------------------------------------------------------------------------


def serve(dask_worker: Any) -> None:
    """Have a worker take errands."""

    neighbors = Neighbors(dask_worker, asyncio.get_running_loop())

    # Dask asks handlers for their names.
    async def sparsecluster_errand(sent: Any) -> Any:
        found = await _done(neighbors, _unpacked(sent))
        return {"found": _packed(Outcomes(found))}

    async def sparsecluster_door() -> Any:
        door = open_door(dask_worker.address, lambda sent: _done_here(neighbors, sent))
        return {"door": _packed(door)}

    async def sparsecluster_left(fit: str, numbers: Any, turn: int, reader: int) -> Any:
        return {"left": _packed(Left(_left_by(fit, numbers, turn, reader)))}

    dask_worker.handlers["sparsecluster_errand"] = sparsecluster_errand
    dask_worker.handlers["sparsecluster_door"] = sparsecluster_door
    dask_worker.handlers["sparsecluster_left"] = sparsecluster_left


async def send_errand(pool: Any, address: str, sent: Sent) -> list[Outcome]:
    """What comes of an errand, over a connection of a pool."""
    try:
        told = await pool(address).sparsecluster_errand(sent=_packed(sent))
    except OSError:  # of the connection: what a part raises comes as a `Failed`
        told = None
    # None is also what another process says that has the address by now.
    return [Lost(address)] if told is None else _unpacked(told["found"]).all


def _packed(value: Any) -> Any:
    """A value as Dask sends it. Each array that is a frame of its own costs both sides more than a
    copy, unless it is large: small values travel as bytes, in one piece.

    It is an object of ours, which is pickled as one, where Dask would go through a list or a dict
    element by element.
    """
    protocol: Any = importlib.import_module("distributed.protocol")
    buffers: list[pickle.PickleBuffer] = []
    pickled = protocol.pickle.dumps(value, buffer_callback=buffers.append)
    arrays = [buffer.raw() for buffer in buffers]
    if len(pickled) + sum(array.nbytes for array in arrays) > ONE_PIECE:
        return protocol.to_serialize(value)
    return [pickled, *(bytes(array) for array in arrays)]


def _unpacked(message: Any) -> Any:
    """The value that was sent."""
    if not isinstance(message, list | tuple):
        return message  # which Dask put together
    protocol: Any = importlib.import_module("distributed.protocol")
    pickled, *arrays = message
    return protocol.pickle.loads(pickled, buffers=arrays)


async def find_door(pool: Any, address: str) -> Door | None:
    """Where a worker waits for a line, if it does."""
    try:
        told = await pool(address).sparsecluster_door()
    except OSError:
        return None
    return None if told is None else _unpacked(told["door"])


async def _done(neighbors: Neighbors, sent: Sent) -> list[Outcome]:
    """The outcomes for all parts of an errand; answers as one where there is a function for that.

    Parts work in threads, so that the worker gives signs of life meanwhile.
    """
    here = asyncio.to_thread(_done_here, neighbors, sent)
    there = [
        send_errand(neighbors.worker.rpc, address, Sent(other, sent.shared, sent.merge))
        for address, other in sent.errand.others.items()
    ]
    found, *others = await asyncio.gather(here, *there)
    if not others:
        return found
    return await asyncio.to_thread(_merged, sent.merge, sum(others, found))


def _done_here(neighbors: Neighbors, sent: Sent) -> list[Outcome]:
    """The same for the parts of this worker."""
    requests, n_threads = sent.errand.requests, int(neighbors.worker.state.nthreads)

    def outcome(number: int) -> Outcome:
        return _outcome(requests[number], sent.shared, n_threads, neighbors)

    return _merged(sent.merge, share_out(outcome, len(requests), len(requests)))


def _outcome(
    request: Request, shared: dict[str, Any], n_threads: int, neighbors: Neighbors
) -> Outcome:
    try:
        return answer(request, shared, n_threads, neighbors)
    except NeighborLost as lost:
        return Lost(lost.address)
    except Exception as error:
        return Failed(_sendable(error), traceback.format_exc())


def _sendable(error: Exception) -> Exception:
    """An error as it can travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _merged(merge: Merge | None, found: list[Outcome]) -> list[Outcome]:
    """The same with one answer in the place of several, where there is a function for that."""
    if merge is None:
        return found
    answers = [one for one in found if isinstance(one, Answer)]
    if len(answers) < 2:
        return found
    parts = tuple(number for one in answers for number in one.parts)
    merged = Answer(merge([one.value for one in answers]), parts)
    return [merged, *(one for one in found if not isinstance(one, Answer))]


# --- parts --------------------------------------------------------------------------------------


def answer(
    request: Request, shared: dict[str, Any], n_threads: int, neighbors: Neighbors
) -> Answer | Missing:
    """Call a part of this worker; rebuild it first where it is missing or behind."""
    if request.version != __version__:
        raise RuntimeError(
            f"A worker has sparsecluster {__version__}, the driver {request.version}: install the "
            f"same version on all machines."
        )
    held = _hold((request.fit, request.number))
    if held is None:
        return Missing(request.number)
    if not held.comes(request):
        return Missing(request.number)  # nobody waits for it any more
    with held.lock:
        if held.latest is not request:
            return Missing(request.number)
        held.used = time.monotonic()
        if request.anew and held.part is not None:
            held.turn = request.turn
        if request.changes and held.part is not None and held.turn == request.turn + 1:
            return Answer(held.answer, (request.number,))
        if held.part is None or held.turn != request.turn:
            if request.spec is None or (request.delivered and held.blocks is None):
                return Missing(request.number)
            held.part = None
            held.part = _made(request, held, n_threads)
            held.turn, held.answer = request.turn, None
        given = {}
        if request.homes is not None:
            given = {"given": neighbors.given(request, held)}
        part, held.part = held.part, None  # where the call fails there is nothing to go on with
        value = getattr(part, request.method)(**shared, **request.own, **given)
        held.part, held.used = part, time.monotonic()
        if request.changes:
            last, held.turn, held.answer = held.left.get(held.turn), request.turn + 1, value
            # Others may still ask for what was left in the turn before.
            held.left = {request.turn: last, held.turn: getattr(part, "left", None)}
        return Answer(value, (request.number,))


def _made(request: Request, held: _Held, n_threads: int) -> Any:
    """A part, as it was after the last turn."""
    assert request.spec is not None
    spec = request.spec
    if request.delivered:
        spec, held.blocks = {**spec, "blocks": held.blocks}, None
    part = request.factory(spec, n_threads)
    if request.recipe is not None:
        part.restore(request.recipe)
    return part


def deliver(fit: str, number: int, blocks: list[Any]) -> None:
    """Take the blocks of rows that Dask made for a part: a task, unlike all else."""
    if (held := _hold((fit, number))) is not None:
        held.blocks = blocks


def drop(fit: str) -> None:
    """Let go of all parts of a fit."""
    with _guard:
        _ended.append(fit)
        for key in [key for key in _held if key[0] == fit]:
            held = _held.pop(key)
            held.latest = None
            held.give_up()


# --- what parts leave for each other ------------------------------------------------------------


class NeighborLost(Exception):
    """A worker did not give what a part on it left."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


class Neighbors:
    """A worker and others, for the threads in which its parts work."""

    def __init__(self, worker: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.worker, self._loop = worker, loop

    def given(self, request: Request, held: _Held) -> list[Any]:
        """What each part left for this one in the last turn."""
        homes: dict[str, list[int]] = {}
        for number, home in enumerate(request.homes or ()):
            homes.setdefault(home, []).append(number)
        held.waiting = asyncio.run_coroutine_threadsafe(self._asked(request, homes), self._loop)
        if held.latest is not request:
            held.waiting.cancel()
        try:
            found = held.waiting.result()
        finally:
            held.waiting = None
        return [found[number] for number in range(len(found))]

    async def _asked(self, request: Request, homes: dict[str, list[int]]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        asked = [self._left_at(request, home, numbers) for home, numbers in homes.items()]
        for numbers, values in zip(homes.values(), await asyncio.gather(*asked), strict=True):
            found.update(zip(numbers, values, strict=True))
        return found

    async def _left_at(self, request: Request, home: str, numbers: list[int]) -> list[Any]:
        fit, turn, reader = request.fit, request.turn, request.number
        if home == self.worker.address:
            values = _left_by(fit, numbers, turn, reader)
        else:
            try:
                told = await self.worker.rpc(home).sparsecluster_left(
                    fit=fit, numbers=numbers, turn=turn, reader=reader
                )
            except OSError:
                told = None
            values = None if told is None else _unpacked(told["left"]).values
        if values is None:
            raise NeighborLost(home)
        return values


def _left_by(fit: str, numbers: Sequence[int], turn: int, reader: int) -> list[Any] | None:
    """What some parts of this worker left for another one in the turn that made so many."""
    found = []
    for number in numbers:
        held = _held.get((fit, number))
        left = None if held is None else held.left.get(turn)
        if left is None:
            return None
        found.append(left(reader))
    return found


def n_held() -> int:
    """Parts that this process holds, of all fits."""
    return len(_held)


def _hold(key: tuple[str, int]) -> _Held | None:
    """The place of a part; None where its fit is over."""
    now = time.monotonic()
    with _guard:
        if key[0] in _ended:
            return None
        if key not in _held:
            _forget_later()
        return _held.setdefault(key, _Held(used=now))


def _forget_later() -> None:
    """Look for parts that nobody asks for, once there are some."""
    global _looking
    if _looking:
        return
    _looking = True
    timer = threading.Timer(FORGOTTEN, _forget)
    timer.daemon = True
    timer.start()


def _forget() -> None:
    global _looking
    now = time.monotonic()
    with _guard:
        # What is at work counts from its end.
        old = [
            key
            for key, held in _held.items()
            if now - held.used > FORGOTTEN and not held.lock.locked()
        ]
        for key in old:
            del _held[key]
        _looking = False
        if _held:
            _forget_later()
