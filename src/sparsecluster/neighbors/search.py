"""Rows made ready for a search: in the same columns and types, with what the core asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.prepare.entrance import enter
from sparsecluster.rows.columns import Columns
from sparsecluster.rows.metric import COSINE, METRICS, TINY_NORM2
from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows, as_rows

Progress = Callable[[float], Any]
SEARCH_METRICS = tuple(METRICS)
SHARE_OF_PAIRS = (
    64  # of all products of entries, those that a search usually computes: one in so many
)


@dataclass(frozen=True)
class Search:
    """Queries and the rows that they are compared with; the same object where it is one set."""

    queries: Rows
    rows: Rows
    metric: str
    n_threads: int
    memory_limit: int
    progress: Progress | None = None

    @property
    def one_set(self) -> bool:
        """Whether rows are compared with each other."""
        return self.queries is self.rows

    def options(self) -> dict[str, Any]:
        """As the core takes them."""
        work = self.queries.core.nnz * self.rows.n_rows // SHARE_OF_PAIRS
        return {
            "metric": self.metric,
            "n_threads": threads_for(work, self.n_threads),
            "memory_limit": self.memory_limit,
            "progress": self.progress,
        }


def entered_search(
    X: Any,
    Y: Any = None,
    *,
    metric: str,
    n_threads: int | None,
    memory_limit: int | str | None,
    progress: Progress | None,
) -> Search:
    """What a user passed, checked."""
    check_name("metric", metric, SEARCH_METRICS)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable or None, got {progress!r}.")
    threads = effective_n_threads(n_threads)
    queries = enter(X, n_threads=threads)
    rows = None if Y is None else enter(Y, n_threads=threads, name="Y")
    if rows is not None and rows.n_features != queries.n_features:
        raise ValueError(
            f"X has {queries.n_features} columns and Y has {rows.n_features}. Read or count both "
            f"in the same way."
        )
    limit = effective_memory_limit(memory_limit)
    return make_search(
        queries, rows, metric=metric, n_threads=threads, memory_limit=limit, progress=progress
    )


def make_search(
    queries: Rows,
    rows: Rows | None = None,
    *,
    metric: str,
    n_threads: int,
    memory_limit: int,
    progress: Progress | None = None,
) -> Search:
    """A search of checked rows among themselves, or among others of as many columns."""
    columns = None if queries.in_file else Columns.occurring(queries, rows and rows.matrix)
    sets = [queries] if rows is None else [queries, rows]
    if columns is not None:
        sets = [columns.rows(one, n_threads=n_threads) for one in sets]
    if metric == "cosine":
        sets = [_with_lengths(one, n_threads) for one in sets]
    if len(sets) == 2:
        sets = _of_one_type(*sets, n_threads=n_threads)
    return Search(sets[0], sets[-1], metric, n_threads, memory_limit, progress)


def _with_lengths(rows: Rows, n_threads: int) -> Rows:
    """The same rows, or at unit length where the squares of some are too small for float64."""
    norm2 = rows.core.norm2
    if not np.any((norm2 > 0) & (norm2 < TINY_NORM2)) and not _vanishing(rows, norm2):
        return rows
    return COSINE.rows(rows, n_threads=n_threads, zero_rows="first")


def _vanishing(rows: Rows, norm2: np.ndarray) -> bool:
    """Whether a row has values whose squares are all zero."""
    zero = np.flatnonzero(norm2 == 0)
    if not len(zero) or rows.selected is not None:
        return False
    if not rows.sparse:
        return bool(np.any(rows.matrix[zero]))
    indptr = rows.matrix.indptr
    filled = zero[indptr[zero + 1] > indptr[zero]]
    return any(np.any(rows.matrix.data[indptr[i] : indptr[i + 1]]) for i in filled)


def _of_one_type(queries: Rows, rows: Rows, *, n_threads: int) -> list[Rows]:
    """Both with values and indices of the wider type; dense rows count as 32-bit indices."""
    dtype = np.result_type(queries.matrix.dtype, rows.matrix.dtype)
    index = np.result_type(*(_index_type(one) for one in (queries, rows)))
    return [_as_type(one, dtype, index, n_threads) for one in (queries, rows)]


def _index_type(rows: Rows) -> Any:
    return rows.matrix.indices.dtype if rows.sparse else np.dtype(np.int32)


def _as_type(rows: Rows, dtype: Any, index: Any, n_threads: int) -> Rows:
    if rows.matrix.dtype == dtype and _index_type(rows) == index:
        return rows
    if not rows.sparse and index == np.int32:
        return as_rows(rows.matrix.astype(dtype), n_threads=n_threads)
    matrix = sp.csr_array(rows.matrix, dtype=dtype, copy=True)
    matrix.indices = matrix.indices.astype(index)
    return as_rows(matrix, n_threads=n_threads)
