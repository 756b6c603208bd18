"""Nearest clusters beside the rows' own: kept from labelling to labelling, and searched anew."""

import numpy as np
import pytest

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.rows import as_rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_searches_find_the_same_clusters_of_rows_of_all_magnitudes(dtype):
    """Near ties: a row far longer than the centers is about as far from all of them."""
    differing = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X = rng.random((40, 3)) * 10.0 ** rng.integers(-30, 30, size=(40, 1))
        rows = as_rows(X.astype(dtype), n_threads=1)
        core = centers_.to_core(X[:8].astype(dtype).astype(np.float64))
        labels, spread = rng.integers(0, 8, 40).astype(np.int32), np.zeros(8)
        track = _core.NeighborTrack(rows.core, 1, 1 << 20)
        ((tracked, _),) = track.update(core, spread, labels, 1)
        search = _core.NearestCluster(rows.core, core, spread, 1 << 20, 1)
        differing += np.count_nonzero(search.find(labels, None, 0, 40, 1) != tracked)
    assert differing == 0
