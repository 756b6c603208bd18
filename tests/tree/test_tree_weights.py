"""Weights of any size: what counts is how they relate to each other."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import BisectingKMeans, ClusterTree

SIZES = (1e-90, 1e-50, 1e-25, 2.0, 3.7, 1.7e18, 1e45, 1e200)
MODELS = (
    ClusterTree(max_leaf_size=64, random_state=0),
    ClusterTree(max_leaf_size=64, metric="euclidean", random_state=0),
    ClusterTree(max_leaf_size=64, balanced=False, random_state=0),
    ClusterTree(max_leaf_size=64, balanced=False, metric="euclidean", random_state=0),
    BisectingKMeans(20, random_state=0),
    BisectingKMeans(20, metric="cosine", random_state=0),
)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).random((1500, 8))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_one_weight_for_all_is_none(model, size, X):
    plain = model.fit(X)
    labels, cost, centers = plain.labels_, plain.inertia_, plain.node_centers_
    model.fit(X, sample_weight=np.full(len(X), size))
    assert np.array_equal(model.labels_, labels)
    assert model.inertia_ / size == pytest.approx(cost, rel=1e-9)
    assert np.allclose(model.node_centers_, centers, rtol=1e-9)


@pytest.mark.parametrize("exponent", [-300, -100, -3, 60, 150, 600])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_power_of_two_times_the_weights_changes_no_bit(model, exponent, X):
    weights = np.random.default_rng(1).random(len(X)) + 0.01
    plain = model.fit(X, sample_weight=weights)
    labels, costs, centers = plain.labels_, plain.node_costs_, plain.node_centers_
    model.fit(X, sample_weight=np.ldexp(weights, exponent))
    assert np.array_equal(model.labels_, labels)
    assert np.array_equal(np.ldexp(model.node_costs_, -exponent), costs)
    assert np.array_equal(model.node_centers_, centers)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_weights_far_apart_are_worth_what_they_are(model, X):
    weights = np.where(np.arange(len(X)) % 2, 1e-60, 1e60)
    model.fit(X, sample_weight=weights)
    assert len(np.unique(model.labels_)) == model.n_clusters_
    assert np.isfinite(model.node_centers_).all()
    assert 0 < model.inertia_ < np.inf


def test_root_of_a_single_leaf_is_the_same_for_dense_and_sparse_rows():
    rng = np.random.default_rng(1)
    dense = rng.random((50, 30)) * (rng.random((50, 30)) < 0.3)
    stored = sp.csr_array(np.ones_like(dense))
    stored.data = dense.ravel()  # with its zeros
    roots = [
        sp.csr_array(ClusterTree(max_leaf_size=64).fit(rows).node_centers_).toarray()
        for rows in (dense, sp.csr_array(dense), stored)
    ]
    assert np.array_equal(roots[0], roots[1])
    assert np.array_equal(roots[0], roots[2])
