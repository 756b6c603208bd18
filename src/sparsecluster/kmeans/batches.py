"""Passes over the rows in small random batches, until the smoothed cost no longer falls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import numpy as np

from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.kmeans.stream import Stream
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import IterationRecord, Reporter


@dataclass
class Smoothed:
    """Exponentially weighted means of what single batches say, as scikit-learn has them."""

    weight: float  #: of a new value
    cost: float | None = None
    shift: float | None = None
    lowest: float = np.inf
    stale: int = 0  #: batches since the cost was lowest

    def add(self, cost: float, shift: float) -> None:
        """Take in what a batch gave; the cost per row."""
        self.cost = self._mean(self.cost, cost)
        self.shift = self._mean(self.shift, shift)
        self.stale = 0 if self.cost < self.lowest else self.stale + 1
        self.lowest = min(self.lowest, self.cost)

    def _mean(self, before: float | None, value: float) -> float:
        return value if before is None else before + self.weight * (value - before)


def run_batches(
    rows: Rows,
    stream: Stream,
    setting: SeedSetting,
    *,
    batch_size: int,
    max_passes: int,
    max_no_improvement: int | None,
    tolerance: float,
    on_iteration: Reporter,
) -> tuple[list[IterationRecord], float, bool]:
    """Let the stream learn from random batches.

    Answers the history, an estimate of the cost, and whether it came to rest.

    It ends after so many passes, or so many batches without a lower smoothed cost, or when the
    smoothed shift is within the tolerance.
    """
    history: list[IterationRecord] = []
    rows_weight = rows.n_rows if setting.weights is None else float(setting.weights.sum())
    smoothed = Smoothed(weight=min(1.0, 2 * batch_size / (rows.n_rows + 1)))
    for _ in range(max_passes):
        order = np.arange(rows.n_rows, dtype=np.int32)
        setting.random_state.shuffle(order)
        for begin in range(0, rows.n_rows, batch_size):
            started = time.perf_counter()
            # In the order of X: memory is read forwards.
            ids = np.sort(order[begin : begin + batch_size]).astype(np.int64)
            weights = None if setting.weights is None else setting.weights[ids]
            total = len(ids) if weights is None else weights.sum()
            if not total > 0:
                continue
            learned = stream.learn(rows.select(ids), weights, setting.n_threads)
            record = IterationRecord(
                iteration=len(history) + 1,
                cost=learned.cost,
                shift=learned.shift,
                moved=len(ids),
                distances=len(ids) * len(stream.counts),
                seconds=time.perf_counter() - started,
                algorithm="sculley",
                path="batch",
                rows=len(ids),
            )
            history.append(record)
            labels = partial(_among, rows.n_rows, ids, learned.labels)
            with record.showing(partial(stream.shown, rows.sparse), labels):
                stopped = on_iteration(record)
            # The first batch meets the centers where the seeding put them: rows, not means.
            if len(history) > 1:
                smoothed.add(learned.cost / total, learned.shift)
            mean_cost = learned.cost / total if smoothed.cost is None else smoothed.cost
            idle = max_no_improvement is not None and smoothed.stale >= max_no_improvement
            near = smoothed.shift is not None and smoothed.shift <= tolerance
            at_rest = (idle and len(history) > 1) or near
            if stopped or at_rest:
                return history, mean_cost * rows_weight, at_rest
    return history, mean_cost * rows_weight, False


def _among(n_rows: int, ids: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels of all rows; -1 for those that are not among these."""
    among = np.full(n_rows, -1, dtype=np.int32)
    among[ids] = labels
    return among
