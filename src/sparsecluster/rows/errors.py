"""The errors of this library, all under one name."""

from __future__ import annotations


class SparseClusterError(Exception):
    """What every error class of this library is; each is a ValueError too."""


class ReadError(SparseClusterError, ValueError):
    """A file that cannot be read: broken, of another format, or without what was asked for."""


def counted(n: float, noun: str, plural: str | None = None) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{n:,.15g} {noun if n == 1 else plural or noun + 's'}"


class WorkersLost(RuntimeError):
    """There is nobody left to work, or whoever takes a part of the data dies."""
