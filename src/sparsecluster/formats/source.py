"""A file that is read from front to back in blocks of rows: what every reader gives, and what both
`read` (all blocks in memory) and `convert` (block by block into a store) take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np


class ReadError(ValueError):
    """A file that cannot be read: broken, of another format, or without what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of some rows, any number a row: those of row i are
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
    done: float = 1.0  #: share of the input that was read with this block, for progress

    @property
    def n_rows(self) -> int:
        return len(self.indptr) - 1


class Source(ABC):
    """A file of rows. What its attributes say holds after the last block only."""

    #: number of columns where the file tells it; None: as many as the largest index needs
    n_features: int | None = None
    #: what to subtract from all column indices (1 for files that count from one); while blocks come
    #: it is what they show so far, and can change from 1 to 0
    first_column: int = 0
    #: names of the columns
    feature_names: np.ndarray | None = None
    #: number of different labels, where the file tells it
    n_labels: int | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The rows, in the order of the file; each block takes some 100 MB at most."""
