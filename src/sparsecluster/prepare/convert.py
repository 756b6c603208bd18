"""From a file into a store, block by block."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.inputs import shown
from sparsecluster.formats.registry import FORMATS, open_source
from sparsecluster.formats.source import Block, ReadError
from sparsecluster.prepare.metalabels import label_row_blocks
from sparsecluster.prepare.passes import (
    FirstPass,
    Opening,
    Progress,
    Transform,
    asked,
    recipe_of,
    shifted,
    store_at,
)
from sparsecluster.prepare.prepare import Prepare
from sparsecluster.prepare.read import check_either
from sparsecluster.prepare.recorded import recording
from sparsecluster.rows.recipe import Recipe
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.run.dask import check_executor
from sparsecluster.storage.atomic import atomic_folder
from sparsecluster.storage.store import StoredRows, StoreSource, open_store, open_unnamed
from sparsecluster.storage.store_files import from_folder, is_store
from sparsecluster.storage.store_writer import FORMAT, StoreWriter

STAGED = 0.7  # share of the time of a conversion that goes through the rows twice


def convert(
    path: Any,
    out: Any,
    *,
    prepare: Prepare | None = None,
    like: Any = None,
    missing_columns: str = "error",
    metalabels: bool = False,
    overwrite: bool = False,
    n_threads: int | None = None,
    executor: Any = None,
    progress: Progress | None = None,
    **options: Any,
) -> StoredRows:
    """Write the rows of a file, or several, into a store, in bounded memory; then open it.

    The store appears when it is whole: a conversion that is interrupted leaves nothing that opens.
    Rows are the same, to the bit, as :func:`read` gives.

    Parameters
    ----------
    path, prepare, like, missing_columns, n_threads, progress, **options
        As for :func:`read`. Where text gets a vocabulary, or `prepare` is given, rows are written
        twice: what depends on all of them is known at the end only.
    out : str or path
        The folder to make, usually with a name that ends in ``.store``.
    metalabels : bool, default=False
        Take the labels of the file for rows, as :func:`metalabels` makes them. The rows of the file
        are written into the folder first, and gone through label by label there, so that they need
        not fit into memory; their labels must, at about 25 bytes each.
    overwrite : bool, default=False
        Whether a store of this name is replaced.
    executor : Client, str, int or None, default=None
        Who reads the files, as for :class:`~sparsecluster.KMeans`: the workers of a Dask cluster,
        file by file, into a folder beside `out`; the store is then written here. It is the same,
        byte for byte. All workers have to see the files and that folder. A single file, or several
        that are a table of numbers, are read by one worker; a store is read here.

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
    out = Path(out)
    check_either(prepare, like, missing_columns)
    check_target(path, out, overwrite)
    check_executor(executor)
    with ExitStack() as opened:
        folder = opened.enter_context(atomic_folder(out, overwrite=overwrite))
        opening: Opening = open_source
        if executor is not None and not store_at(path):
            opening = opened.enter_context(recording(executor, folder))
        show = progress or (lambda share: None)
        conversion = _Conversion(path, folder, n_threads, show, opening)
        if metalabels:
            conversion.run_labels(asked(**options), prepare, like, missing_columns)
        elif like is not None:
            conversion.run_transform(asked(**options), recipe_of(like), missing_columns)
        else:
            conversion.run_fit(asked(**options), prepare)
        return open_unnamed(folder, out)  # what does not open never gets its name


def check_target(path: Any, out: Path, overwrite: bool) -> None:
    """Refuse to write over anything, but a store where that was asked for."""
    if any(out.suffix in one.suffixes for one in FORMATS.values()):
        raise ReadError(f"{out}: a store is a folder. Give it a name like {out.stem}.store.")
    for parent in Path(os.path.realpath(out)).parents:
        if is_store(parent):
            raise ReadError(f"{out} would be in the store {parent}. Choose another place.")
    if not out.exists():
        return
    if not overwrite:
        raise ReadError(f"{out} exists. Choose another name, or pass overwrite=True.")
    if store_at(path) and out.samefile(path):
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
        path: Any,
        folder: Path,
        n_threads: int | None,
        progress: Callable[[float], Any],
        opening: Opening,
    ) -> None:
        self.path, self.folder, self.progress = path, folder, progress
        self.opening = opening
        self.n_threads = effective_n_threads(n_threads)

    def run_labels(
        self, wanted: Recipe, prepare: Prepare | None, like: Any, missing_columns: str
    ) -> None:
        """Write the labels of the file as rows."""
        staged = self.folder / "staged"
        staged.mkdir()
        share_of = lambda share: self.progress(STAGED * share)  # noqa: E731
        rows_first = _Conversion(self.path, staged, self.n_threads, share_of, self.opening)
        if like is not None:
            rows_first.run_transform(wanted, recipe_of(like), missing_columns)
        else:
            rows_first.run_fit(wanted, prepare)
        rows = open_store(staged)

        def blocks() -> Iterator[Block]:
            n_labels = 0
            for made in label_row_blocks(rows, shown(self.path)):
                n_labels += made.shape[0]
                yield Block(
                    indptr=made.indptr.astype(np.int64), indices=made.indices, data=made.data
                )
                self.progress(min(1.0, STAGED + (1 - STAGED) * n_labels / _width(rows.labels)))

        writer = self._write(self.folder, blocks())
        shutil.rmtree(staged)
        self._finish(writer, rows.recipe, None)

    def run_transform(self, wanted: Recipe, fitted: Recipe, missing_columns: str) -> None:
        """Write the rows by a recipe that is fitted."""
        transform = Transform(
            self.path,
            wanted,
            fitted,
            missing_columns=missing_columns,
            n_threads=self.n_threads,
            opening=self.opening,
        )
        writer = self._write(self.folder, transform.blocks(self.progress))
        self._finish(writer, transform.recipe, transform.source.n_labels)

    def run_fit(self, wanted: Recipe, prepare: Prepare | None) -> None:
        """Write the rows, and fit their recipe."""
        threads = self.n_threads
        first = FirstPass(self.path, wanted, prepare, n_threads=threads, opening=self.opening)
        if prepare is not None or first.source.terms:
            self._run_twice(first)
            return
        try:
            self._run_directly(first)
        except _CountsFromZero:
            options = wanted.options | first.source.options_found()
            self.run_fit(replace(wanted, options=options), None)

    def _run_directly(self, first: FirstPass) -> None:
        """Write the blocks as they come, as long as they count columns from the same number."""
        source, first_column = first.source, None

        def as_they_come() -> Iterator[Block]:
            nonlocal first_column
            for block in first.blocks(self.progress):
                if first_column is None:
                    first_column = source.first_column
                elif first_column != source.first_column:
                    raise _CountsFromZero
                yield shifted(block, first_column)

        writer = self._write(self.folder, as_they_come())
        self._finish(writer, first.fit(), source.n_labels)

    def _run_twice(self, first: FirstPass) -> None:
        """Write the raw blocks first, and what becomes of them when that is known."""
        staged = self.folder / "staged"
        staged.mkdir()
        raw = first.blocks(lambda share: self.progress(STAGED * share))
        self._write(staged, raw).finish(n_labels=first.source.n_labels)
        recipe = first.fit()

        def finished() -> Iterator[Block]:
            n_rows = 0
            for block in StoreSource(open_store(staged)).blocks():
                yield first.transform(block, n_rows)
                n_rows += block.n_rows
                self.progress(STAGED + (1 - STAGED) * block.done)

        writer = self._write(self.folder, finished())
        shutil.rmtree(staged)
        self._finish(writer, recipe, first.source.n_labels)

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
            raise ReadError(f"{shown(self.path)} has no rows.")
        return writer

    def _finish(self, writer: StoreWriter, recipe: Recipe | None, n_labels: int | None) -> None:
        writer.finish(recipe=recipe, n_labels=n_labels, origin=shown(self.path).name)


def _width(labels: Any) -> int:
    """Number of labels."""
    return int(labels.shape[1] if labels.ndim == 2 else labels.max() + 1)


class _CountsFromZero(Exception):
    """A column 0 came after blocks that had been taken to count from one."""
