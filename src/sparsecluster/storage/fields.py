"""How single attributes of a fit are stored, and checked when they come back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.tensors import Names

_DTYPES: dict[str, Any] = {"int": np.int64, "float": np.float64, "str": object}
RECORD_DTYPES = {field.name: _DTYPES[str(field.type)] for field in fields(IterationRecord)}
# Those that came later than the first model files.
RECORD_DEFAULTS = {"skipped", "center_distances", "assignment_seconds", "update_seconds", "space"}


class Field:
    """An attribute that is stored as it is."""

    def pack(self, value: Any) -> Any:
        """As arrays and what JSON can hold."""
        return value

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        """The attribute, if it is what it should be."""
        return value


@dataclass(frozen=True)
class Scalar(Field):
    """A single value."""

    kind: type

    def pack(self, value: Any) -> Any:
        return self.kind(value)

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        if type(value) is not self.kind:
            raise ValueError(f"has {value!r} as {name}")
        return value


@dataclass(frozen=True)
class Array(Field):
    """An array of one type and number of dimensions."""

    dtype: Any
    ndim: int = 1

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        return check_array_of(value, self.dtype, self.ndim, name)


class Seconds(Field):
    """Times by name."""

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        if not isinstance(value, dict) or any(type(one) is not float for one in value.values()):
            raise ValueError(f"has something else than seconds as {name}")
        return value


class FeatureNames(Field):
    """Names of columns."""

    def pack(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return np.array([str(one) for one in value], dtype=object)
        return value

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        if value is not None and not (isinstance(value, Names) and len(value) <= n_features):
            raise ValueError(f"has something else than names as {name}")
        # scikit-learn compares these with the columns of data frames in ways of its own.
        return np.array(value) if name == "feature_names_in_" else value


class History(Field):
    """The records of the iterations, column by column."""

    def pack(self, value: Any) -> Any:
        return {
            name: np.array([getattr(record, name) for record in value], dtype=dtype)
            for name, dtype in RECORD_DTYPES.items()
        }

    def unpack(self, name: str, value: Any, n_features: int) -> Any:
        known = {key: dtype for key, dtype in RECORD_DTYPES.items() if key in value}
        missing = RECORD_DTYPES.keys() - known.keys() - RECORD_DEFAULTS
        if missing or value.keys() != known.keys():
            raise ValueError(f"has a history of other columns than {', '.join(RECORD_DTYPES)}")
        columns = []
        for key, dtype in known.items():
            column = value[key]
            if dtype is object and isinstance(column, Names):
                column = np.asarray(column)
            columns.append(check_array_of(column, dtype, 1, key).tolist())
        records = zip(*columns, strict=True)
        return [IterationRecord(**dict(zip(known, record, strict=True))) for record in records]


def check_array_of(value: Any, dtype: Any, ndim: int, name: str) -> np.ndarray:
    """An array, refused if it is of another type or number of dimensions."""
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != ndim:
        raise ValueError(f"has something else than an array of {np.dtype(dtype)} as {name}")
    return value


INTEGER, NUMBER, TEXT, FLAG = Scalar(int), Scalar(float), Scalar(str), Scalar(bool)
LABELS, NAMES, HISTORY, SECONDS = Array(np.int32), FeatureNames(), History(), Seconds()


def pack_random_state(random_state: np.random.RandomState) -> dict[str, Any]:
    """Where a generator is, as arrays and what JSON can hold."""
    state: dict[str, Any] = random_state.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise ValueError(
            f"A stream that draws by {state['bit_generator']} cannot be saved. Use a random_state "
            f"that is a number, or RandomState(seed)."
        )
    return {
        "key": state["state"]["key"],
        "position": state["state"]["pos"],
        "has_gauss": state["has_gauss"],
        "gauss": state["gauss"],
    }


def unpack_random_state(state: dict[str, Any]) -> np.random.RandomState:
    """The generator, at the same place."""
    key, position = state["key"], state["position"]
    has_gauss, gauss = state["has_gauss"], state["gauss"]
    check_array_of(key, np.uint32, 1, "the state of its random numbers")
    # numpy believes the position, and would read what lies behind the key.
    inside = type(position) is int and 0 <= position <= 624 and has_gauss in (0, 1)
    if len(key) != 624 or not inside or not isinstance(gauss, float):
        raise ValueError("has a state of its random numbers that cannot be")
    random_state = np.random.RandomState()
    random_state.set_state(("MT19937", key, position, has_gauss, gauss))
    return random_state
