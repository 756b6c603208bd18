"""Rows that workers have: partitions of a store, and the runs of a fit over them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.empty import fill, most_candidates, warn_if_fewer
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.partition import (
    NO_LIMBS,
    Arrays,
    Partition,
    merge_candidates,
    merge_found,
    merge_limbs,
    merge_measured,
    merge_steps,
    merge_totals,
    packed,
    stats_of,
)
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.state import RunState
from sparsecluster.kmeans.work import kept_numbers
from sparsecluster.rows.checks import check_weights
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.run.dask import dask_executor
from sparsecluster.run.session import Executor
from sparsecluster.storage.checkpoint import described_fit
from sparsecluster.storage.store import StoredRows, is_store, open_store

NO_MOVES = np.zeros((0, 2), dtype=np.int64)


def stored_rows(X: Any) -> StoredRows:
    """The store that X is, not read yet."""
    if isinstance(X, StoredRows):
        return X
    if isinstance(X, str | os.PathLike) and is_store(Path(X)):
        return open_store(X)
    raise ValueError(
        "executor needs X to be a store that all workers see: make one with convert, and pass its "
        "path."
    )


@dataclass(frozen=True)
class Found:
    """What assigning took, on all workers together."""

    distances: int
    skipped: int
    center_distances: int
    path: str


@contextmanager
def open_rows(estimator: Any, X: Any, sample_weight: Any) -> Iterator[RemoteRows]:
    """The rows of a store on the workers of an estimator's executor, measured; all of it is let go
    of at the end, and so are workers that were started for it."""
    stored, given = stored_rows(X), estimator.executor
    with ExitStack() as opened:
        executor = given if isinstance(given, Executor) else dask_executor(given)
        opened.callback(executor.close)
        remote = RemoteRows(executor, stored, estimator)
        opened.callback(remote.close)
        remote.measure(sample_weight)
        yield remote


class RemoteRows:
    """The rows of a store, a range of them on each worker, with what all runs need to know."""

    def __init__(self, executor: Executor, stored: StoredRows, estimator: Any) -> None:
        self.stored, self.metric = stored, metric_of(estimator.metric)
        self.n_threads = effective_n_threads(estimator.n_threads)
        self._memory_limit = effective_memory_limit(estimator.memory_limit)
        self._algorithm, self._zero_rows = estimator.algorithm, estimator.zero_rows
        described = stored.path / "meta.json"
        executor.check_file(str(described), zlib.crc32(described.read_bytes()))
        self.cuts = _cuts(stored, executor.n_workers)
        common = {
            "path": str(stored.path),
            "checksum": stored.meta["checksum"],
            "metric": estimator.metric,
            "zero_rows": estimator.zero_rows,
            "memory_limit": estimator.memory_limit,
            "algorithm": estimator.algorithm,
        }
        specs = [{**common, "begin": begin, "end": end} for begin, end in pairwise(self.cuts)]
        self.session = executor.session(Partition, specs)
        self.session.recipe_of = lambda part: {}
        self.weights: np.ndarray | None = None
        self.columns: _core.ColumnStats

    def measure(self, sample_weight: Any) -> None:
        """Weights, and the statistics of the columns: sums that no partition changes."""
        session = self.session
        measured = session.ask("measured", merge=merge_measured)
        max_norm = measured["range"][1]
        self.weights = check_weights(sample_weight, self.stored, max_norm2=max_norm * max_norm)
        if self.weights is not None:
            own = [{"weights": part} for part in self.in_parts(self.weights)]
            session.specify(own=own)
            session.turn("weigh", own=own)
            measured = session.ask("measured", merge=merge_measured)
        self.n_entries = measured["n_entries"]
        self._baseline = _core.exact_value(measured["baseline"])
        self._weight = _core.exact_value(measured["weight"])
        self._filled_weight = _core.exact_value(measured["filled_weight"])
        columns: Arrays = {
            "range": measured["range"],
            "weighted": self.weights is not None,
            "n_columns": self.stored.n_features,
            "deviations": NO_LIMBS,
        }
        columns["totals"] = session.ask(
            "column_totals", {"range": measured["range"]}, merge=merge_totals
        )
        columns["deviations"] = session.ask("deviations", {"columns": columns}, merge=merge_limbs)
        self.columns = stats_of(columns)
        if not _core.ClusterSums(self.columns, 1, self.metric.space).fixed_point:
            raise ValueError(
                "The values of a column, or the weights, differ by so many orders of magnitude "
                "that only sums in the order of the rows keep their digits. Scale the columns, "
                "leave out the smallest values, or fit without executor."
            )
        session.specify(shared={"columns": columns})
        session.turn("prepare", {"columns": columns})

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        return self.columns.scatter if self.metric.space == "euclidean" else self._baseline

    def objective(self, inertia: float) -> float:
        """What the literature of the metric minimises."""
        return self.metric.objective_of(inertia, self._weight, self._filled_weight)

    def task(self, max_iter: int, tol: float, random_state: np.random.RandomState) -> Task:
        """What a run is to do."""
        setting = SeedSetting(
            random_state=random_state,
            weights=self.weights,
            memory_limit=self._memory_limit,
            n_threads=self.n_threads,
            metric=self.metric,
        )
        return Task(
            rows=self.stored,
            setting=setting,
            columns=self.columns,
            algorithm=self._algorithm,
            max_iter=max_iter,
            tolerance=tol * self.columns.mean_variance,
            remote=self,
        )

    def fingerprint(self, deciding: dict[str, Any]) -> dict[str, Any]:
        """What tells one fit from another: the store by its checksum."""
        return described_fit(deciding, self.stored, self.weights, self.stored.meta["checksum"])

    def starting_centers(
        self,
        init: Any,
        rows: Rows,
        n_clusters: int,
        setting: SeedSetting,
        options: dict[str, Any] | None,
    ) -> _core.Centers:
        """Centers to start from: those that were given, or what this process finds in the store."""
        if isinstance(init, str) or callable(init):
            rows = self.metric.rows(
                self.stored.checked(),
                n_threads=self.n_threads,
                zero_rows=self._zero_rows,
                memory_limit=self._memory_limit,
            )
        return starting_centers(init, rows, n_clusters, setting, options)

    def in_parts(self, array: np.ndarray) -> list[np.ndarray]:
        """An array of a value per row, as the partitions have the rows."""
        return [array[begin:end] for begin, end in pairwise(self.cuts)]

    def work(self, centers: _core.Centers, start: RunState) -> RemoteWork:
        """A run begins."""
        return RemoteWork(self, centers, start)

    def close(self) -> None:
        """Leave nothing behind on the workers."""
        self.session.close()


def _cuts(stored: StoredRows, n_parts: int) -> list[int]:
    """Where partitions begin and end: about as many entries each, and a row at least."""
    n_rows, indptr = stored.n_rows, stored.arrays["indptr"]
    n_parts = min(n_parts, n_rows)
    cuts = [0]
    for part in range(1, n_parts):
        at = int(np.searchsorted(indptr, part * int(indptr[-1]) // n_parts))
        cuts.append(min(max(at, cuts[-1] + 1), n_rows - (n_parts - part)))
    return [*cuts, n_rows]


def _same_row(one: sp.csr_array, other: sp.csr_array, k: int) -> bool:
    a = slice(one.indptr[k], one.indptr[k + 1])
    b = slice(other.indptr[k], other.indptr[k + 1])
    return np.array_equal(one.indices[a], other.indices[b]) and np.array_equal(
        one.data[a], other.data[b]
    )


class RemoteWork:
    """What the loop asks for, of rows that workers have."""

    basis = None

    def __init__(self, remote: RemoteRows, centers: _core.Centers, start: RunState) -> None:
        self._remote, self._session = remote, remote.session
        self._n_clusters = centers.n_clusters
        # What labels on the workers follow from: those of the start, or the last centers that were
        # sent and what was done after that.
        self._labels: list[Any] = [None] * self._session.n_parts
        self._sent: sp.csr_array | None = None
        self._moves = NO_MOVES
        self._numbers: np.ndarray | None = None
        self._before: Any = lambda part: None  # the recipe of the labels before the last step
        if start.labels is not None:
            self._labels = remote.in_parts(start.labels)
        own = [{"labels": part} for part in self._labels]
        self._session.recipe_of = lambda part: {}
        begun = self._session.turn(
            "begin", {"n_clusters": self._n_clusters}, own=own, merge=merge_steps
        )
        self._session.recipe_of = self._recipe
        self._sums = _core.ClusterSums(remote.columns, self._n_clusters, remote.metric.space)
        if start.labels is not None:
            # Changes no center: they came from these labels.
            self._sums.apply(begun["delta"], remote.scatter, centers, remote.n_threads)

    def _recipe(self, part: int) -> Arrays:
        """What restores a partition as it is after the last turn."""
        return {**self._now()(part), "before": self._before(part)}

    def _now(self) -> Any:
        """The recipes as they are now, without those of the labels before."""
        n_clusters, labels, sent = self._n_clusters, self._labels, self._sent
        moves, numbers = self._moves, self._numbers
        return lambda part: {
            "n_clusters": n_clusters,
            "labels": labels[part],
            "centers": None if sent is None else packed(sent),
            "moves": moves,
            "numbers": numbers,
            "before": None,
        }

    @property
    def labels(self) -> np.ndarray:
        """The label of each row, from the workers."""
        return np.concatenate(self._session.ask("labels"))

    def assign(self, centers: _core.Centers, shift: np.ndarray, n_rows: int) -> Found:
        """Give the rows their nearest centers; says what that took."""
        new = centers_.from_core(centers)
        given = {**self._moved(new), "shift": shift}
        found = self._session.turn("step", given, merge=merge_steps)
        self._before = self._now()
        self._sent, self._moves, self._numbers = new, NO_MOVES, None
        self._delta, self._sizes = found["delta"], found["sizes"]
        return Found(**merge_found([found]))

    def _moved(self, new: sp.csr_array) -> Arrays:
        """The centers that are not those that were sent last, which alone travel."""
        sent = self._sent
        if sent is None or sent.shape != new.shape:
            clusters = np.arange(new.shape[0])
        else:
            clusters = np.array(
                [k for k in range(new.shape[0]) if not _same_row(sent, new, k)], dtype=np.int64
            )
        return {"clusters": clusters, **packed(sp.csr_array(new[clusters]))}

    def refill(self, centers: _core.Centers, n_rows: int) -> tuple[int, list[int]]:
        """How many rows went into clusters that were empty, and the clusters nothing can fill."""
        if self._sizes.all():
            return 0, []
        few = {"count": most_candidates(self._sizes)}
        found = self._session.ask("candidates", few, merge=merge_candidates)
        moves, hopeless = fill(self._sizes, found["rows"], found["ranks"], found["labels"])
        if moves:
            pairs = np.array(moves, dtype=np.int64)
            more = self._session.turn("refill", {"moves": pairs}, merge=merge_steps)
            self._moves = pairs
            self._delta = _core.merge_deltas([self._delta, more["delta"]])
        return len(moves), hopeless

    def drop(self, centers: _core.Centers, empty: list[int]) -> _core.Centers:
        """Go on without these clusters: the others' centers."""
        remote = self._remote
        warn_if_fewer(self._n_clusters - len(empty), self._n_clusters)
        numbers = kept_numbers(self._n_clusters, empty)
        self._delta = self._session.turn("renumber", {"numbers": numbers}, merge=merge_steps)[
            "delta"
        ]
        # Restored by the centers before, whose labels are renumbered then.
        self._numbers = numbers
        kept = sp.csr_array(centers_.from_core(centers)[np.flatnonzero(numbers >= 0)])
        self._n_clusters = kept.shape[0]
        self._sums = _core.ClusterSums(remote.columns, self._n_clusters, remote.metric.space)
        return centers_.to_core(kept)

    def update(self, centers: _core.Centers, n_rows: int) -> tuple[int, np.ndarray, float]:
        """Move the centers: how many rows changed, how far each center went, and the cost."""
        remote = self._remote
        moved, shift, cost = self._sums.apply(
            self._delta, remote.scatter, centers, remote.n_threads
        )
        return moved, shift, cost

    def cost(self, centers: _core.Centers, n_rows: int) -> float:
        """The cost, exact to rounding."""
        moved = self._moved(centers_.from_core(centers))
        return _core.exact_value(self._session.ask("cost", moved, merge=merge_limbs))

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        return self._remote.scatter

    def finish(self) -> None:
        """Let go of what only further iterations need: labels stay until they are read."""
