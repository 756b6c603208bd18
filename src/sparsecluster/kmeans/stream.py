"""Mini-batches (Sculley 2010): centers that learn from one batch after the other.

What is kept does not depend on how many rows there were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.setting import Setting
from sparsecluster.kmeans.spreads import added_seen, seen_pieces
from sparsecluster.rows.metric import Metric
from sparsecluster.rows.parameters import check_number
from sparsecluster.rows.rows import Rows, as_rows
from sparsecluster.storage.fields import check_array_of, pack_random_state, unpack_random_state

# Starved centers are looked for each time that so many rows per cluster went by.
ROWS_BETWEEN_CHECKS = 30

LARGEST_TERM = 1e100


@dataclass(frozen=True)
class BatchResult:
    """What a batch was, seen from the centers before they moved."""

    labels: np.ndarray
    cost: float  #: weighted sum of the squared distances
    shift: float  #: sum of the squared shifts of the centers


@dataclass(frozen=True)
class StreamState:
    """What a stream resumes from."""

    sums: sp.csr_array  #: of the rows that each center has seen, or the center to start from
    counts: np.ndarray  #: their weight
    squares: np.ndarray  #: three numbers per center: the square of its sum, and how wrong it may be
    n_batches: int
    rows_since_check: int  #: rows that came since starved centers were looked for

    def checked(self, metric: Metric) -> _core.Centers:
        """The sums in the core; refuses numbers that no stream leaves."""
        sums = centers_.to_core(self.sums)
        counts, squares = self.counts, self.squares
        fit = counts.shape == (sums.n_clusters,) and squares.shape == (3 * sums.n_clusters,)
        if fit and np.isfinite(counts).all() and np.isfinite(squares).all():
            high, low, error = squares.reshape(-1, 3).T
            weight = np.where(counts > 0, counts, 1.0)
            slack = 1e-6 * sums.norm2 + 1e-300
            if (
                np.all((counts == 0) | (counts >= 1 / LARGEST_TERM))
                and np.all(np.sqrt(sums.norm2) <= 1.001 * LARGEST_TERM * weight)
                and np.all((np.abs(high + low - sums.norm2) <= slack) & (error >= 0))
                and np.all(error <= slack)
                and np.all(metric.useful(sums.norm2))
            ):
                return sums
        raise ValueError("The sums of the stream contradict each other.")


@dataclass(frozen=True, kw_only=True)
class StreamSetting:
    """What a stream began with and keeps."""

    metric: Metric
    limits: tuple[Any, ...]  #: of the centers, as CenterLimit takes them
    memory_limit: int
    reassignment_ratio: float
    made_with: dict[str, Any]  #: parameters that must not change

    @property
    def limit(self) -> _core.CenterLimit:
        return _core.CenterLimit(*self.limits)

    def learner(self, sums: _core.Centers, counts: np.ndarray) -> _core.MiniBatch:
        """The core's part of a stream."""
        head_limit = self.memory_limit // 4
        return _core.MiniBatch(sums, counts, self.metric.space, self.limit, head_limit)


class Stream:
    """Centers, and how much each has seen: that much less it moves for a new row.

    It can be pickled, and continues with the same labels and centers, to the bit. Whoever looks at
    it while it learns a batch, from another thread or a signal handler, sees it as before that
    batch.
    """

    def __init__(
        self,
        centers: _core.Centers,
        random_state: np.random.RandomState,
        setting: StreamSetting,
        *,
        seen: tuple[np.ndarray, np.ndarray] | None = None,
        n_batches: int = 0,
    ) -> None:
        self.random_state, self.setting = random_state, setting
        # The centers of a version of the learner.
        self._shown: tuple[int, sp.csr_array] | None = None
        if seen is None:
            sums = centers.limited(setting.limit, setting.metric.space)
            counts = np.zeros(centers.n_clusters)
        else:
            # Shown as they are, not as the sums divided again.
            shown = centers_.from_core(centers)
            self._shown = (0, shown)
            counts, times = seen
            times = np.where(counts > 0, times, 1.0)
            sums = centers_.to_core(shown * times[:, None])
        self._made = setting.learner(sums, counts)
        if n_batches:
            self._made.resume(self._made.state()[2], n_batches, 0)
        self._kept: StreamState | None = None

    @property
    def kept(self) -> StreamState:
        """What the centers learn with."""
        kept = self._kept
        if kept is not None:
            return kept
        sums, counts, squares, n_batches, rows_since_check = self._learner.state()
        return StreamState(centers_.from_core(sums), counts, squares, n_batches, rows_since_check)

    @property
    def _learner(self) -> _core.MiniBatch:
        """The sums in the core. Of a stream that was restored they are brought there when rows
        come, because to predict takes its centers alone."""
        kept = self._kept
        if kept is not None:
            made = self.setting.learner(kept.checked(self.setting.metric), kept.counts)
            made.resume(kept.squares, kept.n_batches, kept.rows_since_check)
            # No lock, which a signal handler or a fork might find held: the first one counts.
            self.__dict__.setdefault("_made", made)
            self._kept = None
        return self._made

    @property
    def _version(self) -> int:
        return 0 if self._kept is not None else self._learner.version

    @property
    def centers(self) -> sp.csr_array:
        """The centers as they are now."""
        version, shown = self._version, self._shown
        if shown is None or shown[0] != version:
            shown = self._shown = (version, centers_.from_core(self._learner.centers()))
        return shown[1]

    def shown(self, sparse: bool) -> Any:
        """A copy of the centers, sparse or dense."""
        return self.centers.copy() if sparse else self.centers.toarray()

    @property
    def state(self) -> tuple[StreamState, sp.csr_array]:
        """What the centers learn with, and the centers, of one moment."""
        while True:
            version, kept, centers = self._version, self.kept, self.centers
            if self._version == version:
                return kept, centers

    @property
    def counts(self) -> np.ndarray:
        """Weight of the rows that each center has seen."""
        kept = self._kept
        return self._learner.counts if kept is None else kept.counts.copy()

    @property
    def n_batches(self) -> int:
        """Batches seen so far."""
        kept = self._kept
        return self._learner.n_batches if kept is None else kept.n_batches

    def widen(self, n_features: int) -> None:
        """Have room for more features; the centers are zero there."""
        if n_features > self._learner.n_features:
            self._learner.widen(n_features)

    def learn(self, rows: Rows, weights: np.ndarray | None, n_threads: int) -> BatchResult:
        """Give each row its nearest center, then move the centers towards their rows."""
        labels = np.empty(rows.n_rows, dtype=np.int32)
        shift, distance2 = self._learner.learn(rows.core, weights, labels, n_threads)
        weighted = distance2 if weights is None else weights * distance2
        self._replace_starved(rows, weighted)
        return BatchResult(labels, cost=math.fsum(weighted), shift=math.fsum(shift * shift))

    def _replace_starved(self, rows: Rows, weighted: np.ndarray) -> None:
        """Put centers that saw next to nothing where rows of this batch are far from theirs."""
        counts = self._learner.counts
        if self._learner.rows_since_check < ROWS_BETWEEN_CHECKS * len(counts):
            return
        starved = np.flatnonzero(counts < self.setting.reassignment_ratio * counts.max())
        chance = weighted / max(weighted.max(), np.finfo(float).tiny)
        far = np.flatnonzero((chance > 1e-12) & (rows.core.norm2 > 0))
        starved = starved[np.argsort(counts[starved], kind="stable")]
        starved = starved[: min(len(far), rows.n_rows // 2)]
        drawn, count = np.empty(0, dtype=np.int64), 0.0
        if len(starved):
            chance = chance[far] / chance[far].sum()
            drawn = self.random_state.choice(far, len(starved), replace=False, p=chance)
            count = float(np.delete(counts, starved).min())
        self._learner.place(starved.astype(np.int32), rows.core, drawn, count)

    def __getstate__(self) -> dict[str, Any]:
        kept, centers = self.state
        state = self.__dict__ | {"_shown": (0, centers), "_kept": kept}
        state.pop("_made", None)
        return state

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """As arrays and what JSON can hold."""
        kept, centers = self.state
        return vars(kept) | {
            "centers": centers,
            "random_state": pack_random_state(self.random_state),
            "made_with": self.setting.made_with,
            "reassignment_ratio": self.setting.reassignment_ratio,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any], setting: StreamSetting, *, verify: bool) -> Stream:
        """A stream that continues where another one was; sums are checked when they are used."""
        centers = centers_.check_stored(state["centers"], verify=verify)
        sums = centers_.check_stored(state["sums"], verify=False)
        if not sp.issparse(centers) or not sp.issparse(sums) or centers.shape != sums.shape:
            raise ValueError("has centers that do not fit to their sums")
        counts = check_array_of(state["counts"], np.float64, 1, "counts")
        squares = check_array_of(state["squares"], np.float64, 1, "squares")
        if len(counts) != centers.shape[0]:
            raise ValueError("has another number of counts than of centers")
        for name in ("n_batches", "rows_since_check"):
            check_number(name, state[name], int, 0)
        kept = StreamState(sums, counts, squares, state["n_batches"], state["rows_since_check"])
        if verify:
            kept.checked(setting.metric)
        stream = cls.__new__(cls)
        stream.random_state = unpack_random_state(state["random_state"])
        stream.setting = setting
        stream._shown, stream._kept = (0, centers), kept  # noqa: SLF001
        return stream


def what_was_seen(
    rows: Rows, centers: _core.Centers, labels: np.ndarray, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """For a stream that saw these rows with these labels: the weight that each center has seen,
    and how many times the center its rows add up to.
    """
    range = _core.row_range(rows.core, setting.weights)
    return added_seen(seen_pieces(rows.core, centers, labels, setting, range))


def check_sums(max_norm: float, weights: np.ndarray | None) -> None:
    """Refuse rows whose sums, or the squares of these, might overflow."""
    heaviest = 1.0 if weights is None else max(1.0, float(weights.max()))
    if not max_norm * heaviest <= LARGEST_TERM:
        raise ValueError(
            f"Rows of a norm above {LARGEST_TERM:g}, times their weight, do not add up in float64. "
            f"Scale the values first."
        )


# --- before there are enough rows to start ------------------------------------------------------


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
