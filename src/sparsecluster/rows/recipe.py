"""How a file becomes rows, as plain data: rows, stores and model files carry it along, `prepare/`
fits and interprets it."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

VERSION = 2
MOST_COLUMNS = np.iinfo(np.int32).max
DROPPING = ("min_df", "max_df", "drop_empty")
FLAGS = ("drop_empty", "log", "tfidf")
#: the parameters of `Prepare`, and what they are where nothing is asked for
PREPARATION: dict[str, Any] = {
    "min_df": 0,
    "max_df": 1.0,
    **dict.fromkeys(FLAGS, False),
    "norm": None,
    "dtype": None,
    "embed": None,
}
LATER = ("embed",)  # those that a state has only where they are asked for


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """From what a file holds to rows. One that is not fitted says what was asked for.

    Parameters
    ----------
    format : str or None
        Of the file; None where the rows were a matrix, and nobody knows whence.
    dtype : str or None
        Type of the values, before they are prepared; None: that of the file.
    options : dict
        Those of the format's reader that were given, or found, other than the defaults.
    terms : bool
        Whether columns are the terms of texts.
    prepare : dict or None
        How counts became values: the state of a fitted `Prepare`; None: they did not change.
    n_columns : int
        Columns before any are dropped; terms that were dropped do not count.
    n_features : int
        Columns of the rows.
    names : ndarray of str or None
        Names of the columns of the rows, before they are embedded: for text its vocabulary.
    """

    format: str | None = None
    dtype: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    terms: bool = False
    prepare: dict[str, Any] | None = None
    n_columns: int = 0
    n_features: int = 0
    names: np.ndarray | None = None

    @property
    def embedded(self) -> bool:
        """Whether the columns of the rows are components of an embedding."""
        return self.prepare is not None and self.prepare["parameters"].get("embed") is not None

    @property
    def column_names(self) -> np.ndarray | None:
        """Names of the columns of the rows; components have none."""
        return None if self.embedded else self.names

    def same_values(self, other: Recipe) -> bool:
        """Whether counts become values in the same way."""
        one, two = self.prepare, other.prepare
        if one is None or two is None or one is two:
            return one is two
        # Of text, what was dropped is not counted.
        ignored = DROPPING if self.terms and other.terms else ()
        one_asked, two_asked = PREPARATION | one["parameters"], PREPARATION | two["parameters"]
        differ = [name for name in PREPARATION if one_asked[name] != two_asked[name]]
        return (
            set(differ) <= set(ignored)
            and one["n_rows"] == two["n_rows"]
            and np.array_equal(one["row_counts"], two["row_counts"])
        )

    def described(self) -> dict[str, dict[str, Any]]:
        """What was asked for, other than the defaults: of the file or its text, and the values."""
        found = {}
        if self.terms or self.options:
            found["text" if self.terms else "options"] = dict(self.options)
        if self.prepare is not None:
            found["values"] = {
                name: value
                for name, value in self.prepare["parameters"].items()
                if (type(value), value) != (type(PREPARATION[name]), PREPARATION[name])
            }
        return found

    def get_state(self) -> dict[str, Any]:
        """As JSON can hold it, but for arrays."""
        state = {one.name: getattr(self, one.name) for one in fields(self)}
        prepare = None if self.prepare is None else dict(self.prepare)
        return {"version": VERSION, **state, "options": dict(self.options), "prepare": prepare}

    @classmethod
    def from_state(cls, state: Any) -> Recipe:
        """The recipe of a state that comes from a file: everything is checked."""
        try:
            if "version" not in state:
                state = _translated(state)
            state = dict(state)
            version = state.pop("version")
            if version != VERSION or state.keys() != _TYPES.keys():
                raise ValueError("The recipe is not one of this version of the library.")
            _check(state)
        except (TypeError, AttributeError, LookupError, OverflowError) as error:
            raise ValueError(f"The recipe is not one of this library: {error}.") from None
        return cls(**state)


def plain(value: Any) -> Any:
    """A value as JSON gives it back."""
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


# --- checks -----------------------------------------------------------------------------------

_TYPES: dict[str, Any] = {
    "format": (str, type(None)),
    "dtype": (str, type(None)),
    "options": dict,
    "terms": bool,
    "prepare": (dict, type(None)),
    "n_columns": int,
    "n_features": int,
    "names": (Sized, type(None)),  # maybe in a file, until they are needed
}


def _check(state: dict[str, Any]) -> None:
    """Refuse what is of a wrong type or does not fit together."""
    for name, value in state.items():
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "terms"):
            raise ValueError(f"The recipe has {value!r} as {name}.")
    n_columns, n_features, prepare = state["n_columns"], state["n_features"], state["prepare"]
    if prepare is not None:
        check_preparation_state(prepare)
    embedded = None if prepare is None else prepare["parameters"].get("embed")
    fitting = 0 <= n_features <= n_columns if embedded is None else n_features == embedded
    if not fitting or not 0 <= n_columns <= MOST_COLUMNS:
        raise ValueError(f"The recipe makes {n_features} columns of {n_columns}.")
    if state["dtype"] not in (None, "float32", "float64"):
        raise ValueError(f"The recipe has {state['dtype']!r} as dtype.")
    if not all(isinstance(name, str) for name in state["options"]):
        raise ValueError("The recipe has options without names.")
    names = state["names"]
    if isinstance(names, str | dict) or (
        names is not None
        and (len(names) != n_features if embedded is None else len(names) > n_columns)
    ):
        raise ValueError("The recipe has another number of names than of columns.")
    if prepare is not None and len(prepare["row_counts"]) != n_columns:
        raise ValueError("The recipe counted another number of columns.")


def check_preparation_state(state: Any) -> None:
    """Refuse what cannot be the state of a fitted `Prepare`."""
    _check_keys("state", state, ("parameters", "n_rows", "row_counts"))
    asked = state["parameters"]
    known = [name for name in PREPARATION if name not in LATER or name in (asked or ())]
    _check_keys("state['parameters']", asked, tuple(known))
    check_preparation(asked)
    n_rows, counts = state["n_rows"], state["row_counts"]
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or not 0 <= n_rows < 2**63:
        raise ValueError(f"n_rows must be an integer from 0 to 2**63 - 1, got {n_rows!r}.")
    if not isinstance(counts, np.ndarray) or counts.ndim != 1 or counts.dtype.kind not in "iu":
        raise ValueError("row_counts must be a vector of integers; the file is broken.")
    if len(counts) > MOST_COLUMNS:
        raise ValueError(f"row_counts has {len(counts)} columns; at most 2**31 - 1 can be.")
    wrong = np.flatnonzero((counts < 0) | (counts > n_rows))
    if len(wrong):
        raise ValueError(
            f"row_counts says that column {wrong[0]} occurs in {counts[wrong[0]]} of {n_rows} "
            f"rows; the file is broken."
        )


def check_preparation(parameters: dict[str, Any]) -> None:
    """Refuse parameters of `Prepare` that cannot be, by name."""
    for name in ("min_df", "max_df"):
        value, least = parameters[name], int(name == "max_df")
        number = isinstance(value, Real) and not isinstance(value, bool)
        most: Any = np.inf if isinstance(value, Integral) else 1
        if not (number and 0 <= value <= most) or (name == "max_df" and value == 0):
            raise ValueError(
                f"{name} must be an integer of at least {least} (rows) or a float from 0 to 1 "
                f"(a share of the rows), got {value!r}."
            )
    for name in FLAGS:
        if not isinstance(parameters[name], bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {parameters[name]!r}.")
    check_norm(parameters["norm"])
    dtype = parameters["dtype"]
    try:
        known = dtype is None or np.dtype(dtype) in (np.float32, np.float64)
    except (TypeError, ValueError, SyntaxError):
        known = False
    if not known:
        raise ValueError(f"dtype must be 'float32', 'float64' or None, got {dtype!r}.")
    embed = parameters.get("embed")
    if embed is not None:
        number = isinstance(embed, Integral) and not isinstance(embed, bool)
        if not number or not 1 <= embed <= MOST_COLUMNS:
            raise ValueError(f"embed must be an integer of at least 1 or None, got {embed!r}.")


def check_norm(norm: Any) -> None:
    """Refuse another length of rows than one, or as they are."""
    if not (norm is None or (isinstance(norm, str) and norm == "l2")):
        raise ValueError(f"norm must be 'l2' or None, got {norm!r}.")


def _check_keys(name: str, value: Any, expected: tuple[str, ...]) -> None:
    """Refuse what is not a dict with exactly these keys."""
    if not isinstance(value, dict) or set(value) != set(expected):
        found = sorted(map(str, value)) if isinstance(value, dict) else type(value).__name__
        raise ValueError(f"{name} must be a dict of {', '.join(expected)}, got {found}.")


# --- version 1, which had other words ---------------------------------------------------------

_OLD_TEXT = {
    "column": None,
    "encoding": "utf-8",
    "lowercase": True,
    "stop_words": None,
    "ngrams": 1,
    "token_pattern": r"(?u)\b\w\w+\b",
    "strip_accents": None,
}
_OLD_OPTIONS = ("zero_based", "transpose", "layer", "columns")


def _translated(old: dict[str, Any]) -> dict[str, Any]:
    """The state of a recipe of version 1 in the words of today."""
    text, prepare, n_features = old["text"], old["prepare"], old["n_columns"]
    options = {name: old[name] for name in _OLD_OPTIONS if old[name] is not None}
    if text is not None:
        given = {name: plain(text[name]) for name in _OLD_TEXT}
        options = {name: value for name, value in given.items() if value != _OLD_TEXT[name]}
        if "ngrams" in options:
            options["ngram_range"] = [1, options.pop("ngrams")]
    if prepare is not None:
        parameters, counts = dict(prepare["parameters"]), prepare["row_counts"]
        least, most = parameters.pop("min_rows"), parameters.pop("max_share")
        norm = "l2" if parameters.pop("unit") else None
        parameters |= {"min_df": least, "max_df": most, "norm": norm}
        prepare = {**prepare, "parameters": parameters}
        check_preparation_state(prepare)
        rare = counts < max(least, parameters["drop_empty"])
        n_features = int(np.sum(~rare & (counts / max(prepare["n_rows"], 1) <= most)))
    kept = {name: old[name] for name in ("format", "dtype", "n_columns", "names")}
    return {
        "version": VERSION,
        **kept,
        "options": options,
        "terms": text is not None,
        "prepare": prepare,
        "n_features": n_features,
    }


# --- arrays apart from JSON -------------------------------------------------------------------


def without_arrays(state: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state with names for its arrays, which go into `arrays`: the rest is JSON."""
    if isinstance(state, np.ndarray):
        name = f"recipe_{len(arrays)}"
        arrays[name] = state
        return {"array": name}
    if isinstance(state, dict):
        return {key: without_arrays(value, arrays) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [without_arrays(value, arrays) for value in state]
    return state


def with_arrays(state: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The state with its arrays back in place."""
    if isinstance(state, dict):
        if set(state) == {"array"}:
            return arrays[state["array"]]
        return {key: with_arrays(value, arrays) for key, value in state.items()}
    if isinstance(state, list):
        return [with_arrays(value, arrays) for value in state]
    return state
