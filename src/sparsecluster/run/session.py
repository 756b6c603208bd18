"""Who executes the steps of a fit: a session holds the parts of the data, wherever they are.

A part is an object that a factory makes of a specification: its constructor takes the specification
and a number of threads, `restore` brings a new one to where another was, and its other methods take
and return what travels: arrays, numbers, and dicts of these. Calls that change parts are turns, and
are counted: a turn that is asked for twice gives the answer that it gave.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

#: What brings a new part to where it was after the last turn: the arguments of `restore`.
Recipe = dict[str, Any]
#: Answers of several parts, in any order and grouping, as one.
Merge = Callable[[list[Any]], Any]


class Part(Protocol):
    """A part of the data."""

    def restore(self, recipe: Recipe) -> None:
        """Go to where the part was that this one takes the place of."""


#: Makes a part of a specification, for so many threads; importable by name.
Factory = Callable[[dict[str, Any], int], Part]


class Session(ABC):
    """The parts of one fit, or of one of its runs."""

    n_parts: int
    #: What restores a part as it is after the last turn; set by whoever calls.
    recipe_of: Callable[[int], Recipe]

    @abstractmethod
    def turn(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
    ) -> Any:
        """Call a method of all parts that changes them, with what is shared and what is their own.

        The answers in the order of the parts, or as one where there is a function that merges.
        """

    @abstractmethod
    def ask(
        self,
        method: str,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
        merge: Merge | None = None,
    ) -> Any:
        """The same for a method that leaves the parts as they are."""

    @abstractmethod
    def specify(
        self,
        shared: dict[str, Any] | None = None,
        *,
        own: Sequence[dict[str, Any]] | None = None,
    ) -> None:
        """Add to the specifications, by which lost parts are made again."""

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

    def check_file(self, path: str, checksum: int) -> None:  # noqa: B027
        """Refuse a file that a worker cannot see, or that is another one there."""

    def close(self) -> None:  # noqa: B027
        """End what was started for the executor."""
