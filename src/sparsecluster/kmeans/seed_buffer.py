"""Rows that a stream starts from, while there are too few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.storage.fields import check_array_of, pack_random_state, unpack_random_state


class SeedBuffer:
    """Rows that came before there were enough of them to start a stream."""

    def __init__(self, random_state: np.random.RandomState) -> None:
        self.random_state = random_state
        self.matrix: Any = None
        self._weights: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return 0 if self.matrix is None else self.matrix.shape[0]

    def joined_by(
        self, rows: Rows, weights: np.ndarray | None, n_threads: int
    ) -> tuple[Rows, np.ndarray | None]:
        """These rows behind those that wait."""
        if self.matrix is None:
            return rows, weights
        before = sp.csr_array(self.matrix)
        before.resize((self.n_rows, rows.n_features))
        joined = sp.vstack([before, sp.csr_array(rows.matrix)], format="csr")
        if self._weights is not None or weights is not None:
            weights = np.concatenate(
                [
                    np.ones(self.n_rows) if self._weights is None else self._weights,
                    np.ones(rows.n_rows) if weights is None else weights,
                ]
            )
        return as_rows(joined, n_threads=n_threads), weights

    def keep(self, rows: Rows, weights: np.ndarray | None) -> None:
        """Let these rows wait, as a copy."""
        self.matrix = rows.matrix.copy()
        self._weights = None if weights is None else weights.copy()

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """As arrays and what JSON can hold."""
        random_state = pack_random_state(self.random_state)
        return {"rows": self.matrix, "weights": self._weights, "random_state": random_state}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SeedBuffer:
        """Rows that waited elsewhere."""
        rows, weights = state["rows"], state["weights"]
        values = rows.data if sp.issparse(rows) else rows
        if values.dtype not in (np.float32, np.float64) or rows.ndim != 2 or min(rows.shape) < 1:
            raise ValueError("has something else than rows that wait")
        if weights is not None:
            check_array_of(weights, np.float64, 1, "weights")
            if weights.shape != rows.shape[:1] or not np.all((weights >= 0) & (weights < np.inf)):
                raise ValueError("has weights that do not fit to the rows that wait")
        buffer = cls(unpack_random_state(state["random_state"]))
        buffer.matrix, buffer._weights = rows, weights
        return buffer


def distinct_rows(
    rows: Rows, weights: np.ndarray | None, useful: np.ndarray, n_threads: int
) -> tuple[Rows, np.ndarray]:
    """Of the useful rows each different one once, with the weight of all that are equal to it."""
    kept = rows.picked(useful)
    weights = None if weights is None else weights[useful]
    matrix = sp.csr_array(kept, copy=True)
    matrix.eliminate_zeros()
    numbers: dict[bytes, int] = {}
    group = np.empty(len(useful), dtype=np.int64)
    for i, (begin, end) in enumerate(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)):
        key = matrix.indices[begin:end].tobytes() + b"|" + matrix.data[begin:end].tobytes()
        group[i] = numbers.setdefault(key, len(numbers))
    first = np.unique(group, return_index=True)[1]
    share = np.bincount(group, weights)
    return as_rows(kept[first], n_threads=n_threads), share.astype(np.float64)
