"""Files as rows in memory: all of a file (`read`), or block by block (`read_blocks`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.labels import rows_labels
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.formats.text import TextOptions
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.prepare.recipe import Recipe
from sparsecluster.prepare.steps import (
    Counting,
    Known,
    Opened,
    Progress,
    ReadOptions,
    known_of,
    like_blocks,
    open_file,
    open_like,
)
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import Rows, as_rows, mapped_csr
from sparsecluster.storage.store import StoreSource


def read(
    path: Any,
    *,
    format: str | None = None,
    dtype: str | None = None,
    text: TextOptions | None = None,
    zero_based: bool | None = None,
    transpose: bool | None = None,
    layer: str | None = None,
    columns: tuple[str, ...] | None = None,
    prepare: Prepare | None = None,
    like: Any = None,
    n_threads: int | None = None,
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
    format : str or None
        One of "svmlight", "npz", "npy", "mtx", "docword", "h5ad", "parquet", "txt", "jsonl", "csv";
        by default what the file's first lines and its name say.
    dtype : {"float32", "float64"} or None
        Type of the values; by default that of the file, and float32 where numbers are text.
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
    prepare : Prepare or None, default=None
        What to make of the counts in the file, not fitted yet.
    like : Rows, fitted estimator or None, default=None
        Read the file in the way in which these were read: with their vocabulary, their columns,
        their weights. What cannot be made alike is refused.
    n_threads : int or None
        Threads to use; by default all CPUs of the process.
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
    options = ReadOptions(
        format=format,
        dtype=dtype,
        text=text,
        zero_based=zero_based,
        transpose=transpose,
        layer=layer,
        columns=columns,
        n_threads=n_threads,
    )
    return read_file(Path(path), options, prepare=prepare, like=like, progress=progress)


def read_file(
    path: Path,
    options: ReadOptions,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    progress: Progress | None = None,
) -> Rows:
    """What `read` does, with its options in one."""
    check_either(prepare, like)
    if like is not None:
        known = known_of(like)
        opened = open_like(path, options, known)
        if _is_ready(opened):
            return opened.source.rows  # type: ignore[attr-defined]
        blocks = list(like_blocks(opened, known, progress))
        return _joined(blocks, known.columns_to_be(), known, opened.source.n_labels)
    opened = open_file(path, options, whole=True)
    if prepare is None and _is_ready(opened):
        return opened.source.rows  # type: ignore[attr-defined]
    counting = Counting(opened, prepare)
    blocks = list(counting.counted(opened.raw_blocks(progress)))
    recipe = counting.settle()
    n_rows = 0
    for i, block in enumerate(blocks):
        blocks[i] = counting.finished(block, n_rows)
        n_rows += block.n_rows
    known = Known(n_features=recipe.n_features, recipe=recipe, names=recipe.names)
    return _joined(blocks, recipe, known, opened.source.n_labels)


def check_either(prepare: Prepare | None, like: Any) -> None:
    """Refuse two answers to the question of what becomes of the counts."""
    if prepare is not None and like is not None:
        raise ValueError("prepare and like exclude each other: like says how values are made.")


def _is_ready(opened: Opened) -> bool:
    """Whether the values of a store are what is wanted as they are."""
    if not isinstance(opened.source, StoreSource) or opened.prepare is not None:
        return False
    return opened.dtype is None or np.dtype(opened.dtype) == opened.source.rows.matrix.dtype


def read_blocks(
    path: Any, *, like: Any, progress: Progress | None = None, **options: Any
) -> Iterator[Rows]:
    """Read a file block by block, as `like` was read: for files larger than memory.

    Parameters
    ----------
    path, like, progress, **options
        As for :func:`read`.

    Yields
    ------
    Rows
        Some of the rows, in the order of the file.
    """
    return blocks_of_file(Path(path), ReadOptions(**options), like=like, progress=progress)


def blocks_of_file(
    path: Path, options: ReadOptions, *, like: Any, progress: Progress | None = None
) -> Iterator[Rows]:
    """What `read_blocks` does, with its options in one."""
    known = known_of(like)
    opened = open_like(path, options, known)
    n_rows = 0
    for block in like_blocks(opened, known, progress):
        rows = _joined([block], known.columns_to_be(), known, opened.source.n_labels)
        rows.first_row = n_rows
        n_rows += rows.n_rows
        yield rows


def _joined(blocks: list[Block], recipe: Recipe, known: Known, n_labels: int | None) -> Rows:
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
    rows.recipe = recipe
    rows.labels = rows_labels(labels, n_labels) if labels else None
    return rows
