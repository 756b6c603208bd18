"""Options of the estimators, as their signatures and docstrings declare the parameters.

They are read from the source text: to import scikit-learn takes longer than to show the help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Container
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Group, Parameter

from sparsecluster.cli.options import checkpoint_folder, given_options, option_group
from sparsecluster.cli.starting import STARTING
from sparsecluster.cli.words import option_name

CLUSTERING = Group("Clustering", sort_key=2)
MINIBATCH = Group("Mini-batches (with --minibatch)", sort_key=3)
# Parameters that a command has by another name, and those that only a program can use: a command
# shows progress of its own, has all rows at hand, and counts the rows of each cluster.
BY_HAND = ("n_clusters", "init", "init_options", "random_state", "n_threads")
IN_PYTHON = ("verbose", "callback", "copy_x", "grow_features", "compute_labels", "executor")
# What an option needs to have an effect: another option, or one of its values.
NEEDS = {
    "zero_rows": ("metric", "cosine"),
    "finish": ("embedding", None),
    "checkpoint_every": ("checkpoint", None),
    "projection": ("center_l1", None),
    "projection_epsilon": ("center_l1", None),
    "max_no_improvement": ("schedule", "sculley"),
    "reassignment_ratio": ("schedule", "sculley"),
}
MORE_NAMES = {"checkpoint_every": ("--every",)}
KINDS = {"int": int, "float": float, "str": str, "path": Path}


@dataclass(frozen=True)
class Declared:
    """A parameter of an estimator: its types and choices, its default, and what it does."""

    name: str
    kind: Any
    default: Any
    help: str


def declared(module: str, name: str) -> dict[str, Declared]:
    """The parameters of a class of `sparsecluster.kmeans` that are options, by name."""
    source = resources.files("sparsecluster.kmeans").joinpath(f"{module}.py").read_text("utf-8")
    found = _named(ast.parse(source), name)
    documented = {
        entry[1]: (entry[2], entry[3])
        for entry in re.finditer(
            r"^(\w+) : (.*)\n((?:    .*\n?)+)", ast.get_docstring(found) or "", re.MULTILINE
        )
    }
    arguments = _named(found, "__init__").args
    defaults = {
        argument.arg: ast.literal_eval(default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    }
    return {
        name: Declared(
            name, _kind(documented[name][0]), default, _help(documented[name][1], defaults)
        )
        for name, default in defaults.items()
        if name in documented and name not in (*BY_HAND, *IN_PYTHON)
    }


def _named(node: Any, name: str) -> Any:
    """The class or function of this name."""
    return next(one for one in node.body if getattr(one, "name", None) == name)


def _kind(written: str) -> Any:
    """The type that the docstring gives, as in `int or "auto", default=1`."""
    types = written.split(", default=")[0]
    choices = tuple(re.findall(r'"([^"]+)"', types))
    words = re.findall(r"\w+", re.sub(r'"[^"]+"', "", types))
    kind: Any = Literal[choices] if choices else None
    for word in reversed(words):
        if word in KINDS:
            kind = KINDS[word] if kind is None or word == "path" else KINDS[word] | kind
    return Path if "path" in words else kind


def _help(text: str, names: Container[str]) -> str:
    """The first sentence of a description, without the marks of reStructuredText."""
    sentence = re.split(r"(?<=\.)\s", " ".join(text.split()))[0]
    sentence = re.sub(r":\w+:`~?(?:\w+\.)*(\w+)`", r"\1", sentence).replace('"', "")
    return re.sub(
        r"`(\w+)`", lambda word: option_name(word[1]) if word[1] in names else word[1], sentence
    )


ALL_ROWS = declared("kmeans", "KMeans")
BATCHES = declared("minibatch", "MiniBatchKMeans")


def _shown(one: Declared) -> Parameter:
    group = CLUSTERING if one.name in ALL_ROWS else MINIBATCH
    return Parameter(
        group=STARTING if one.name == "n_init" else group,
        help=one.help,
        name=[option_name(one.name), *MORE_NAMES.get(one.name, ())],
        converter=checkpoint_folder if one.name == "checkpoint" else None,
        show_default=False if one.default is None else lambda _: str(one.default),
    )


if TYPE_CHECKING:
    Clustering = Any
else:
    _options = {one.name: (one.kind, _shown(one)) for one in (BATCHES | ALL_ROWS).values()}
    Clustering = option_group("Clustering", _options)


def chosen(clustering: Clustering, *, minibatch: bool) -> dict[str, Any]:
    """The parameters that were given; refuses those that would have no effect."""
    given = given_options(clustering)
    for name in given:
        option = option_name(name)
        if minibatch and name not in BATCHES:
            raise ValueError(f"{option} cannot be combined with --minibatch.")
        if not minibatch and name not in ALL_ROWS:
            raise ValueError(f"{option} needs --minibatch.")
        needed, value = NEEDS.get(name, (name, None))
        if needed not in given or value not in (None, given[needed]):
            raise ValueError(f"{option} needs {option_name(needed)}{f' {value}' if value else ''}.")
    if given.get("projection") == "exact" and "projection_epsilon" in given:
        raise ValueError("--projection-epsilon has no effect with --projection exact.")
    return given
