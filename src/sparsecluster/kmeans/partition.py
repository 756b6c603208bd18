"""The unit of work of k-means: some rows, their labels, and what becomes of them in a step.

What a partition answers adds up to the same bits for any partition of the rows: integers, exact
sums, and rows by their number among all. It is an object of the process that holds the rows; what
goes in and out are arrays, numbers and dicts of these, which travel.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import choose_algorithm, make_assigner, nearest_labels
from sparsecluster.kmeans.column_totals import NO_LIMBS, stats_of
from sparsecluster.kmeans.deltas import Delta, joined, n_entries, piece
from sparsecluster.kmeans.elsewhere import part_rows
from sparsecluster.kmeans.empty import candidates, sizes_of
from sparsecluster.kmeans.packed import Arrays, packed, packed_core, unpacked, unpacked_core
from sparsecluster.kmeans.seeding.parallel import Distances
from sparsecluster.kmeans.setting import Setting
from sparsecluster.kmeans.spreads import seen_pieces, spread_pieces
from sparsecluster.rows.checks import has_values
from sparsecluster.rows.metric import metric_of
from sparsecluster.rows.resources import effective_memory_limit
from sparsecluster.rows.sharing import share_out
from sparsecluster.run.session import Leave
from sparsecluster.storage.checkpoint import PartChecksums, checksums


class Partition:
    """Rows between two of them, of a store or of blocks; as a `Part` of a session."""

    def __init__(self, spec: Arrays, n_threads: int) -> None:
        self._begin = spec["begin"]
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
        self._numbers: np.ndarray | None = None  # of the rows; None: from the first on
        if "order" in spec:
            self.nest(spec["order"], spec["numbers"])
        self._algorithm = spec["algorithm"]
        self._columns: _core.ColumnStats | None = None
        if "columns" in spec:
            self.prepare(spec["columns"])
        self._n_parts, self._few_sums = spec["n_parts"], spec["few_sums"]
        self._centers: _core.Centers
        self._shift = np.zeros(0)
        self._labels = np.full(rows.n_rows, -1, dtype=np.int32)
        self._before = self._labels[:0].copy()  # of the rows that took part in the last update
        self._n_rows = 0  # the first ones: those that take part
        self._pending: Delta | None = None  # what labels add to the sums since the last update
        self.left: Leave | None = None  #: for the other parts
        self._limit = _core.CenterLimit()
        self._assigner: Any = None
        self._sums: Any = None
        self._clusters: Any = None
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
            "has_values": has_values(self._rows),
        }

    def column_totals(self, range: tuple) -> tuple:
        """Sums over the columns."""
        setting = self._setting
        return _core.column_totals(self._rows.core, setting.weights, range, setting.n_threads)

    def deviations(self, columns: Arrays) -> np.ndarray:
        """Squared deviations from the means of the columns, as an exact sum."""
        setting, stats = self._setting, stats_of(columns)
        return _core.deviations(self._rows.core, setting.weights, stats, setting.n_threads)

    def n_entries(self) -> int:
        """Entries of all rows."""
        return int(self._rows.core.nnz)

    def checksums(self, first_entry: int | None) -> PartChecksums:
        """What tells the rows from others; those before have so many entries, if there are any."""
        return checksums(self._rows.matrix, first_entry)

    def weigh(self, weights: np.ndarray) -> None:
        """Take the weights of the rows."""
        weights = np.array(weights)  # what travels may be read-only
        self._setting = replace(self._setting, weights=weights)

    def prepare(self, columns: Arrays) -> None:
        """Take the statistics of the columns of all rows."""
        self._columns = stats_of(columns)

    def nest(self, order: np.ndarray, numbers: np.ndarray) -> None:
        """Turn: take the rows in this order; their numbers among all ascend."""
        self._rows, self._numbers = self._rows.select(order), np.array(numbers)
        if self._setting.weights is not None:
            self._setting = replace(self._setting, weights=self._setting.weights[order])

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

    def begin(self, labels: np.ndarray | None, limit: tuple, **centers: Any) -> Arrays:
        """A run begins, with these labels or none: what they add to the sums."""
        self._distances = None
        self._limit = _core.CenterLimit(*limit)
        self._take(labels)
        self._before = self._labels[:0].copy()
        self._renew(unpacked_core(centers))
        return self._delta()

    def trade(self, given: list[Delta]) -> None:
        """Merge what all parts found of a range of clusters, and leave that for all."""
        n_threads = self._setting.n_threads

        def merged(number: int) -> Delta:
            return joined([piece(delta, number, n_threads) for delta in given])

        pieces = share_out(merged, n_threads, n_threads)
        self.left = lambda reader: pieces

    def step(
        self,
        applies: bool,
        delta: Delta | None,
        scatter: float,
        n_rows: int,
        scattered: bool,
        given: Sequence[list[Delta]] = (),
    ) -> Arrays:
        """Move the centers by what all parts found, if they are to, and give the first rows the
        nearest ones.

        What all found is a delta, or where parts kept it the pieces that each of them has merged.
        Answers what the new labels add to the sums, and the sizes of the clusters; `scattered`:
        also what rows that are new add to what the cost is a difference from.
        """
        pieces = [one for some in given for one in some] if delta is None else [delta]
        update = self._apply(pieces, scatter) if applies else None
        began = time.perf_counter()
        known, self._n_rows = self._n_rows, self._own_rows(n_rows)
        found = self._assign()
        return {
            "update": update,
            "distances": found.distances,
            "skipped": found.skipped,
            "center_distances": found.center_distances,
            "path": found.path,
            "sizes": sizes_of(self._taking_part, self._weights, self._centers.n_clusters),
            "scatter": self._sums.scatter_of(known, self._n_rows) if scattered else NO_LIMBS,
            **self._delta(),
            "seconds": time.perf_counter() - began,
        }

    def _apply(self, pieces: list[Delta], scatter: float) -> tuple[np.ndarray, float]:
        """How far each center went, and the cost."""
        self._before, self._pending = self._taking_part.copy(), None
        centers, n_threads = self._centers, self._setting.n_threads
        if self._alone:
            _, self._shift, cost = self._sums.update(self._before, centers, n_threads)
        else:
            _, self._shift, cost = self._clusters.apply(pieces, scatter, centers, n_threads)
        return self._shift, cost

    def refill(self, moves: np.ndarray) -> Arrays:
        """Put rows into clusters that were empty: pairs of a row and a cluster."""
        for number, cluster in np.asarray(moves, dtype=np.int64).reshape(-1, 2):
            row = self._own_rows(number)
            if row < self._n_rows and self._number(row) == number:
                self._labels[row] = cluster
                self._assigner.forget(row)
        return self._delta()

    def renumber(self, numbers: np.ndarray) -> Arrays:
        """Go on with fewer clusters, of these numbers (-1: gone); sums begin anew."""
        np.maximum(numbers[self._labels], 0, out=self._labels)
        self._before = self._labels[:0].copy()
        self._renew(self._centers.some(np.flatnonzero(numbers >= 0)))
        return self._delta()

    # --- what leaves the rows as they are --------------------------------------------------------

    def candidates(self, count: int) -> Arrays:
        """The rows that are farthest from their centers: as many as could be needed."""
        labels, setting = self._taking_part, replace(self._setting, weights=self._weights)
        rows, ranks = candidates(self._rows, self._centers, labels, setting, count=count)
        return {"rows": self._number(rows), "ranks": ranks, "labels": labels[rows]}

    def cost(self, before: bool) -> np.ndarray:
        """The squared distances of the rows to their centers, as an exact sum."""
        labels, setting = self._chosen(before), self._setting
        weights = None if setting.weights is None else setting.weights[: len(labels)]
        return _core.own_cost_limbs(
            self._rows.core, self._centers, labels, weights, setting.n_threads
        )

    def spreads(self, before: bool, range: tuple) -> Arrays:
        """Weights and squared norms by cluster, as sums that no partition changes."""
        labels = self._chosen(before)
        norm2, weights = self._rows.core.norm2[: len(labels)], self._setting.weights
        weights = None if weights is None else weights[: len(labels)]
        n_clusters = self._centers.n_clusters
        found = spread_pieces(labels, norm2, weights, n_clusters, range)
        sums = self._sums if self._alone else self._clusters
        return {**found, "mean_norm2": sums.mean_norm2}

    def seen(self, range: tuple) -> Arrays:
        """What a stream would have seen of the clusters, as sums that no partition changes."""
        setting, labels = self._setting, self._taking_part
        return seen_pieces(self._rows.core, self._centers, labels, setting, range)

    def centers(self, wanted: bool) -> Arrays | None:
        """The centers, if this part is asked for them."""
        return packed_core(self._centers) if wanted else None

    def labels(self, before: bool) -> np.ndarray:
        """The labels of the rows, now or at the last update; -1 for those that take no part."""
        labels = np.full(len(self._labels), -1, dtype=np.int32)
        chosen = self._chosen(before)
        labels[: len(chosen)] = chosen
        return labels

    def _chosen(self, before: bool) -> np.ndarray:
        return self._before if before else self._taking_part

    def nearest(self, **centers: Any) -> np.ndarray:
        """The nearest of these centers, for each row."""
        return nearest_labels(self._rows, centers_.to_core(unpacked(centers)), self._setting)

    def distances(self, **centers: Any) -> np.ndarray:
        """The distances of each row to all of these centers, by the metric."""
        rows, setting, core = self._rows, self._setting, centers_.to_core(unpacked(centers))
        distances = np.empty((rows.n_rows, core.n_clusters), dtype=rows.matrix.dtype)
        _core.all_distances(rows.core, core, distances, setting.n_threads)
        setting.metric.distances(distances, rows.core.norm2)
        return distances

    def nearest_cost(self, **centers: Any) -> np.ndarray:
        """The squared distances of the rows to the nearest of these centers, as an exact sum."""
        setting, core = self._setting, centers_.to_core(unpacked(centers))
        labels = nearest_labels(self._rows, core, setting)
        given = (labels, setting.weights, setting.n_threads)
        return _core.own_cost_limbs(self._rows.core, core, *given)

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
        """Know the rows that were drawn; what a run has come to follows from its turns."""
        for drawn in recipe.get("drawn", ()):
            self.approach(**drawn)

    # --- what they share -------------------------------------------------------------------------

    @property
    def _alone(self) -> bool:
        """Whether there are no other parts."""
        return bool(self._n_parts == 1)

    @property
    def _taking_part(self) -> np.ndarray:
        """The labels of the rows that take part; a view."""
        return self._labels[: self._n_rows]

    @property
    def _weights(self) -> np.ndarray | None:
        """Of the rows that take part."""
        weights = self._setting.weights
        return None if weights is None else weights[: self._n_rows]

    def _assign(self) -> Any:
        """Give the rows that take part their nearest centers."""
        sums = self._sums if self._alone else None
        found = self._assigner.assign(self._centers, self._shift, self._taking_part, sums)
        self._shift = np.zeros(self._centers.n_clusters)  # since then
        return found

    def _own_rows(self, n_rows: int) -> int:
        """How many of the first rows, of those of all parts, are here."""
        if self._numbers is not None:
            return int(np.searchsorted(self._numbers, n_rows))
        return min(max(n_rows - self._begin, 0), self._rows.n_rows)

    def _number(self, rows: Any) -> Any:
        """The numbers of rows among those of all parts."""
        return self._begin + rows if self._numbers is None else self._numbers[rows]

    def _take(self, labels: np.ndarray | None) -> None:
        """These labels, for all rows, or none."""
        self._labels[:] = -1 if labels is None else labels
        self._n_rows = 0 if labels is None else len(self._labels)

    def _renew(self, centers: _core.Centers) -> None:
        setting, columns, n_clusters = self._setting, self._columns, centers.n_clusters
        assert columns is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the choice, which changes no result
            algorithm = choose_algorithm(
                self._algorithm, self._rows, n_clusters, setting.memory_limit
            )
        self._centers, self._shift, self._pending = centers, np.zeros(0), None
        self._assigner = make_assigner(algorithm, self._rows, setting)
        given = (columns, setting.weights, n_clusters, setting.metric.space)
        if self._alone:
            # Sums of rows go right into those of the clusters: nobody else needs to know them.
            self._sums = _core.Sums(self._rows.core, *given, self._limit)
            return
        self._sums = _core.RowSums(self._rows.core, *given)
        self._clusters = _core.ClusterSums(columns, n_clusters, setting.metric.space, self._limit)

    def _delta(self) -> Arrays:
        """How many rows have other labels than at the last update, or had none; and what that adds
        to the sums, if it is little. Else it is kept."""
        labels, known = self._taking_part, len(self._before)
        moved = len(labels) - known + int(np.count_nonzero(labels[:known] != self._before))
        if self._alone:
            return {"delta": (moved,)}
        more = self._sums.delta(labels, self._setting.n_threads)
        pending = self._pending
        pending = joined([pending, more]) if pending is not None and pending[0] else more
        self._pending, n_parts = pending, self._n_parts
        self.left = lambda reader: piece(pending, reader, n_parts)
        few = n_entries(pending) <= self._few_sums
        return {"delta": (moved, *pending[1:]) if few else (moved,)}
