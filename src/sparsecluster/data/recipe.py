"""How a file became rows, so that another file can become rows in the same way: a store and a model
carry it along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsecluster.data.prepare import Prepare
from sparsecluster.data.source import Block
from sparsecluster.data.text import TextOptions

_KEYS = {"text", "prepare", "first_column", "n_columns"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """From what a file holds to rows.

    Parameters
    ----------
    text : TextOptions or None
        How documents became terms; the terms are the names of the columns.
    prepare : Prepare or None
        How counts became values, fitted; None: they did not change.
    first_column : int
        The number that the file has for its first column.
    n_columns : int
        Columns that the file has, before any are dropped.
    """

    text: TextOptions | None = None
    prepare: Prepare | None = None
    first_column: int = 0
    n_columns: int = 0

    def get_state(self) -> dict[str, Any]:
        """As JSON can hold it, but for arrays."""
        return {
            "text": None if self.text is None else self.text.get_state(),
            "prepare": None if self.prepare is None else self.prepare.get_state(),
            "first_column": self.first_column,
            "n_columns": self.n_columns,
        }

    @classmethod
    def from_state(cls, state: Any) -> Recipe:
        """The recipe of a state that comes from a file: everything is checked."""
        if not isinstance(state, dict) or set(state) != _KEYS:
            raise ValueError("The recipe is not one of this library.")
        text, prepare = state["text"], state["prepare"]
        first, columns = state["first_column"], state["n_columns"]
        if first not in (0, 1) or not isinstance(columns, int) or columns < 0:
            raise ValueError("The recipe is not one of this library.")
        try:
            return cls(
                text=None if text is None else TextOptions(**text),
                prepare=None if prepare is None else Prepare.from_state(prepare),
                first_column=int(first),
                n_columns=columns,
            )
        except TypeError as error:
            raise ValueError(f"The recipe is not one of this library: {error}.") from None

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        if self.prepare is None or self.prepare.columns_ is None:
            return self.n_columns
        return len(self.prepare.columns_)

    def apply(self, block: Block, *, first_row: int = 0) -> Block:
        """A block of rows as they are clustered, from a block as the file has it."""
        if self.first_column:
            block = replace(block, indices=block.indices - np.int32(self.first_column))
        if self.prepare is None:
            return block
        indptr, indices, data = self.prepare.apply(
            block.indptr, block.indices, block.data, first_row=first_row
        )
        return replace(block, indptr=indptr, indices=indices, data=data)

    def same_values(self, other: Recipe | None) -> bool:
        """Whether counts become values in the same way."""
        mine = self.prepare
        theirs = None if other is None else other.prepare
        if mine is None or theirs is None:
            return mine is theirs
        one, two = mine.get_state(), theirs.get_state()
        return bool(np.array_equal(one.pop("row_counts"), two.pop("row_counts")) and one == two)


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
