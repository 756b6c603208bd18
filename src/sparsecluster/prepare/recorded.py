"""Files read by workers: each records the blocks of its files, which are then taken as if they had
been read here.

What a reader gave, block by block, and what it said of its columns, is kept as it was, so that all
that follows (checks, counts, vocabularies, the store) is what it would be without workers.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.inputs import Inputs
from sparsecluster.formats.registry import open_source
from sparsecluster.formats.several import SeveralSource
from sparsecluster.formats.source import Block, Labels, ReadError, Source
from sparsecluster.formats.text import FilesSource
from sparsecluster.prepare.matching import moved
from sparsecluster.run.dask import open_executor
from sparsecluster.run.session import Executor
from sparsecluster.storage.tensors import Packer, TensorFile, unpack, write_tensors

TOLD = "told"  # file of a recording with what is known at its end
COLUMN_BASES = (0, 1)  # that files count columns from
GROUPS_PER_WORKER = 4  # of files of text: what is lost with a worker, at most


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a reader said beside its blocks."""

    n_blocks: int
    early: list[Any]  #: number and names of columns, if they were told before the first block
    n_features: int | None
    first_column: int
    lowest_column: int | None  #: that columns count from, by the blocks that have any
    feature_names: Any  #: an array, or None
    column_order: Any
    n_labels: int | None
    options: list[dict[str, Any]]  #: that were found, by what columns count from


@dataclass(frozen=True, kw_only=True)
class ReadingEnd:
    """How a worker got on with its files."""

    missing: str | None = None  #: a file that it does not see
    failed: tuple[int, ReadError] | None = None  #: the first recording that failed, and why


# --- on the workers ------------------------------------------------------------------------------


class ReadingPart:
    """Some of the files; a `Part` of a session."""

    def __init__(self, spec: dict[str, Any], n_threads: int) -> None:
        self._spec, self._n_threads = spec, n_threads

    def restore(self, recipe: dict[str, Any]) -> None:
        """There is nothing to restore: what was recorded is in files."""

    def record(self) -> ReadingEnd:
        """Record what was not yet."""
        folder, spec = Path(self._spec["folder"]), self._spec
        if not folder.is_dir():
            return ReadingEnd(missing=str(folder))
        failed: tuple[int, ReadError] | None = None
        for number, files in spec["files"].items():
            if failed is not None and number > failed[0]:
                continue  # the first is told, as where all are read one after the other
            for file in files:
                if not os.path.exists(file):
                    return ReadingEnd(missing=str(file))
            try:
                if not (folder / str(number)).exists():
                    self._record(folder, number, files)
            except ReadError as error:
                failed = number, error
        return ReadingEnd(failed=failed)

    def _record(self, folder: Path, number: int, files: list[Path]) -> None:
        """Record some files; the recording appears whole or not at all."""
        spec = self._spec
        source = open_source(Inputs(spec["path"], files), n_threads=self._n_threads, **spec["open"])
        partial = Path(tempfile.mkdtemp(dir=folder))
        try:
            write_recording(source, partial)
            os.rename(partial, folder / str(number))
        except OSError:
            # Another one may have been first, who took this worker for lost.
            if not (folder / str(number)).exists():
                raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def write_recording(source: Source, folder: Path) -> None:
    """Read a source into files."""
    early: list[Any] = []

    def hear() -> None:
        early[:] = source.n_features, source.feature_names

    source.on_columns = hear
    n_blocks, lowest = 0, None
    for block in source.blocks():
        if len(block.indices):
            lowest = min(source.first_column, 1 if lowest is None else lowest)
        labels = None if block.labels is None else vars(block.labels)
        write_values(
            folder / str(n_blocks),
            vars(block) | {"labels": labels, "first_column": source.first_column},
        )
        n_blocks += 1
    first_column, options = source.first_column, []
    for base in COLUMN_BASES:
        source.first_column = base
        options.append(source.options_found())
    told = Told(
        n_blocks=n_blocks,
        early=early,
        n_features=source.n_features,
        first_column=first_column,
        lowest_column=lowest,
        feature_names=source.feature_names,
        column_order=source.column_order,
        n_labels=source.n_labels,
        options=options,
    )
    write_values(folder / TOLD, vars(told))


def write_values(path: Path, values: dict[str, Any]) -> None:
    """Values and arrays in a file that holds no code."""
    packer = Packer()
    document = packer.pack(values, "recorded")
    path.touch()
    write_tensors(path, {"values": document}, packer.tensors)


def read_values(path: Path) -> dict[str, Any]:
    """What was written, with arrays of str as such."""
    file = TensorFile(path, mmap=False)
    return unpack(file.document["values"], file.tensors(verify=True))


def names_in(value: Any) -> np.ndarray | None:
    """Names that were read, as an array of str; None where there are none."""
    return None if value is None else np.asarray(value)


# --- here ----------------------------------------------------------------------------------------


class Recorded(Source):
    """A recording, as the source that it was made of."""

    def __init__(self, path: Path, folder: Path) -> None:
        super().__init__(path)
        self._folder = folder
        self.lowest_column = max(COLUMN_BASES)  #: that all files count columns from, once known
        values = read_values(folder / TOLD)
        self.told = Told(**values | {"feature_names": names_in(values["feature_names"])})

    def options_found(self) -> dict[str, Any]:
        return self.told.options[self.first_column]

    def blocks(self) -> Iterator[Block]:
        told = self.told
        if told.early:
            n_features, names = told.early
            self.tell_columns(n_features, names_in(names))
        for number in range(told.n_blocks):
            values = read_values(self._folder / str(number))
            self.first_column = min(values.pop("first_column"), self.lowest_column)
            labels = values.pop("labels")
            yield Block(
                **values | {"ids": names_in(values["ids"])},
                labels=None if labels is None else Labels(**labels),
            )
        self.n_features, self.feature_names = told.n_features, told.feature_names
        self.first_column = min(told.first_column, self.lowest_column)
        self.column_order = told.column_order
        self.n_labels = told.n_labels


class RecordedTexts(Source):
    """Recordings of text, whose terms become one vocabulary, unless there is one."""

    terms = True

    def __init__(self, path: Path, sources: list[Recorded], vocabulary: Any) -> None:
        super().__init__(path)
        self._sources = sources
        self._given = vocabulary

    def blocks(self) -> Iterator[Block]:
        names, named = self._names(), None
        places = {term: place for place, term in enumerate(names)}
        for number, source in enumerate(self._sources):
            there = self._places(source.told, places)
            for block in source.blocks():
                if named not in (None, block.ids is not None):
                    raise ReadError(f"{source.path}: only some of the files have ids of rows.")
                named = block.ids is not None
                share = (number + block.done) / len(self._sources)
                yield replace(block if there is None else moved(block, there), done=share)
        self.n_features, self.feature_names = len(names), np.array(names, dtype=object)

    def _names(self) -> list[str]:
        """All terms, in their order."""
        if self._given is not None:
            return list(self._given)
        return sorted({term for source in self._sources for term in source.told.feature_names})

    def _places(self, told: Told, places: dict[str, int]) -> np.ndarray | None:
        """Where the columns of a recording are among all; None: where they are."""
        if self._given is not None:
            return None
        own = np.array([places[term] for term in told.feature_names], dtype=np.int32)
        return own[told.column_order]  # which it has in the order in which they came


class Recorder:
    """Opens files that workers read, as `open_source` opens those that are read here."""

    def __init__(self, executor: Executor, folder: Path) -> None:
        self._executor, self._folder = executor, folder

    def __call__(self, inputs: Inputs, format: str, options: dict[str, Any], **more: Any) -> Source:
        """A source of recordings, once all are there."""
        opening = {"format": format, "options": options, **more}
        del opening["n_threads"]  # workers have their own
        # Which refuses wrong options before any work, and says how the reader takes files.
        plain = open_source(inputs, format, options, **more)
        groups = self._groups(inputs.files, plain)
        folder = Path(tempfile.mkdtemp(dir=self._folder)).absolute()
        path = inputs.path
        if isinstance(plain, FilesSource):  # whose ids are names below the folder of all files
            path = plain.folder
        self._record(groups, {"path": path, "folder": str(folder), "open": opening})
        recorded = [Recorded(files[0], folder / str(n)) for n, files in enumerate(groups)]
        # Known before the first block, so that nothing is read again where it shows late.
        lowest = [one.told.lowest_column for one in recorded if one.told.lowest_column is not None]
        for one in recorded:
            one.lowest_column = min(lowest, default=one.lowest_column)
        if plain.terms:
            return RecordedTexts(inputs.path, recorded, more.get("vocabulary"))
        if len(recorded) == 1:
            recorded[0].path = plain.path
            return recorded[0]
        return SeveralSource(inputs.path, list(recorded), typed=more.get("dtype") is not None)

    def _groups(self, files: list[Path], plain: Source) -> list[list[Path]]:
        """The files of each recording."""
        if isinstance(plain, SeveralSource):
            return [[file] for file in files]
        if not plain.terms:
            return [files]  # one reader goes through all of them
        n_groups = min(len(files), GROUPS_PER_WORKER * self._executor.n_workers)
        ends = np.cumsum([file.stat().st_size + 1 for file in files])
        group = (ends - 1) * n_groups // ends[-1]
        return [
            [file for file, its in zip(files, group, strict=True) if its == number]
            for number in np.unique(group)
        ]

    def _record(self, groups: list[list[Path]], common: dict[str, Any]) -> None:
        """Have the workers record all of them: the largest first, each to who has least."""
        n_parts = min(len(groups), self._executor.n_workers)
        sizes = [sum(file.stat().st_size for file in files) for files in groups]
        load, parts = [0] * n_parts, [dict[int, list[Path]]() for _ in range(n_parts)]
        for number in sorted(range(len(groups)), key=lambda number: -sizes[number]):
            part = load.index(min(load))
            load[part] += sizes[number]
            parts[part][number] = [file.absolute() for file in groups[number]]
        specs = [
            {**common, "files": part, "what": f"Files ({next(iter(part.values()))[0]} and others)"}
            for part in parts
        ]
        with closing(self._executor.session(ReadingPart, specs)) as session:
            ends: list[ReadingEnd] = session.ask("record")
        for end in ends:
            if end.missing is not None:
                raise ReadError(
                    f"A worker does not see {end.missing}. All workers have to see the files that "
                    f"are converted, and the folder of the store, under the same paths."
                )
        failed = min((end.failed for end in ends if end.failed), key=itemgetter(0), default=None)
        if failed is not None:
            number, error = failed
            said = str(error)
            for file in groups[number]:  # as it was named here
                said = said.replace(str(file.absolute()), str(file))
            raise type(error)(said)


@contextmanager
def recording(given: Any, folder: Path) -> Iterator[Recorder]:
    """What opens files by the workers of an executor; recordings are kept in a folder below that of
    the unfinished store, with which they go where this process is killed."""
    with open_executor(given) as executor:
        below = Path(tempfile.mkdtemp(prefix="recordings-", dir=folder))
        try:
            yield Recorder(executor, below)
        finally:
            shutil.rmtree(below, ignore_errors=True)  # a lost worker may still write there
