"""From what a file holds to rows, block by block: the steps that reading and converting share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsecluster.formats.registry import FORMATS, TEXTS, format_of, open_source
from sparsecluster.formats.source import Block, ReadError, Source
from sparsecluster.formats.text import TextOptions, TextSource
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.prepare.recipe import FILE_OPTIONS, Recipe
from sparsecluster.rows.names import check_name
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.store import StoredRows, StoreSource, is_store, open_store

#: Called with the share of the work that is done, from 0 to 1.
Progress = Callable[[float], Any]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a file is read, as :func:`read` describes it. None: as the file's format has it."""

    format: str | None = None
    dtype: str | None = None
    text: TextOptions | None = None
    zero_based: bool | None = None
    transpose: bool | None = None
    layer: str | None = None
    columns: tuple[str, ...] | None = None
    n_threads: int | None = None

    def __post_init__(self) -> None:
        if self.format is not None:
            check_name("format", self.format, tuple(FORMATS))
        if self.dtype is not None:
            check_name("dtype", self.dtype, ("float32", "float64"))
        if not isinstance(self.text, TextOptions | None):
            raise ValueError(f"text must be TextOptions or None, got {self.text!r}.")
        for name in ("zero_based", "transpose"):
            if not isinstance(getattr(self, name), bool | None):
                raise ValueError(f"{name} must be True, False or None.")

    def for_source(self) -> dict[str, Any]:
        """Those options that the file's reader gets, as far as they were given."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("format", "n_threads", "dtype"):
            del given[name]
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A file that is about to be read: its source, how it is read, what its values become."""

    source: Source
    recipe: Recipe  #: as far as known before the first block; without `prepare`
    dtype: str | None  #: that blocks are brought to; None: as they are
    prepare: Prepare | None = None  #: fitted; None: values stay as they are

    def raw_blocks(self, progress: Progress | None) -> Iterator[Block]:
        """The blocks as the file has them, but for the type of their values."""
        with closing(self.source.blocks()) as blocks:  # type: ignore[type-var]
            for block in blocks:
                if self.dtype is not None:
                    with np.errstate(over="ignore"):  # infinities are refused later, with their row
                        block = replace(block, data=block.data.astype(self.dtype, copy=False))
                if progress:
                    progress(block.done)
                yield block


def open_file(path: Path, options: ReadOptions, *, whole: bool = False) -> Opened:
    """Open a file, or a store, to be read as it is."""
    if is_store(path):
        return _open_as_file(open_store(path), options)
    format = format_of(path, options.format)
    given = options.for_source()
    if format in TEXTS:
        given.setdefault("text", TextOptions())
    source = _open_source(path, format, given, options, whole=whole)
    own: dict[str, Any] = {name: given.get(name) for name in FILE_OPTIONS}
    recipe = Recipe(format=format, text=given.get("text"), **own)
    return Opened(source=source, recipe=recipe, dtype=options.dtype)


def _open_source(
    path: Path, format: str, given: dict[str, Any], options: ReadOptions, *, whole: bool = False
) -> Source:
    if options.dtype is not None:
        given = given | {"dtype": options.dtype}
    n_threads = effective_n_threads(options.n_threads)
    return open_source(path, format, given, n_threads=n_threads, whole=whole)


def _open_as_file(rows: StoredRows, options: ReadOptions) -> Opened:
    given = options.for_source()
    if given or options.format:
        raise ValueError(f"{', '.join(given) or 'format'}: of no use for a store.")
    recipe = rows.recipe or Recipe(n_columns=rows.n_features, names=rows.feature_names)
    return Opened(source=StoreSource(rows), recipe=recipe, dtype=options.dtype)


# --- in the way of others ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Known:
    """What rows or a model know about their columns; without a recipe nobody knows whence."""

    n_features: int
    recipe: Recipe | None
    names: np.ndarray | None

    def columns_to_be(self) -> Recipe:
        """The recipe, or what stands for it: values that stay as they are."""
        return self.recipe or Recipe(n_columns=self.n_features, names=self.names)


def known_of(like: Any) -> Known:
    """What rows or a fitted estimator know about their columns."""
    if isinstance(like, Rows):
        names = like.feature_names
        return Known(n_features=like.n_features, recipe=like.recipe, names=names)
    if not hasattr(like, "n_features_in_"):
        raise ValueError("like must be Rows or a fitted estimator.")
    recipe = getattr(like, "recipe", None)
    names = like.feature_names_ if recipe is None else recipe.names
    return Known(n_features=like.n_features_in_, recipe=recipe, names=names)


def open_like(path: Path, options: ReadOptions, known: Known) -> Opened:
    """Open a file, or a store, whose rows are to be like others."""
    if is_store(path):
        return _open_store_like(open_store(path), options, known)
    format = format_of(path, options.format)
    wanted = known.columns_to_be()
    given = options.for_source()
    if format in TEXTS:
        if wanted.text is None or wanted.names is None:
            raise ReadError(f"{path} is text, but what it is to be like was not made from text.")
        given["text"] = _text_like(wanted.text, options.text)
        given["vocabulary"] = wanted.names
    else:
        if wanted.text is not None and wanted.prepare is not None:
            raise ReadError(
                f"{path} is a matrix, but what it is to be like was made from text: whether its "
                f"values are counts is not known. Give the text, or a store of it."
            )
        if wanted.format == format:
            kept = {name: getattr(wanted, name) for name in FILE_OPTIONS}
            given = {name: value for name, value in kept.items() if value is not None} | given
        if format == "svmlight":
            # Where nobody knows it would be a guess, and a wrong one shifts all columns.
            given.setdefault("zero_based", "told")
    dtype = options.dtype or (wanted.dtype if known.recipe else None)
    source = _open_source(path, format, given, replace(options, dtype=dtype))
    return Opened(source=source, recipe=wanted, dtype=dtype, prepare=wanted.prepare)


def _text_like(text: TextOptions, given: TextOptions | None) -> TextOptions:
    """How text is read like other text: another column or encoding is the file's own affair."""
    if given is None:
        return text
    plain = TextOptions()
    for field in fields(TextOptions):
        value = getattr(given, field.name)
        if value == getattr(plain, field.name) or value == getattr(text, field.name):
            continue
        if field.name not in ("column", "encoding"):
            raise ValueError(
                f"{field.name}={value!r} is not how the other text was read: "
                f"{field.name}={getattr(text, field.name)!r}."
            )
        text = replace(text, **{field.name: value})
    return text


def _open_store_like(rows: StoredRows, options: ReadOptions, known: Known) -> Opened:
    """A store whose values are those wanted, or are counts that become them."""
    opened = _open_as_file(rows, options)
    made, wanted, path = opened.recipe, known.columns_to_be(), rows.path
    ready = known.recipe is None or made.same_values(wanted)
    if not ready and made.prepare is not None:
        raise ReadError(
            f"{path} was prepared in another way than what it is to be like. Convert its source "
            f"again, like the model (--like)."
        )
    n_columns = known.n_features if ready else wanted.n_columns
    if rows.n_features != n_columns:
        raise ReadError(
            f"{path} has {rows.n_features} columns, where {n_columns} are known. Convert its "
            f"source again, like the model (--like)."
        )
    prepare = None if ready else wanted.prepare
    _check_names(path, rows.feature_names, prepare, known.names)
    return replace(opened, recipe=wanted, prepare=prepare)


def like_blocks(opened: Opened, known: Known, progress: Progress | None) -> Iterator[Block]:
    """The blocks of a file, made into rows that are like others."""
    source, prepare, n_rows = opened.source, opened.prepare, 0
    n_columns = opened.recipe.n_columns if prepare is not None else known.n_features
    for block in opened.raw_blocks(progress):
        block = shifted(block, source.first_column)
        width = max(int(block.indices.max(initial=-1)) + 1, source.n_features or 0)
        if width > n_columns:
            raise ReadError(
                f"{source.path} has {width} columns or more, where {n_columns} are known. It must "
                f"have the same columns."
            )
        yield applied(prepare, block, n_rows)
        n_rows += block.n_rows
    if n_rows == 0:
        raise ReadError(f"{source.path} has no rows.")
    if not isinstance(source, TextSource):
        _check_names(source.path, source.feature_names, prepare, known.names)


def _check_names(path: Path, names: Any, prepare: Prepare | None, known: Any) -> None:
    """Refuse a file whose columns have other names."""
    if names is None or known is None:
        return
    if prepare is not None and prepare.columns_ is not None:
        names = np.asarray(names)[prepare.columns_]
    if not np.array_equal(names, known):
        raise ReadError(
            f"The columns of {path} have other names than those that are known. Convert its source "
            f"again, like the model (--like)."
        )


def shifted(block: Block, first_column: int) -> Block:
    """A block whose columns count from zero."""
    if first_column == 0:
        return block
    return replace(block, indices=block.indices - np.int32(first_column))


def applied(prepare: Prepare | None, block: Block, first_row: int) -> Block:
    """A block whose counts are prepared."""
    if prepare is None:
        return block
    arrays = prepare.apply(block.indptr, block.indices, block.data, first_row=first_row)
    return replace(block, indptr=arrays[0], indices=arrays[1], data=arrays[2])


# --- what all rows have to be seen for ----------------------------------------------------------


class Counting:
    """Goes along with the raw blocks; after the last it knows what they become."""

    def __init__(self, opened: Opened, prepare: Prepare | None) -> None:
        if prepare is not None:
            prepare._check_parameters()
            if opened.recipe.prepare is not None:
                opened.recipe.prepared(prepare)  # says why not
        self._opened = opened
        self._prepare = None if prepare is None else clone(prepare)
        self._dtype: Any = np.dtype(np.float32)
        self._width = 0
        self._n_rows = 0
        self._order: np.ndarray | None = None

    def add(self, block: Block) -> None:
        """Count the entries of a block."""
        self._n_rows += block.n_rows
        self._dtype = block.data.dtype
        self._width = max(self._width, int(block.indices.max(initial=-1)) + 1)
        if self._prepare is not None:
            self._prepare.count(block.indptr, block.indices, block.data)

    def counted(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks, counted as they pass."""
        for block in blocks:
            self.add(block)
            yield block

    def settle(self) -> Recipe:
        """How the file became rows, now that all blocks were seen."""
        source, recipe = self._opened.source, self._opened.recipe
        if self._n_rows == 0:
            raise ReadError(f"{source.path} has no rows.")
        n_columns = source.n_features
        if n_columns is None:
            n_columns = max(self._width - source.first_column, 0)
        if n_columns == 0:
            raise ReadError(f"{source.path} has no columns: all rows are empty.")
        recipe = replace(recipe, dtype=self._dtype.name)
        if not isinstance(source, StoreSource):
            recipe = replace(recipe, n_columns=n_columns, names=source.feature_names)
            if recipe.format == "svmlight":
                recipe = replace(recipe, zero_based=source.first_column == 0)
        if isinstance(source, TextSource):
            self._order = source.column_order
        if self._prepare is not None:
            self._prepare = self._in_final_order(self._prepare, source.first_column, n_columns)
        return recipe.prepared(self._prepare)

    def _in_final_order(self, prepare: Prepare, first_column: int, n_columns: int) -> Prepare:
        """What was counted, by the final order of the columns."""
        state = prepare.get_state()
        counts = np.zeros(first_column + n_columns, dtype=np.int64)
        counts[: len(state["row_counts"])] = state["row_counts"]
        counts = state["row_counts"] = counts[first_column:]
        if self._order is not None:
            state["row_counts"] = np.empty_like(counts)
            state["row_counts"][self._order] = counts
        return Prepare.from_state(state)

    def finished(self, block: Block, first_row: int) -> Block:
        """What a raw block becomes."""
        block = shifted(block, self._opened.source.first_column)
        if self._order is not None:
            # A copy of the values: they may be mapped, and are sorted in place.
            arrays = (block.data.copy(), self._order[block.indices], block.indptr)
            matrix = sp.csr_array(arrays, shape=(block.n_rows, len(self._order)))
            matrix.sort_indices()
            block = replace(block, indices=matrix.indices.astype(np.int32), data=matrix.data)
        return applied(self._prepare, block, first_row)
