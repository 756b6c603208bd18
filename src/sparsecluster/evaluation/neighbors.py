"""The nearest clusters beside the rows' own, from one clustering of a search to the next."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.evaluation.geometry import Geometry
from sparsecluster.evaluation.silhouette_values import simplified_clusters
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.rows import Rows


class Neighbors:
    """What silhouettes compare a row's own cluster with; rows look at clusters that changed."""

    def __init__(self, rows: Rows, memory_limit: int) -> None:
        self._rows, self._memory_limit = rows, memory_limit
        self._tracks: list[_core.NeighborTrack] = []

    def beside(self, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
        """The least mean squared distance of each row to another cluster, and the least squared
        distance to another center."""
        exact = geometry.means, geometry.spreads
        simplified = simplified_clusters(geometry)
        if simplified[0] is exact[0]:
            (one, other) = self._update(0, geometry, *exact, simplified[1])
            return one, other
        (one,), (other,) = self._update(0, geometry, *exact), self._update(1, geometry, *simplified)
        return one, other

    def _update(
        self, number: int, geometry: Geometry, centers: sp.csr_array, *spreads: np.ndarray
    ) -> list[np.ndarray]:
        while len(self._tracks) <= number:
            track = _core.NeighborTrack(self._rows.core, len(spreads), self._memory_limit)
            self._tracks.append(track)
        found = self._tracks[number].update(
            centers_.to_core(centers),
            np.concatenate(spreads),
            geometry.labelling.numbers,
            geometry.n_threads,
        )
        return [least for _, least in found]
