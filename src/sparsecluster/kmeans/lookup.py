"""Centers by feature, for a few rows at a time: of a large model in a file only the lists of the
rows' own features are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.rows.rows import Rows
from sparsecluster.storage.fields import check_array_of

LARGE = 200_000  # entries of centers that are worth storing twice
TYPES = {"indptr": np.int64, "clusters": np.int32, "values": np.float64, "norm2": np.float64}
WORTH_IT = 8  # times the entries of all centers, over those that are read


@dataclass
class CentersByFeature:
    """For each feature the centers that have it, and their values there.

    What comes from a file is checked where it is used, list by list.
    """

    indptr: np.ndarray
    clusters: np.ndarray
    values: np.ndarray
    norm2: np.ndarray
    of: Any  #: the centers, as the estimator shows them

    @classmethod
    def arrays(cls, centers: Any) -> dict[str, np.ndarray] | None:
        """The arrays to store beside centers; None where they are few."""
        if not sp.issparse(centers) or centers.nnz < max(LARGE, centers.shape[1] // 4):
            return None
        turned = sp.csc_array(centers)
        norm2 = np.asarray(sp.csr_array(centers).power(2).sum(axis=1)).ravel()
        arrays = (turned.indptr, turned.indices, turned.data, norm2)
        return {name: array.astype(TYPES[name]) for name, array in zip(TYPES, arrays, strict=True)}

    @classmethod
    def restored(cls, arrays: dict[str, Any], centers: Any) -> CentersByFeature:
        """From stored arrays, if their lengths fit; lists are checked where they are used."""
        if not sp.issparse(centers):
            raise ValueError("has dense centers by feature")
        for name, dtype in TYPES.items():
            check_array_of(arrays[name], dtype, 1, "by_feature")
        lengths = tuple(len(arrays[name]) for name in TYPES)
        if lengths != (centers.shape[1] + 1, centers.nnz, centers.nnz, centers.shape[0]):
            raise ValueError("has centers by feature of another length")
        return cls(**{name: arrays[name] for name in TYPES}, of=centers)

    def nearest(self, rows: Rows) -> np.ndarray | None:
        """The nearest center of each row; None where reading all centers would take less time."""
        if not rows.sparse:
            return None
        centers = (self.of.indptr, self.of.indices, self.of.data)
        lists = (self.indptr, self.clusters, self.values, self.norm2)
        return _core.look_up(rows.core, *lists, *centers, len(self.values) // WORTH_IT)
