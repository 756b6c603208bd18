"""Spherical k-means against the oracle; directions, zero rows, costs."""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from support.data import LAYOUTS, NAMES, csr, dense, directions, problem, weights_for
from support.levels import LEVELS
from support.marks import covering
from support.oracle import cost, lloyd, nearest

from sparsecluster import SphericalKMeans
from sparsecluster._core import ALGORITHMS


@cache
def sphere(name, dtype):
    """Rows of unit length (or zero) that `dtype` can hold, and centers of unit length."""
    X, centers = problem(name, dtype)
    X = directions(X).astype(dtype).astype(np.float64)
    centers = np.where(np.any(centers, axis=1, keepdims=True), centers, 1.0)
    return X, directions(centers)


@cache
def expected(name, dtype, weighted=False):
    X, centers = sphere(name, dtype)
    weights = weights_for(len(X)) if weighted else None
    steps = lloyd(X, centers, weights, spherical=True)
    fits = []
    for step in steps:
        labels = nearest(X, step.centers)
        fits.append((labels, step.centers, cost(X, step.centers, labels, weights)))
    return steps, fits


def fit(X, centers, *, weights=None, max_iter=300, **options):
    options = {"zero_rows": "first", "tol": 0} | options
    km = SphericalKMeans(len(centers), init=centers, max_iter=max_iter, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(X, sample_weight=weights)


@covering(
    name=NAMES,
    algorithm=ALGORITHMS,
    dtype=["float32", "float64"],
    weighted={"alike": False, "weighted": True},
)
def test_every_iteration_equals_the_oracle(name, algorithm, dtype, weighted):
    X, centers = sphere(name, dtype)
    weights = weights_for(len(X)) if weighted else None
    matrix = csr(X, dtype)
    for m, (labels, means, inertia) in enumerate(expected(name, dtype, weighted)[1], start=1):
        km = fit(matrix, centers, weights=weights, max_iter=m, algorithm=algorithm, n_threads=1)
        np.testing.assert_array_equal(km.labels_, labels)
        np.testing.assert_allclose(dense(km.cluster_centers_), means, atol=1e-9)
        assert km.inertia_ == pytest.approx(inertia, rel=1e-9)


@covering(
    strength=3,
    name=["text", "signed", "many"],
    algorithm=ALGORITHMS,
    layout=list(LAYOUTS),
    n_threads=[1, 3],
    simd=LEVELS,
)
def test_end_equals_the_oracle(name, algorithm, layout, n_threads, simd):
    X, centers = sphere(name, "float32")
    km = fit(LAYOUTS[layout](X, "float32"), centers, algorithm=algorithm, n_threads=n_threads)
    np.testing.assert_array_equal(km.labels_, expected(name, "float32")[1][-1][0])


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_history_tells_the_cost_which_never_rises(name, weighted):
    X, centers = sphere(name, "float64")
    weights = weights_for(len(X)) if weighted else None
    km = fit(csr(X), centers, weights=weights)
    costs = [record.cost for record in km.history_]
    steps = expected(name, "float64", weighted)[0]
    np.testing.assert_allclose(costs, [step.cost for step in steps], rtol=1e-7)
    steady = [step.refilled == 0 for step in steps[1:]]
    rises = np.diff(costs)[steady]
    assert rises.max(initial=0) <= 1e-9 * costs[0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_length_of_rows_does_not_matter(algorithm):
    X, _ = problem("text")
    X = X[np.any(X, axis=1)]
    scales = np.random.default_rng(0).lognormal(sigma=3, size=(len(X), 1))
    one, other = (
        SphericalKMeans(9, algorithm=algorithm, random_state=0).fit(csr(rows))
        for rows in (directions(X), X * scales)
    )
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(other.predict(csr(X)), one.labels_)


def test_centers_have_unit_length():
    X, _ = sphere("signed", "float64")
    km = SphericalKMeans(9, random_state=0, zero_rows="first").fit(csr(X))
    lengths = np.linalg.norm(dense(km.cluster_centers_), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-12)


# --- costs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", ["text", "gaps"])
def test_objective_and_inertia_follow_from_the_cosines(name, weighted):
    X, _ = sphere(name, "float64")
    weights = weights_for(len(X)) if weighted else np.ones(len(X))
    km = SphericalKMeans(7, random_state=0, zero_rows="first").fit(csr(X), sample_weight=weights)
    cosines = np.sum(X * dense(km.cluster_centers_)[km.labels_], axis=1)
    assert km.objective_ == pytest.approx(np.sum(weights * (1.5 - cosines)), rel=1e-9)
    squares = np.sum(X**2, axis=1) + 1 - 2 * cosines
    assert km.inertia_ == pytest.approx(np.sum(weights * squares), rel=1e-9)


def test_transform_gives_cosine_distances():
    X, _ = problem("gaps")
    km = SphericalKMeans(4, random_state=0, zero_rows="first").fit(csr(X))
    cosines = directions(X) @ dense(km.cluster_centers_).T
    np.testing.assert_allclose(km.transform(csr(X)), 1 - cosines, atol=1e-9)


# --- zero rows and centers -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_zero_rows_are_an_error_that_names_one(make):
    X = np.eye(4)
    X[2] = 0
    with pytest.raises(ValueError, match=r"Row 2 of X is zero .*zero_rows='first'"):
        SphericalKMeans(2).fit(make(X))
    km = SphericalKMeans(2, random_state=0).fit(make(np.eye(4)))
    with pytest.raises(ValueError, match="Row 2 of X is zero"):
        km.predict(make(X))


def test_zero_rows_go_to_the_first_cluster_if_asked():
    X = np.concatenate([np.zeros((3, 4)), np.eye(4)])
    km = SphericalKMeans(3, random_state=0, zero_rows="first").fit(csr(X))
    assert (km.labels_[:3] == 0).all()
    assert (km.predict(csr(X)) == km.labels_).all()


def test_zero_center_to_start_from_is_refused():
    with pytest.raises(ValueError, match="Center 1 to start from is zero"):
        SphericalKMeans(2, init=np.array([[1.0, 0], [0, 0]])).fit(np.eye(2))


def test_rows_that_cancel_keep_their_center():
    X = np.array([[1.0, 0], [-1.0, 0], [0, 1.0]])
    km = fit(sp.csr_array(X), np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert np.isfinite(dense(km.cluster_centers_)).all()
    np.testing.assert_array_equal(km.predict(X), km.labels_)


def test_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="zero_rows"):
        SphericalKMeans(2, zero_rows="drop").fit(np.eye(3))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "init", ["k-means++", "random", "mcmc", "spkm++", "oversample", "k-means||"]
)
def test_zero_rows_never_become_centers(init, algorithm):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.3)
    X[rng.random(60) < 0.4] = 0
    for seed in range(6):
        km = SphericalKMeans(
            7, zero_rows="first", init=init, algorithm=algorithm, random_state=seed, tol=0
        ).fit(csr(X))
        np.testing.assert_allclose(np.linalg.norm(dense(km.cluster_centers_), axis=1), 1)
        assert (km.labels_[~X.any(axis=1)] == 0).all()
        np.testing.assert_array_equal(km.predict(csr(X)), km.labels_)


@pytest.mark.parametrize("init", ["bisecting", "hierarchical", "furthest-first"])
def test_starts_by_means_survive_rows_that_cancel_or_are_zero(init):
    X = np.array([[0, 0], [0, 0], [1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    km = SphericalKMeans(3, init=init, zero_rows="first", random_state=0).fit(X)
    np.testing.assert_allclose(np.linalg.norm(km.cluster_centers_, axis=1), 1)
    opposite = np.array([[1.0, 0], [-1, 0], [1, 0], [-1, 0]])
    assert SphericalKMeans(2, init=init, random_state=0).fit(opposite).inertia_ == pytest.approx(0)
    assert SphericalKMeans(1, init=init).fit(opposite).n_clusters_ == 1


def test_nothing_but_zero_rows_is_refused():
    with pytest.raises(ValueError, match="All rows of X are zero"):
        SphericalKMeans(2, zero_rows="first").fit(np.zeros((4, 3)))


def test_tiny_rows_have_directions_too():
    X = np.array([[3.0, 4.0, 1.0], [1.0, 0.1, 0], [0, 1, 1]])
    fits = [SphericalKMeans(2, random_state=0).fit(X * scale) for scale in (1, 2e-162, 1e-300)]
    assert fits[1].inertia_ == pytest.approx(fits[0].inertia_, rel=1e-9)
    assert fits[2].inertia_ == pytest.approx(fits[0].inertia_, rel=1e-9)
    assert SphericalKMeans(2, init=np.eye(2, 3) * 1e-200).fit(X).n_clusters_ == 2


def test_a_row_has_the_same_label_alone_and_among_others():
    rng = np.random.default_rng(0)
    X = directions(rng.random((200, 5))).astype(np.float32)
    X[::3] *= 7
    km = SphericalKMeans(20, random_state=0).fit(X)
    alone = np.concatenate([km.predict(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_array_equal(alone, km.labels_)


def test_rows_of_tiny_norms_give_the_same_result_dense_and_sparse():
    """Their squares vanish in float64; the zeros between the values must not count either."""
    X = sphere("unit", "float64")[0]
    tiny = X * np.where(np.arange(len(X)) % 2, 1e-150, 1e-160)[:, None]
    fits = [
        SphericalKMeans(6, zero_rows="first", random_state=0).fit(one) for one in (csr(tiny), tiny)
    ]
    assert np.array_equal(fits[0].labels_, fits[1].labels_)
    assert np.array_equal(dense(fits[0].cluster_centers_), fits[1].cluster_centers_)
    assert fits[0].inertia_ == fits[1].inertia_
