"""Files as rows in memory: all of a file (`read`), or block by block (`read_blocks`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.data.labels import label_columns, rows_labels
from sparsecluster.data.metalabels import metalabels
from sparsecluster.data.prepare import Prepare
from sparsecluster.data.profile import Profile
from sparsecluster.data.recipe import Recipe
from sparsecluster.data.rows import Rows, as_rows, mapped_csr
from sparsecluster.data.source import Block, ReadError
from sparsecluster.data.steps import (
    Counting,
    Known,
    Progress,
    ReadOptions,
    check_names,
    check_prepare,
    known_of,
    like_blocks,
    raw_blocks,
    source_of,
)
from sparsecluster.data.store import StoredRows, StoreSource, is_store, open_store
from sparsecluster.data.text import TextSource
from sparsecluster.engine.resources import effective_n_threads


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
    check_prepare(prepare, like)
    if is_store(path) and prepare is None:
        opened = _opened_like(path, options, like)
        if opened is not None:
            return opened
    if like is not None:
        parts = list(like_blocks(path, options, known_of(like), progress))
        return _joined(parts, known_of(like))
    source = source_of(path, options, None, whole=True)
    counting = Counting(prepare)
    blocks = []
    for block in raw_blocks(source, options, progress):
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
    path, options, known = Path(path), options or ReadOptions(), known_of(like)
    if is_store(path):
        # Its values may be what is wanted as they are.
        opened = _opened_like(path, options, like)
        if opened is not None:
            known = replace(known, recipe=Recipe(n_columns=known.n_features))
    for block in like_blocks(path, options, known, progress):
        yield _joined([block], known)


def _opened_like(path: Path, options: ReadOptions, like: Any) -> StoredRows | None:
    """A store whose values are what is wanted as they are; None where they must change."""
    rows = open_store(path)
    if options.dtype is not None and np.dtype(options.dtype) != rows.matrix.dtype:
        return None
    if like is None:
        return rows
    known = known_of(like)
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
    check_names(path, StoreSource(path), Recipe(), known)
    return rows


def _joined(blocks: list[Block], known: Known, n_labels: int | None = None) -> Rows:
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
    source = source_of(path, options, None)
    found, counting = Profile(), Counting(None)
    for block in raw_blocks(source, options, progress):
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
