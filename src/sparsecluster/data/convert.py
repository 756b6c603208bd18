"""From a file into a store, block by block."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.data.atomic import atomic_folder
from sparsecluster.data.prepare import Prepare
from sparsecluster.data.read import label_rows, read
from sparsecluster.data.recipe import Recipe
from sparsecluster.data.source import Block, ReadError, Source
from sparsecluster.data.steps import (
    Counting,
    Known,
    Progress,
    ReadOptions,
    check_prepare,
    known_of,
    like_blocks,
    raw_blocks,
    source_of,
)
from sparsecluster.data.store import StoredRows, StoreSource, is_store, open_store
from sparsecluster.data.store_writer import StoreWriter
from sparsecluster.data.text import TextSource
from sparsecluster.engine.resources import effective_n_threads

STAGED = 0.7  # share of the time of a conversion that goes through the rows twice


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
    check_prepare(prepare, like)
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
            known = known_of(like)
            self._write(like_blocks(self.path, self.options, known, self.progress), known, None)
            return
        source = source_of(self.path, self.options, None)
        counting = Counting(self.prepare)
        if self.prepare is None and not isinstance(source, TextSource):
            self._write_directly(source, counting)
            return
        staged = self.folder / "staged"
        staged.mkdir()
        writer = self._write_into(
            staged, counting.counted(raw_blocks(source, self.options, self._first))
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

    def _write_directly(self, source: Source, counting: Counting) -> None:
        """Write the blocks as they come; again where columns turn out to count from zero."""
        first_column = None

        def shifted() -> Iterator[Block]:
            nonlocal first_column
            for block in raw_blocks(source, self.options, self.progress):
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

    def _write(self, blocks: Iterable[Block], known: Known, n_labels: int | None) -> None:
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

    def _finish(self, writer: StoreWriter, known: Known, n_labels: int | None) -> None:
        writer.finish(
            n_features=known.n_features,
            feature_names=known.names,
            n_labels=n_labels,
            recipe=known.recipe,
            origin=self.path.name,
        )


class _CountsFromZero(Exception):
    """A column 0 came after blocks that had been taken to count from one."""


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
