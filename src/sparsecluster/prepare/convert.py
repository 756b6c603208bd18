"""From a file into a store, block by block."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.registry import FORMATS
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.formats.text import TextSource
from sparsecluster.prepare.metalabels import label_rows
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.prepare.read import check_either, read_file
from sparsecluster.prepare.recipe import Recipe
from sparsecluster.prepare.steps import (
    Counting,
    Opened,
    Progress,
    ReadOptions,
    known_of,
    like_blocks,
    open_file,
    open_like,
    shifted,
)
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.storage.atomic import atomic_folder
from sparsecluster.storage.store import StoredRows, StoreSource, open_store
from sparsecluster.storage.store_files import from_folder, is_store
from sparsecluster.storage.store_writer import FORMAT, StoreWriter

STAGED = 0.7  # share of the time of a conversion that goes through the rows twice


def convert(
    path: Any,
    out: Any,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> StoredRows:
    """Write the rows of a file into a store, in bounded memory; then open it.

    The store appears when it is whole: a conversion that is interrupted leaves nothing that opens.
    Rows are the same, to the bit, as :func:`read` gives.

    Parameters
    ----------
    path, prepare, like, progress, **options
        As for :func:`read`. Where text gets a vocabulary, or `prepare` is given, rows are written
        twice: what depends on all of them is known at the end only.
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
    return convert_file(
        Path(path),
        Path(out),
        ReadOptions(**options),
        prepare=prepare,
        like=like,
        overwrite=overwrite,
        progress=progress,
    )


def convert_file(
    path: Path,
    out: Path,
    options: ReadOptions,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    metalabels: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> StoredRows:
    """What `convert` does, with its options in one; with `metalabels` labels become the rows."""
    check_either(prepare, like)
    check_target(path, out, overwrite)
    with atomic_folder(out, overwrite=overwrite) as folder:
        conversion = _Conversion(path, folder, options, prepare, progress)
        if metalabels:
            conversion.run_labels(like)
        else:
            conversion.run(like)
        rows = open_store(folder)  # what does not open never gets its name
    rows.path = out.absolute()
    return rows


def check_target(path: Path, out: Path, overwrite: bool) -> None:
    """Refuse to write over anything, but a store where that was asked for."""
    if any(out.suffix in one.suffixes for one in FORMATS.values()):
        raise ReadError(f"{out}: a store is a folder. Give it a name like {out.stem}.store.")
    for parent in Path(os.path.realpath(out)).parents:
        if is_store(parent):
            raise ReadError(f"{out} would be in the store {parent}. Choose another place.")
    if not out.exists():
        return
    if not overwrite:
        raise ReadError(f"{out} exists. Choose another name, or ask for it to be overwritten.")
    if path.exists() and out.samefile(path):
        raise ReadError(f"{out} is what is to be converted. Choose another name.")
    if not _is_ours(out):
        raise ReadError(f"{out} exists and is not a store: it is not overwritten.")


def _is_ours(folder: Path) -> bool:
    """Whether there is nothing in a folder but a store."""
    try:
        return from_folder(folder, _holds_a_store_alone)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _holds_a_store_alone(folder: int) -> bool:
    with open("meta.json", "rb", opener=partial(os.open, dir_fd=folder)) as file:
        meta = json.load(file)
    known = {"meta.json", "vocabulary.json", *(f"{name}.npy" for name in meta["arrays"])}
    listed = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return meta["format"] == FORMAT and set(os.listdir(listed)) <= known
    finally:
        os.close(listed)


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
            opened = open_like(self.path, self.options, known)
            writer = self._write(self.folder, like_blocks(opened, known, self.progress))
            self._finish(writer, known.columns_to_be(), opened.source.n_labels)
            return
        opened = open_file(self.path, self.options)
        if self.prepare is None and not isinstance(opened.source, TextSource):
            self._run_directly(opened)
        else:
            self._run_twice(opened)

    def run_labels(self, like: Any) -> None:
        """Write the labels of the file as rows; the file is read into memory."""
        rows = read_file(
            self.path, self.options, prepare=self.prepare, like=like, progress=self.progress
        )
        made = label_rows(rows, self.path)
        matrix = made.matrix
        indptr = matrix.indptr.astype(np.int64)
        block = Block(indptr=indptr, indices=matrix.indices, data=matrix.data)
        assert made.recipe is not None
        self._finish(self._write(self.folder, [block]), made.recipe, None)

    def _run_directly(self, opened: Opened) -> None:
        """Write the blocks as they come; again where columns turn out to count from zero."""
        counting, source = Counting(opened, None), opened.source
        first_column = None

        def as_they_come() -> Iterator[Block]:
            nonlocal first_column
            for block in counting.counted(opened.raw_blocks(self.progress)):
                if first_column is None:
                    first_column = source.first_column
                elif first_column != source.first_column:
                    raise _CountsFromZero
                yield shifted(block, first_column)

        try:
            writer = self._write(self.folder, as_they_come())
        except _CountsFromZero:
            self.options = replace(self.options, zero_based=True)
            self.run(None)
            return
        self._finish(writer, counting.settle(), source.n_labels)

    def _run_twice(self, opened: Opened) -> None:
        """Write the raw blocks first, and what becomes of them when that is known."""
        counting, staged = Counting(opened, self.prepare), self.folder / "staged"
        staged.mkdir()
        raw = opened.raw_blocks(lambda share: self.progress(STAGED * share))
        self._write(staged, counting.counted(raw)).finish(n_labels=opened.source.n_labels)
        recipe = counting.settle()

        def finished() -> Iterator[Block]:
            n_rows = 0
            for block in StoreSource(open_store(staged)).blocks():
                yield counting.finished(block, n_rows)
                n_rows += block.n_rows
                self.progress(STAGED + (1 - STAGED) * block.done)

        writer = self._write(self.folder, finished())
        shutil.rmtree(staged)
        self._finish(writer, recipe, opened.source.n_labels)

    def _write(self, folder: Path, blocks: Iterable[Block]) -> StoreWriter:
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

    def _finish(self, writer: StoreWriter, recipe: Recipe, n_labels: int | None) -> None:
        writer.finish(recipe=recipe, n_labels=n_labels, origin=self.path.name)


class _CountsFromZero(Exception):
    """A column 0 came after blocks that had been taken to count from one."""
