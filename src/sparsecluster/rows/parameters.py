"""What a parameter may be: constraints that estimators declare in a table, and checks by name."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np


def check_name(option: str, value: object, known: Iterable[str]) -> str:
    """The value, if it is one of the known names; else a ValueError that suggests one."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    message = f"{option}={value!r} is not known; it can be {', '.join(map(repr, names))}."
    # Of equally near names the first: they come in the order of their use.
    near = {name: difflib.SequenceMatcher(None, name, str(value).lower()).ratio() for name in names}
    nearest = max(names, key=lambda name: near[name], default="")
    if near.get(nearest, 0) >= 0.6:
        message += f" Did you mean {nearest!r}?"
    raise ValueError(message)


def check_number(name: str, value: Any, kind: Any, least: int) -> None:
    """Refuse a parameter that is not a number of this kind, or too small."""
    flag = isinstance(value, bool) and kind in (Integral, Real)
    if flag or not isinstance(value, kind) or not value >= least:
        noun = "a number" if kind is Real else "an integer"
        raise ValueError(f"{name} must be {noun} of at least {least}, got {value!r}.")


class Constraint(ABC):
    """What one parameter may be. `a | b` is either; None is allowed by ``optional``."""

    @abstractmethod
    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError that says what would do."""

    @property
    def optional(self) -> Constraint:
        return _Optional(self)

    def __or__(self, other: Constraint) -> Constraint:
        return _Either((self, other))


@dataclass(frozen=True)
class Number(Constraint):
    """A real number within bounds."""

    least: int = 0
    most: float = np.inf
    kind: Any = Real

    def check(self, name: str, value: Any) -> None:
        check_number(name, value, self.kind, self.least)
        if not value <= self.most:
            raise ValueError(f"{name} must be at most {self.most:g}, got {value!r}.")


def integer(least: int, most: float = np.inf) -> Number:
    """An integer within bounds."""
    return Number(least, most, (bool, Integral) if least == 0 else Integral)


class Positive(Constraint):
    """A finite number above zero."""

    def check(self, name: str, value: Any) -> None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 < value < np.inf:
            raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some names."""

    names: Iterable[str]

    def check(self, name: str, value: Any) -> None:
        check_name(name, value, self.names)


class Flag(Constraint):
    """True or False."""

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name} must be True or False, got {value!r}.")


class Function(Constraint):
    """Something that can be called."""

    def check(self, name: str, value: Any) -> None:
        if not callable(value):
            raise ValueError(f"{name} must be callable or None, got {value!r}.")


class Anything(Constraint):
    """Checked where it is used."""

    def check(self, name: str, value: Any) -> None:
        pass


@dataclass(frozen=True)
class By(Constraint):
    """What a function takes that raises a ValueError of its own for the rest."""

    function: Callable[[Any], Any]

    def check(self, name: str, value: Any) -> None:
        self.function(value)


@dataclass(frozen=True)
class _Optional(Constraint):
    constraint: Constraint

    def check(self, name: str, value: Any) -> None:
        if value is not None:
            self.constraint.check(name, value)


@dataclass(frozen=True)
class _Either(Constraint):
    parts: tuple[Constraint, ...]

    def check(self, name: str, value: Any) -> None:
        errors = []
        for part in self.parts:
            try:
                return part.check(name, value)
            except ValueError as error:
                errors.append(error)
        raise errors[-1] from None
