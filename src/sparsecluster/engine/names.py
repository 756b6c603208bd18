"""Options that are named by strings: a misspelling gets the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_name(option: str, value: object, known: Iterable[str]) -> str:
    """The value, if it is one of the known names; else a ValueError that suggests one."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    message = f"{option}={value!r} is not known; it can be {', '.join(map(repr, names))}."
    nearest = difflib.get_close_matches(str(value).lower(), names, n=1)
    if nearest:
        message += f" Did you mean {nearest[0]!r}?"
    raise ValueError(message)
