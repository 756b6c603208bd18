"""A file that is read from front to back in blocks of rows: what every reader gives, and what both
`read` (all blocks in memory) and `convert` (block by block into a store) take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sparsecluster.rows.errors import ReadError

BLOCK_ENTRIES = 2_000_000

__all__ = ["Block", "Labels", "Option", "ReadError", "Source"]


@dataclass(frozen=True)
class Option:
    """An option of a reader; `read`, the command line and the recipe take it from here."""

    name: str
    help: str  #: a line for the command line
    kind: Any = str  #: type of the value on the command line
    default: Any = None
    parse: Callable[[str], Any] | None = None  #: the value of what the command line has as a string
    negative: str | None = None  #: the flag of the command line for False
    fixed: bool = False  #: files whose rows are to be alike must agree on it

    def check(self, value: Any) -> None:
        """Refuse anything but True and False for a flag; the reader checks the rest."""
        if self.kind is bool and not isinstance(value, bool):
            raise ValueError(f"{self.name} must be True, False or None, got {value!r}.")


COLUMNS = Option(
    "columns",
    "Columns by name: those of a table of numbers; or indices,values or row,column,value.",
    parse=lambda names: tuple(names.split(",")),
)
ID_COLUMN = Option("id_column", "Column, or field, with the names of rows.")


def check_columns(columns: Any) -> list[str] | None:
    """The names of columns as a list; refused where they are something else, or one comes twice."""
    if columns is None:
        return None
    names = list(columns) if isinstance(columns, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"columns must be a list of names, got {columns!r}.")
    if len(set(names)) < len(names):
        raise ValueError(f"columns names a column twice: {', '.join(names)}.")
    return names


class IfThere(str):
    """The name of a column that a recipe knows, and that another file need not have."""


def ids_in(place: Any, wanted: str | None, names: list[str]) -> str | None:
    """The column with the names of rows; None where there is none, and none was asked for."""
    if wanted is None or (isinstance(wanted, IfThere) and wanted not in names):
        return None
    return known_column(place, wanted, names)


def known_column(place: Any, wanted: str, names: list[str]) -> str:
    """A column by its name; the error says which there are."""
    if wanted not in names:
        there = ", ".join(repr(name[:80]) for name in names[:30])
        raise ReadError(f"{place}: there is no column {wanted!r}. It has {there}.")
    return wanted


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of some rows, any number per row: those of row i are
    ``values[indptr[i]:indptr[i + 1]]``."""

    indptr: np.ndarray  #: int64, from 0
    values: np.ndarray  #: float64, as they are written in the file


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows as CSR arrays. Within a row the columns ascend strictly; values are finite."""

    indptr: np.ndarray  #: int64, from 0
    indices: np.ndarray  #: int32
    data: np.ndarray  #: float32 or float64, of the same type in all blocks
    labels: Labels | None = None  #: in all blocks or in none
    ids: np.ndarray | None = None  #: names of the rows, of str; in all blocks or in none
    done: float = 1.0  #: share of the input that was read with this block, for progress

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1


class Source(ABC):
    """A file of rows. What its attributes say holds after the last block only.

    A reader takes its path, its own `options`, and what it can do of `dtype`, `n_threads`,
    `block_bytes` (None: the whole file at once) and, for terms, `vocabulary`, as keywords. A block
    has at most `block_entries` entries, except for longer rows.
    """

    #: its own options
    options: ClassVar[tuple[Option, ...]] = ()
    #: values of options for a file whose rows are to be like others, where nothing is known of them
    options_of_others: ClassVar[dict[str, Any]] = {}
    #: whether columns are terms, which are found as the blocks come
    terms: ClassVar[bool] = False

    #: number of columns where the file tells it; None: as many as the largest index needs
    n_features: int | None = None
    #: what to subtract from all column indices (1 for files that count from one); while blocks come
    #: it is what they show so far, and can change from 1 to 0
    first_column: int = 0
    #: names of the columns
    feature_names: np.ndarray | None = None
    #: where each column goes; None: where it is
    column_order: np.ndarray | None = None
    #: number of different labels, where the file tells it
    n_labels: int | None = None

    def __init__(self, path: Path, *, block_entries: int = BLOCK_ENTRIES) -> None:
        self.path = path
        self.block_entries = block_entries
        #: called once the file has told its columns, before any other work
        self.on_columns: Callable[[], None] = lambda: None

    def tell_columns(self, n_features: int, feature_names: np.ndarray | None = None) -> None:
        """Say what a file states of its columns before its first block; may be refused here."""
        self.n_features, self.feature_names = n_features, feature_names
        self.on_columns()

    def options_found(self) -> dict[str, Any]:
        """Options by which another file is read in the same way, as this file showed them."""
        return {}

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The rows, in the order of the file; each block takes some 100 MB at most."""
