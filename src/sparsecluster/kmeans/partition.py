"""The unit of work of k-means: some rows, their labels, and what becomes of them in a step.

What a partition answers adds up to the same bits for any partition of the rows: integers, exact
sums, and rows by their number among all. It is an object of the process that holds the rows; what
goes in and out are arrays, numbers and dicts of these, which travel.
"""

from __future__ import annotations

import os
import warnings
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import choose_algorithm, make_assigner, nearest_labels
from sparsecluster.kmeans.elsewhere import part_rows
from sparsecluster.kmeans.empty import candidates, sizes_of
from sparsecluster.kmeans.merged import merge_limbs, merge_totals
from sparsecluster.kmeans.seeding.parallel import Distances
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.resources import effective_memory_limit
from sparsecluster.run.session import Session

Arrays = dict[str, Any]
NO_LIMBS = np.zeros(len(_core.exact_limbs(np.zeros(0))), dtype=np.int64)


def packed(centers: sp.csr_array) -> Arrays:
    """Centers as arrays."""
    return {
        "indptr": np.asarray(centers.indptr, dtype=np.int64),
        "indices": np.asarray(centers.indices, dtype=np.int32),
        "data": centers.data,
        "shape": centers.shape,
    }


def packed_core(centers: _core.Centers, clusters: np.ndarray | None = None) -> Arrays:
    """Centers of the core, or some of them, in the same way."""
    indptr, indices, data = centers.to_csr(clusters)
    shape = (len(indptr) - 1, centers.n_features)
    return {"indptr": indptr, "indices": indices, "data": data, "shape": shape}


def unpacked_core(arrays: Arrays) -> _core.Centers:
    """Back to the core."""
    return _core.Centers.from_csr(
        arrays["indptr"], arrays["indices"], arrays["data"], arrays["shape"][1]
    )


def put_in_place(
    centers: _core.Centers, clusters: np.ndarray, others: Arrays, n_threads: int
) -> None:
    """Put centers as they travel in the place of some."""
    centers.replace(clusters, others["indptr"], others["indices"], others["data"], n_threads)


def unpacked(arrays: Arrays) -> sp.csr_array:
    """The same as a matrix."""
    entries = (arrays["data"], arrays["indices"], arrays["indptr"])
    return sp.csr_array(entries, shape=arrays["shape"])


def column_stats_there(session: Session, range: tuple, weighted: bool, n_columns: int) -> Arrays:
    """Statistics of the columns of all parts, as they travel: sums that no partition changes."""
    columns: Arrays = {
        "range": range,
        "weighted": weighted,
        "n_columns": n_columns,
        "deviations": NO_LIMBS,
    }
    columns["totals"] = session.ask("column_totals", {"range": range}, merge=merge_totals)
    columns["deviations"] = session.ask("deviations", {"columns": columns}, merge=merge_limbs)
    return columns


def check_fixed_point(sums: _core.ClusterSums) -> None:
    """Refuse columns whose sums cannot be merged exactly."""
    if not sums.fixed_point:
        raise ValueError(
            "The values of a column, or the weights, differ by so many orders of magnitude that "
            "only sums in the order of the rows keep their digits. Scale the columns, leave out "
            "the smallest values, or do without executor."
        )


class Partition:
    """Rows between two of them, of a store or of blocks; as a `Part` of a session."""

    def __init__(self, spec: Arrays, n_threads: int) -> None:
        self._begin, self._end = spec["begin"], spec["end"]
        metric = metric_of(spec["metric"])
        limit = effective_memory_limit(spec["memory_limit"])
        rows = metric.rows(
            part_rows(spec, n_threads),
            n_threads=n_threads,
            zero_rows=spec["zero_rows"],
            memory_limit=limit,
        )
        self._rows = rows
        self._setting = Setting(memory_limit=limit, n_threads=n_threads, metric=metric)
        if "weights" in spec:
            self.weigh(spec["weights"])
        self._algorithm = spec["algorithm"]
        self._columns: _core.ColumnStats | None = None
        if "columns" in spec:
            self.prepare(spec["columns"])
        self._centers: _core.Centers | None = None
        self._labels = np.full(rows.n_rows, -1, dtype=np.int32)
        self._before = self._labels  # the last step
        self._assigner: Any = None
        self._sums: Any = None
        self._distances: Distances | None = None

    # --- what is known about the rows, before any run --------------------------------------------

    def measured(self) -> Arrays:
        """The range of the rows, and sums over them that every run needs."""
        setting, norm2 = self._setting, self._rows.core.norm2
        filled = setting.metric.useful(norm2)
        share = np.ones(len(norm2)) if setting.weights is None else setting.weights
        return {
            "range": _core.row_range(self._rows.core, setting.weights),
            "baseline": _core.baseline(self._rows.core, setting.weights, setting.metric.space),
            "weight": _core.exact_limbs(share),
            "filled_weight": _core.exact_limbs(share[filled]),
            "n_entries": int(self._rows.core.nnz),
        }

    def column_totals(self, range: tuple) -> tuple:
        """Sums over the columns."""
        return _core.column_totals(self._rows.core, self._setting.weights, range)

    def deviations(self, columns: Arrays) -> np.ndarray:
        """Squared deviations from the means of the columns, as an exact sum."""
        stats = stats_of(columns)
        return _core.deviations(self._rows.core, self._setting.weights, stats)

    def weigh(self, weights: np.ndarray) -> None:
        """Take the weights of the rows."""
        weights = np.array(weights)  # what travels may be read-only
        self._setting = replace(self._setting, weights=weights)

    def prepare(self, columns: Arrays) -> None:
        """Take the statistics of the columns of all rows."""
        self._columns = stats_of(columns)

    # --- starting centers ------------------------------------------------------------------------

    def useless(self) -> np.ndarray:
        """The rows that cannot be centers, for lack of a direction."""
        return self._begin + np.flatnonzero(~self._setting.metric.useful(self._rows.core.norm2))

    def picked(self, rows: np.ndarray) -> Arrays:
        """Some rows, in their own type."""
        return packed(sp.csr_array(self._rows.picked(rows - self._begin)))

    def approach(self, **centers: Any) -> np.ndarray:
        """Turn: rows were drawn, which all come nearer to; the sum of their squared distances."""
        if self._distances is None:
            rows, setting = self._rows, self._setting
            useful = setting.metric.useful(rows.core.norm2)
            if not useful.all():
                rows = rows.select(np.flatnonzero(useful))
                if setting.weights is not None:
                    setting = replace(setting, weights=setting.weights[useful])
            self._distances = Distances(rows, setting)
        return self._distances.approach(unpacked(centers))

    def draw(self, state: Any, total: float, wanted: float) -> np.ndarray:
        """Rows at random, numbered among those of this part that can be centers."""
        assert self._distances is not None
        random_state = np.random.RandomState()
        random_state.set_state(state)
        return self._distances.draw(random_state, total, wanted)

    def weights_near(self, n_rows: int, largest: float, **centers: Any) -> np.ndarray:
        """The weights of the rows nearest to each center, as pieces that add up."""
        assert self._distances is not None
        return self._distances.weights_near(unpacked(centers), n_rows, largest)

    # --- turns -----------------------------------------------------------------------------------

    def begin(self, n_clusters: int, labels: np.ndarray | None = None) -> Arrays:
        """A run begins, with these labels or none: what they add to the sums."""
        setting = self._setting
        if labels is not None:
            self._labels = np.array(labels, dtype=np.int32)
        else:
            self._labels[:] = -1
        self._centers = self._distances = None
        self._renew(n_clusters)
        return {"delta": self._sums.delta(self._labels, setting.n_threads)}

    def step(self, clusters: np.ndarray, shift: np.ndarray, **moved: Any) -> Arrays:
        """Give every row its nearest center; `moved` are the centers that did, of these clusters.

        What the new labels add to the sums, and the sizes of the clusters.
        """
        self._before = self._labels.copy()
        if self._centers is None:
            self._centers = unpacked_core(moved)
        else:
            put_in_place(self._centers, clusters, moved, self._setting.n_threads)
        found = self._assigner.assign(self._centers, shift, self._labels)
        return {
            "distances": found.distances,
            "skipped": found.skipped,
            "center_distances": found.center_distances,
            "path": found.path,
            "sizes": sizes_of(self._labels, self._setting.weights, self._centers.n_clusters),
            "delta": self._delta(),
        }

    def refill(self, moves: np.ndarray) -> Arrays:
        """Put rows into clusters that were empty: pairs of a row and a cluster.

        Rows that moved are counted from the labels before the last step.
        """
        before = np.count_nonzero(self._labels != self._before)
        self._refill(moves)
        _, *delta = self._delta()
        more = int(np.count_nonzero(self._labels != self._before)) - int(before)
        return {"delta": (more, *delta)}

    def renumber(self, numbers: np.ndarray) -> Arrays:
        """Go on with fewer clusters, of these numbers (-1: gone); sums begin anew."""
        self._renumber(numbers)
        return {"delta": self._delta()}

    # --- what leaves the rows as they are --------------------------------------------------------

    def candidates(self, count: int) -> Arrays:
        """The rows that are farthest from their centers: as many as could be needed."""
        assert self._centers is not None
        centers = self._centers
        rows, ranks = candidates(self._rows, centers, self._labels, self._setting, count=count)
        return {"rows": rows + self._begin, "ranks": ranks, "labels": self._labels[rows]}

    def cost(self, clusters: np.ndarray, **moved: Any) -> np.ndarray:
        """The squared distances of the rows to their centers, as an exact sum."""
        if self._centers is None:
            core = unpacked_core(moved)
        elif len(clusters):
            core = self._centers.copy()
            put_in_place(core, clusters, moved, self._setting.n_threads)
        else:
            core = self._centers
        setting = self._setting
        return _core.own_cost_limbs(
            self._rows.core, core, self._labels, setting.weights, setting.n_threads
        )

    def labels(self) -> np.ndarray:
        """The labels of the rows."""
        return self._labels.copy()

    def nearest(self, **centers: Any) -> np.ndarray:
        """The nearest of these centers, for each row."""
        return nearest_labels(self._rows, centers_.to_core(unpacked(centers)), self._setting)

    def write_nearest(self, path: str, offset: int, **centers: Any) -> str | None:
        """Write the same into a file of one label per row; what is wrong with the file, if
        anything is."""
        labels = self.nearest(**centers).astype("<i4")
        try:
            with open(path, "r+b") as file:
                file.seek(offset + labels.itemsize * self._begin)
                file.write(labels.tobytes())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return error.strerror or str(error)
        return None

    # --- lost and found --------------------------------------------------------------------------

    def restore(self, recipe: Arrays) -> None:
        """Go to where a run is: labels follow from the centers of the last step, and from what was
        done about empty clusters after it."""
        for drawn in recipe.get("drawn", ()):
            self.approach(**drawn)
        if "centers" not in recipe:
            return
        if recipe["before"] is not None:
            self.restore(recipe["before"])
            self._before = self._labels.copy()
        if recipe["centers"] is None:
            self._renew(recipe["n_clusters"])
            if recipe["labels"] is not None:
                self._labels = np.array(recipe["labels"], dtype=np.int32)
        else:
            self._centers = unpacked_core(recipe["centers"])
            self._renew(self._centers.n_clusters)
            self._assigner.assign(self._centers, np.zeros(0), self._labels)
            self._refill(recipe["moves"])
            if recipe["numbers"] is not None:
                self._renumber(recipe["numbers"])
        self._sums.assume(self._labels)

    def _renew(self, n_clusters: int) -> None:
        setting, columns = self._setting, self._columns
        assert columns is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the choice, which changes no result
            algorithm = choose_algorithm(
                self._algorithm, self._rows, n_clusters, setting.memory_limit
            )
        self._assigner = make_assigner(algorithm, self._rows, setting)
        self._sums = _core.RowSums(
            self._rows.core, columns, setting.weights, n_clusters, setting.metric.space
        )

    def _refill(self, moves: np.ndarray) -> None:
        for row, cluster in np.asarray(moves, dtype=np.int64).reshape(-1, 2):
            if self._begin <= row < self._end:
                self._labels[row - self._begin] = cluster
                self._assigner.forget(int(row - self._begin))

    def _renumber(self, numbers: np.ndarray) -> None:
        assert self._centers is not None
        self._centers = self._centers.some(np.flatnonzero(numbers >= 0))
        np.maximum(numbers[self._labels], 0, out=self._labels)
        self._renew(self._centers.n_clusters)

    def _delta(self) -> Any:
        return self._sums.delta(self._labels, self._setting.n_threads)


def stats_of(columns: Arrays) -> _core.ColumnStats:
    """Statistics of columns from what travels."""
    return _core.stats_of_totals(
        columns["totals"],
        columns["range"],
        columns["weighted"],
        columns["deviations"],
        columns["n_columns"],
    )


def totals_checksum(columns: Arrays) -> int:
    """What tells rows apart that are known by the sums of their columns alone."""
    checksum = 0
    for part in columns["totals"]:
        checksum = zlib.crc32(np.ascontiguousarray(part).tobytes(), checksum)
    return zlib.crc32(columns["deviations"].tobytes(), checksum)
