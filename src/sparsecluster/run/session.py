"""Who executes the steps of a fit: a session holds the parts of the data, wherever they are.

A part is an object that a factory makes of a specification: its constructor takes the specification
and a number of threads, `restore` brings a new one to where another was, and its other methods take
and return what travels: arrays, numbers, and dicts of these. Calls that change parts are turns, and
are counted: a turn that is asked for twice gives the answer that it gave. What parts leave for each
other in a turn goes from worker to worker, not by way of the process that calls.

There are two ways to restore a part that is lost: alone, by a recipe; or with all others, by turns
that begin anew, where the parts' states follow from what they left for each other (`recover`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sparsecluster.run.history import Machines

#: What brings a new part to where it was after the last turn: the arguments of `restore`.
Recipe = dict[str, Any]
#: Answers of several parts, in any order and grouping, as one.
Merge = Callable[[list[Any]], Any]
#: What a part leaves for another one, by the number of that.
Leave = Callable[[int], Any]


class Part(Protocol):
    """A part of the data. What `left` says after a turn, if there is such an attribute, is left for
    the next turn of the others; it has to stay as it is during that."""

    def restore(self, recipe: Recipe) -> None:
        """Go to where the part was that this one takes the place of."""


#: Makes a part of a specification, for so many threads; importable by name.
Factory = Callable[[dict[str, Any], int], Part]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A method that is called of all parts."""

    method: str
    shared: dict[str, Any]  #: arguments that are the same for all
    own: Sequence[dict[str, Any]] | None  #: and those that are not
    merge: Merge | None
    changes: bool  #: whether the parts are others after it
    anew: bool = False  #: whether it does not matter which turns there were before
    #: whether each part is given, as a list `given`, what all of them left for it in the last turn
    given: bool = False

    def arguments(self, part: int) -> dict[str, Any]:
        """Those of a part that are its own."""
        return self.own[part] if self.own else {}


class PartsLost(Exception):
    """A turn came to nothing, because parts were lost: all have to begin anew."""


class Session(ABC):
    """The parts of one fit, or of one of its runs. A subclass says how they are called."""

    #: What restores a part as it is after the last turn; set by whoever calls.
    recipe_of: Callable[[int], Recipe]
    #: What restores all parts, where they cannot be restored one by one: turns of which the first
    #: is `anew`. While it is set, turns in which parts are lost raise `PartsLost`.
    recover: Callable[[], None] | None

    def __init__(self, factory: Factory, specs: list[dict[str, Any]]) -> None:
        self.n_parts = len(specs)
        self.restore_by(lambda part: {})
        self._factory, self._specs = factory, specs

    @property
    def machines(self) -> Machines:
        """Who computes: here a worker per part."""
        return Machines(self.n_parts, 0)

    def restore_by(self, recipe_of: Callable[[int], Recipe]) -> None:
        """From now on, restore parts that are lost one by one."""
        self.recipe_of, self.recover = recipe_of, None

    def turn(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
        anew: bool = False,
        given: bool = False,
    ) -> Any:
        """Call a method of all parts that changes them, with what is shared and what is their own.

        The answers in the order of the parts, or as one where there is a function that merges.
        """
        return self._called(
            Call(
                method=method, shared=shared or {}, own=own, merge=merge, changes=True, anew=anew,
                given=given,
            )
        )  # fmt: skip

    def ask(
        self, method: str, shared: dict[str, Any] | None = None, *, own: Any = None,
        merge: Merge | None = None,
    ) -> Any:  # fmt: skip
        """The same for a method that leaves the parts as they are."""
        return self._called(
            Call(method=method, shared=shared or {}, own=own, merge=merge, changes=False)
        )

    def specify(
        self, shared: dict[str, Any] | None = None, *, own: Sequence[dict[str, Any]] | None = None
    ) -> None:
        """Add to the specifications, by which lost parts are made again."""
        for number, spec in enumerate(self._specs):
            spec.update(shared or {})
            spec.update(own[number] if own else {})

    def made_progress(self) -> None:  # noqa: B027
        """Say that parts went on since they were restored by `recover`."""

    @abstractmethod
    def _called(self, call: Call) -> Any:
        """The answers to a call."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all parts."""


class Executor(ABC):
    """What opens sessions."""

    #: Workers that a session would use now.
    n_workers: int

    @abstractmethod
    def session(self, factory: Factory, specs: list[dict[str, Any]]) -> Session:
        """A session with a part for each specification."""

    @abstractmethod
    def of_each(self, function: Callable[[Any], Any], blocks: Sequence[Any]) -> list[Any]:
        """What a function says of each of some delayed values, where they are made."""

    def check_file(self, path: str, checksum: int) -> None:  # noqa: B027
        """Refuse a file that a worker cannot see, or that is another one there."""

    def check_blocks(self, blocks: Sequence[Any]) -> None:  # noqa: B027
        """Refuse delayed values that a worker cannot make."""

    def close(self) -> None:  # noqa: B027
        """End what was started for the executor."""
