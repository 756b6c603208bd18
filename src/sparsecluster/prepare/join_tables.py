"""Clusters as columns of tables: Parquet, Feather and Arrow files, and `.obs` of AnnData files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.arrow import (
    ARROW_MAGIC,
    ARROW_START,
    BROKEN,
    PARQUET_MAGIC,
    load_pyarrow,
    refuse_claims,
)
from sparsecluster.formats.claims import parquet_codec
from sparsecluster.formats.compressed import first_bytes, reading
from sparsecluster.formats.h5ad import load_h5py
from sparsecluster.formats.source import ReadError
from sparsecluster.prepare.join_text import JoinedFile, Results

LINES = 1 << 16  # of a table that are in memory at a time
# Spark would read the columns that are named here, and no others.
SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"


class ArrowJoin(JoinedFile):
    """Parquet, Feather or Arrow files. Other columns, the metadata of the first file and the bounds
    of row groups stay as they are; larger groups are split."""

    compressible = False

    def endings(self) -> tuple[str, ...]:
        return (".parquet",) if is_parquet(self.files[0]) else (".feather", ".arrow")

    def taken(self) -> list[str]:
        first = None
        for path in self.files:
            with reading(path, *BROKEN), self._table(path) as (schema, _):
                refuse_claims(path, list(schema.names))
            first = schema if first is None else first
            if not schema.equals(first):
                raise self.not_alike(path)
        return list(schema.names)

    @contextmanager
    def writing(self, path: Path, ending: str) -> Iterator[Callable[[Results], None]]:
        with self._table(self.files[0]) as (old, _):
            schema = self._schema(old)
        batches = self._batches()
        with closing(batches), self._writer(path, schema) as put:
            batch = next(batches, None)
            waiting = Results(np.zeros(0, np.int32), None if len(self.names) == 1 else np.zeros(0))

            def write(results: Results) -> None:
                nonlocal batch, waiting
                waiting = _appended(waiting, results)
                while batch is not None and len(waiting.labels) >= len(batch):
                    put(batch, waiting.part(slice(len(batch))))
                    waiting = waiting.part(slice(len(batch), None))
                    batch = next(batches, None)
                if batch is None and len(waiting.labels):
                    raise self.too_few()

            yield write
            if batch is not None:
                raise self.too_many()

    def _schema(self, schema: Any) -> Any:
        """The schema of the file with the new columns."""
        pa = load_pyarrow()
        for name, kind in zip(self.names, (pa.int32(), pa.float64()), strict=False):
            schema = schema.append(pa.field(name, kind))
        about = dict(schema.metadata or {})
        about.pop(SPARK_SCHEMA, None)
        return schema.with_metadata(about or None)

    def _batches(self) -> Generator[Any, None, None]:
        """The lines of all files."""
        for path in self.files:
            with self._table(path) as (_, batches):
                yield from batches

    @contextmanager
    def _table(self, path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
        """The schema of a file and its lines in batches, which end where its groups end."""
        pa = load_pyarrow()
        if is_parquet(path):
            with pa.parquet.ParquetFile(path, buffer_size=1 << 20) as parquet:
                groups = range(parquet.num_row_groups)
                batches = (parquet.iter_batches(LINES, row_groups=[group]) for group in groups)
                yield parquet.schema_arrow, _sound(path, chain.from_iterable(batches))
            return
        with pa.memory_map(os.fspath(path)) as file:
            if is_arrow_file(path):
                file.seek(ARROW_START)  # as the reader does, whatever the index at the end says
            with pa.ipc.open_stream(file) as reader:
                yield reader.schema, _sound(path, reader)

    @contextmanager
    def _writer(self, path: Path, schema: Any) -> Iterator[Callable[[Any, Results], None]]:
        """A file of the same kind, and the function that adds a batch and its results to it."""
        pa = load_pyarrow()
        if is_parquet(self.files[0]):
            codec = parquet_codec(self.files[0])
            opened = pa.parquet.ParquetWriter(path, schema, compression=codec)
        else:
            create = pa.ipc.new_file if is_arrow_file(self.files[0]) else pa.ipc.new_stream
            opened = create(os.fspath(path), schema)
        with opened as writer:

            def put(batch: Any, results: Results) -> None:
                columns = [*batch.columns, pa.array(results.labels)]
                if results.distances is not None:
                    columns.append(pa.array(results.distances))
                writer.write_batch(pa.record_batch(columns, schema=schema))

            yield put


def is_parquet(path: Path) -> bool:
    """Whether a file begins as Parquet does."""
    return first_bytes(path, len(PARQUET_MAGIC)) == PARQUET_MAGIC


def is_arrow_file(path: Path) -> bool:
    """Whether a file begins as an Arrow file does; else it is a stream."""
    return first_bytes(path, len(ARROW_MAGIC)) == ARROW_MAGIC


def _sound(path: Path, batches: Any) -> Iterator[Any]:
    """The batches, checked before other code looks into them."""
    with reading(path, *BROKEN):
        for batch in batches:
            batch.validate(full=True)
            yield batch


def _appended(first: Results, second: Results) -> Results:
    distances = None
    if first.distances is not None and second.distances is not None:
        distances = np.concatenate([first.distances, second.distances])
    return Results(np.concatenate([first.labels, second.labels]), distances)


class H5adJoin(JoinedFile):
    """A copy of an AnnData file, with clusters in `.obs` as categories, as scanpy has them."""

    compressible = False

    def endings(self) -> tuple[str, ...]:
        return (".h5ad",)

    def taken(self) -> list[str]:
        h5py, path = load_h5py(), self.path
        with reading(path, *BROKEN), h5py.File(path, "r") as file:
            return list(self._obs(file))

    @contextmanager
    def writing(self, path: Path, ending: str) -> Iterator[Callable[[Results], None]]:
        collected = list[Results]()
        yield collected.append
        columns: list[Any] = [np.concatenate([part.labels for part in collected])]
        if len(self.names) == 2:
            columns.append(np.concatenate([part.distances for part in collected]))
        shutil.copyfile(self.path, path)
        # `atomic_file` holds the lock.
        with (
            reading(self.path, *BROKEN),
            load_h5py().File(path, "r+", locking=False) as file,
        ):
            obs = self._obs(file)
            n_rows = self._n_rows(obs)
            if n_rows != len(columns[0]):
                raise self.too_few() if n_rows < len(columns[0]) else self.too_many()
            _write_categories(obs.create_group(self.names[0]), columns[0])
            if len(columns) == 2:
                _write_array(obs, self.names[1], columns[1])
            order = [_text(name) for name in obs.attrs.get("column-order", [])]
            obs.attrs["column-order"] = np.array([*order, *self.names], dtype=object)

    def _obs(self, file: Any) -> Any:
        obs = file.get("obs")
        if not hasattr(obs, "attrs") or "_index" not in obs.attrs:
            raise ReadError(
                f"{self.path}: there is no obs, or it is in the form of anndata before "
                f"0.7. Read the file with anndata and write it again."
            )
        return obs

    def _n_rows(self, obs: Any) -> int:
        index = obs[_text(obs.attrs["_index"])]
        if hasattr(index, "keys"):
            index = index["codes" if "codes" in index else "values"]
        return len(index)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _write_categories(group: Any, labels: np.ndarray) -> None:
    """Labels as categories of strings, in the order of their numbers."""
    clusters, codes = np.unique(labels, return_inverse=True)
    group.attrs.update(
        {"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False}
    )
    names = np.array(list(map(str, clusters)), dtype=object)
    categories = group.create_dataset("categories", data=names, dtype=load_h5py().string_dtype())
    categories.attrs.update({"encoding-type": "string-array", "encoding-version": "0.2.0"})
    # The smallest type that has room, as pandas chooses it: it also stands for a missing value, -1.
    _write_array(group, "codes", codes.astype(np.min_scalar_type(-len(clusters))))


def _write_array(group: Any, name: str, values: np.ndarray) -> None:
    dataset = group.create_dataset(name, data=values)
    dataset.attrs.update({"encoding-type": "array", "encoding-version": "0.2.0"})
