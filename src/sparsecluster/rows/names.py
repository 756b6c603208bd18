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
    # Of equally near names the first: they come in the order of their use.
    near = {name: difflib.SequenceMatcher(None, name, str(value).lower()).ratio() for name in names}
    nearest = max(names, key=lambda name: near[name], default="")
    if near.get(nearest, 0) >= 0.6:
        message += f" Did you mean {nearest!r}?"
    raise ValueError(message)
