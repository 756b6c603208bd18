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

    def __init__(self, rows: Rows, memory_limit: int, *, to_means: bool) -> None:
        """`to_means`: distances to centers are those to means, so that one search finds both."""
        n_measures = (2,) if to_means else (1, 1)
        self._tracks = [_core.NeighborTrack(rows.core, n, memory_limit) for n in n_measures]

    def beside(self, geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
        """The least mean squared distance of each row to another cluster, and the least squared
        distance to another center."""
        centers, spreads = simplified_clusters(geometry)
        means, first = geometry.means, self._tracks[0]
        if len(self._tracks) == 1:
            assert centers is means
            one, other = _updated(first, geometry, means, geometry.spreads, spreads)
        else:
            (one,) = _updated(first, geometry, means, geometry.spreads)
            (other,) = _updated(self._tracks[1], geometry, centers, spreads)
        return one, other


def _updated(
    track: _core.NeighborTrack, geometry: Geometry, centers: sp.csr_array, *spreads: np.ndarray
) -> list[np.ndarray]:
    """The least sums of a squared distance and a spread, for each of the spreads."""
    labels, n_threads = geometry.labelling.numbers, geometry.n_threads
    found = track.update(centers_.to_core(centers), np.concatenate(spreads), labels, n_threads)
    return [least for _, least in found]
