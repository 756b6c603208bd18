"""Messages of the library in the words of the command line: options, not names of Python."""

from __future__ import annotations

import errno
import re
import shlex
from dataclasses import fields
from functools import cache
from typing import Any

OTHER_NAMES = {
    "n_clusters": "--clusters",
    "random_state": "--seed",
    "n_threads": "--threads",
    "sample_weight": "--weights",
}
# Advice that is about Python.
PHRASES = {
    "Give one that `save` wrote": "Give one that fit --model wrote",
    "Prepare(norm='l2') (--unit)": "--unit",
    "k_range goes up to": "--most is",
    "the least of k_range": "--least",
}
NO_PERMISSION = "cannot be opened: permission denied. Check its owner and its mode."
SYSTEM_ERRORS = {
    errno.ENOENT: "does not exist.",
    errno.EEXIST: "exists. Choose another name, or remove it first.",
    errno.EISDIR: "is a folder; a file is needed.",
    errno.ENOTDIR: "is not in a folder: a part of its path is a file.",
    errno.EACCES: NO_PERMISSION,
    errno.EPERM: NO_PERMISSION,
    errno.EROFS: "cannot be written: the file system is read-only. Choose another place.",
    errno.ENOSPC: "cannot be written: the disk is full. Free some space, or choose another place.",
    errno.EDQUOT: "cannot be written: the quota is used up. Free some space.",
    errno.EFBIG: "cannot be written: files may not be that large here (ulimit -f).",
    errno.EMFILE: "cannot be opened: too many files are open. Raise the limit (ulimit -n).",
    errno.ENAMETOOLONG: "cannot be used: the name is too long.",
    errno.EIO: "cannot be read or written: the device reports an error.",
}
# What may stand around the name of a parameter, and not around a part of a path.
BEFORE, AFTER = r"(?<![\w./'\"-])", r"(?![./-]?\w)"
# A single thing in the plural, with the verb that follows it.
ONE_OF_MANY = re.compile(
    r"(?<![\w.,+*-])1 (?:such )?(row|column|cluster|center|feature|label|entrie|value|name|text"
    r"|line|word|term|document|iteration|byte|batche|run|file)s\b"
    r"(?: (are|were|have|follow|occur)\b)?"
)
TOO_MANY = re.compile(r"\bn_samples=(\d+) should be >= (\w+=\d+)")  # as scikit-learn says it
VERBS = {"are": "is", "were": "was", "have": "has", "follow": "follows", "occur": "occurs"}
VALUE = r"('[^']*'|[\w.+-]*\w)"


def option_name(parameter: str) -> str:
    """The option of a parameter."""
    return OTHER_NAMES.get(parameter, "--" + parameter.replace("_", "-"))


@cache
def _parameters() -> set[str]:
    """The names of the library that are options of commands."""
    from sparsecluster.cli.clustering import Clustering
    from sparsecluster.cli.options import Preparing, Reading
    from sparsecluster.cli.starting import Starting

    groups: Any = (Clustering, Preparing, Reading, Starting)
    names = {field.name for group in groups for field in fields(group)}
    tree = ("first", "first_clusters", "height", "linkage", "memory_limit", "metric")
    down = ("balanced", "branching", "max_leaf_size", "min_leaf_size")
    near = ("eps", "k", "min_samples", "radius")
    others = ("init", "join_column", "method", "missing_columns", "overwrite", "verify")
    plan = ("calibrate", "center_entries", "cores", "machines", "memory", "moved", "network")
    return {*names, *OTHER_NAMES, *tree, *down, *near, *others, *plan}


def in_options(message: str) -> str:
    """A message about parameters, as one about options."""
    names = _parameters()
    one = "(" + "|".join(sorted(names, key=len, reverse=True)) + ")"

    def with_value(found: re.Match[str]) -> str:
        option, value = option_name(found[1]), found[2].strip("'")
        negative = {"header": "--no-header"}.get(found[1], f"no {option}")
        return {"True": option, "False": negative}.get(value, f"{option} {quoted(value)}")

    def listed(found: re.Match[str]) -> str:
        return re.sub(rf"\b{one}\b", lambda name: option_name(name[1]), found[0])

    message = re.sub(r"\[Errno -?\d+\] ", "", message)
    for said, meant in PHRASES.items():
        message = message.replace(said, meant)
    message = TOO_MANY.sub(r"\2 is too many for \1 rows", message)
    message = re.sub(r"\bcolumns=\(([^)]*)\)", _listed_columns, message)
    message = re.sub(rf"{BEFORE}{one}={VALUE}", with_value, message)
    # Names that are also words of English are meant where a message begins with them.
    message = re.sub(
        r"^(\w+, )*\w+(?=: no effect| must | is not | changed | names )", listed, message
    )
    message = re.sub(rf"^'{one}'(?= is not an option)", lambda name: option_name(name[1]), message)
    message = re.sub(r"(?<=, which takes )(\w+, )*\w+(?=\.)", listed, message)
    bare = "(" + "|".join(name for name in names if "_" in name or name == "tol") + ")"
    message = re.sub(BEFORE + bare + AFTER, lambda name: option_name(name[1]), message)
    return ONE_OF_MANY.sub(_singular, message)


def quoted(value: str) -> str:
    """A value as it is typed: blanks need quotes."""
    return shlex.quote(value) if re.search(r"\s", value) else value


def _listed_columns(found: re.Match[str]) -> str:
    """Names of columns as one value, as in --columns x,y."""
    names = [name.strip()[1:-1] for name in found[1].split(",") if name.strip()]
    return "--columns " + quoted(",".join(names))


def _singular(found: re.Match[str]) -> str:
    noun = {"entrie": "entry", "batche": "batch"}.get(found[1], found[1])
    return f"1 {noun}" + (f" {VERBS[found[2]]}" if found[2] else "")


def system_error(error: OSError) -> str:
    """What the system refused, in words: which file, what is wrong, what to do."""
    if error.errno is None:
        return str(error)
    given = str(error.filename2 or error.filename or "The output")
    # A file has another name until it is whole.
    path = re.sub(r"(^|/)\.([^/]+)\.[0-9a-f]{12}\.partial\b", r"\1\2", given)
    said = SYSTEM_ERRORS.get(error.errno, f"cannot be used: {error.strerror}.")
    if path != given and isinstance(error, FileNotFoundError | PermissionError):
        said = "cannot be written: its folder takes no new files. Choose another place."
    return f"{path} {said}"
