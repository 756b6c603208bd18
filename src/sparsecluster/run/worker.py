"""What a Dask worker keeps of a fit, and how it answers a call."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from sparsecluster.run.session import Factory, Merge, Recipe
from sparsecluster.version import __version__

FORGOTTEN = 600.0  # seconds after which parts go that nobody asks for: they can be made again


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call of a part."""

    fit: str
    number: int  #: of the part
    factory: Factory
    turn: int  #: turns before this call
    changes: bool  #: whether it is a turn itself
    method: str
    spec: dict[str, Any] | None  #: what makes the part, where the worker may need it
    recipe: Recipe | None  #: what restores it then
    version: str = __version__  #: of the package where the call comes from


@dataclass(frozen=True)
class Answer:
    """What a part said."""

    value: Any
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Missing:
    """Parts that are to be called again, with a recipe: the worker does not have them."""

    parts: tuple[int, ...]


@dataclass
class _Held:
    """A part, and where it is."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    part: Any = None
    turn: int = 0
    answer: Any = None  #: of the last turn
    used: float = 0.0


_held: dict[tuple[str, int], _Held] = {}
_ended: deque[str] = deque(maxlen=1000)  # fits that are over: what still comes of them is too late
_guard = threading.Lock()


def answer(
    request: Request,
    shared: dict[str, Any],
    own: dict[str, Any],
    blocks: list[Any] | None = None,
) -> Answer | Missing:
    """Call a part of this worker; rebuild it first where it is missing or behind. Blocks of rows
    that Dask made for it belong to its specification."""
    if request.version != __version__:
        raise RuntimeError(
            f"A worker has sparsecluster {__version__}, the driver {request.version}: install the "
            f"same version on all machines."
        )
    held = _hold((request.fit, request.number))
    if held is None:
        return Missing((request.number,))
    with held.lock:
        held.used = time.monotonic()
        if request.changes and held.part is not None and held.turn == request.turn + 1:
            return Answer(held.answer, (request.number,))
        if held.part is None or held.turn != request.turn:
            if request.spec is None:
                return Missing((request.number,))
            held.part = None
            spec = request.spec if blocks is None else {**request.spec, "blocks": blocks}
            part = request.factory(spec, _n_threads())
            if request.recipe is not None:
                part.restore(request.recipe)
            held.part, held.turn, held.answer = part, request.turn, None
        part, held.part = held.part, None  # where the call fails there is nothing to go on with
        value = getattr(part, request.method)(**shared, **own)
        held.part, held.used = part, time.monotonic()
        if request.changes:
            held.turn, held.answer = request.turn + 1, value
        return Answer(value, (request.number,))


def shared_by_all(value: dict[str, Any]) -> dict[str, Any]:
    """What goes to all workers, from one to the next."""
    return value


def merge_answers(merge: Merge, *answers: Answer | Missing) -> Answer | Missing:
    """Several answers as one."""
    missing = tuple(n for one in answers if isinstance(one, Missing) for n in one.parts)
    if missing:
        return Missing(missing)
    given = [one for one in answers if isinstance(one, Answer)]
    parts = tuple(number for one in given for number in one.parts)
    return Answer(merge([one.value for one in given]), parts)


def drop(fit: str) -> None:
    """Let go of all parts of a fit."""
    with _guard:
        _ended.append(fit)
        for key in [key for key in _held if key[0] == fit]:
            del _held[key]


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
    timer = threading.Timer(FORGOTTEN, _forget)
    timer.daemon = True
    timer.start()


def _forget() -> None:
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
        if _held:
            _forget_later()


def _n_threads() -> int:
    """Threads of this worker: the nanny's limits for other libraries are not meant for it."""
    from distributed import get_worker

    return int(get_worker().state.nthreads)
