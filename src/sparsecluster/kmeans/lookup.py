"""Centers by feature, for a few rows at a time: of a large model in a file only the lists of the
rows' own features are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import check_array_of

# Centers whose score is this near to the best one, by the squares that it is made of, are decided
# among by the core; rounding and its rule for ties are far below.
DOUBT = 1e-9
MOST_SCORES = 1 << 22  # rows x clusters that are computed at a time
LARGE = 200_000  # entries of centers that are worth storing twice
WORTH_IT = 8  # times the entries of all centers, over those that are read


class CentersByFeature:
    """For each feature the centers that have it, and their values there.

    What comes from a file is checked where it is used, list by list.
    """

    def __init__(
        self,
        indptr: np.ndarray,
        clusters: np.ndarray,
        values: np.ndarray,
        norm2: np.ndarray,
        of: Any,
    ) -> None:
        self.indptr, self.clusters, self.values, self.norm2 = indptr, clusters, values, norm2
        self.of = of  #: the centers, as the estimator shows them

    @classmethod
    def arrays(cls, centers: Any) -> dict[str, np.ndarray] | None:
        """The arrays to store beside centers; None where they are few."""
        if not sp.issparse(centers) or centers.nnz < LARGE:
            return None
        turned = sp.csc_array(centers)
        return {
            "indptr": turned.indptr.astype(np.int64),
            "clusters": turned.indices.astype(np.int32),
            "values": turned.data.astype(np.float64),
            "norm2": np.asarray(sp.csr_array(centers).power(2).sum(axis=1)).ravel(),
        }

    @classmethod
    def restored(cls, arrays: dict[str, Any], centers: Any) -> CentersByFeature:
        """From stored arrays, if their lengths fit; lists are checked where they are used."""
        if not sp.issparse(centers):
            raise ValueError("has dense centers by feature")
        types = {
            "indptr": np.int64,
            "clusters": np.int32,
            "values": np.float64,
            "norm2": np.float64,
        }
        parts = [check_array_of(arrays[name], types[name], 1, "by_feature") for name in types]
        indptr, clusters, values, norm2 = parts
        lengths = (len(norm2), len(indptr), len(clusters), len(values))
        if lengths != (centers.shape[0], centers.shape[1] + 1, centers.nnz, centers.nnz):
            raise ValueError("has centers by feature of another length")
        return cls(indptr, clusters, values, norm2, centers)

    def candidates(self, rows: Rows) -> tuple[np.ndarray, np.ndarray] | None:
        """The nearest center of each row, -1 where several may be; and which ones these are.

        None where reading all centers would take less time.
        """
        matrix = rows.matrix
        if not rows.sparse or rows.selected is not None or rows.n_features >= len(self.indptr):
            return None
        n_clusters = len(self.norm2)
        if rows.n_rows * n_clusters > MOST_SCORES:
            return None
        columns, values = (part[: matrix.indptr[-1]] for part in (matrix.indices, matrix.data))
        begins, ends = self.indptr[columns], self.indptr[columns + 1]
        lengths = ends - begins
        if np.any(lengths < 0) or np.any(lengths > n_clusters) or np.any(begins < 0):
            raise ValueError("The model's centers by feature are damaged. Save the model again.")
        total = int(lengths.sum())
        if total * WORTH_IT > len(self.values):
            return None
        places = np.repeat(begins - np.cumsum(lengths) + lengths, lengths) + np.arange(total)
        clusters = self.clusters[places].astype(np.int64)
        if total and (clusters.min() < 0 or clusters.max() >= n_clusters):
            raise ValueError("The model's centers by feature are damaged. Save the model again.")
        row_of_entry = np.repeat(np.arange(rows.n_rows), np.diff(matrix.indptr))
        products = np.repeat(values.astype(np.float64), lengths) * self.values[places]
        cells = np.repeat(row_of_entry, lengths) * n_clusters + clusters
        scores = np.bincount(cells, products, minlength=rows.n_rows * n_clusters)
        scores = scores.astype(np.float64, copy=False)  # of no entries numpy makes integers
        return self._decide(scores.reshape(rows.n_rows, n_clusters), rows.core.norm2)

    def _decide(self, scores: np.ndarray, row_norm2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores -= self.norm2 / 2
        labels = np.argmax(scores, axis=1).astype(np.int32)
        best = scores[np.arange(len(labels)), labels]
        near = self.norm2 + (self.norm2[labels] + row_norm2)[:, None]
        possible = ~(best[:, None] - scores > DOUBT * near)  # also where a score is not a number
        labels[np.count_nonzero(possible, axis=1) > 1] = -1
        return labels, np.flatnonzero(possible[labels < 0].any(axis=0))
