"""Parts of the data that are all in this process, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparsecluster.run.session import Executor, Factory, Merge, Session


class LocalSession(Session):
    """The parts as objects."""

    def __init__(self, factory: Factory, specs: list[dict[str, Any]], n_threads: int) -> None:
        self.n_parts = len(specs)
        self._parts: list[Any] = [factory(spec, n_threads) for spec in specs]

    def turn(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
    ) -> Any:
        """Call a method of all parts."""
        answers = [
            getattr(part, method)(**(shared or {}), **(own[number] if own else {}))
            for number, part in enumerate(self._parts)
        ]
        return answers if merge is None else merge(answers)

    ask = turn

    def specify(
        self,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Has no effect: no part is lost here."""

    def close(self) -> None:
        """Let go of all parts."""
        self._parts = []


class LocalExecutor(Executor):
    """So many parts in this process."""

    def __init__(self, n_workers: int, *, n_threads: int = 1) -> None:
        self.n_workers = n_workers
        self._n_threads = n_threads

    def session(self, factory: Factory, specs: list[dict[str, Any]]) -> LocalSession:
        """A session with a part for each specification."""
        return LocalSession(factory, specs, self._n_threads)
