"""Calls of parts of the data on Dask workers, which are reached directly. What a worker takes along
when it goes can be made again: its parts are restored elsewhere, and asked once more."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future as PoolFuture
from concurrent.futures import wait
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from sparsecluster.rows.errors import WorkersLost, counted
from sparsecluster.rows.sharing import share_out
from sparsecluster.run.history import Machines
from sparsecluster.run.line import OPEN_SECONDS, Broken, Line, open_line
from sparsecluster.run.session import Call, Factory, PartsLost, Session
from sparsecluster.run.worker import (
    Answer,
    Errand,
    Failed,
    Lost,
    Missing,
    Outcome,
    Request,
    Sent,
    deliver,
    drop,
    find_door,
    send_errand,
    serve,
)

LOGGER = logging.getLogger("sparsecluster")
ANSWER_SECONDS = 10.0  # to wait for what takes a worker no time
WORKER_SECONDS = 30.0  # to wait for a worker where there is none
NO_WORKER = f"No Dask worker is left, and none came back within {WORKER_SECONDS:g} seconds."
SILENT_SECONDS = 30.0  # without a sign of life, after which a worker is taken for dead
LOOK_SECONDS = 0.5  # between two looks at which workers are alive
FAN_IN = 8
MOST_LOSSES = 8  # of workers that had the same call of a part
SUSPICIOUS = 3  # losses after which a part is called while no other is


class WorkerTraceback(Exception):
    """Where on a worker an error arose."""


class DaskSession(Session):
    """The parts of a fit on the workers."""

    def __init__(
        self,
        client: Any,
        factory: Factory,
        specs: list[dict[str, Any]],
        *,
        serving: Collection[str] = (),
    ) -> None:
        super().__init__(factory, specs)
        self.rebuilt = 0  #: parts that were restored, after their worker went
        self._client = client
        self._fit = uuid.uuid4().hex[:12]
        self._turns = 0
        self._homes: dict[int, str] = {}  # the worker of each part
        self._made: set[int] = set()  # parts that answered before
        self._losses: Counter[int] = Counter()  # of workers, by part, since progress
        self._serving = set(serving)  # workers that take errands
        self._lines: dict[str, Line | None] = {}  # to those that are asked directly; None: by Dask
        self._avoided: dict[str, float] = {}  # workers that were lost, and when

    @property
    def machines(self) -> Machines:
        """Who computes."""
        return Machines(len(set(self._homes.values())), self.rebuilt)

    def close(self) -> None:
        """Let go of all parts, on all workers that answer."""
        self._close_lines(list(self._lines))
        with suppress(Exception):  # where the scheduler is gone, so are the parts
            everywhere(self._client, drop, self._fit, silent=True)

    # --- one call of all parts ----------------------------------------------------------------

    def _called(self, call: Call) -> Any:
        answers: dict[tuple[int, ...], Any] = {}
        to_ask = set(range(self.n_parts))
        while to_ask:
            asked = self._suspects(call) & to_ask or set(to_ask)
            self._place(asked)
            found, gone = self._outcomes(call, asked, asked - self._made)
            for one in found:
                if isinstance(one, Answer):
                    answers[one.parts] = one.value
                    to_ask -= set(one.parts)
                    self._made |= set(one.parts)
                elif isinstance(one, Missing):
                    self._made.discard(one.part)
            lost = [number for number in asked & to_ask if self._homes[number] in gone]
            self._losses.update(lost)
            self._forget_workers(gone)
            if lost and max(self._losses.values()) >= MOST_LOSSES:
                self._refuse(max(self._losses, key=lambda number: self._losses[number]))
            if self.recover is not None and not asked <= self._made:
                self._turns += 2  # further than any part is
                if call.changes:
                    raise PartsLost
                self.recover()
            if to_ask:
                LOGGER.info("Asking %s again.", counted(len(to_ask), "part"))
        if self.recover is None:
            self.made_progress()
        self._turns += call.changes
        if call.merge is None:
            return [answers[number,] for number in range(self.n_parts)]
        return call.merge(list(answers.values()))

    def made_progress(self) -> None:
        """Losses from now on have nothing to do with those before."""
        self._losses.clear()

    def _outcomes(
        self, call: Call, asked: set[int], unmade: set[int]
    ) -> tuple[list[Outcome], set[str]]:
        """The outcomes for some parts, and the workers that went meanwhile."""
        gone = self._delivered(asked & unmade)
        if gone:
            return [], gone
        requests: dict[str, list[Request]] = {}
        homes = tuple(home for _, home in sorted(self._homes.items()))
        for number in sorted(asked):
            spec = self._specs[number] if number in unmade else None
            delivered = spec is not None and "blocks" in spec
            request = Request(
                fit=self._fit,
                number=number,
                factory=self._factory,
                turn=self._turns,
                changes=call.changes,
                method=call.method,
                own=call.arguments(number),
                spec={**spec, "blocks": None} if spec is not None and delivered else spec,
                recipe=None if spec is None else self.recipe_of(number),
                delivered=delivered,
                anew=call.anew,
                homes=homes if call.given else None,
            )
            requests.setdefault(self._homes[number], []).append(request)
        errands = _errands(requests, FAN_IN if call.merge else len(requests))
        return self._collected(call, errands)

    def _collected(self, call: Call, errands: dict[str, Errand]) -> tuple[list[Outcome], set[str]]:
        """The outcomes as they come. None is waited for in which a worker has a part that went."""
        self._open_lines(errands)
        pending: dict[PoolFuture[list[Outcome]], str] = {}  # and who was asked
        needed: dict[str, set[str]] = {}  # workers without which one does not answer
        found: list[Outcome] = []
        gone: set[str] = set()
        try:
            for home, errand in errands.items():
                sent, line = Sent(errand, call.shared, call.merge), self._lines.get(home)
                if line is None or errand.others:
                    pending[self._ask_by_dask(home, sent)] = home
                else:
                    pending[line.ask(sent)] = home
                # Parts that are given what others left cannot go on without these.
                needed[home] = set(self._homes.values()) if call.given else _addresses(home, errand)
            while pending:
                done, _ = wait(list(pending), timeout=LOOK_SECONDS)
                for one in done:
                    home = pending.pop(one)
                    try:
                        found += one.result()
                    except Broken:  # its line, if not the worker
                        told = self._ask_without_line(
                            home, Sent(errands[home], call.shared, call.merge)
                        )
                        if told is None:
                            found.append(Lost(home))
                        else:
                            pending[told] = home
                if not done:
                    alive = living(self._client)
                    for one in [one for one, home in pending.items() if not needed[home] <= alive]:
                        home = pending.pop(one)
                        gone |= needed[home] - alive
                        self._give_up(one, home)
        finally:  # also where the caller is interrupted
            for one, home in pending.items():
                self._give_up(one, home)
        for outcome in found:
            if isinstance(outcome, Failed):
                raise outcome.error from WorkerTraceback(outcome.trace)
        return found, gone | {outcome.address for outcome in found if isinstance(outcome, Lost)}

    def _ask_by_dask(self, home: str, sent: Sent) -> PoolFuture[list[Outcome]]:
        told = send_errand(self._client.rpc, home, sent)
        return asyncio.run_coroutine_threadsafe(told, self._client.loop.asyncio_loop)

    def _ask_without_line(self, home: str, sent: Sent) -> PoolFuture[list[Outcome]] | None:
        """Ask a worker once more whose line broke; None where it is gone as well."""
        self._close_lines({home})
        if home not in living(self._client):
            return None
        _lineless.setdefault(self._client, set()).add(home)
        return self._ask_by_dask(home, sent)

    def _give_up(self, one: PoolFuture[Any], home: str) -> None:
        """Wait no longer for what a worker was asked."""
        one.cancel()
        self._close_lines({home})

    def _open_lines(self, errands: dict[str, Errand]) -> None:
        """Open lines to workers that are asked for their own parts, and to which there is none."""
        new = {home for home, errand in errands.items() if not errand.others} - set(self._lines)
        new -= _lineless.get(self._client, set())
        if not new:
            return
        loop, pool, homes = self._client.loop.asyncio_loop, self._client.rpc, sorted(new)
        lineless = _lineless.setdefault(self._client, set())
        told = [asyncio.run_coroutine_threadsafe(find_door(pool, home), loop) for home in homes]
        wait(told, timeout=OPEN_SECONDS)
        for one in told:
            one.cancel()  # unless it is done

        def open_one(number: int) -> None:
            one, home = told[number], homes[number]
            known = not one.cancelled() and one.exception() is None
            self._lines[home] = open_line(one.result()) if known else None
            if self._lines[home] is None:
                lineless.add(home)

        share_out(open_one, len(homes), len(homes))

    def _close_lines(self, homes: Collection[str]) -> None:
        for home in homes:
            if (line := self._lines.pop(home, None)) is not None:
                line.close()

    def _delivered(self, parts: set[int]) -> set[str]:
        """Have Dask bring parts the blocks that they are made of, if any; workers that went."""
        futures: dict[Any, int] = {}
        for number in sorted(parts):
            if (blocks := self._specs[number].get("blocks")) is None:
                continue
            key = f"sparsecluster-{self._fit}-{number}-{uuid.uuid4().hex[:8]}"
            given = self._fit, number, self._client.compute(blocks)
            home = [self._homes[number]]
            futures[self._client.submit(deliver, *given, key=key, workers=home)] = number
        gone: set[str] = set()
        for future, number in _ended(self._client, futures, self._homes):
            if not future.done() or _died(future):
                future.cancel(force=True)
                gone.add(self._homes[number])
            elif future.status == "error":
                future.result()  # which raises
            elif future.status != "finished":
                raise WorkersLost(
                    "Dask lost blocks of X that it cannot make again: what is scattered is gone "
                    "with its worker."
                )
        return gone

    # --- who has which part -------------------------------------------------------------------

    def _suspects(self, call: Call) -> set[int]:
        """The part that is asked alone, because whoever has it is lost; not those beside it."""
        if call.given:
            return set()  # what the others left for it has to be there
        most = self._losses.most_common(1)
        return {number for number, count in most if count >= SUSPICIOUS}

    def _refuse(self, number: int) -> None:
        spec = self._specs[number]
        what = spec.get("what") or f"Rows {spec['begin']} to {spec['end'] - 1}"
        raise WorkersLost(
            f"{what} lost their worker {MOST_LOSSES} times. Workers that die for lack of memory "
            f"need more of it, or smaller parts: more workers, or smaller files. Workers also have "
            f"to reach each other by their addresses."
        )

    def _forget_workers(self, gone: set[str]) -> None:
        """Parts of workers that went are nowhere."""
        for number, home in list(self._homes.items()):
            if home in gone:
                self.rebuilt += number in self._made
                self._made.discard(number)
                del self._homes[number]
        self._serving -= gone
        self._close_lines(gone)
        self._avoided |= dict.fromkeys(gone, time.monotonic())

    def _place(self, parts: set[int]) -> None:
        """Find a worker for each of these parts that has none."""
        homeless = sorted(number for number in parts if number not in self._homes)
        if not homeless:
            return
        alive = self._alive()
        load = Counter(self._homes.values())
        for number in homeless:
            self._homes[number] = min(alive, key=lambda worker: (load[worker], worker))
            load[self._homes[number]] += 1
        new = set(self._homes.values()) - self._serving
        if new:
            self._serving |= set(everywhere(self._client, serve, workers=new))

    def _alive(self) -> set[str]:
        """Workers that are there; not those that were lost a moment ago, if there are others."""
        began = time.monotonic()
        while not (found := living(self._client)):
            if time.monotonic() > began + WORKER_SECONDS:
                raise WorkersLost(NO_WORKER)
            time.sleep(LOOK_SECONDS / 5)
        lately = {worker for worker, lost in self._avoided.items() if began < lost + SILENT_SECONDS}
        return found - lately or found


def _errands(requests: dict[str, list[Request]], fan_in: int) -> dict[str, Errand]:
    """What workers are asked: some of them, where they are many, who pass it on to the others."""
    homes = sorted(requests)
    errands = {}
    for first in range(min(fan_in, len(homes))):
        head, *others = homes[first::fan_in]
        below = {home: requests[home] for home in others}
        errands[head] = Errand(requests[head], _errands(below, fan_in))
    return errands


def _addresses(home: str, errand: Errand) -> set[str]:
    """All workers that have to do with an errand."""
    below = (_addresses(address, other) for address, other in errand.others.items())
    return {home}.union(*below)


def await_tasks(client: Any, futures: Sequence[Any]) -> None:
    """Wait for tasks, as long as there are workers to do them."""
    left, heard = list(futures), time.monotonic()
    while left := [future for future in left if not future.done()]:
        with suppress(TimeoutError):
            left[0].result(timeout=LOOK_SECONDS)
        if living(client):
            heard = time.monotonic()
        elif time.monotonic() > heard + WORKER_SECONDS:
            raise WorkersLost(NO_WORKER)


def _ended(
    client: Any, futures: dict[Any, int], homes: dict[int, str]
) -> Iterator[tuple[Any, int]]:
    """Tasks for parts as they end, or as their workers go."""
    pending, woken = dict(futures), threading.Event()
    for future in pending:
        future.add_done_callback(lambda _: woken.set())
    while pending:
        woken.wait(LOOK_SECONDS)
        woken.clear()
        done = [future for future in pending if future.done()]
        if not done:
            alive = living(client)
            done = [future for future, number in pending.items() if homes[number] not in alive]
        for future in done:
            yield future, pending.pop(future)


def _died(future: Any) -> bool:
    """Whether a task failed because its worker did."""
    from distributed import KilledWorker

    return future.status == "error" and isinstance(future.exception(), KilledWorker)


def living(client: Any, *, silent: bool = False) -> set[str]:
    """Workers that gave a sign of life lately. One that is stopped is not among them, long before
    Dask gives it up (`distributed.scheduler.worker-ttl`); unless silent ones are asked for, too."""
    workers = client.sync(client.scheduler.identity)["workers"]
    signs = {address: float(worker["last_seen"]) for address, worker in workers.items()}
    if silent:
        return set(signs)
    return _heard.setdefault(client, SignsOfLife()).lately(signs)


class SignsOfLife:
    """When workers were heard of by their scheduler, as it was told from look to look."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, float]] = {}  # by worker: the sign, and when it was new

    def lately(self, signs: dict[str, float]) -> set[str]:
        """Workers whose last sign, by the clock of the scheduler, is not much older than those of
        others, nor the one that was known a while ago by the clock here."""
        now, latest = time.monotonic(), max(signs.values(), default=0.0)
        last = self._last
        self._last = {
            worker: last[worker] if worker in last and last[worker][0] == sign else (sign, now)
            for worker, sign in signs.items()
        }
        return {
            worker
            for worker, (sign, new) in self._last.items()
            if sign > latest - SILENT_SECONDS and now < new + SILENT_SECONDS
        }


_heard: WeakKeyDictionary[Any, SignsOfLife] = WeakKeyDictionary()  # by client
#: By client, workers to which there are no lines.
_lineless: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


def everywhere(
    client: Any,
    function: Any,
    *arguments: Any,
    workers: set[str] | None = None,
    silent: bool = False,
) -> dict[str, Any]:
    """What a function says on each worker that answers, or each of these; what it raises where it
    does. A worker that hangs holds up nobody for long, and what is wrong with one that goes is not
    said. Silent workers are asked as well if wanted, and are not waited for."""
    asked: dict[str, PoolFuture[Any]] = {}

    def ask(worker: str) -> None:
        try:
            told = client.run(function, *arguments, workers=[worker], on_error="return")
        except Exception:  # a worker that is gone by now, or a client
            told = {}
        asked[worker].set_result(told)

    heard = living(client) if workers is None else workers
    for worker in sorted(living(client, silent=True) if silent else heard):
        asked[worker] = PoolFuture()
        # Not by a pool, for whose threads the interpreter would wait when it ends.
        threading.Thread(target=ask, args=(worker,), daemon=True).start()
    done, _ = wait([asked[worker] for worker in heard if worker in asked], timeout=ANSWER_SECONDS)
    found: dict[str, Any] = {}
    for one in done:
        found |= one.result()
    return {worker: told for worker, told in found.items() if not isinstance(told, OSError)}


def out_of_reach(client: Any, workers: set[str]) -> list[str]:
    """Those of some workers that this process cannot talk to, though they live."""
    loop = client.loop.asyncio_loop
    asked = {
        asyncio.run_coroutine_threadsafe(client.rpc(worker).identity(), loop): worker
        for worker in sorted(workers)
    }
    wait(list(asked), timeout=ANSWER_SECONDS)
    for one in asked:
        one.cancel()  # unless it is done
    failed = {worker for one, worker in asked.items() if one.cancelled() or one.exception()}
    if not failed:
        return []
    time.sleep(LOOK_SECONDS)  # until the scheduler knows of those that have just gone
    return sorted(failed & living(client))
