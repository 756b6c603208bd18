"""Parts of the data on the workers of a Dask cluster. A worker that goes takes nothing along that
cannot be made again: its parts are restored elsewhere, and what was asked is asked once more."""

from __future__ import annotations

import importlib
import itertools
import logging
import time
import uuid
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future as PoolFuture
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from numbers import Integral
from typing import Any

from sparsecluster.rows.errors import counted
from sparsecluster.run.session import Executor, Factory, Merge, Recipe, Session
from sparsecluster.run.worker import (
    Answer,
    Missing,
    Request,
    answer,
    drop,
    merge_answers,
    shared_by_all,
)
from sparsecluster.version import __version__

LOGGER = logging.getLogger("sparsecluster")
CONNECT_SECONDS = 10.0
WORKER_SECONDS = 30.0  # to wait for a worker where there is none
LOOK_SECONDS = 0.5  # between two looks at which workers are alive
FAN_IN = 8
MOST_ATTEMPTS = 8
INLINE_BYTES = 1 << 16  # of what goes with every call; more goes to each worker once


class WorkersLost(RuntimeError):
    """There is nobody left to work, or whoever takes a part of the data dies."""


class DaskExecutor(Executor):
    """The workers of a cluster, by a client."""

    def __init__(self, client: Any, *, owned: Sequence[Any] = ()) -> None:
        self.client = client
        self._owned = list(owned)  # to be closed, last first
        try:
            self.n_workers = len(self._workers())
            self._check_workers()
        except BaseException:
            self.close()
            raise

    def session(self, factory: Factory, specs: list[dict[str, Any]]) -> DaskSession:
        """A session with a part for each specification."""
        return DaskSession(self.client, factory, specs)

    def close(self) -> None:
        """End the client and the cluster, if they were started here."""
        while self._owned:
            with suppress(Exception):
                self._owned.pop().close()

    def _workers(self) -> list[str]:
        deadline = time.monotonic() + WORKER_SECONDS
        while not (found := sorted(self.client.nthreads())):
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"The Dask scheduler at {_address(self.client)} has no workers. Start some "
                    f"with `dask worker`."
                )
            time.sleep(LOOK_SECONDS)
        return found

    def _check_workers(self) -> None:
        def version() -> str | None:  # by value: it has to run without the package, too
            try:
                from sparsecluster.version import __version__
            except ImportError:
                return None
            return __version__

        found = self.client.run(version, on_error="return")
        for worker, told in found.items():
            if told is None:
                raise ValueError(
                    f"The Dask worker {worker} does not have sparsecluster: install version "
                    f"{__version__} there."
                )
            if told != __version__:
                raise ValueError(
                    f"The Dask worker {worker} has sparsecluster {told}, this process "
                    f"{__version__}: install the same version on all machines."
                )

    def check_file(self, path: str, checksum: int) -> None:
        """Refuse a file that a worker cannot see, or that is another one there."""

        def seen() -> Any:
            try:
                with open(path, "rb") as file:
                    return zlib.crc32(file.read())
            except OSError as error:
                return error.strerror or str(error)

        for worker, told in self.client.run(seen, on_error="return").items():
            if told != checksum:
                why = "has another one there" if isinstance(told, int) else f"says: {told}"
                raise ValueError(
                    f"The Dask worker {worker} cannot read {path} ({why}). All workers have to see "
                    f"the same store, under the same path."
                )


class DaskSession(Session):
    """The parts of a fit on the workers."""

    def __init__(self, client: Any, factory: Factory, specs: list[dict[str, Any]]) -> None:
        self.n_parts = len(specs)
        self.rebuilt = 0  #: parts that were restored, after their worker went
        self._client, self._factory, self._specs = client, factory, specs
        self._fit = uuid.uuid4().hex[:12]
        self._turns = 0
        self._homes: dict[int, str] = {}  # the worker of each part
        self._keys = itertools.count()

    def turn(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
    ) -> Any:
        """Call a method of all parts that changes them."""
        found = self._call(method, shared or {}, own, merge, changes=True)
        self._turns += 1
        return found

    def ask(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
    ) -> Any:
        """Call a method of all parts that leaves them as they are."""
        return self._call(method, shared or {}, own, merge, changes=False)

    def specify(
        self,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add to the specifications, by which lost parts are made again."""
        for number, spec in enumerate(self._specs):
            spec.update(shared or {})
            spec.update(own[number] if own else {})

    def close(self) -> None:
        """Let go of all parts, on all workers that answer."""
        pool = ThreadPoolExecutor(1)
        dropping = pool.submit(self._client.run, drop, self._fit, on_error="ignore")
        with suppress(Exception):  # a worker that hangs holds up nobody
            dropping.result(timeout=CONNECT_SECONDS)
        pool.shutdown(wait=False, cancel_futures=True)

    # --- one call of all parts ----------------------------------------------------------------

    def _call(
        self,
        method: str,
        shared: dict[str, Any],
        own: Sequence[dict[str, Any]] | None,
        merge: Merge | None,
        *,
        changes: bool,
    ) -> Any:
        answers: dict[tuple[int, ...], Any] = {}
        to_ask, restore = set(range(self.n_parts)), set[int]()
        for attempt in range(MOST_ATTEMPTS):
            self._place(to_ask, restore)
            given = self._shared(shared)
            futures = {
                number: self._client.submit(
                    answer,
                    Request(
                        self._fit,
                        number,
                        self._factory,
                        self._turns,
                        changes,
                        method,
                        *self._restoring(number, number in restore),
                    ),
                    given,
                    own[number] if own else {},
                    key=f"sparsecluster-{self._fit}-{method}-{number}-{next(self._keys)}",
                    workers=[self._homes[number]],
                    allow_other_workers=False,
                    pure=False,
                )
                for number in sorted(to_ask)
            }
            found = self._collected(futures, merge)
            del futures, given
            for one in found:
                if isinstance(one, Answer):
                    answers[one.parts] = one.value
                    to_ask -= set(one.parts)
                else:
                    restore |= set(one.parts)
            if not to_ask:
                break
            if attempt:
                LOGGER.info("Asking %s again.", counted(len(to_ask), "part"))
        else:
            self._give_up(to_ask)
        if merge is None:
            return [answers[number,] for number in range(self.n_parts)]
        return merge(list(answers.values()))

    def _restoring(self, number: int, lost: bool) -> tuple[dict[str, Any] | None, Recipe | None]:
        """What makes a part, and what restores it; None where the worker should have it."""
        if self._turns == 0:
            return self._specs[number], None
        return (self._specs[number], self.recipe_of(number)) if lost else (None, None)

    def _give_up(self, parts: set[int]) -> None:
        spec = self._specs[min(parts)]
        where = f"Rows {spec['begin']} to {spec['end'] - 1}" if "begin" in spec else "A part"
        raise WorkersLost(
            f"{where} lost their worker {MOST_ATTEMPTS} times. Workers that die for lack of memory "
            f"need more of it, or smaller parts: more workers."
        )

    def _place(self, parts: set[int], restore: set[int]) -> None:
        """Find a worker for each of these parts; those that have to move are to be restored."""
        alive = self._alive()
        load = Counter(self._homes[part] for part in self._homes if self._homes[part] in alive)
        for part in sorted(parts):
            if self._homes.get(part) in alive:
                continue
            if part in self._homes:
                self.rebuilt += 1
                restore.add(part)
            self._homes[part] = min(alive, key=lambda worker: (load[worker], worker))
            load[self._homes[part]] += 1

    def _alive(self) -> list[str]:
        deadline = time.monotonic() + WORKER_SECONDS
        while not (found := sorted(self._client.nthreads())):
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"No Dask worker is left, and none came back within {WORKER_SECONDS:g} seconds."
                )
            time.sleep(LOOK_SECONDS / 5)
        return found

    def _shared(self, shared: dict[str, Any]) -> Any:
        """What all parts get: with every call, or to each worker once where it is large."""
        if _n_bytes(shared) <= INLINE_BYTES:
            return shared
        # As a task, which Dask does again where its worker dies; what is scattered would be gone.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            key = f"sparsecluster-{self._fit}-shared-{next(self._keys)}"
            return self._client.submit(shared_by_all, shared, key=key, pure=False)

    def _collected(self, futures: dict[int, Any], merge: Merge | None) -> list[Answer | Missing]:
        """Answers as they come, merged on the workers where they are many, but for those of workers
        that went before."""
        asked: list[tuple[tuple[int, ...], Any]] = [
            ((number,), future) for number, future in futures.items()
        ]
        if merge is not None and len(asked) > FAN_IN:
            # Inner answers stay where they are; only the last few come here.
            while len(asked) > FAN_IN:
                asked = [
                    (
                        sum((group for group, _ in some), ()),
                        self._client.submit(
                            merge_answers, merge, *(future for _, future in some), pure=False
                        ),
                    )
                    for some in (
                        asked[begin : begin + FAN_IN] for begin in range(0, len(asked), FAN_IN)
                    )
                ]
        found: list[Answer | Missing] = []
        with _watched(asked) as pending:
            while pending:
                done, _ = wait(list(pending), timeout=LOOK_SECONDS)
                for one in done:
                    del pending[one]
                    if (result := _result(one)) is not None:
                        found.append(result)
                if not pending or done:
                    continue
                alive = set(self._client.nthreads())
                for group, future in list(pending.values()):
                    if any(self._homes[number] not in alive for number in group):
                        future.cancel(force=True)  # which ends the wait for it
                        for number in group:
                            futures[number].cancel(force=True)
        return found


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


def _address(client: Any) -> str:
    return str(getattr(client.scheduler, "address", "its address"))


def dask_executor(given: Any) -> DaskExecutor:
    """An executor of a client, of the address of a scheduler, or of so many processes here."""
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise ImportError(
            "executor needs the package distributed: pip install 'sparsecluster[dask]'."
        ) from None
    if isinstance(given, distributed.Client):
        return DaskExecutor(given)
    if isinstance(given, str):
        try:
            client = distributed.Client(given, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"No Dask scheduler answers at {given} ({type(error).__name__}). Start one with "
                f"`dask scheduler`, and pass the address that it shows."
            ) from None
        return DaskExecutor(client, owned=[client])
    from sparsecluster.rows.resources import effective_n_threads

    cluster = distributed.LocalCluster(
        n_workers=int(given),
        threads_per_worker=max(1, effective_n_threads(None) // int(given)),
        processes=True,
        memory_limit=None,
        dashboard_address=":0",
    )
    client = distributed.Client(cluster, set_as_default=False)
    return DaskExecutor(client, owned=[cluster, client])


def check_executor(given: Any) -> None:
    """Refuse what cannot execute, before any work."""
    if given is None or isinstance(given, str | Executor):
        return
    if isinstance(given, Integral) and given is not True and given is not False:
        if int(given) < 1:
            raise ValueError(f"executor must be at least 1 worker process, got {given}.")
        return
    if not (hasattr(given, "submit") and hasattr(given, "nthreads")):
        raise ValueError(
            f"executor must be a dask.distributed Client, the address of its scheduler, a number "
            f"of worker processes, or None; got {given!r}."
        )
