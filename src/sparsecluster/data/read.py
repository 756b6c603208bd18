"""Files as rows: all of a file in memory (`read`), block by block (`read_blocks`), or from a file
into a store (`convert`), by the same steps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparsecluster.data.atomic import atomic_folder
from sparsecluster.data.formats import TEXTS, format_of, open_source
from sparsecluster.data.metalabels import metalabels
from sparsecluster.data.prepare import Prepare
from sparsecluster.data.profile import Profile
from sparsecluster.data.recipe import Recipe
from sparsecluster.data.rows import Rows, as_rows
from sparsecluster.data.source import Block, ReadError, Source
from sparsecluster.data.store import (
    StoredRows,
    StoreSource,
    StoreWriter,
    is_store,
    label_columns,
    mapped_csr,
    open_store,
    rows_labels,
)
from sparsecluster.data.text import TextOptions, TextSource
from sparsecluster.engine.resources import effective_n_threads

#: Called with the share of the work that is done, from 0 to 1.
Progress = Callable[[float], Any]
STAGED = 0.7  # share of the time of a conversion that goes through the rows twice


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
        For h5ad: the layer to take in place of X.
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


def read(
    path: Any,
    options: ReadOptions | None = None,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    progress: Progress | None = None,
) -> Rows:
    """Read a file into memory, as rows that every `fit` and `predict` takes.

    Parameters
    ----------
    path : str or path
        svmlight (also with several labels a row, or the header of the extreme classification
        repository), scipy's .npz, .npy, Matrix Market, UCI bag of words, AnnData (needs the extra
        "h5ad"), Parquet or Arrow (needs "parquet"), text (.txt with a document a line, .jsonl,
        .csv), most of them also as .gz, .bz2 or .zst (needs "zstd"). A store is opened, not read.
    options : ReadOptions or None, default=None
        What the file does not say by itself.
    prepare : Prepare or None, default=None
        What to make of the counts in the file, not fitted yet.
    like : Rows, fitted estimator or None, default=None
        Read the file in the way in which these were read: with their vocabulary, their columns,
        their weights.
    progress : callable or None, default=None
        Called with the share that is done.

    Returns
    -------
    Rows

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsecluster import Prepare, read
    >>> path = Path(tempfile.mkdtemp()) / "documents.txt"
    >>> _ = path.write_text("red apple\\ngreen apple\\nblue sky\\n")
    >>> rows = read(path, prepare=Prepare(tfidf=True, unit=True))
    >>> rows.shape, list(rows.feature_names)
    ((3, 5), ['apple', 'blue', 'green', 'red', 'sky'])
    """
    path, options = Path(path), options or ReadOptions()
    _check_prepare(prepare, like)
    if is_store(path) and prepare is None:
        opened = _opened_like(path, options, like)
        if opened is not None:
            return opened
    if like is not None:
        parts = list(_like_blocks(path, options, _known(like), progress))
        return _joined(parts, _known(like))
    source = _source(path, options, None, whole=True)
    counting = _Counting(prepare)
    blocks = []
    for block in _raw_blocks(source, options, progress):
        counting.add(block)
        blocks.append(block)
    known = counting.settle(source)
    n_rows = 0
    for i, block in enumerate(blocks):
        blocks[i] = counting.finished(block, n_rows)
        n_rows += block.n_rows
    return _joined(blocks, known, source.n_labels)


def read_blocks(
    path: Any, options: ReadOptions | None = None, *, like: Any, progress: Progress | None = None
) -> Iterator[Rows]:
    """Read a file block by block, as `like` was read: for files larger than memory.

    Parameters are those of :func:`read`; the blocks are Rows, in the order of the file.
    """
    path, options, known = Path(path), options or ReadOptions(), _known(like)
    if is_store(path):
        # Its values may be what is wanted as they are.
        opened = _opened_like(path, options, like)
        if opened is not None:
            known = replace(known, recipe=Recipe(n_columns=known.n_features))
    for block in _like_blocks(path, options, known, progress):
        yield _joined([block], known)


def convert(
    path: Any,
    out: Any,
    options: ReadOptions | None = None,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> StoredRows:
    """Write the rows of a file into a store, in bounded memory; then open it.

    The store appears when it is whole: a conversion that is interrupted leaves nothing that opens.
    Rows are the same, to the bit, as :func:`read` gives.

    Parameters
    ----------
    path, options, prepare, like, progress
        As for :func:`read`. Where text gets a vocabulary, or `prepare` drops or weights columns,
        rows are written twice: what depends on all of them is known at the end only.
    out : str or path
        The folder to make, usually with a name that ends in ``.store``.
    overwrite : bool, default=False
        Whether a store of this name is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsecluster import convert
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "rows.svm").write_text("0 1:1 2:0.5\\n1 3:5\\n")
    >>> convert(folder / "rows.svm", folder / "rows.store").shape
    (2, 3)
    """
    path, out, options = Path(path), Path(out), options or ReadOptions()
    _check_prepare(prepare, like)
    _check_target(out, overwrite)
    with atomic_folder(out, overwrite=overwrite) as folder:
        _Conversion(path, folder, options, prepare, progress).run(like)
    return open_store(out)


def _check_target(out: Path, overwrite: bool) -> None:
    """Refuse to write over anything, but a store where that was asked for."""
    if overwrite and out.exists() and not is_store(out):
        raise ReadError(f"{out} exists and is not a store: it is not overwritten.")
    if not overwrite and out.exists():
        raise ReadError(f"{out} exists. Choose another name, or overwrite it (overwrite=True).")


class _Conversion:
    """From a file into the folder of a store."""

    def __init__(
        self,
        path: Path,
        folder: Path,
        options: ReadOptions,
        prepare: Prepare | None,
        progress: Progress | None,
    ) -> None:
        self.path, self.folder, self.options = path, folder, options
        self.prepare, self.progress = prepare, progress or (lambda share: None)
        self.n_threads = effective_n_threads(options.n_threads)

    def run(self, like: Any) -> None:
        """Write all there is to write."""
        if like is not None:
            known = _known(like)
            self._write(_like_blocks(self.path, self.options, known, self.progress), known, None)
            return
        source = _source(self.path, self.options, None)
        counting = _Counting(self.prepare)
        if self.prepare is None and not isinstance(source, TextSource):
            self._write_directly(source, counting)
            return
        staged = self.folder / "staged"
        staged.mkdir()
        writer = self._write_into(
            staged, counting.counted(_raw_blocks(source, self.options, self._first))
        )
        writer.finish(n_labels=source.n_labels)
        known = counting.settle(source)

        def finished() -> Iterator[Block]:
            n_rows = 0
            for block in StoreSource(staged).blocks():
                yield counting.finished(block, n_rows)
                n_rows += block.n_rows
                self.progress(STAGED + (1 - STAGED) * block.done)

        self._write(finished(), known, source.n_labels)
        shutil.rmtree(staged)

    def _first(self, share: float) -> None:
        self.progress(STAGED * share)

    def _write_directly(self, source: Source, counting: _Counting) -> None:
        """Write the blocks as they come; again where columns turn out to count from zero."""
        first_column = None

        def shifted() -> Iterator[Block]:
            nonlocal first_column
            for block in _raw_blocks(source, self.options, self.progress):
                if first_column is None:
                    first_column = source.first_column
                elif first_column != source.first_column:
                    raise _CountsFromZero
                counting.add(block)
                yield Recipe(first_column=first_column).apply(block)

        try:
            writer = self._write_into(self.folder, shifted())
        except _CountsFromZero:
            self.options = replace(self.options, zero_based=True)
            self.run(None)
            return
        self._finish(writer, counting.settle(source), source.n_labels)

    def _write(self, blocks: Iterable[Block], known: _Known, n_labels: int | None) -> None:
        self._finish(self._write_into(self.folder, blocks), known, n_labels)

    def _write_into(self, folder: Path, blocks: Iterable[Block]) -> StoreWriter:
        writer = None
        try:
            for block in blocks:
                writer = writer or StoreWriter(folder, block.data.dtype, n_threads=self.n_threads)
                writer.append(block)
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise
        if writer is None or writer.n_rows == 0:
            raise ReadError(f"{self.path} has no rows.")
        return writer

    def _finish(self, writer: StoreWriter, known: _Known, n_labels: int | None) -> None:
        writer.finish(
            n_features=known.n_features,
            feature_names=known.names,
            n_labels=n_labels,
            recipe=known.recipe,
            origin=self.path.name,
        )


class _CountsFromZero(Exception):
    """A column 0 came after blocks that had been taken to count from one."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """What was learned about columns: how they came about, how many there are, their names."""

    recipe: Recipe
    n_features: int
    names: np.ndarray | None


def _known(like: Any) -> _Known:
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
    return _Known(recipe=recipe, n_features=n_features, names=names)


def _check_prepare(prepare: Prepare | None, like: Any) -> None:
    if prepare is None:
        return
    if like is not None:
        raise ValueError("prepare and like exclude each other: like says how values are made.")
    prepare._check_parameters()


class _Counting:
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

    def settle(self, source: Source) -> _Known:
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
        return _Known(recipe=kept, n_features=self._recipe.n_features, names=names)

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


def _source(
    path: Path, options: ReadOptions, known: _Known | None, *, whole: bool = False
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


def _options_of(path: Path, format: str, known: _Known) -> dict[str, Any]:
    """The options by which a file is read like another."""
    if format == "svmlight":
        return {"zero_based": known.recipe.first_column == 0}
    if format not in TEXTS:
        return {}
    if known.recipe.text is None or known.names is None:
        raise ReadError(f"{path} is text, but what it is to be read like was not made from text.")
    return {"text": known.recipe.text, "vocabulary": known.names}


def _raw_blocks(source: Source, options: ReadOptions, progress: Progress | None) -> Iterator[Block]:
    """The blocks of a file as they are, in the type that was asked for."""
    with closing(source.blocks()) as blocks:  # type: ignore[type-var]
        for block in blocks:
            if options.dtype is not None:
                block = replace(block, data=block.data.astype(options.dtype, copy=False))
            if progress:
                progress(block.done)
            yield block


def _like_blocks(
    path: Path, options: ReadOptions, known: _Known, progress: Progress | None
) -> Iterator[Block]:
    """The blocks of a file, made into rows in a known way."""
    source = _source(path, options, known)
    recipe, n_rows = known.recipe, 0
    if recipe.text is not None and not isinstance(source, TextSource):
        # A matrix for a model of text: its rows are taken for prepared ones.
        recipe = Recipe(n_columns=known.n_features)
    for block in _raw_blocks(source, options, progress):
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
    _check_names(path, source, recipe, known)


def _check_names(path: Path, source: Source, recipe: Recipe, known: _Known) -> None:
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


def _opened_like(path: Path, options: ReadOptions, like: Any) -> StoredRows | None:
    """A store whose values are what is wanted as they are; None where they must change."""
    rows = open_store(path)
    if options.dtype is not None and np.dtype(options.dtype) != rows.matrix.dtype:
        return None
    if like is None:
        return rows
    known = _known(like)
    made = rows.recipe or Recipe(n_columns=rows.n_features)
    if not known.recipe.same_values(made):
        if made.prepare is None and rows.n_features == known.recipe.n_columns:
            return None  # raw counts of the same columns
        raise ReadError(
            f"{path} was prepared in another way than what it is to be read like. Convert its "
            f"source again, in the way of the model (like=)."
        )
    if rows.n_features != known.n_features:
        raise ReadError(
            f"{path} has {rows.n_features} columns, where {known.n_features} are known. Convert "
            f"its source again, in the way of the model (like=)."
        )
    _check_names(path, StoreSource(path), Recipe(), known)
    return rows


def _joined(blocks: list[Block], known: _Known, n_labels: int | None = None) -> Rows:
    """The blocks as one matrix in memory."""
    if not blocks:
        raise ReadError("There are no rows.")
    if len(blocks) == 1:
        indptr, indices, data = blocks[0].indptr, blocks[0].indices, blocks[0].data
    else:
        lengths = [np.diff(block.indptr) for block in blocks]
        indptr = np.concatenate([[0], *lengths]).astype(np.int64).cumsum()
        indices = np.concatenate([block.indices for block in blocks])
        data = np.concatenate([block.data for block in blocks])
    labels = [block.labels for block in blocks if block.labels is not None]
    blocks.clear()
    matrix = mapped_csr(indptr, indices, data, known.n_features)
    rows = as_rows(matrix, n_threads=effective_n_threads(None))
    rows.feature_names = known.names
    rows.recipe = known.recipe
    rows.labels = rows_labels(labels, n_labels) if labels else None
    return rows


def profile(
    path: Any, options: ReadOptions | None = None, *, progress: Progress | None = None
) -> tuple[Profile, np.ndarray, np.ndarray | None]:
    """Go through a file or a store once: its profile, rows a column occurs in, names of columns."""
    path, options = Path(path), options or ReadOptions()
    source = _source(path, options, None)
    found, counting = Profile(), _Counting(None)
    for block in _raw_blocks(source, options, progress):
        found.add(block)
        counting.add(block)
    known = counting.settle(source)
    counts = found.row_counts(known.n_features, source.first_column)
    if isinstance(source, TextSource) and source.column_order is not None:
        ordered = np.empty_like(counts)
        ordered[source.column_order] = counts
        counts = ordered
    return found, counts, known.names


def label_rows(rows: Rows, path: Path) -> Rows:
    """The labels of rows as rows: each the sum of its instances, at length one (meta-labels)."""
    if rows.labels is None:
        raise ReadError(f"{path} has no labels to take for rows.")
    labels: Any = rows.labels
    if not sp.issparse(labels):
        whole = label_columns(labels, None)
        indptr = np.arange(len(whole) + 1)
        labels = sp.csr_array((np.ones(len(whole), np.float32), whole, indptr))
    made = as_rows(metalabels(rows.matrix, labels), n_threads=effective_n_threads(None))
    made.feature_names = rows.feature_names
    return made


def convert_labels(
    path: Any,
    out: Any,
    options: ReadOptions | None = None,
    *,
    prepare: Prepare | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> StoredRows:
    """Write the labels of a file as rows into a store; the file is read into memory."""
    path, out = Path(path), Path(out)
    _check_target(out, overwrite)
    made = label_rows(read(path, options, prepare=prepare, progress=progress), path)
    matrix = made.matrix
    block = Block(indptr=matrix.indptr.astype(np.int64), indices=matrix.indices, data=matrix.data)
    with atomic_folder(out, overwrite=overwrite) as folder:
        writer = StoreWriter(folder, matrix.dtype, n_threads=effective_n_threads(None))
        writer.append(block)
        writer.finish(
            n_features=made.n_features, feature_names=made.feature_names, origin=path.name
        )
    return open_store(out)
