"""Nested batches: a growing part of the rows takes part, each row once (Newling, Fleuret 2016)."""

from __future__ import annotations

import numpy as np

from sparsecluster.rows.rows import Rows

# A batch doubles when the standard error of the median center exceeds its shift by this factor. The
# paper has 10 to 1000; with assignments this cheap more rows are worth more than more iterations.
RHO = 0.5


class NestedBatches:
    """Rows in a random order, of which the first take part; every batch holds the ones before.

    `rows` are all rows by their place in the order; the first `size` of them take part. Rows that
    are not `useful` come in the last batches.
    """

    def __init__(
        self,
        rows: Rows,
        first: int,
        random_state: np.random.RandomState,
        useful: np.ndarray,
        rho: float = RHO,
    ) -> None:
        n_rows = rows.n_rows
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
        self.rows = rows.select(self.order)
        self.rho = rho
        self._stage = 0

    @property
    def whole(self) -> bool:
        """Whether all rows take part."""
        return self._stage == len(self.sizes) - 1

    @property
    def size(self) -> int:
        """How many rows take part."""
        return self.sizes[self._stage]

    def grow(self) -> None:
        """Let twice as many rows take part."""
        self._stage += 1

    def exhausted(
        self,
        labels: np.ndarray,
        weights: np.ndarray | None,
        mean_norm2: np.ndarray,
        shift: np.ndarray,
        metric: str,
    ) -> bool:
        """Whether the centers move by less than what the batch knows about them.

        That is so when the standard error of a center, by the scatter of its rows about their mean,
        exceeds its last shift `rho` times, for half of the centers.
        """
        share = np.ones(len(labels)) if weights is None else weights
        sizes = np.bincount(labels, share, minlength=len(shift))
        squares = np.bincount(
            labels, share * self.rows.core.norm2[: len(labels)], minlength=len(shift)
        )
        scatter = np.maximum(squares - sizes * mean_norm2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            error2 = scatter / (sizes * np.maximum(sizes - 1, 1))
            if metric == "cosine":
                error2 /= mean_norm2  # of the direction of the mean
        certain = error2 < (self.rho * shift) ** 2
        return bool(2 * np.count_nonzero(certain) <= len(shift))
