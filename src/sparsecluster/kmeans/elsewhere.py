"""Rows that are not in this process: of a store that all workers see, or blocks that they have."""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_array

from sparsecluster.prepare.annotated import is_annotated
from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.recipe import Recipe
from sparsecluster.rows.rows import Provenance, Rows, as_rows, check_input, mapped_csr
from sparsecluster.run.session import Executor
from sparsecluster.storage.store import StoredRows, is_store, open_store, rows_between

NEEDED = (
    "executor needs X to be a store that all workers see (make one with convert, and pass its "
    "path), a dask array of rows, or a list of delayed CSR matrices."
)


#: Blocks, their numbers of rows, and that of their columns, where these are known.
FoundBlocks = tuple[list[Any], list[int | None], int | None]


class RowsElsewhere(ABC):
    """What is known about rows without reading them, and how workers get parts of them."""

    rows: Rows  #: shape, names and recipe; no values
    mapped = False  #: whether they take no memory of this process when they are here

    @abstractmethod
    def cuts(self, n_parts: int) -> list[int]:
        """Where parts begin and end: so many at most, and about as large."""

    @abstractmethod
    def spec(self, begin: int, end: int) -> dict[str, Any]:
        """What a part is made of by `part_rows`."""

    @abstractmethod
    def here(self) -> Rows:
        """All rows, in this process."""


def rows_elsewhere(X: Any, executor: Executor) -> RowsElsewhere:
    """The rows of X, not read yet."""
    if (blocks := _blocks(X)) is not None:
        return Blocks(blocks, executor, X)
    if not is_elsewhere(X):
        raise ValueError(NEEDED)
    return Stored(X, executor)


def is_elsewhere(X: Any) -> bool:
    """Whether X is something that workers can have their parts of."""
    if isinstance(X, StoredRows) or _blocks(X) is not None:
        return True
    return isinstance(X, str | os.PathLike) and is_store(Path(X))


def part_rows(spec: dict[str, Any], n_threads: int) -> Rows:
    """The rows of a part, checked: no other ones are read."""
    begin, end = spec["begin"], spec["end"]
    if "path" in spec:
        return rows_between(
            spec["path"], begin, end, checksum=spec["checksum"], n_threads=n_threads
        )
    blocks = [one.compute() if hasattr(one, "dask") else one for one in spec["blocks"]]
    try:
        matrices = [check_array(check_input(block), input_name="X", **INPUT) for block in blocks]
        matrix = _stacked(matrices)
        if matrix.shape != (end - begin, spec["n_features"]):
            raise ValueError(
                f"the shape is {matrix.shape}, and was to be {(end - begin, spec['n_features'])}."
            )
        return as_rows(matrix, n_threads=n_threads, provenance=Provenance(first_row=begin))
    except ValueError as error:
        raise ValueError(f"In the blocks of rows {begin} to {end - 1}: {error}") from None


class Stored(RowsElsewhere):
    """The rows of a store."""

    mapped = True

    def __init__(self, X: Any, executor: Executor) -> None:
        self.rows: StoredRows = X if isinstance(X, StoredRows) else open_store(X)
        described = self.rows.path / "meta.json"
        executor.check_file(str(described), zlib.crc32(described.read_bytes()))

    def cuts(self, n_parts: int) -> list[int]:
        n_rows, indptr = self.rows.n_rows, self.rows.arrays["indptr"]
        n_parts = min(n_parts, n_rows)
        cuts = [0]
        for part in range(1, n_parts):
            at = int(np.searchsorted(indptr, part * int(indptr[-1]) // n_parts))
            cuts.append(min(max(at, cuts[-1] + 1), n_rows - (n_parts - part)))
        return [*cuts, n_rows]

    def spec(self, begin: int, end: int) -> dict[str, Any]:
        return {"path": str(self.rows.path), "checksum": self.rows.meta["checksum"]}

    def here(self) -> Rows:
        return self.rows.checked()


class Blocks(RowsElsewhere):
    """Blocks of rows that Dask has, or can make: of an array, an AnnData, or delayed matrices."""

    def __init__(self, found: FoundBlocks, executor: Executor, X: Any) -> None:
        blocks, heights, width = found
        executor.check_blocks(blocks)
        if width is None or any(height is None for height in heights):
            shapes = executor.of_each(_shape, blocks)
            heights, widths = [shape[0] for shape in shapes], {shape[1] for shape in shapes}
            if len(widths) != 1:
                raise ValueError(f"The blocks of X have different widths: {sorted(widths)}.")
            width = widths.pop()
        filled = [number for number, height in enumerate(heights) if height]
        if not filled:
            raise ValueError("X has no rows.")
        self._executor = executor
        self._blocks = [blocks[number] for number in filled]
        self._ends = np.cumsum([0, *(heights[number] or 0 for number in filled)])
        self._width, n_rows = int(width), int(self._ends[-1])
        # A shape alone: no values, and no memory.
        indptr = np.broadcast_to(np.int64(0), (n_rows + 1,))
        nothing = np.zeros(0, dtype=np.int32), np.zeros(0)
        matrix = mapped_csr(indptr, *nothing, self._width, keep_indptr=True)
        self.rows = Rows(matrix, provenance=_provenance(X, self._width))

    def cuts(self, n_parts: int) -> list[int]:
        n_rows = int(self._ends[-1])
        wanted = [n_rows * part // n_parts for part in range(1, n_parts)]
        inner = {int(self._ends[np.abs(self._ends - at).argmin()]) for at in wanted}
        return sorted({0, n_rows} | inner)

    def spec(self, begin: int, end: int) -> dict[str, Any]:
        first, last = np.searchsorted(self._ends, [begin, end])
        return {"blocks": self._blocks[first:last], "n_features": self._width}

    def here(self) -> Rows:
        blocks = self._executor.of_each(_itself, self._blocks)
        spec = {"begin": 0, "end": int(self._ends[-1]), **self.spec(0, int(self._ends[-1]))}
        return part_rows({**spec, "blocks": blocks}, 1)


def _blocks(X: Any) -> FoundBlocks | None:
    """Blocks that Dask has; None where X is something else."""
    if is_annotated(X):
        X = X.X
    if hasattr(X, "to_delayed") and hasattr(X, "numblocks"):
        if len(X.shape) != 2:
            raise ValueError(f"X must have two dimensions, and has {len(X.shape)}.")
        if X.numblocks[1] != 1:
            raise ValueError(
                "The chunks of X have to hold whole rows: pass X.rechunk({1: -1}) in its place."
            )
        width = None if np.isnan(X.shape[1]) else int(X.shape[1])
        heights = [None if np.isnan(height) else int(height) for height in X.chunks[0]]
        return list(X.to_delayed().ravel()), heights, width
    if isinstance(X, list | tuple) and len(X) and all(_is_block(block) for block in X):
        return list(X), [None] * len(X), None
    return None


def _is_block(block: Any) -> bool:
    """Whether it is a delayed value of Dask, or one that a worker has."""
    return hasattr(block, "key") and (hasattr(block, "dask") or hasattr(block, "client"))


def _provenance(X: Any, width: int) -> Provenance:
    if not is_annotated(X):
        return Provenance()
    names, ids = (
        np.array([str(name) for name in index], dtype=object)
        for index in (X.var_names, X.obs_names)
    )
    recipe = Recipe(n_columns=width, n_features=width, names=names)
    return Provenance(feature_names=names, ids=ids, recipe=recipe)


def _shape(block: Any) -> tuple[int, int]:
    if len(getattr(block, "shape", ())) != 2:
        raise ValueError(f"A block of X is not a matrix but a {type(block).__name__}.")
    return int(block.shape[0]), int(block.shape[1])


def _itself(block: Any) -> Any:
    return block


def _stacked(matrices: list[Any]) -> Any:
    """One matrix, without a copy where there is one only."""
    if len(matrices) == 1:
        return matrices[0]
    if not any(sp.issparse(matrix) for matrix in matrices):
        return np.vstack(matrices)
    return sp.csr_array(sp.vstack(matrices, format="csr"))


def own_parts(cuts: Sequence[int], array: np.ndarray) -> list[np.ndarray]:
    """An array of a value per row, as the parts have the rows."""
    return [array[begin:end] for begin, end in pairwise(cuts)]
