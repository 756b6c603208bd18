"""Sizes of clusters, counted by the core, and the check of labels before."""

from __future__ import annotations

import numpy as np
import pytest

from sparsecluster import _core


@pytest.mark.parametrize("n_rows", [0, 1, 3, 64, 1001])
@pytest.mark.parametrize("n_clusters", [1, 7, 5000])
@pytest.mark.parametrize("weighted", [False, True])
def test_sizes_are_those_that_numpy_counts(n_rows, n_clusters, weighted):
    rng = np.random.default_rng(n_rows)
    labels = rng.integers(0, n_clusters, n_rows).astype(np.int32)
    weights = rng.integers(0, 3, n_rows).astype(np.float64) if weighted else None
    counted = labels if weights is None else labels[weights > 0]
    sizes = _core.cluster_sizes(labels, weights, n_clusters)
    np.testing.assert_array_equal(sizes, np.bincount(counted, minlength=n_clusters))


@pytest.mark.parametrize("n_clusters", [-1, 2**31, 2**62, 2**63 - 1])
@pytest.mark.parametrize("n_rows", [0, 100_000])
def test_numbers_of_clusters_that_no_label_can_have_are_refused(n_clusters, n_rows):
    with pytest.raises(ValueError, match="out of range"):
        _core.cluster_sizes(np.zeros(n_rows, dtype=np.int32), None, n_clusters)


@pytest.mark.parametrize("wrong", [-1, 7, np.iinfo(np.int32).max, np.iinfo(np.int32).min])
@pytest.mark.parametrize("row", [0, 63, 99])
def test_labels_out_of_range_are_refused_wherever_they_are(wrong, row):
    labels = np.zeros(100, dtype=np.int32)
    labels[row] = wrong
    with pytest.raises(ValueError, match="out of range"):
        _core.cluster_sizes(labels, None, 7)
