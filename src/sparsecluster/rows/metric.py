"""What differs between the metrics, apart from the arithmetic (cpp/core/metric.hpp)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.rows import Rows
from sparsecluster.rows.unit import unit_rows

ZERO_ROWS = ("error", "first")


class Metric:
    """Rows and centers as points, compared by their Euclidean distance.

    A metric takes rows and centers to where Euclidean distances have its meaning, and distances
    back. To add one: a subclass, and an entry in `METRICS`.
    """

    name = "euclidean"
    space = "euclidean"  #: of the core: where a center is the mean of its rows
    centers_are_means = True
    least_l1 = 0.0  #: norm that every center has
    floor = 0.0  #: what seeding adds to squared distances, beside k-means++

    def rows(
        self, rows: Rows, *, n_threads: int, zero_rows: str = "error", memory_limit: int = 2**62
    ) -> Rows:
        """The rows as points; `zero_rows` says what becomes of those without a direction."""
        return rows

    def centers(self, centers: Any) -> Any:
        """Centers that were given as points."""
        return centers

    def useful(self, norm2: np.ndarray) -> np.ndarray:
        """Which rows can be centers, by their squared norms."""
        return np.ones(len(norm2), dtype=bool)

    def distances(self, distances: np.ndarray, norm2: np.ndarray) -> None:
        """Turn the distances of points into those of the metric, in place."""

    def error2(self, error2: np.ndarray, mean_norm2: np.ndarray) -> np.ndarray:
        """Squared standard errors of centers, from those of the means of their rows."""
        return error2

    def objective(self, inertia: float, norm2: np.ndarray, weights: np.ndarray | None) -> float:
        """What the literature of the metric minimises, from the sum of squared distances."""
        return inertia


class Cosine(Metric):
    """Directions: rows and centers at unit length, where |x - c|^2 = 2 (1 - cos)."""

    name = "cosine"
    space = "cosine"  # where a center is the direction of the mean of its rows
    centers_are_means = False
    least_l1 = 1.0
    floor = 1.0  # twice 1.5 - cos, less the squared distance

    def rows(
        self, rows: Rows, *, n_threads: int, zero_rows: str = "error", memory_limit: int = 2**62
    ) -> Rows:
        return unit_rows(
            rows, n_threads=n_threads, allow_zero=zero_rows == "first", memory_limit=memory_limit
        )

    def centers(self, centers: Any) -> sp.csr_array:
        centers = sp.csr_array(centers, dtype=np.float64, copy=True)
        largest = abs(centers).max(axis=1).toarray().ravel()
        if not largest.all():
            raise ValueError(
                f"Center {int(np.flatnonzero(largest == 0)[0])} to start from is zero and has no "
                f"direction."
            )
        # By the largest value first, because the squares of tiny ones would vanish.
        centers.data /= np.repeat(largest, np.diff(centers.indptr))
        lengths = np.sqrt(np.asarray(centers.power(2).sum(axis=1)).ravel())
        centers.data /= np.repeat(lengths, np.diff(centers.indptr))
        return centers

    def useful(self, norm2: np.ndarray) -> np.ndarray:
        return np.asarray(norm2) > 0

    def distances(self, distances: np.ndarray, norm2: np.ndarray) -> None:
        np.square(distances, out=distances)
        distances /= 2
        distances[norm2 == 0] = 1.0

    def error2(self, error2: np.ndarray, mean_norm2: np.ndarray) -> np.ndarray:
        return error2 / mean_norm2

    def objective(self, inertia: float, norm2: np.ndarray, weights: np.ndarray | None) -> float:
        """The sum of 1.5 - cos, as in SPKM++: |x - c|^2 = |x|^2 + 1 - 2 cos, and |x| is 0 or 1."""
        filled = norm2 > 0
        if weights is None:
            total, with_direction = float(len(norm2)), float(np.count_nonzero(filled))
        else:
            total, with_direction = float(weights.sum()), float(weights @ filled)
        return 1.5 * total - 0.5 * (with_direction + total - inertia)


EUCLIDEAN, COSINE = Metric(), Cosine()
METRICS: dict[str, Metric] = {metric.name: metric for metric in (EUCLIDEAN, COSINE)}


def metric_of(name: str) -> Metric:
    """The metric of this name."""
    return METRICS[check_name("metric", name, tuple(METRICS))]
