"""Centers as 16-bit numbers, which only screen: the same labels and costs as with floats."""

import numpy as np
import pytest
from support import oracle
from support.data import csr, dense, directions, text

from sparsecluster import KMeans


def fits(X, n_clusters, **options):
    """`auto`, whose centers may be 16-bit numbers, and `lloyd`, whose centers are floats."""
    return [
        KMeans(
            n_clusters, init=dense(X[:n_clusters]), tol=0, n_threads=2, algorithm=name, **options
        ).fit(X)
        for name in ("auto", "lloyd")
    ]


def assert_same(one, other):
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert [record.cost for record in one.history_] == [record.cost for record in other.history_]


def heavy_tails(n_rows, n_columns):
    """Counts of very different sizes: steps of 16-bit numbers are large for most of them."""
    rng = np.random.default_rng(3)
    counts = np.where(
        rng.random((n_rows, n_columns)) < 0.1, rng.pareto(0.5, (n_rows, n_columns)), 0
    )
    return np.minimum(np.ceil(counts), 1e7)


@pytest.mark.parametrize("n_clusters", [3, 7, 15, 40, 110])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_text(n_clusters, dtype):
    X = csr(directions(text(np.random.default_rng(1), 1200, 300))).astype(dtype)
    auto, lloyd = fits(X, n_clusters)
    assert_same(auto, lloyd)
    steps = oracle.lloyd(dense(X), dense(X[:n_clusters]))
    np.testing.assert_array_equal(auto.labels_, steps[-1].labels)
    np.testing.assert_allclose([r.cost for r in auto.history_], [one.cost for one in steps])


@pytest.mark.parametrize("n_clusters", [5, 60])
def test_counts_with_heavy_tails(n_clusters):
    assert_same(*fits(csr(heavy_tails(1500, 200)), n_clusters))


def test_rows_that_differ_by_less_than_a_step():
    rng = np.random.default_rng(2)
    X = directions(text(rng, 30, 200))[rng.integers(0, 30, 1500)]
    X[:, :5] += 1e-6 * rng.random((1500, 5))
    assert_same(*fits(csr(X).astype(np.float64), 50))


def test_negative_values():
    rng = np.random.default_rng(4)
    X = np.where(rng.random((1500, 100)) < 0.2, rng.normal(size=(1500, 100)), 0)
    assert_same(*fits(csr(X), 40))


def test_sizes_that_floats_hardly_hold():
    X = directions(text(np.random.default_rng(5), 900, 120))
    for size in (1e-15, 1e15):
        assert_same(*fits(csr(size * X).astype(np.float64), 20))
