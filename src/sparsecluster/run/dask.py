"""The workers of a Dask cluster as an executor: found and checked, or started here."""

from __future__ import annotations

import importlib
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from numbers import Integral
from typing import Any

from sparsecluster.rows.errors import WorkersLost
from sparsecluster.run.dask_session import (
    LOOK_SECONDS,
    WORKER_SECONDS,
    DaskSession,
    await_tasks,
    everywhere,
    living,
    out_of_reach,
)
from sparsecluster.run.session import Executor, Factory
from sparsecluster.version import __version__

CONNECT_SECONDS = 10.0
#: Of processes that are started here: no profile of tasks, which there are none of, and fewer looks
#: at how busy event loops are. With two workers both take about a tenth of a core by default.
QUIET = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}


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
        return DaskSession(self.client, factory, specs, serving=self._serving)

    def close(self) -> None:
        """End the client and the cluster, if they were started here."""
        while self._owned:
            with suppress(Exception):
                self._owned.pop().close()

    def _workers(self) -> list[str]:
        deadline = time.monotonic() + WORKER_SECONDS
        while not (found := sorted(living(self.client))):
            if time.monotonic() > deadline:
                raise WorkersLost(
                    f"The Dask scheduler at {_address(self.client)} has no workers. Start some "
                    f"with `dask worker`."
                )
            time.sleep(LOOK_SECONDS)
        return found

    def _check_workers(self) -> None:
        def version(dask_worker: Any) -> str | None:  # by value: it runs without the package, too
            try:
                from sparsecluster.version import __version__
            except ImportError:
                return None
            from sparsecluster.run.worker import serve

            serve(dask_worker)
            return __version__

        versions = everywhere(self.client, version)
        self._serving = set(versions)
        for worker, told in versions.items():
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
        for worker in out_of_reach(self.client, set(versions)):
            raise ValueError(
                f"The Dask worker {worker} answers its scheduler, but not this process: a fit has "
                f"to run where the addresses of the workers can be reached."
            )

    def check_file(self, path: str, checksum: int) -> None:
        """Refuse a file that a worker cannot see, or that is another one there."""

        def seen() -> Any:
            try:
                with open(path, "rb") as file:
                    return zlib.crc32(file.read())
            except OSError as error:
                return error.strerror or str(error)

        for worker, told in everywhere(self.client, seen).items():
            if told != checksum:
                why = "has another one there" if isinstance(told, int) else f"says: {told}"
                raise ValueError(
                    f"The Dask worker {worker} cannot read {path} ({why}). All workers have to see "
                    f"the same store, under the same path."
                )

    def of_each(self, function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
        """What a function says of each of some delayed values, where they are made."""
        delayed: Any = importlib.import_module("dask").delayed
        asked = [delayed(function, pure=True)(block) for block in blocks]
        futures = self.client.compute(asked)
        await_tasks(self.client, futures)
        return list(self.client.gather(futures))

    def check_blocks(self, blocks: Sequence[Any]) -> None:
        """Refuse delayed values of functions that a worker cannot load, which would end it."""
        pickle: Any = importlib.import_module("distributed.protocol.pickle")
        functions = pickle.dumps(_functions(blocks))

        def loaded() -> str | None:
            try:
                pickle.loads(functions)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            return None

        for worker, wrong in everywhere(self.client, loaded).items():
            if wrong is not None:
                raise ValueError(
                    f"The Dask worker {worker} cannot load a function that makes blocks of X "
                    f"({wrong}): install what it needs on all machines."
                )


def _functions(blocks: Sequence[Any]) -> list[Any]:
    """The functions of the tasks that make some delayed values."""
    found = {id(one): one for block in blocks for one in _called(dict(getattr(block, "dask", {})))}
    return list(found.values())


def _called(value: Any) -> Iterator[Any]:
    """The functions in a task, and in those that were fused with it."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for one in value:
            yield from _called(one)
    elif hasattr(value, "func") and hasattr(value, "args"):
        yield value.func
        yield from _called([value.args, getattr(value, "kwargs", None) or {}])
    elif callable(value):
        yield value


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

    cluster = start_cluster(int(given), max(1, effective_n_threads(None) // int(given)))
    client = distributed.Client(cluster, set_as_default=False)
    return DaskExecutor(client, owned=[cluster, client])


def start_cluster(n_workers: int, n_threads: int) -> Any:
    """So many worker processes on this machine, of so many threads each."""
    dask: Any = importlib.import_module("dask")
    distributed: Any = importlib.import_module("distributed")
    with dask.config.set(QUIET):
        return distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=n_threads,
            processes=True,
            memory_limit=None,
            dashboard_address=":0",
        )


@contextmanager
def open_executor(given: Any) -> Iterator[Executor]:
    """An executor of what a user gave; what was started for it ends with it."""
    executor = given if isinstance(given, Executor) else dask_executor(given)
    with closing(executor):
        yield executor


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


def told_to_others(given: Any) -> Any:
    """An executor as other processes can use it: in the place of a client the address of its
    scheduler."""
    if given is None or isinstance(given, str | Integral | Executor):
        return given
    return _address(given)
