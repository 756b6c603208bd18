"""Spanning trees against scipy's, on densified rows."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage
from scipy.sparse.csgraph import minimum_spanning_tree as scipy_tree
from scipy.spatial.distance import squareform
from support.data import KINDS, csr, problem
from support.near import distances

from sparsecluster import minimum_spanning_tree


def reachability(found, min_samples):
    core = np.sort(found, axis=1)[:, min_samples - 1]
    return np.maximum(found, np.maximum(core[:, None], core[None, :]))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("min_samples", [1, 2, 5])
@pytest.mark.parametrize("name", [kind.__name__ for kind in KINDS])
def test_weights_are_those_of_the_least_tree(name, min_samples, metric):
    X = problem(name)[0][:150]
    tree = minimum_spanning_tree(csr(X), metric=metric, min_samples=min_samples)
    weights = reachability(distances(X, metric=metric), min_samples)
    shifted = weights + 1  # scipy takes zeros for no edge
    np.fill_diagonal(shifted, 0)
    expected = np.sort(scipy_tree(shifted).data) - 1
    np.testing.assert_allclose(tree.weights, expected, atol=1e-6 if name == "blobs" else 1e-9)
    np.testing.assert_allclose(weights[tree.first, tree.second], tree.weights, atol=1e-6)
    assert np.all(tree.first < tree.second)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_heights_are_those_of_single_linkage(metric):
    X = problem("text")[0][:200]
    found = distances(X, metric=metric)
    expected = linkage(squareform(found, checks=False), "single")[:, 2]
    tree = minimum_spanning_tree(csr(X), metric=metric)
    np.testing.assert_allclose(tree.weights, expected, atol=1e-9)


@pytest.mark.parametrize("min_samples", [0, 4, 1.5])
def test_wrong_min_samples_are_refused(min_samples):
    with pytest.raises(ValueError, match="min_samples"):
        minimum_spanning_tree(np.eye(3), min_samples=min_samples)


def test_equal_rows_hang_on_the_first_of_them():
    X = np.repeat(np.array([[0.0, 1], [3, 1]]), [30, 20], axis=0)
    tree = minimum_spanning_tree(csr(X), metric="euclidean")
    assert tree.first.tolist() == [0] * 29 + [30] * 19 + [0]
    assert tree.second.tolist() == [*range(1, 30), *range(31, 50), 30]
    assert tree.weights.tolist() == [0.0] * 48 + [3.0]
