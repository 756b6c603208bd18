"""From what a file holds to rows, block by block: the steps that reading and converting share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsecluster.data.formats import TEXTS, format_of, open_source
from sparsecluster.data.prepare import Prepare
from sparsecluster.data.recipe import Recipe
from sparsecluster.data.rows import Rows
from sparsecluster.data.source import Block, ReadError, Source
from sparsecluster.data.store import StoreSource, is_store
from sparsecluster.data.text import TextOptions, TextSource
from sparsecluster.engine.resources import effective_n_threads

#: Called with the share of the work that is done, from 0 to 1.
Progress = Callable[[float], Any]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a file is read. What is None is left to the file's format.

    Parameters
    ----------
    format : str or None
        One of "svmlight", "npz", "npy", "mtx", "docword", "h5ad", "parquet", "txt", "jsonl", "csv";
        by default what the file's first bytes and its name say.
    dtype : {"float32", "float64"} or None
        Type of the values; by default that of the file, and float32 for files of text.
    text : TextOptions or None
        For txt, jsonl and csv: how documents become terms.
    zero_based : bool or None
        For svmlight: whether columns count from zero; by default, if a column 0 occurs.
    transpose : bool or None
        For mtx: whether the columns of the file are the rows.
    layer : str or None
        For h5ad: the layer to take in place of X; "raw/X" is that of ``raw``.
    columns : tuple of str or None
        For parquet: the columns with (indices, values) or (row, column, value).
    n_threads : int or None
        Threads to use; by default all CPUs of the process.
    """

    format: str | None = None
    dtype: str | None = None
    text: TextOptions | None = None
    zero_based: bool | None = None
    transpose: bool | None = None
    layer: str | None = None
    columns: tuple[str, ...] | None = None
    n_threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class Known:
    """What was learned about columns: how they came about, how many there are, their names."""

    recipe: Recipe
    n_features: int
    names: np.ndarray | None


def known_of(like: Any) -> Known:
    """What rows or a fitted estimator know about their columns."""
    if isinstance(like, Rows):
        recipe, n_features, names = like.recipe, like.n_features, like.feature_names
    else:
        if not hasattr(like, "n_features_in_"):
            raise ValueError("like must be Rows or a fitted estimator.")
        state = getattr(like, "recipe_", None)
        recipe = None if state is None else Recipe.from_state(state)
        n_features, names = like.n_features_in_, getattr(like, "feature_names_", None)
    recipe = recipe or Recipe(n_columns=n_features)
    return Known(recipe=recipe, n_features=n_features, names=names)


def check_prepare(prepare: Prepare | None, like: Any) -> None:
    """Refuse parameters of `prepare` that cannot be, before anything is read."""
    if prepare is None:
        return
    if like is not None:
        raise ValueError("prepare and like exclude each other: like says how values are made.")
    prepare._check_parameters()


class Counting:
    """Goes along with the raw blocks; after the last it knows what they become."""

    def __init__(self, prepare: Prepare | None) -> None:
        self._prepare = None if prepare is None else clone(prepare)
        self._width = 0
        self._n_rows = 0
        self._order: np.ndarray | None = None
        self._recipe = Recipe()

    def add(self, block: Block) -> None:
        """Count the entries of a block."""
        self._n_rows += block.n_rows
        self._width = max(self._width, int(block.indices.max(initial=-1)) + 1)
        if self._prepare is not None:
            self._prepare.count(block.indptr, block.indices, block.data)

    def counted(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks, counted as they pass."""
        for block in blocks:
            self.add(block)
            yield block

    def settle(self, source: Source) -> Known:
        """What there is to know now that all blocks were seen."""
        if self._n_rows == 0:
            raise ReadError(f"{source.path} has no rows.")
        first = source.first_column
        n_columns = max(self._width - first, 0) if source.n_features is None else source.n_features
        if n_columns == 0:
            raise ReadError(f"{source.path} has no columns: all rows are empty.")
        text = source.options if isinstance(source, TextSource) else None
        self._order = source.column_order if isinstance(source, TextSource) else None
        prepare = self._settled_prepare(first, n_columns)
        self._recipe = Recipe(prepare=prepare, first_column=first, n_columns=n_columns)
        names, kept = source.feature_names, self._recipe
        if names is not None and prepare is not None and prepare.columns_ is not None:
            names = names[prepare.columns_]
        if text is not None:
            # Terms that were dropped need not be known to whoever reads in the same way.
            prepare = None if prepare is None else prepare.without_dropped()
            kept = Recipe(text=text, prepare=prepare, n_columns=self._recipe.n_features)
        return Known(recipe=kept, n_features=self._recipe.n_features, names=names)

    def _settled_prepare(self, first_column: int, n_columns: int) -> Prepare | None:
        """Prepare, with its counts in the final order of the columns."""
        if self._prepare is None:
            return None
        state = self._prepare.get_state()
        counts = np.zeros(first_column + n_columns, dtype=np.int64)
        counts[: len(state["row_counts"])] = state["row_counts"]
        counts = counts[first_column:]
        if self._order is not None:
            state["row_counts"] = np.empty_like(counts)
            state["row_counts"][self._order] = counts
        else:
            state["row_counts"] = counts
        return Prepare.from_state(state)

    def finished(self, block: Block, first_row: int) -> Block:
        """What a raw block becomes."""
        if self._order is not None:
            width = len(self._order)
            # A copy of the values: they may be mapped, and are sorted in place.
            arrays = (block.data.copy(), self._order[block.indices], block.indptr)
            matrix = sp.csr_array(arrays, shape=(block.n_rows, width))
            matrix.sort_indices()
            block = replace(block, indices=matrix.indices.astype(np.int32), data=matrix.data)
        return self._recipe.apply(block, first_row=first_row)


def source_of(
    path: Path, options: ReadOptions, known: Known | None, *, whole: bool = False
) -> Source:
    """The reader of a file; with what is known it reads the same columns."""
    given = {name: value for name, value in options.__dict__.items() if value is not None}
    for name in ("format", "n_threads"):
        given.pop(name, None)
    if is_store(path):
        given.pop("dtype", None)
        if given:
            raise ValueError(f"{', '.join(given)}: of no use for a store.")
        return StoreSource(path)
    format = format_of(path, options.format)
    if known is not None:
        given |= _options_of(path, format, known)
    elif format in TEXTS:
        given.setdefault("text", TextOptions())
    n_threads = effective_n_threads(options.n_threads)
    return open_source(path, format, given, n_threads=n_threads, whole=whole)


def _options_of(path: Path, format: str, known: Known) -> dict[str, Any]:
    """The options by which a file is read like another."""
    if format == "svmlight":
        return {"zero_based": known.recipe.first_column == 0}
    if format not in TEXTS:
        return {}
    if known.recipe.text is None or known.names is None:
        raise ReadError(f"{path} is text, but what it is to be read like was not made from text.")
    return {"text": known.recipe.text, "vocabulary": known.names}


def raw_blocks(source: Source, options: ReadOptions, progress: Progress | None) -> Iterator[Block]:
    """The blocks of a file as they are, in the type that was asked for."""
    with closing(source.blocks()) as blocks:  # type: ignore[type-var]
        for block in blocks:
            if options.dtype is not None:
                block = replace(block, data=block.data.astype(options.dtype, copy=False))
            if progress:
                progress(block.done)
            yield block


def like_blocks(
    path: Path, options: ReadOptions, known: Known, progress: Progress | None
) -> Iterator[Block]:
    """The blocks of a file, made into rows in a known way."""
    source = source_of(path, options, known)
    recipe, n_rows = known.recipe, 0
    if recipe.text is not None and not isinstance(source, TextSource):
        # A matrix for a model of text: its rows are taken for prepared ones.
        recipe = Recipe(n_columns=known.n_features)
    for block in raw_blocks(source, options, progress):
        largest = int(block.indices.max(initial=-1)) - recipe.first_column
        claimed = source.n_features or 0
        if max(largest + 1, claimed) > recipe.n_columns:
            raise ReadError(
                f"{path} has {max(largest + 1, claimed)} columns or more, where "
                f"{recipe.n_columns} are known. It must have the same columns."
            )
        yield recipe.apply(block, first_row=n_rows)
        n_rows += block.n_rows
    if n_rows == 0:
        raise ReadError(f"{path} has no rows.")
    check_names(path, source, recipe, known)


def check_names(path: Path, source: Source, recipe: Recipe, known: Known) -> None:
    """Refuse a file whose columns have other names."""
    names = source.feature_names
    if names is None or known.names is None or isinstance(source, TextSource):
        return
    if recipe.prepare is not None and recipe.prepare.columns_ is not None:
        names = names[recipe.prepare.columns_] if len(names) == recipe.n_columns else names
    if not np.array_equal(names, known.names):
        raise ReadError(
            f"The columns of {path} have other names than those that are known. Read its source "
            f"in the way of the model (like=), or convert it so."
        )
