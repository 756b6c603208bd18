"""Rows that workers have, a part on each, and the runs of a fit over them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.column_totals import (
    check_fixed_point,
    column_stats_there,
    stats_of,
    totals_checksum,
)
from sparsecluster.kmeans.elsewhere import RowsElsewhere, own_parts, rows_elsewhere
from sparsecluster.kmeans.loop import Task
from sparsecluster.kmeans.merged import merge_limbs, merge_measured, merge_seen
from sparsecluster.kmeans.packed import Arrays, packed, unpacked
from sparsecluster.kmeans.partition import Partition
from sparsecluster.kmeans.remote_seeding import seed_remotely
from sparsecluster.kmeans.remote_work import RemoteWork
from sparsecluster.kmeans.seeding.starting import starting_centers
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.spreads import added_seen
from sparsecluster.kmeans.state import RunState
from sparsecluster.rows.checks import check_squares, check_weights
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.run.dask import open_executor
from sparsecluster.run.history import Machines
from sparsecluster.run.session import Executor
from sparsecluster.storage.checkpoint import described_fit, joined_checksums

ENTRY_BYTES = 12  # a value of 8 bytes, an index of 4
# Sums that a part changes in a step, up to which they are merged by this process: a message of
# about 1 MB. That workers merge them costs another round trip.
FEW_SUMS = 100_000


@dataclass(frozen=True, kw_only=True)
class PartSetting:
    """How parts are made of rows, and what they are for."""

    metric: str = "euclidean"
    zero_rows: str = "error"
    algorithm: str = "auto"
    n_threads: int | None = None  #: of this process
    memory_limit: int | str | None = None

    @classmethod
    def of(cls, estimator: Any, metric: str) -> PartSetting:
        """That of an estimator."""
        return cls(
            metric=metric,
            zero_rows=estimator.zero_rows,
            algorithm=getattr(estimator, "algorithm", "auto"),
            n_threads=estimator.n_threads,
            memory_limit=estimator.memory_limit,
        )


@contextmanager
def open_rows(X: Any, given: Any, setting: PartSetting) -> Iterator[RemoteRows]:
    """The rows of X on the workers of an executor; all of it is let go of at the end, and so are
    workers that were started for it."""
    with open_executor(given) as executor:
        remote = RemoteRows(executor, rows_elsewhere(X, executor), setting)
        with closing(remote):
            yield remote


class RemoteRows:
    """Rows, a range of them on each worker, with what all runs need to know."""

    def __init__(self, executor: Executor, source: RowsElsewhere, setting: PartSetting) -> None:
        self.described, self.metric = source.rows, metric_of(setting.metric)
        self.n_threads = effective_n_threads(setting.n_threads)
        self._memory_limit = effective_memory_limit(setting.memory_limit)
        self._source, self._setting = source, setting
        self.cuts = source.cuts(executor.n_workers)
        common: Arrays = {
            "metric": setting.metric,
            "zero_rows": setting.zero_rows,
            "memory_limit": setting.memory_limit,
            "algorithm": setting.algorithm,
        }
        common.update(n_parts=len(self.cuts) - 1, few_sums=FEW_SUMS)
        specs = [
            {**common, "begin": begin, "end": end, **source.spec(begin, end)}
            for begin, end in pairwise(self.cuts)
        ]
        self.session = executor.session(Partition, specs)
        self.weights: np.ndarray | None = None
        self._numbers: list[np.ndarray] | None = None  # of the rows of parts; None: from 0 on
        self.columns: _core.ColumnStats

    @property
    def n_rows(self) -> int:
        return self.described.n_rows

    @property
    def machines(self) -> Machines:
        """Who computes."""
        return self.session.machines

    def weigh(self, sample_weight: Any, *, to_fit: bool = True) -> Arrays:
        """Take weights; what is known about the rows with these."""
        session = self.session
        measured = session.ask("measured", merge=merge_measured)
        self.n_entries = measured["n_entries"]
        max_norm = measured["range"][1]
        if to_fit:
            check_squares(max_norm, measured["has_values"])
        self.weights = check_weights(sample_weight, self.described, max_norm2=max_norm * max_norm)
        if self.weights is None:
            return measured
        own = [{"weights": part} for part in self.in_parts(self.weights)]
        session.specify(own=own)
        session.turn("weigh", own=own)
        return session.ask("measured", merge=merge_measured)

    def measure(self, sample_weight: Any) -> None:
        """Weights, and the statistics of the columns: sums that no partition changes."""
        session, measured = self.session, self.weigh(sample_weight)
        self.range = measured["range"]  #: number of rows, largest norm, weights
        self._baseline = _core.exact_value(measured["baseline"])
        self._weight = _core.exact_value(measured["weight"])
        self._filled_weight = _core.exact_value(measured["filled_weight"])
        weighted, n_columns = self.weights is not None, self.described.n_features
        columns = column_stats_there(session, measured["range"], weighted, n_columns)
        self.columns = stats_of(columns)
        check_fixed_point(_core.ClusterSums(self.columns, 1, self.metric.space))
        session.specify(shared={"columns": columns})
        session.turn("prepare", {"columns": columns})
        self._totals = columns

    @property
    def scatter(self) -> float:
        """What an update gives the cost as a difference from."""
        return self.columns.scatter if self.metric.space == "euclidean" else self._baseline

    def objective(self, inertia: float) -> float:
        """What the literature of the metric minimises."""
        return self.metric.objective_of(inertia, self._weight, self._filled_weight)

    def seed_setting(self, random_state: np.random.RandomState) -> SeedSetting:
        """What starting centers are found by."""
        return SeedSetting(
            random_state=random_state,
            weights=self.weights,
            memory_limit=self._memory_limit,
            n_threads=self.n_threads,
            metric=self.metric,
        )

    def task(self, max_iter: int, tol: float, random_state: np.random.RandomState) -> Task:
        """What a run is to do."""
        return Task(
            rows=self.described,
            setting=self.seed_setting(random_state),
            columns=self.columns,
            algorithm=self._setting.algorithm,
            max_iter=max_iter,
            tolerance=tol * self.columns.mean_variance,
            remote=self,
        )

    def fingerprint(self, deciding: dict[str, Any]) -> dict[str, Any]:
        """What tells one fit from another: the same as where all rows are here."""
        ends = np.cumsum(self.session.ask("n_entries")).tolist()
        own = [{"first_entry": first} for first in [None, *ends[:-1]]]
        values: Any = joined_checksums(self.session.ask("checksums", own=own))
        values = totals_checksum(self._totals) if values is None else values
        return described_fit(deciding, self.described, self.weights, values)

    def starting_centers(
        self,
        init: Any,
        rows: Rows,
        n_clusters: int,
        setting: SeedSetting,
        options: dict[str, Any] | None,
    ) -> _core.Centers:
        """Centers to start from: those that were given, or what a method or a function finds."""
        if isinstance(init, str):
            return centers_.to_core(seed_remotely(init, self, n_clusters, setting, options)[0])
        rows = self.rows_here() if callable(init) else rows
        return starting_centers(init, rows, n_clusters, setting, options)

    def seeds(
        self, method: str, n_clusters: int, setting: SeedSetting, options: dict[str, Any] | None
    ) -> tuple[sp.csr_array, np.ndarray | None]:
        """Centers by a method, and where they are; those that are rows in their own type."""
        centers, indices = seed_remotely(method, self, n_clusters, setting, options)
        return (centers if indices is None else self.picked(indices)), indices

    def rows_here(self) -> Rows:
        """All rows, in this process."""
        needed = 0 if self._source.mapped else ENTRY_BYTES * self.n_entries
        if needed > self._memory_limit:
            raise ValueError(
                f"Starting centers by this method need all rows in this process, about "
                f"{needed / 1e9:.3g} GB, more than the memory limit of "
                f"{self._memory_limit / 1e9:.3g} GB. Workers find 'k-means||' and 'random'."
            )
        return self.metric.rows(
            self._source.here(),
            n_threads=self.n_threads,
            zero_rows=self._setting.zero_rows,
            memory_limit=self._memory_limit,
        )

    def picked(self, rows: np.ndarray) -> sp.csr_array:
        """Some rows as points, in their own type."""
        order = np.argsort(rows, kind="stable")
        cuts = np.searchsorted(rows[order], self.cuts)
        own = [{"rows": rows[order[begin:end]]} for begin, end in pairwise(cuts)]
        found = sp.vstack([unpacked(part) for part in self.session.ask("picked", own=own)], "csr")
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        return sp.csr_array(found[back])

    def nearest(self, centers: sp.csr_array) -> np.ndarray:
        """The nearest center of each row."""
        return np.concatenate(self.session.ask("nearest", packed(centers)))

    def distances(self, centers: sp.csr_array) -> np.ndarray:
        """The distances of each row to all of these centers."""
        return np.concatenate(self.session.ask("distances", packed(centers)))

    def nearest_cost(self, centers: sp.csr_array) -> float:
        """The squared distances of the rows to the nearest of these centers, by their weights."""
        return _core.exact_value(
            self.session.ask("nearest_cost", packed(centers), merge=merge_limbs)
        )

    def write_nearest(self, centers: sp.csr_array, path: Path) -> None:
        """The same into an .npy file, by the workers, each its own part."""
        with path.open("wb") as file:
            header = {"descr": "<i4", "fortran_order": False, "shape": (self.n_rows,)}
            np.lib.format.write_array_header_1_0(file, header)
            offset = file.tell()
            file.truncate(offset + 4 * self.n_rows)
        given = {"path": str(path.absolute()), "offset": offset, **packed(centers)}
        for wrong in filter(None, self.session.ask("write_nearest", given)):
            raise ValueError(
                f"A worker cannot write to {path.parent} ({wrong}). All workers have to see that "
                f"folder, under the same path."
            )

    def useful(self) -> np.ndarray:
        """Which rows can be centers."""
        useful = np.ones(self.n_rows, dtype=bool)
        useful[np.concatenate(self.session.ask("useless"))] = False
        return useful

    def nest(self, order: np.ndarray) -> None:
        """Take the rows in another order, in which the parts have theirs from now on."""
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        own = []
        for some in own_parts(self.cuts, places):
            there = np.argsort(some)
            own.append({"order": there, "numbers": some[there]})
        # In this order: a part that is made anew within the turn must not have the order already.
        self.session.turn("nest", own=own)
        self.session.specify(own=own)
        self._numbers = [part["numbers"] for part in own]

    def in_parts(self, array: np.ndarray) -> list[np.ndarray]:
        """An array of a value per row, as the partitions have the rows."""
        if self._numbers is None:
            return own_parts(self.cuts, array)
        return [array[numbers] for numbers in self._numbers]

    def gathered(self, parts: list[np.ndarray]) -> np.ndarray:
        """The array that has these parts."""
        gathered = np.concatenate(parts)
        if self._numbers is not None:
            gathered[np.concatenate(self._numbers)] = gathered.copy()
        return gathered

    def seen(self) -> tuple[np.ndarray, np.ndarray]:
        """By cluster: the weight of its rows, and what their cosines add up to."""
        found = self.session.ask("seen", {"range": self.range}, merge=merge_seen)
        return added_seen(found)

    def work(self, task: Task, centers: _core.Centers, start: RunState) -> RemoteWork:
        """A run begins."""
        return RemoteWork(self, task, centers, start)

    def close(self) -> None:
        """Leave nothing behind on the workers."""
        self.session.close()
