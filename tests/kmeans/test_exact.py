"""Every algorithm, number type, index width, thread count and SIMD level against the oracle.

A fit that max_iter=m ends has the centers of the oracle's iteration m, and the labels that belong
to those centers, so fits with m = 1, 2, ... show every iteration.
"""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from support.data import LAYOUTS, NAMES, blobs, csr, dense, problem, weights_for
from support.levels import LEVELS
from support.marks import covering, slow_except
from support.oracle import cost, lloyd, nearest

from sparsecluster import KMeans
from sparsecluster._core import ALGORITHMS

DTYPES = ["float32", "float64"]


@cache
def expected(name, dtype, weighted=False):
    """Labels, centers and inertia of fits with max_iter = 1, 2, ... up to convergence."""
    X, centers = problem(name, dtype)
    weights = weights_for(len(X)) if weighted else None
    steps = lloyd(X, centers, weights)
    fits = []
    for step in steps:
        labels = nearest(X, step.centers)
        fits.append((labels, step.centers, cost(X, step.centers, labels, weights)))
    return steps, fits


def fit(X, centers, *, weights=None, max_iter=300, **options):
    km = KMeans(len(centers), init=centers, tol=0, max_iter=max_iter, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(X, sample_weight=weights)


def assert_equals_oracle(km, X, labels, centers, inertia):
    np.testing.assert_array_equal(km.labels_, labels)
    np.testing.assert_allclose(
        dense(km.cluster_centers_), centers, rtol=1e-9, atol=1e-9 * np.abs(X).max()
    )
    assert km.inertia_ == pytest.approx(inertia, rel=1e-9)


@covering(name=NAMES, algorithm=ALGORITHMS, dtype=DTYPES, layout=["int32", "dense"])
def test_every_iteration_equals_the_oracle(name, algorithm, dtype, layout):
    X, centers = problem(name, dtype)
    matrix = LAYOUTS[layout](X, dtype)
    for m, (labels, means, inertia) in enumerate(expected(name, dtype)[1], start=1):
        km = fit(matrix, centers, max_iter=m, algorithm=algorithm, n_threads=1)
        assert_equals_oracle(km, X, labels, means, inertia)


@covering(
    strength=3,
    name=["unit", "counts", "binary", "blobs", "many"],
    algorithm=ALGORITHMS,
    dtype=DTYPES,
    layout=list(LAYOUTS),
    n_threads=[1, 2, 3],
    simd=LEVELS,
)
def test_start_middle_and_end_equal_the_oracle(
    name, algorithm, dtype, layout, n_threads, simd, threads_for_little_work
):
    X, centers = problem(name, dtype)
    _, fits = expected(name, dtype)
    matrix = LAYOUTS[layout](X, dtype)
    for m in (1, len(fits) // 2, len(fits)):
        km = fit(matrix, centers, max_iter=m, algorithm=algorithm, n_threads=n_threads)
        assert_equals_oracle(km, X, *fits[m - 1])


@covering(
    name=["text", "counts", "grid", "blobs", "gaps"],
    algorithm=ALGORITHMS,
    dtype=DTYPES,
    layout=["int32", "dense"],
)
def test_every_weighted_iteration_equals_the_oracle(name, algorithm, dtype, layout):
    X, centers = problem(name, dtype)
    weights = weights_for(len(X))
    matrix = LAYOUTS[layout](X, dtype)
    for m, (labels, means, inertia) in enumerate(expected(name, dtype, True)[1], start=1):
        km = fit(matrix, centers, weights=weights, max_iter=m, algorithm=algorithm, n_threads=1)
        assert_equals_oracle(km, X, labels, means, inertia)


@covering(name=NAMES, algorithm=ALGORITHMS, weighted={"alike": False, "weighted": True})
def test_history_tells_the_rows_that_moved(name, algorithm, weighted):
    X, centers = problem(name)
    weights = weights_for(len(X)) if weighted else None
    km = fit(csr(X), centers, weights=weights, algorithm=algorithm)
    assert [record.moved for record in km.history_] == [
        step.moved for step in expected(name, "float64", weighted)[0]
    ]


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_history_tells_the_cost(name, weighted):
    X, centers = problem(name)
    weights = weights_for(len(X)) if weighted else None
    km = fit(csr(X), centers, weights=weights)
    np.testing.assert_allclose(
        [record.cost for record in km.history_],
        [step.cost for step in expected(name, "float64", weighted)[0]],
        rtol=1e-7,
    )


@pytest.mark.parametrize("algorithm", ["elkan", "elkan-rows", "hamerly"])
def test_history_counts_rows_that_bounds_spare_and_distances_between_centers(algorithm):
    X = blobs(np.random.default_rng(3))
    X -= X.mean(axis=0)
    records = fit(X, X[:7], algorithm=algorithm).history_
    assert (records[0].skipped, records[0].center_distances) == (0, 0)
    assert 0 < records[-1].skipped <= len(X)
    for record in records[1:]:
        assert record.center_distances == 49
        assert record.distances <= len(X) + (len(X) - record.skipped) * 2 * 7


def test_half_the_way_to_the_nearest_center_spares_rows():
    # Two far clusters: no row needs another look once their centers have moved a little.
    X = np.concatenate([np.linspace(0, 1, 40), np.linspace(100, 101, 40)])[:, None]
    for algorithm in ("elkan-rows", "hamerly"):
        records = fit(X, X[[0, 79]], algorithm=algorithm).history_
        assert [record.skipped for record in records[1:]] == [80] * (len(records) - 1)


def test_history_tells_the_cost_of_rows_very_far_from_the_origin():
    X = blobs(np.random.default_rng(5), offset=1e7)
    km = fit(X, X[:7])
    assert km.history_[-1].cost == pytest.approx(lloyd(X, X[:7])[-1].cost, rel=1e-6)


def beside_an_outlier():
    """One value of 1e9 in a column whose other values are near 0 and near 5."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.1, 50), rng.normal(5, 0.1, 50), [1e9]]).reshape(-1, 1)
    return X, np.array([[0.0], [5.0], [1e9]])


def test_history_tells_the_cost_beside_an_outlier():
    X, centers = beside_an_outlier()
    km = fit(X, centers)
    assert km.history_[-1].cost == pytest.approx(lloyd(X, centers)[-1].cost, rel=1e-6)


def test_centers_keep_their_digits_beside_an_outlier():
    X, centers = beside_an_outlier()
    km = fit(X, centers)
    np.testing.assert_allclose(km.cluster_centers_, lloyd(X, centers)[-1].centers, rtol=1e-9)


def test_centers_survive_a_huge_value_in_their_column():
    X = np.array([[0.25], [0.75], [5.0], [6.0], [1e100]])
    km = fit(X, X[[0, 2, 4]])
    np.testing.assert_allclose(km.cluster_centers_.ravel(), [0.5, 5.5, 1e100], rtol=1e-9)


def test_a_row_of_tiny_weight_moves_its_center():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [50.0]])
    km = fit(X, np.array([[0.0], [10.0], [40.0]]), weights=[1, 1, 1, 1, 1e-25])
    np.testing.assert_allclose(km.cluster_centers_.ravel(), [0.5, 10.5, 50], rtol=1e-9)


def test_labels_fit_the_centers_where_a_refilled_cluster_has_a_tiny_weight():
    X = np.array([[0.0], [1.0], [50.0]])
    km = fit(X, np.array([[0.0], [1000.0]]), weights=[1, 1, 1e-25])
    np.testing.assert_array_equal(km.labels_, km.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_cluster_of_nearly_all_rows_is_the_same_for_any_number_of_threads(weighted):
    rng = np.random.default_rng(0)
    X = csr(
        rng.random((5000, 30)) * (rng.random((5000, 30)) < 0.2) * 10.0 ** rng.integers(-4, 4, 30)
    )
    X[:40] *= 50  # far from all the others
    weights = weights_for(5000) if weighted else None
    start = dense(X[[0, 7, 15, 30, 100]])
    fits = [fit(X, start, weights=weights, n_threads=n) for n in (1, 2, 5)]
    assert np.bincount(fits[0].labels_).max() > 3500
    for other in fits[1:]:
        np.testing.assert_array_equal(other.labels_, fits[0].labels_)
        np.testing.assert_array_equal(
            dense(other.cluster_centers_), dense(fits[0].cluster_centers_)
        )
        assert other.inertia_ == fits[0].inertia_


def test_inertia_keeps_its_digits_where_sparse_rows_share_a_large_value():
    X, centers = problem("landmark")
    X = X.copy()
    X[:, 3] *= 1000
    centers = centers * np.where(np.arange(X.shape[1]) == 3, 1000, 1)
    km = fit(csr(X), centers)
    assert km.inertia_ == pytest.approx(cost(X, dense(km.cluster_centers_), km.labels_), rel=1e-9)


def test_inertia_counts_small_values_that_a_sparse_row_lacks():
    # The center is (1, 1e-9), and each row is 1e-9 away from it; 1 + 1e-18 rounds to 1.
    km = fit(csr([[1.0, 0.0], [1.0, 2e-9]]), np.array([[1.0, 0.0]]))
    assert km.inertia_ == pytest.approx(2e-18, rel=1e-9, abs=0)


@pytest.mark.parametrize("layout", ["int32", "dense"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("ends", [(0.1, 0.3), (0.3, 0.1), (-0.7, 0.1), (0.1, -0.7)])
def test_ties_but_for_rounding_go_to_the_lowest_index(ends, algorithm, layout):
    # Halfway in decimal; in binary one of the ends is nearer by a unit in the last place.
    a, b = ends
    X = np.array([[a, 1.1], [b, 1.1], [round((a + b) / 2, 1), 0.3]])
    km = fit(LAYOUTS[layout](X, "float64"), X[:2], weights=[1, 1, 0], algorithm=algorithm)
    assert km.labels_.tolist() == [0, 1, 0]


def test_blobs_very_far_from_the_origin_equal_the_oracle():
    X = blobs(np.random.default_rng(5), offset=1e7)
    centers = X[:7]
    step = lloyd(X, centers)[-1]
    km = fit(X, centers)
    np.testing.assert_array_equal(km.labels_, step.labels)


@pytest.fixture(scope="module")
def documents(real_data):
    """Part of two real sets: counts, and unit rows, each with starting centers."""

    def load(name):
        if name == "bbc":
            X = real_data("bbc")[::2]
        else:
            X = normalize(real_data("classic3"))[::3]
        X = X[:, np.flatnonzero(X.sum(axis=0))].astype(np.float32)
        return X, dense(X[np.random.default_rng(0).choice(X.shape[0], 20, replace=False)])

    return load


@pytest.mark.parametrize("name", slow_except(["classic3"], ["bbc", "classic3"]))
def test_real_documents_equal_the_oracle_at_every_iteration(name, documents):
    X, centers = documents(name)
    rows = dense(X).astype(np.float64)
    steps = lloyd(rows, centers, max_iter=12)
    for m, step in enumerate(steps, start=1):
        km = fit(X, centers, max_iter=m)
        labels = nearest(rows, step.centers)
        assert_equals_oracle(km, rows, labels, step.centers, cost(rows, step.centers, labels))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["bbc", "classic3"])
def test_algorithms_agree_on_all_real_documents(name, dtype, real_data):
    X = real_data(name).astype(dtype)
    fits = [
        KMeans(20, algorithm=algorithm, random_state=0, tol=0).fit(X) for algorithm in ALGORITHMS
    ]
    for km in fits[1:]:
        np.testing.assert_array_equal(km.labels_, fits[0].labels_)
