"""Calls of parts of the data on Dask workers. A worker that goes takes nothing along that cannot be
made again: its parts are restored elsewhere, and what was asked is asked once more."""

from __future__ import annotations

import itertools
import logging
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future as PoolFuture
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any

from sparsecluster.rows.errors import counted
from sparsecluster.run.history import Machines
from sparsecluster.run.session import Call, Factory, Merge, Session
from sparsecluster.run.worker import (
    Answer,
    Missing,
    Request,
    answer,
    drop,
    merge_answers,
    shared_by_all,
)

LOGGER = logging.getLogger("sparsecluster")
ANSWER_SECONDS = 10.0  # to wait for what takes a worker no time
WORKER_SECONDS = 30.0  # to wait for a worker where there is none
SILENT_SECONDS = 30.0  # without a sign of life, after which a worker is taken for dead
LOOK_SECONDS = 0.5  # between two looks at which workers are alive
FAN_IN = 8
MOST_LOSSES = 8  # of workers that had the same call of a part
SUSPICIOUS = 3  # losses after which a part is called while no other is
INLINE_BYTES = 1 << 16  # of what goes with every call; more goes to each worker once


class WorkersLost(RuntimeError):
    """There is nobody left to work, or whoever takes a part of the data dies."""


class DaskSession(Session):
    """The parts of a fit on the workers."""

    def __init__(self, client: Any, factory: Factory, specs: list[dict[str, Any]]) -> None:
        super().__init__(factory, specs)
        self.rebuilt = 0  #: parts that were restored, after their worker went
        self._client = client
        self._fit = uuid.uuid4().hex[:12]
        self._turns = 0
        self._homes: dict[int, str] = {}  # the worker of each part
        self._made: set[int] = set()  # parts that answered before
        self._keys = itertools.count()
        self._looked: tuple[float, set[str]] = (-LOOK_SECONDS, set())  # when, and who was alive

    @property
    def machines(self) -> Machines:
        """Who computes."""
        return Machines(len(set(self._homes.values())), self.rebuilt)

    def close(self) -> None:
        """Let go of all parts, on all workers that answer."""
        with suppress(Exception):  # where the scheduler is gone, so are the parts
            everywhere(self._client, drop, self._fit, silent=True)

    # --- one call of all parts ----------------------------------------------------------------

    def _called(self, call: Call) -> Any:
        answers: dict[tuple[int, ...], Any] = {}
        to_ask, losses = set(range(self.n_parts)), Counter[int]()
        lost = to_ask - self._made  # whose worker does not have them
        while to_ask:
            asked = self._suspects(losses) & to_ask or set(to_ask)
            alive = self._alive(anew=bool(losses))
            lost |= self._place(asked, alive)
            found = self._asked(call, asked, lost, alive)
            for one in found:
                if isinstance(one, Answer):
                    answers[one.parts] = one.value
                    to_ask -= set(one.parts)
                    self._made |= set(one.parts)
                    lost -= set(one.parts)
                else:
                    lost |= set(one.parts)
            told = {number for one in found for number in one.parts}
            losses.update(asked - told)
            if losses and max(losses.values()) >= MOST_LOSSES:
                self._give_up(max(losses, key=lambda number: losses[number]))
            if to_ask:
                LOGGER.info("Asking %s again.", counted(len(to_ask), "part"))
        self._turns += call.changes
        if call.merge is None:
            return [answers[number,] for number in range(self.n_parts)]
        return call.merge(list(answers.values()))

    def _asked(
        self, call: Call, asked: set[int], lost: set[int], alive: set[str]
    ) -> list[Answer | Missing]:
        """The answers of some parts; without those of workers that went."""
        homes = sorted({self._homes[number] for number in asked})
        shared = self._shared(call.shared, homes)
        futures = {}
        for number in sorted(asked):
            spec, blocks = self._spec(number) if number in lost else (None, None)
            request = Request(
                fit=self._fit,
                number=number,
                factory=self._factory,
                turn=self._turns,
                changes=call.changes,
                method=call.method,
                spec=spec,
                recipe=None if spec is None else self.recipe_of(number),
            )
            key = f"sparsecluster-{self._fit}-{call.method}-{number}-{next(self._keys)}"
            given = (request, shared, call.arguments(number), blocks)
            home = [self._homes[number]]
            futures[number] = self._client.submit(answer, *given, key=key, workers=home, pure=False)
        return self._collected(futures, call.merge, alive)

    def _spec(self, number: int) -> tuple[dict[str, Any], list[Any] | None]:
        """What makes a part, and the blocks of rows in it, which Dask has or makes."""
        spec = dict(self._specs[number])
        blocks = spec.pop("blocks", None)
        return spec, None if blocks is None else self._client.compute(blocks)

    @staticmethod
    def _suspects(losses: Counter[int]) -> set[int]:
        """The part that is asked alone, because whoever has it is lost; not those beside it."""
        found = [number for number, count in losses.most_common(1) if count >= SUSPICIOUS]
        return set(found)

    def _give_up(self, number: int) -> None:
        spec = self._specs[number]
        where = f"Rows {spec['begin']} to {spec['end'] - 1}" if "begin" in spec else "A part"
        raise WorkersLost(
            f"{where} lost their worker {MOST_LOSSES} times. Workers that die for lack of memory "
            f"need more of it, or smaller parts: more workers."
        )

    def _place(self, parts: set[int], alive: set[str]) -> set[int]:
        """Find a worker for each of these parts; which of them have to move."""
        moved = set()
        load = Counter(home for home in self._homes.values() if home in alive)
        for part in sorted(parts):
            if self._homes.get(part) in alive:
                continue
            if part in self._homes:
                self.rebuilt += part in self._made
                moved.add(part)
            self._homes[part] = min(alive, key=lambda worker: (load[worker], worker))
            load[self._homes[part]] += 1
        return moved

    def _alive(self, *, anew: bool) -> set[str]:
        """Workers that are there, or were a moment ago unless that is not enough."""
        began = time.monotonic()
        if not anew and began < self._looked[0] + LOOK_SECONDS:
            return self._looked[1]
        while not (found := living(self._client)):
            if time.monotonic() > began + WORKER_SECONDS:
                raise WorkersLost(
                    f"No Dask worker is left, and none came back within {WORKER_SECONDS:g} seconds."
                )
            time.sleep(LOOK_SECONDS / 5)
        self._looked = time.monotonic(), found
        return found

    def _shared(self, shared: dict[str, Any], homes: list[str]) -> Any:
        """What all parts get: with every call, or to each worker once where it is large."""
        if _n_bytes(shared) <= INLINE_BYTES:
            return shared
        # As a task, which Dask does again where its worker dies; what is scattered would be gone.
        # Not on a worker that is silent.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            key = f"sparsecluster-{self._fit}-shared-{next(self._keys)}"
            return self._client.submit(
                shared_by_all, shared, key=key, workers=homes, allow_other_workers=True, pure=False
            )

    def _collected(
        self, futures: dict[int, Any], merge: Merge | None, alive: set[str]
    ) -> list[Answer | Missing]:
        """Answers as they come, merged on the workers where they are many. Where a worker goes
        there may be no answer that had to do with it, and none is waited for."""
        asked: list[tuple[tuple[int, ...], Any]] = [
            ((number,), future) for number, future in futures.items()
        ]
        while merge is not None and len(asked) > FAN_IN:
            # Inner answers stay where they are; only the last few come here.
            asked = [
                self._merged(merge, asked[begin : begin + FAN_IN])
                for begin in range(0, len(asked), FAN_IN)
            ]
        found: list[Answer | Missing] = []
        with _watched(asked) as pending:
            while pending:
                done, _ = wait(list(pending), timeout=LOOK_SECONDS)
                for one in done:
                    del pending[one]
                    if (result := _result(one)) is not None:
                        found.append(result)
                if not pending or done or alive <= living(self._client):
                    continue
                # What a task needs may be on its way from the worker that went.
                for group, future in list(pending.values()):
                    future.cancel(force=True)  # which ends the wait for it
                    for number in group:
                        futures[number].cancel(force=True)
        return found

    def _merged(
        self, merge: Merge, some: list[tuple[tuple[int, ...], Any]]
    ) -> tuple[tuple[int, ...], Any]:
        """A task that merges some answers, on the workers that give them."""
        group = sum((parts for parts, _ in some), ())
        homes = sorted({self._homes[number] for number in group})
        futures = [future for _, future in some]
        return group, self._client.submit(
            merge_answers, merge, *futures, workers=homes, allow_other_workers=True, pure=False
        )


def living(client: Any, *, silent: bool = False) -> set[str]:
    """Workers that gave a sign of life lately. One that is stopped is not among them, long before
    Dask gives it up (`distributed.scheduler.worker-ttl`); unless silent ones are asked for, too."""
    workers = client.sync(client.scheduler.identity)["workers"]
    # By the clock of the scheduler, which knows when it heard of each.
    latest = max((worker["last_seen"] for worker in workers.values()), default=0.0)
    return {
        address
        for address, worker in workers.items()
        if silent or worker["last_seen"] > latest - SILENT_SECONDS
    }


def everywhere(client: Any, function: Any, *arguments: Any, silent: bool = False) -> dict[str, Any]:
    """What a function says on each worker that answers; what it raises where it does. A worker that
    hangs holds up nobody for long, and what is wrong with one that goes is not said. Silent workers
    are asked as well if wanted, and are not waited for."""
    asked: dict[str, PoolFuture[Any]] = {}

    def ask(worker: str) -> None:
        try:
            told = client.run(function, *arguments, workers=[worker], on_error="return")
        except Exception:  # a worker that is gone by now, or a client
            told = {}
        asked[worker].set_result(told)

    heard = living(client)
    for worker in sorted(living(client, silent=silent)):
        asked[worker] = PoolFuture()
        # Not by a pool, for whose threads the interpreter would wait when it ends.
        threading.Thread(target=ask, args=(worker,), daemon=True).start()
    done, _ = wait([asked[worker] for worker in heard if worker in asked], timeout=ANSWER_SECONDS)
    found: dict[str, Any] = {}
    for one in done:
        found |= one.result()
    return {worker: told for worker, told in found.items() if not isinstance(told, OSError)}


@contextmanager
def _watched(asked: list[tuple[tuple[int, ...], Any]]) -> Iterator[dict[PoolFuture[Any], Any]]:
    """Results of futures as they come, each waited for by a thread, so that none is waited for in
    vain: what is cancelled ends. All are cancelled where the caller is interrupted."""
    pool = ThreadPoolExecutor(max(len(asked), 1))
    try:
        yield {pool.submit(future.result): (group, future) for group, future in asked}
    except BaseException:
        for _, future in asked:
            with suppress(Exception):
                future.cancel(force=True)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _result(done: PoolFuture[Any]) -> Any:
    """What a worker answered; None where it, or what it was given, is gone."""
    from concurrent.futures import CancelledError as PoolCancelled

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        return done.result()
    except (KilledWorker, FutureCancelledError, PoolCancelled, CommClosedError):
        return None


def _n_bytes(value: Any) -> int:
    """Bytes of the arrays in it."""
    if isinstance(value, dict):
        return sum(map(_n_bytes, value.values()))
    if isinstance(value, tuple | list):
        return sum(map(_n_bytes, value))
    return int(getattr(value, "nbytes", 0))
