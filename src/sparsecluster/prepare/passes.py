"""Reading as fit and transform: a first pass through a file finds its columns, its vocabulary and
its counts, which make a fitted recipe; a transform takes any file through such a recipe."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

import numpy as np
from sklearn.base import clone

from sparsecluster.formats.inputs import Inputs, inputs_of
from sparsecluster.formats.registry import FORMATS, check_belong, format_of, open_source
from sparsecluster.formats.source import Block, IfThere, ReadError, Source
from sparsecluster.formats.stop_words import find_stop_words
from sparsecluster.formats.text import TextOptions
from sparsecluster.prepare.matching import MISSING, moved, places_of_columns
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.recipe import Recipe, plain
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.store import StoredRows, StoreSource, is_store, open_store

#: Called with the share of the work that is done, from 0 to 1.
Progress = Callable[[float], Any]


def asked(
    format: str | None = None,
    dtype: str | None = None,
    text: TextOptions | None = None,
    **options: Any,
) -> Recipe:
    """What was asked for, as a recipe that is not fitted; None is nothing."""
    if format is not None:
        check_name("format", format, tuple(FORMATS))
    if dtype is not None:
        check_name("dtype", dtype, ("float32", "float64"))
    if not isinstance(text, TextOptions | None):
        raise ValueError(f"text must be TextOptions or None, got {text!r}.")
    options = {**(asdict(text) if text else {}), **options}
    if "stop_words" in options:
        options["stop_words"] = find_stop_words(options["stop_words"])
    given = {name: plain(value) for name, value in options.items() if value is not None}
    return Recipe(format=format, dtype=dtype, options=given)


#: Opens files as :func:`open_source` does.
Opening = Callable[..., Source]


class _Pass:
    """A pass through a file, or a store."""

    source: Source
    _prepare: Prepare | None
    _dtype: Any

    @property
    def ready_rows(self) -> StoredRows | None:
        """The rows of a store, where nothing is to be done with them."""
        if not isinstance(self.source, StoreSource) or self._prepare is not None:
            return None
        same = self._dtype in (None, self.source.rows.matrix.dtype)
        return self.source.rows if same else None

    def _blocks(self, progress: Progress | None) -> Iterator[Block]:
        """The blocks of the source, with values of the type that is wanted."""
        with closing(self.source.blocks()) as blocks:  # type: ignore[type-var]
            for block in blocks:
                if self._dtype is not None:
                    with np.errstate(over="ignore"):  # infinities are refused later, with their row
                        block = replace(block, data=block.data.astype(self._dtype, copy=False))
                if progress:
                    progress(block.done)
                yield block

    def _applied(self, block: Block, first_row: int) -> Block:
        """A block whose counts are prepared."""
        if self._prepare is None:
            return block
        arrays = self._prepare.apply(block.indptr, block.indices, block.data, first_row=first_row)
        return replace(block, indptr=arrays[0], indices=arrays[1], data=arrays[2])


class FirstPass(_Pass):
    """The pass through a file, or a store, that fits a recipe. Its blocks come raw: what they
    become is known after the last."""

    def __init__(
        self,
        path: Any,
        wanted: Recipe,
        prepare: Prepare | None = None,
        *,
        n_threads: int | None = None,
        whole: bool = False,
        opening: Opening = open_source,
    ) -> None:
        if prepare is not None:
            prepare.check_parameters()
        if store_at(path):
            rows = open_store(path)
            self._recipe = _of_store(rows, wanted)
            self.source = StoreSource(rows)
            if prepare is not None and self._recipe.prepare is not None:
                raise ValueError(
                    "The data are prepared already. Start from their source, with all options at "
                    "once."
                )
        else:
            inputs = inputs_of(path)
            self.source, self._recipe = _of_files(
                inputs, wanted, n_threads, whole=whole, opening=opening
            )
        self._dtype = wanted.dtype
        self._prepare = None if prepare is None else clone(prepare)
        self._width = 0
        self._n_rows = 0

    def blocks(self, progress: Progress | None = None) -> Iterator[Block]:
        """The blocks as the file has them, but for the type of their values; counted."""
        for block in self._blocks(progress):
            self._n_rows += block.n_rows
            self._width = max(self._width, int(block.indices.max(initial=-1)) + 1)
            if self._prepare is not None:
                self._prepare.count(block.indptr, block.indices, block.data)
            self._dtype = block.data.dtype
            yield block

    def fit(self) -> Recipe:
        """How the file becomes rows, now that all blocks were seen."""
        source, recipe = self.source, self._recipe
        if self._n_rows == 0:
            raise ReadError(f"{source.path} has no rows.")
        n_columns = source.n_features
        if n_columns is None:
            n_columns = max(self._width - source.first_column, 0)
        if n_columns == 0:
            no_terms = "no document has a term (see token_pattern and stop_words)"
            why = no_terms if source.terms else "all rows are empty"
            raise ReadError(f"{source.path} has no columns: {why}.")
        recipe = replace(recipe, dtype=np.dtype(self._dtype).name)
        if not isinstance(source, StoreSource):
            recipe = replace(
                recipe,
                options=recipe.options | source.options_found(),
                n_columns=n_columns,
                n_features=n_columns,
                names=source.feature_names,
            )
        if self._prepare is None:
            return recipe
        state = self._prepare.get_state()
        state["row_counts"] = self.in_final_order(state["row_counts"], n_columns)
        self._prepare = Prepare.from_state(state)
        return _prepared(recipe, self._prepare)

    def in_final_order(self, counted: np.ndarray, n_columns: int) -> np.ndarray:
        """What was counted of the columns of raw blocks, by the columns as they will be."""
        first, order = self.source.first_column, self.source.column_order
        counts = np.zeros(first + n_columns, dtype=np.int64)
        counts[: len(counted)] = counted
        moved = counts[first:].copy()
        moved[slice(None) if order is None else order] = counts[first:]
        return moved

    def transform(self, block: Block, first_row: int) -> Block:
        """What a raw block becomes."""
        block, order = shifted(block, self.source.first_column), self.source.column_order
        if order is not None:
            block = moved(block, order)
        return self._applied(block, first_row)


class Transform(_Pass):
    """The blocks of a file, or a store, through a recipe that is fitted. What cannot be made alike
    is refused."""

    def __init__(
        self,
        path: Any,
        wanted: Recipe,
        fitted: Recipe,
        *,
        missing_columns: str = "error",
        n_threads: int | None = None,
        opening: Opening = open_source,
    ) -> None:
        self._missing = check_name("missing_columns", missing_columns, MISSING)
        self._dtype = wanted.dtype or fitted.dtype
        self._names = fitted.names
        prepare = fitted.prepare
        if store_at(path):
            rows = open_store(path)
            made = _of_store(rows, wanted)
            self._dtype = wanted.dtype
            if fitted.format is None or made.same_values(fitted):
                prepare = None
            self.source = StoreSource(rows)
        else:
            inputs = inputs_of(path)
            wanted = replace(_like(inputs, wanted, fitted), dtype=self._dtype)
            self.source, made = _of_files(inputs, wanted, n_threads, like=fitted, opening=opening)
        self._prepare = None if prepare is None else Prepare.from_state(prepare)
        if prepare is None:
            self._names = fitted.column_names
        self._n_columns = fitted.n_features if prepare is None else fitted.n_columns
        self._columns_matched = self.source.terms
        self._places: np.ndarray | None = None
        if isinstance(self.source, StoreSource):
            self._check_store(made, fitted)
            self._match_columns()
        self.source.on_columns = self._match_columns
        #: of the rows that this gives
        self.recipe = fitted
        if fitted.format is None:
            if made.prepare is None:
                n_columns, n_features = fitted.n_columns, fitted.n_features
                made = replace(made, n_columns=n_columns, n_features=n_features)
            self.recipe = replace(made, names=fitted.names)

    @property
    def ready_rows(self) -> StoredRows | None:
        """The rows of a store, where nothing is to be done with them."""
        return None if self._places is not None else super().ready_rows

    def blocks(self, progress: Progress | None = None) -> Iterator[Block]:
        """The blocks, made into rows."""
        source, n_rows = self.source, 0
        for block in self._blocks(progress):
            block = shifted(block, source.first_column)
            if not self._columns_matched:
                self._match_columns(too_late=n_rows > 0)
            if self._places is not None:
                block = moved(block, self._places)
            width = int(block.indices.max(initial=-1)) + 1
            if width > self._n_columns:
                raise ReadError(
                    f"{source.path} has {width:,} columns or more, but {self._n_columns:,} are "
                    f"expected."
                )
            yield self._applied(block, n_rows)
            n_rows += block.n_rows
        if n_rows == 0:
            raise ReadError(f"{source.path} has no rows.")
        if not self._columns_matched:
            self._match_columns(too_late=True)

    def _check_store(self, made: Recipe, fitted: Recipe) -> None:
        """Refuse a store whose values are not those wanted, nor counts that become them."""
        ready = fitted.format is None or made.same_values(fitted)
        if not ready and made.prepare is not None:
            raise ReadError(
                f"{self.source.path} was prepared in another way than the data it must match. "
                f"Convert its source again, like the model (--like)."
            )

    def _match_columns(self, *, too_late: bool = False) -> None:
        """Find the places of columns that have names, and refuse another number of those that have
        none, as soon as the file tells them: it may be too late for other places."""
        source = self.source
        if source.n_features is None:
            return
        self._columns_matched = True
        self._places = places_of_columns(
            source.n_features,
            source.feature_names,
            self._names,
            self._n_columns,
            origin=source.path,
            kept=None if self._prepare is None else self._prepare.columns_,
            missing=self._missing,
        )
        if too_late and self._places is not None:
            raise ReadError(
                f"{source.path} has its columns in another order than those known, and names them "
                f"behind its rows. Bring them to the same order."
            )


def recipe_of(like: Any) -> Recipe:
    """The fitted recipe of rows or of a fitted estimator; without a format where they were made of
    a matrix."""
    if isinstance(like, Recipe):
        return like
    if isinstance(like, Rows):
        n_features, names = like.n_features, like.feature_names
    elif hasattr(like, "n_features_in_"):
        n_features, names = like.n_features_in_, like.feature_names_
        names = getattr(like, "feature_names_in_", None) if names is None else names
    else:
        raise ValueError("like must be Rows, a fitted estimator or a fitted Recipe.")
    recipe: Recipe = getattr(like, "recipe", None) or Recipe(names=names)
    if recipe.prepare is not None:
        return recipe
    return replace(recipe, n_columns=n_features, n_features=n_features)  # they may have grown


def shifted(block: Block, first_column: int) -> Block:
    """A block whose columns count from zero."""
    if first_column == 0:
        return block
    return replace(block, indices=block.indices - np.int32(first_column))


def store_at(path: Any) -> bool:
    """Whether what was named is a store."""
    return isinstance(path, str | os.PathLike) and is_store(Path(path))


def _of_store(rows: StoredRows, wanted: Recipe) -> Recipe:
    """How a store was made; options for files are refused."""
    check_belong(wanted.options, set(), "a store")
    if wanted.format is not None:
        raise ValueError("format: no effect on a store.")
    n_features, names = rows.n_features, rows.feature_names
    return rows.recipe or Recipe(n_columns=n_features, n_features=n_features, names=names)


def _of_files(
    inputs: Inputs,
    wanted: Recipe,
    n_threads: int | None,
    *,
    whole: bool = False,
    like: Recipe | None = None,
    opening: Opening,
) -> tuple[Source, Recipe]:
    """The reader of some files, and what is known of their recipe before the first block."""
    format = format_of(inputs, wanted.format, wanted.options)
    reader = FORMATS[format].reader
    source = opening(
        inputs,
        format,
        wanted.options,
        dtype=wanted.dtype,
        n_threads=effective_n_threads(n_threads),
        whole=whole,
        like=like is not None,
        vocabulary=None if like is None else like.names,
    )
    usual = {option.name: plain(option.default) for option in reader.options}
    chosen = {name: plain(value) for name, value in wanted.options.items() if value != usual[name]}
    return source, Recipe(format=format, options=chosen, terms=reader.terms)


def _like(inputs: Inputs, wanted: Recipe, fitted: Recipe) -> Recipe:
    """What was asked for, and what the recipe says beyond."""
    path = inputs.path
    format = format_of(inputs, wanted.format, wanted.options, fitted.terms, usual=fitted.format)
    reader = FORMATS[format].reader
    if reader.terms and (not fitted.terms or fitted.names is None):
        raise ReadError(f"{path} is text, but the data it must match were not.")
    if fitted.terms and not reader.terms and fitted.prepare is not None:
        raise ReadError(
            f"{path} is a matrix, but the data it must match were text, and its values may not be "
            f"counts. Give the text, or a store of it."
        )
    known, given = _known_options(reader, format, fitted), dict(wanted.options)
    for option in reader.options:
        value = given.get(option.name)
        if not option.fixed or value is None:
            continue
        usual = plain(option.default)
        if value not in (usual, known.get(option.name, usual)):
            raise ValueError(
                f"{option.name}={shortened(value)} is not how the other text was read: "
                f"{option.name}={shortened(known.get(option.name, usual))}."
            )
        del given[option.name]
    return replace(wanted, format=format, options={**known, **given})


def _known_options(reader: type[Source], format: str, fitted: Recipe) -> dict[str, Any]:
    """What a recipe says of the options of a reader. All readers of text have them in common."""
    known: dict[str, Any] = {}
    if format == fitted.format or (reader.terms and fitted.terms):
        own = {option.name for option in reader.options}
        known = {name: value for name, value in fitted.options.items() if name in own}
    if "id_column" in known:
        known["id_column"] = IfThere(known["id_column"])
    if format == "table" and (columns := known.get("columns", fitted.names)) is not None:
        known["columns"] = [IfThere(name) for name in columns]  # which are matched by name
    return known


def _prepared(recipe: Recipe, prepare: Prepare) -> Recipe:
    """The recipe with counts that are prepared."""
    state, columns, names = prepare.get_state(), prepare.columns_, recipe.names
    if columns is not None and names is not None:
        names = np.asarray(names)[columns]
    if columns is not None and recipe.terms:
        # Terms that were dropped need not be known to whoever reads in the same way.
        state["row_counts"] = state["row_counts"][columns]
    return replace(
        recipe,
        prepare=state,
        names=names,
        n_columns=len(state["row_counts"]),
        n_features=prepare.n_features_out,
    )
