"""Parts of the data that are all in this process, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparsecluster.run.session import Call, Executor, Factory, Leave, Session


class LocalSession(Session):
    """The parts as objects."""

    def __init__(self, factory: Factory, specs: list[dict[str, Any]], n_threads: int) -> None:
        super().__init__(factory, specs)
        self._parts: list[Any] = [factory(spec, n_threads) for spec in specs]
        self._left: list[Leave | None] = [None] * len(specs)  # by the parts, in the last turn

    def _called(self, call: Call) -> Any:
        answers = [
            getattr(part, call.method)(
                **call.shared, **call.arguments(number), **self._given(call, number)
            )
            for number, part in enumerate(self._parts)
        ]
        if call.changes:
            self._left = [getattr(part, "left", None) for part in self._parts]
        return answers if call.merge is None else call.merge(answers)

    def _given(self, call: Call, number: int) -> dict[str, Any]:
        return {"given": [left(number) for left in self._left if left]} if call.given else {}

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

    def of_each(self, function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
        """What a function says of each of some delayed values."""
        return [function(block.compute()) for block in blocks]
