"""Files as rows in memory: all of a file (`read`), or block by block (`read_blocks`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsecluster.formats.labels import rows_labels
from sparsecluster.formats.source import Block
from sparsecluster.formats.text import TextSource
from sparsecluster.prepare.matching import MISSING
from sparsecluster.prepare.passes import FirstPass, Progress, Transform, asked, recipe_of
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.recipe import Recipe
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import Provenance, Rows, as_rows, mapped_csr


def read(
    path: Any,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    missing_columns: str = "error",
    n_threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Rows:
    """Read a file into memory, as rows that every `fit` and `predict` takes.

    Parameters
    ----------
    path : str, path, or list of these
        svmlight (also with several labels per row, or the header of the extreme classification
        repository), scipy's .npz, .npy, Matrix Market, UCI bag of words, AnnData (.h5ad needs the
        extra "h5ad", a .zarr folder "zarr"), Parquet or Arrow (needs "parquet"), text (.txt with
        one document per line, .jsonl, .csv), tables of numbers (.csv, Parquet), most of them also
        as .gz, .bz2 or .zst (needs "zstd"). A store is opened, not read. Several files of one
        format are read as one: a list, a pattern of names like "part-*.csv", or a folder; a folder
        of .txt files has one document in each. "-" is standard input.
    prepare : Prepare or None, default=None
        What to make of the counts in the file, not fitted yet.
    like : Rows, fitted estimator, Recipe or None, default=None
        Read the file by the fitted recipe of these: with their vocabulary, their columns, their
        weights. What cannot be made alike is refused.
    missing_columns : {"error", "zero"}, default="error"
        With `like`, and where columns have names: whether a file that lacks some of the known ones
        is refused, or these are zero. Names decide, not places: columns may come in any order, and
        those that are not known are left out, with a warning.
    n_threads : int or None
        Threads to use; by default all CPUs of the process.
    progress : callable or None, default=None
        Called with the share that is done.
    **options
        How the file is read; None is the default. For every format:

        format : str
            One of "svmlight", "npz", "npy", "mtx", "docword", "h5ad", "zarr", "parquet", "txt",
            "jsonl", "csv", "texts" (one document per file), "parquet-text" (a column of text) or
            "table" (columns of numbers, of CSV or Parquet); by default what the file's first lines,
            its name and the other options say.
        dtype : {"float32", "float64"}
            Type of the values; by default that of the file, and float32 where numbers are text.

        and those of the format, of which others are refused:

        zero_based : bool
            For svmlight: whether columns count from zero; by default, if a column 0 occurs.
        transpose : bool
            For mtx: whether the columns of the file are the rows.
        layer : str
            For h5ad and zarr: the layer to take in place of X; "raw/X" is that of ``raw``.
        obsm : str
            For h5ad and zarr: the embedding to take in place of X, such as "X_pca".
        columns : tuple of str
            For table: the columns to take, by default all but `id_column`. For parquet: those with
            (indices, values) or (row, column, value).
        id_column : str
            For jsonl, csv, table and parquet: the column with the names of rows, which become
            ``rows.ids``.
        delimiter : str
            For csv and table: what stands between two cells; by default a comma, semicolon, tab or
            bar, as the first lines show.
        header : bool
            For table: whether the first line names the columns.
        column, encoding, lowercase, stop_words, ngram_range, token_pattern, strip_accents
            For text: how documents become terms, as :class:`TextOptions` describes them;
            ``text=TextOptions(...)`` has all of them in one.

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
    >>> rows = read(path, stop_words=["sky"], prepare=Prepare(norm="l2"))
    >>> rows.shape, list(rows.feature_names)
    ((3, 4), ['apple', 'blue', 'green', 'red'])
    """
    check_either(prepare, like, missing_columns)
    wanted = asked(**options)
    if like is not None:
        transform = Transform(
            path,
            wanted,
            recipe_of(like),
            missing_columns=missing_columns,
            n_threads=n_threads,
        )
        if transform.ready_rows is not None:
            return transform.ready_rows
        blocks = list(transform.blocks(progress))
        return _joined(blocks, transform.recipe, transform.source.n_labels)
    first = FirstPass(path, wanted, prepare, n_threads=n_threads, whole=True)
    if first.ready_rows is not None:
        return first.ready_rows
    blocks = list(first.blocks(progress))
    recipe, n_rows = first.fit(), 0
    for i, block in enumerate(blocks):
        blocks[i] = first.transform(block, n_rows)
        n_rows += block.n_rows
    return _joined(blocks, recipe, first.source.n_labels)


def check_either(prepare: Prepare | None, like: Any, missing_columns: str) -> None:
    """Refuse two answers to the question of what becomes of the counts, and one without a use."""
    check_name("missing_columns", missing_columns, MISSING)
    if like is None and missing_columns != "error":
        raise ValueError("missing_columns: no effect without like, which says what is missing.")
    if prepare is not None and like is not None:
        raise ValueError("prepare and like exclude each other: like says how values are made.")


def read_blocks(
    path: Any,
    *,
    like: Any,
    missing_columns: str = "error",
    n_threads: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[Rows]:
    """Read a file block by block, as `like` was read: for files larger than memory.

    Parameters
    ----------
    path, like, missing_columns, n_threads, progress, **options
        As for :func:`read`.

    Yields
    ------
    Rows
        Some of the rows, in the order of the file.
    """
    transform = Transform(
        path,
        asked(**options),
        recipe_of(like),
        missing_columns=missing_columns,
        n_threads=n_threads,
    )
    n_rows = 0
    for block in transform.blocks(progress):
        yield _joined([block], transform.recipe, transform.source.n_labels, first_row=n_rows)
        n_rows += block.n_rows


def read_documents(path: Any, *, like: Any, **options: Any) -> Iterator[str] | None:
    """The documents of a file of text, read as `like` was; None for other data."""
    source = Transform(path, asked(**options), recipe_of(like)).source
    return source.documents() if isinstance(source, TextSource) else None


def _joined(
    blocks: list[Block], recipe: Recipe, n_labels: int | None, *, first_row: int = 0
) -> Rows:
    """The blocks as one matrix in memory."""
    if len(blocks) == 1:
        indptr, indices, data = blocks[0].indptr, blocks[0].indices, blocks[0].data
    else:
        lengths = [np.diff(block.indptr) for block in blocks]
        indptr = np.concatenate([[0], *lengths]).astype(np.int64).cumsum()
        indices = np.concatenate([block.indices for block in blocks])
        data = np.concatenate([block.data for block in blocks])
    labels = [block.labels for block in blocks if block.labels is not None]
    ids = [block.ids for block in blocks if block.ids is not None]
    blocks.clear()
    return as_rows(
        mapped_csr(indptr, indices, data, recipe.n_features),
        n_threads=effective_n_threads(None),
        provenance=Provenance(
            feature_names=recipe.column_names,
            labels=rows_labels(labels, n_labels) if labels else None,
            ids=np.concatenate(ids) if ids else None,
            recipe=recipe,
            first_row=first_row,
        ),
    )
