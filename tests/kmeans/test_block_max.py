"""Blocks of centers ruled out by their largest values: the same result, by less work."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def topics(n: int, d: int, entries: int, seed: int = 0) -> sp.csr_array:
    """Rows of topic words over a background, as text has them; of unit length."""
    rng = np.random.default_rng(seed)
    words = (d * rng.random((n, entries)) ** 3).astype(np.int32)
    own = rng.integers(0, d, (n // 20 + 1, entries))
    words[:, ::2] = own[rng.integers(0, len(own), n)][:, ::2]
    ends = np.arange(0, n * entries + 1, entries)
    X = sp.csr_array((rng.random(n * entries) + 0.5, words.ravel(), ends), shape=(n, d))
    X.sum_duplicates()
    return sp.csr_array(X.multiply(1 / np.sqrt(X.multiply(X).sum(axis=1))[:, None]))


def paths(model) -> set[str]:
    return {record.path for record in model.history_}


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_spare_distances_and_change_no_label(estimator, dtype):
    X = topics(2000, 800, 20).astype(dtype)
    scanned = estimator(100, algorithm="lloyd", random_state=0).fit(X)
    blocks = estimator(100, algorithm="block-max", random_state=0).fit(X)
    assert "block maxima" in paths(blocks)
    np.testing.assert_array_equal(blocks.labels_, scanned.labels_)
    assert blocks.inertia_ == scanned.inertia_
    computed = [sum(record.distances for record in one.history_[1:]) for one in (blocks, scanned)]
    assert computed[0] < computed[1] / 2


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_rows_that_change_their_cluster_look_into_few_groups(metric):
    X = topics(6000, 1500, 40)
    # Centers that are one row each, so that many rows find a better one in the second iteration.
    start = X[np.random.default_rng(0).choice(6000, 480, replace=False)]
    found = [
        KMeans(480, init=start, metric=metric, algorithm=name, max_iter=3, tol=0).fit(X)
        for name in ("lloyd", "block-max")
    ]
    np.testing.assert_array_equal(*(one.labels_ for one in found))
    second = found[1].history_[1]
    assert second.moved > 300
    assert second.distances < 0.2 * X.shape[0] * 480


def test_rows_with_ties_get_the_first_of_equally_near_centers():
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((400, 12)) < 0.3).astype(np.float32))
    found = [
        KMeans(60, algorithm=name, random_state=1).fit(X).labels_ for name in ("lloyd", "block-max")
    ]
    np.testing.assert_array_equal(*found)


def test_rows_with_negative_values_are_scanned():
    X = topics(300, 100, 8) - topics(300, 100, 8, seed=1)
    model = KMeans(20, algorithm="block-max", random_state=0).fit(X)
    assert "block maxima" not in paths(model)
    expected = KMeans(20, algorithm="lloyd", random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


def test_centers_with_negative_values_are_bounded_too():
    X = topics(500, 100, 8)
    start = X[:40].toarray() - 0.05
    found = [
        KMeans(40, init=start, algorithm=name).fit(X).labels_ for name in ("lloyd", "block-max")
    ]
    np.testing.assert_array_equal(*found)


def test_auto_changes_no_label_where_centers_are_large():
    X = topics(5000, 9000, 700).astype(np.float32)
    start = X[:500]
    auto = KMeans(500, init=start, max_iter=4, tol=0).fit(X)  # it chooses its path by the clock
    expected = KMeans(500, init=start, max_iter=4, tol=0, algorithm="lloyd").fit(X)
    np.testing.assert_array_equal(auto.labels_, expected.labels_)


def test_growing_batches_end_with_the_labels_of_predict():
    X = topics(5000, 9000, 700).astype(np.float32)
    model = MiniBatchKMeans(500, batch_size=3000, random_state=0, max_iter=5).fit(X)
    np.testing.assert_array_equal(model.labels_, model.predict(X))
