"""What differs between the metrics, apart from the arithmetic (cpp/core/metric.hpp)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.checks import check_squares, has_values
from sparsecluster.rows.errors import counted
from sparsecluster.rows.parameters import check_name
from sparsecluster.rows.rows import Rows, as_rows, mapped_csr

ZERO_ROWS = ("error", "first")
TINY_NORM2 = 1e-280  # below, squares lose digits


def at_unit_length(matrix: sp.csr_array) -> sp.csr_array:
    """The rows of a matrix of float64 scaled to unit length, in place; zero rows stay."""
    counts = np.diff(matrix.indptr)
    # By the largest value first: the squares of tiny ones would vanish, of huge ones overflow.
    largest = abs(matrix).max(axis=1).toarray().ravel()
    matrix.data /= np.repeat(np.where(largest > 0, largest, 1.0), counts)
    lengths = np.sqrt(np.asarray(matrix.power(2).sum(axis=1)).ravel())
    matrix.data /= np.repeat(np.where(largest > 0, lengths, 1.0), counts)
    return matrix


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

    def rows_to_fit(self, rows: Rows, **how: Any) -> Rows:
        """The same for the rows of a fit, which are refused where all squares vanish."""
        points = self.rows(rows, **how)
        check_squares(points.core.max_norm, has_values(points))
        return points

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
        filled = self.useful(norm2)
        if weights is None:
            return self.objective_of(inertia, float(len(norm2)), float(np.count_nonzero(filled)))
        return self.objective_of(inertia, math.fsum(weights), math.fsum(weights[filled]))

    def objective_of(self, inertia: float, weight: float, filled_weight: float) -> float:
        """The same from the weight of all rows, and of those that are not zero."""
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
        """The rows at unit length: a copy of the values, or the same rows where they have it
        already, as nearly as their type allows. Those of a file are copied within the memory limit.
        """
        allow_zero = zero_rows == "first"
        norm2 = rows.core.norm2
        near = 1e-6 if rows.matrix.dtype == np.float32 else 1e-14
        # Where squares are zero a row may still have a direction, which is looked for below.
        if _all_unit(norm2, near, allow_zero and rows.streamed):
            return rows
        lengths = np.sqrt(norm2)
        tiny = np.flatnonzero(norm2 < TINY_NORM2)
        if rows.sparse:
            tiny = tiny[np.diff(rows.matrix.indptr)[tiny] > 0]
        else:
            tiny = tiny[np.any(rows.matrix[tiny] != 0, axis=1)]
        for i in tiny:
            lengths[i] = _length(rows.matrix[[i]])
        zero = lengths == 0
        if zero.any() and not allow_zero:
            row = rows.provenance.first_row + int(np.flatnonzero(zero)[0])
            raise ValueError(
                f"Row {row} of X is zero and has no direction ({counted(zero.sum(), 'row')} in "
                f"all). Drop such rows, or pass zero_rows='first' to put them into the first "
                f"cluster."
            )
        lengths[zero | (np.abs(norm2 - 1) <= near)] = 1.0
        if np.all(lengths == 1):
            return rows
        if rows.in_file and rows.matrix.data.nbytes > memory_limit:
            raise ValueError(
                f"The rows have other lengths than one, and a copy of their values at unit length "
                f"({rows.matrix.data.nbytes / 1e9:.3g} GB) is more than the memory limit of "
                f"{memory_limit / 1e9:.3g} GB. Convert the data with Prepare(norm='l2') (--unit), "
                f"or raise memory_limit."
            )
        if not rows.sparse:
            scaled = (rows.matrix / lengths[:, None]).astype(rows.matrix.dtype)
            return as_rows(scaled, n_threads=n_threads, provenance=rows.provenance)
        values = np.empty_like(rows.matrix.data)
        indptr = rows.matrix.indptr
        # A block at a time, because the quotients are computed in float64.
        block = 1 << 16
        for begin in range(0, rows.n_rows, block):
            end = min(begin + block, rows.n_rows)
            part = slice(int(indptr[begin]), int(indptr[end]))
            repeated = np.repeat(lengths[begin:end], np.diff(indptr[begin : end + 1]))
            values[part] = rows.matrix.data[part] / repeated
        matrix = mapped_csr(indptr, rows.matrix.indices, values, rows.n_features, keep_indptr=True)
        return as_rows(matrix, n_threads=n_threads, provenance=rows.provenance)

    def centers(self, centers: Any) -> sp.csr_array:
        centers = sp.csr_array(centers, dtype=np.float64, copy=True)
        largest = abs(centers).max(axis=1).toarray().ravel()
        if not largest.all():
            raise ValueError(
                f"Center {int(np.flatnonzero(largest == 0)[0])} to start from is zero and has no "
                f"direction."
            )
        return at_unit_length(centers)

    def useful(self, norm2: np.ndarray) -> np.ndarray:
        return np.asarray(norm2) > 0

    def distances(self, distances: np.ndarray, norm2: np.ndarray) -> None:
        np.square(distances, out=distances)
        distances /= 2
        distances[norm2 == 0] = 1.0

    def error2(self, error2: np.ndarray, mean_norm2: np.ndarray) -> np.ndarray:
        return error2 / mean_norm2

    def objective_of(self, inertia: float, weight: float, filled_weight: float) -> float:
        """The sum of 1.5 - cos, as in SPKM++: |x - c|^2 = |x|^2 + 1 - 2 cos, and |x| is 0 or 1."""
        return 1.5 * weight - 0.5 * (filled_weight + weight - inertia)


def _all_unit(norm2: np.ndarray, near: float, allow_zero: bool) -> bool:
    """Whether all rows have unit length, or none; without arrays of the length of all rows."""
    for begin in range(0, len(norm2), 1 << 20):
        part = norm2[begin : begin + (1 << 20)]
        fine = np.abs(part - 1) <= near
        if not np.all(fine | (part == 0) if allow_zero else fine):
            return False
    return True


def _length(row: Any) -> float:
    """The length of one row whose squares are too small for float64."""
    values = np.abs(np.asarray(row.data if sp.issparse(row) else row, dtype=np.float64)).ravel()
    values = values[values > 0]  # so that dense and sparse rows are summed alike
    largest = values.max(initial=0.0)
    return float(largest * np.linalg.norm(values / largest)) if largest > 0 else 0.0


EUCLIDEAN, COSINE = Metric(), Cosine()
METRICS: dict[str, Metric] = {metric.name: metric for metric in (EUCLIDEAN, COSINE)}


def metric_of(name: str) -> Metric:
    """The metric of this name."""
    return METRICS[check_name("metric", name, tuple(METRICS))]
