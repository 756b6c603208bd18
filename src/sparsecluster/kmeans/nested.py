"""Nested batches: a growing part of the rows takes part, each row once (Newling, Fleuret 2016)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparsecluster.kmeans.loop import Loop, Observer, Task
from sparsecluster.kmeans.state import RunState

# A batch doubles when the standard error of the median center exceeds its shift by this factor. The
# paper has 10 to 1000; with assignments this cheap more rows are worth more than more iterations.
RHO = 0.5


class NestedBatches:
    """Rows in a random order, of which the first take part; every batch holds the ones before.

    Rows that are not `useful` come in the last batches.
    """

    def __init__(self, first: int, random_state: np.random.RandomState, useful: np.ndarray) -> None:
        n_rows = len(useful)
        self.sizes = [min(first, n_rows)]
        while self.sizes[-1] < n_rows:
            self.sizes.append(min(2 * self.sizes[-1], n_rows))
        drawn = random_state.permutation(n_rows)
        #: the rows as they were drawn: any first part of them is a random sample
        self.drawn = np.concatenate([drawn[useful[drawn]], drawn[~useful[drawn]]])
        self.order = self.drawn.copy()
        # In the order of X within what a batch adds: memory is read forwards.
        for begin, end in zip([0, *self.sizes[:-1]], self.sizes, strict=True):
            self.order[begin:end].sort()

    def iterate(self, task: Task, start: RunState, observe: Observer) -> RunState:
        """The loop on growing batches; labels are those of the rows as they were before."""
        loop, batch = Loop(self._in_order(task), start), 0
        while loop.goes_on:
            size, whole = self.sizes[batch], batch == len(self.sizes) - 1
            record = loop.step(size)
            with record.showing(
                lambda: task.show(loop.centers, loop.labels),
                lambda: self._outside(loop.labels),
                None if task.remote is None else task.remote.machines,
            ):
                loop.stopped = bool(observe(record, loop))
            if not whole and (loop.settled or loop.near or exhausted(loop, size)):
                batch += 1
                loop.settled = loop.near = False
        found = loop.finish()
        return replace(found, labels=self._outside(found.labels))

    def _in_order(self, task: Task) -> Task:
        """The task with its rows in the order of the batches; workers order theirs."""
        if task.remote is not None:
            task.remote.nest(self.order)
            return task
        weights = task.setting.weights
        if weights is not None:
            weights = weights[self.order]
        setting = replace(task.setting, weights=weights)
        return replace(task, rows=task.rows.select(self.order), setting=setting)

    def _outside(self, labels: np.ndarray) -> np.ndarray:
        """Labels of the rows as they were before."""
        restored = np.empty_like(labels)
        restored[self.order] = labels
        return restored


def exhausted(loop: Loop, size: int) -> bool:
    """Whether the centers move by less than what the batch knows about them.

    That is so when the standard error of a center, by the scatter of its rows about their mean,
    exceeds its last shift `RHO` times, for half of the centers.
    """
    error2, shift = loop.standard_errors(size)
    certain = error2 < (RHO * shift) ** 2
    return bool(2 * np.count_nonzero(certain) <= len(shift))
