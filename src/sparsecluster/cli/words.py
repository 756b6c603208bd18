"""Messages of the library in the words of the command line: options, not names of Python."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import cache

OTHER_NAMES = {"n_clusters": "--clusters", "random_state": "--seed", "n_threads": "--threads"}
# What may stand around the name of a parameter, and not around a part of a path.
BEFORE, AFTER = r"(?<![\w./'\"-])", r"(?![./-]?\w)"
VALUE = r"('[^']*'|[\w.+-]*\w)"


def option_name(parameter: str) -> str:
    """The option of a parameter."""
    return OTHER_NAMES.get(parameter, "--" + parameter.replace("_", "-"))


def counted(n: int, noun: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@cache
def _parameters() -> set[str]:
    """The names of the library that are options of commands."""
    from sparsecluster.cli.clustering import Clustering
    from sparsecluster.cli.options import Preparing, Reading
    from sparsecluster.cli.starting import Starting

    groups = (Clustering, Preparing, Reading, Starting)
    names = {field.name for group in groups for field in fields(group)}
    return {*names, *OTHER_NAMES, "init", "method", "join_column"}


def in_options(message: str) -> str:
    """A message about parameters, as one about options."""
    names = _parameters()
    one = "(" + "|".join(sorted(names, key=len, reverse=True)) + ")"

    def with_value(found: re.Match[str]) -> str:
        option, value = option_name(found[1]), found[2].strip("'")
        return {"True": option, "False": f"no {option}"}.get(value, f"{option} {value}")

    def listed(found: re.Match[str]) -> str:
        return re.sub(rf"\b{one}\b", lambda name: option_name(name[1]), found[0])

    message = re.sub(r"\bn_samples=(\d+)", r"\1 rows", message)
    message = re.sub(rf"{BEFORE}{one}={VALUE}", with_value, message)
    # Names that are also words of English are meant where a message begins with them.
    message = re.sub(r"^(\w+, )*\w+(?=: no effect| must | is not | changed )", listed, message)
    message = re.sub(rf"^'{one}'(?= is not an option)", lambda name: option_name(name[1]), message)
    message = re.sub(r"(?<=, which takes )(\w+, )*\w+(?=\.)", listed, message)
    bare = "(" + "|".join(name for name in names if "_" in name or name == "tol") + ")"
    return re.sub(BEFORE + bare + AFTER, lambda name: option_name(name[1]), message)
