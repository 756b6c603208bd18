"""Trees keep the bounds of their sizes, whatever the rows, at the lowest cost that these leave."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from support.data import csr, text
from support.trees import assert_bounds_kept, best_total

from sparsecluster import ClusterTree, _core

KINDS = {
    "text": lambda rng, n: text(rng, n, 40),
    "all equal": lambda rng, n: np.ones((n, 3)),
    "zero": lambda rng, n: np.zeros((n, 3)),
    "few distinct": lambda rng, n: rng.integers(0, 2, size=(n, 2)).astype(float),
    "one far away": lambda rng, n: np.r_[np.full((1, 2), 1e6), rng.random((n - 1, 2))],
    "dense": lambda rng, n: rng.normal(size=(n, 4)),
}


@settings(max_examples=60)
@given(
    st.sampled_from(list(KINDS)),
    st.integers(2, 150),
    st.integers(2, 20),
    st.integers(1, 30),
    st.integers(1, 15),
    st.booleans(),
    st.sampled_from(["cosine", "euclidean"]),
    st.integers(0, 3),
)
def test_bounds_are_kept(kind, n, branching, max_leaf, min_leaf, balanced, metric, seed):
    rows = KINDS[kind](np.random.default_rng(seed), n)
    model = ClusterTree(branching=branching, max_leaf_size=max_leaf, random_state=seed)
    model.set_params(metric=metric, balanced=balanced)
    model.set_params(min_leaf_size=min(min_leaf, (max_leaf + 1) // 2, n))
    assert_bounds_kept(model.fit(rows), n)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(2, 1), (16, 100), (3, 10), (64, 7), (5, 33)], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_kept_on_many_sets(seed, bounds):
    branching, max_leaf = bounds
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 2000))
    rows = list(KINDS.values())[seed % len(KINDS)](rng, n)
    for balanced in (True, False):
        for low in (1, (max_leaf + 1) // 2):
            model = ClusterTree(branching=branching, max_leaf_size=max_leaf, min_leaf_size=low)
            model.set_params(balanced=balanced, random_state=seed)
            assert_bounds_kept(model.fit(csr(rows)), n)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 100), st.booleans())
def test_balanced_assignment_is_the_best_there_is(n, k, seed, ties):
    rng = np.random.default_rng(seed)
    n = max(n // k, 1) * k
    scores = rng.integers(0, 3, size=(n, k)).astype(float) if ties else rng.random((n, k))
    labels = _core.bounded_labels(scores, n // k, n // k, 1)
    assert set(np.bincount(labels, minlength=k)) == {n // k}
    places = np.repeat(scores, n // k, axis=1)
    best = places[linear_sum_assignment(places, maximize=True)].sum()
    assert scores[np.arange(n), labels].sum() == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8, 12, 16, 24, 31, 32, 48, 64, 80])
@pytest.mark.parametrize("n", [1, 5, 8, 31, 100])
def test_rows_that_may_go_anywhere_go_to_the_first_of_their_best_clusters(n, k):
    scores = np.random.default_rng(n * k).integers(0, 5, size=(n, k)).astype(float)
    assert np.array_equal(_core.bounded_labels(scores, 0, n, 1), scores.argmax(axis=1))


SCORES = {
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "some clusters suit all rows": lambda rng, n, k: rng.random((n, k)) + 2 * rng.random(k),
    "most scores are low": lambda rng, n, k: rng.random((n, k)) ** 8,
    "ties": lambda rng, n, k: rng.integers(0, 3, size=(n, k)).astype(float),
    "centers": lambda rng, n, k: rng.normal(size=(n, 4)) @ rng.normal(size=(4, k)),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(("n", "k"), [(300, 16), (320, 16), (1000, 16), (150, 5)])
def test_balanced_assignment_of_a_node_is_the_best_there_is(kind, n, k):
    for seed in range(3):
        scores = SCORES[kind](np.random.default_rng(seed), n, k)
        lower, upper = n // k, -(-n // k)
        labels = _core.bounded_labels(scores, lower, upper, 1)
        sizes = np.bincount(labels, minlength=k)
        assert lower <= sizes.min() <= sizes.max() <= upper
        found = scores[np.arange(n), labels].sum()
        assert found == pytest.approx(best_total(scores, lower, upper), abs=1e-6)
