"""How a file became rows, so that another file can become rows in the same way: a store and a model
carry it along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsecluster.formats.text import TextOptions
from sparsecluster.prepare.prepare import Prepare

#: options of a reader that another file of the same format is read with
FILE_OPTIONS = ("zero_based", "transpose", "layer", "columns")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """From what a file holds to rows.

    Parameters
    ----------
    format : str or None
        Of the file.
    dtype : str
        Type of the values, before they are prepared.
    n_columns : int
        Columns of the file, before any are dropped.
    zero_based, transpose, layer, columns
        The options of the file's reader, where it has them.
    text : TextOptions or None
        How documents became terms.
    prepare : Prepare or None
        How counts became values, fitted; None: they did not change.
    names : ndarray of str or None
        Names of the columns that were kept: for text its vocabulary.
    """

    format: str | None = None
    dtype: str = "float32"
    n_columns: int = 0
    zero_based: bool | None = None
    transpose: bool | None = None
    layer: str | None = None
    columns: tuple[str, ...] | None = None
    text: TextOptions | None = None
    prepare: Prepare | None = None
    names: np.ndarray | None = None

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        if self.prepare is None or self.prepare.columns_ is None:
            return self.n_columns
        return len(self.prepare.columns_)

    def prepared(self, prepare: Prepare | None) -> Recipe:
        """The same with counts that are prepared."""
        if prepare is None:
            return self
        if self.prepare is not None:
            raise ValueError(
                "The data are prepared already. Start from their source, with all options at once."
            )
        names = self.names
        if names is not None and prepare.columns_ is not None:
            names = np.asarray(names)[prepare.columns_]
        if self.text is None:
            return replace(self, prepare=prepare, names=names)
        # Terms that were dropped need not be known to whoever reads in the same way.
        kept = prepare.without_dropped()
        return replace(self, prepare=kept, names=names, n_columns=len(kept.row_counts_))

    def same_values(self, other: Recipe) -> bool:
        """Whether counts become values in the same way."""
        if self.prepare is None or other.prepare is None:
            return self.prepare is other.prepare
        if self.prepare is other.prepare:
            return True
        one, two = self.prepare.get_state(), other.prepare.get_state()
        return bool(np.array_equal(one.pop("row_counts"), two.pop("row_counts")) and one == two)

    def described(self) -> dict[str, dict[str, Any]]:
        """What was asked for, other than the defaults: of the text, and of the values."""
        found = {}
        for name, part in (("text", self.text), ("values", self.prepare)):
            if part is not None:
                state, usual = part.get_state(), type(part)()
                chosen = state.get("parameters", state).items()
                found[name] = {key: value for key, value in chosen if value != getattr(usual, key)}
        return found

    def get_state(self) -> dict[str, Any]:
        """As JSON can hold it, but for arrays."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "columns": None if self.columns is None else list(self.columns),
            "text": None if self.text is None else self.text.get_state(),
            "prepare": None if self.prepare is None else self.prepare.get_state(),
            "names": self.names,
        }

    @classmethod
    def from_state(cls, state: Any) -> Recipe:
        """The recipe of a state that comes from a file: everything is checked."""
        if not isinstance(state, dict) or state.keys() != set(cls.__dataclass_fields__):
            raise ValueError("The recipe is not one of this library.")
        text, prepare, names = state["text"], state["prepare"], state["names"]
        columns = state["columns"]
        plain = {name: state[name] for name in _PLAIN}
        for name, value in plain.items():
            if not isinstance(value, _PLAIN[name]) or (value is True and name == "n_columns"):
                raise ValueError(f"The recipe has {value!r} as {name}.")
        if plain["n_columns"] < 0 or plain["dtype"] not in ("float32", "float64"):
            raise ValueError("The recipe is not one of this library.")
        if columns is not None and not all(isinstance(name, str) for name in columns):
            raise ValueError(f"The recipe has {columns!r} as columns.")
        try:
            recipe = cls(
                **plain,
                columns=None if columns is None else tuple(columns),
                text=None if text is None else TextOptions(**text),
                prepare=None if prepare is None else Prepare.from_state(prepare),
                names=names,
            )
        except TypeError as error:
            raise ValueError(f"The recipe is not one of this library: {error}.") from None
        if names is not None and len(names) != recipe.n_features:
            raise ValueError("The recipe has another number of names than of columns.")
        return recipe


_OPTIONAL_STR = (str, type(None))
_OPTIONAL_BOOL = (bool, type(None))
_PLAIN: dict[str, Any] = {
    "format": _OPTIONAL_STR,
    "dtype": str,
    "n_columns": int,
    "zero_based": _OPTIONAL_BOOL,
    "transpose": _OPTIONAL_BOOL,
    "layer": _OPTIONAL_STR,
}


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
