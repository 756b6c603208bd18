"""Starting centers: greedy k-means++ against its definition, and the other ways to start."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import chisquare
from sklearn.exceptions import ConvergenceWarning
from support.data import LAYOUTS, NAMES, csr, dense, problem, weights_for
from support.marks import slow_except

from sparsecluster import KMeans, _core, kmeans_plusplus
from sparsecluster.rows.rows import as_rows

MAKERS = {"sparse": csr, "dense": np.array}


def potential(X, indices, weights=None):
    nearest2 = cdist(X, X[indices], "sqeuclidean").min(axis=1)
    return float(nearest2.sum() if weights is None else weights @ nearest2)


def first_iteration(X, n_clusters, **options):
    """A fit that ends after one iteration."""
    km = KMeans(n_clusters, max_iter=1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(X)


# --- what is chosen ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_chosen_rows_are_distinct(name, layout):
    X, _ = problem(name)
    _, indices = kmeans_plusplus(LAYOUTS[layout](X, "float64"), 20, random_state=0)
    assert len(np.unique(X[indices], axis=0)) == 20


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_centers_are_the_chosen_rows_in_their_type(make, dtype):
    X = make(problem("text", dtype)[0], dtype=dtype)
    centers, indices = kmeans_plusplus(X, 20, random_state=0)
    assert centers.dtype == dtype
    np.testing.assert_array_equal(dense(centers), dense(X)[indices])


def test_centers_of_sparse_rows_are_sparse():
    centers, _ = kmeans_plusplus(csr(problem("text")[0]), 5, random_state=0)
    assert sp.issparse(centers)


@pytest.mark.parametrize("name", NAMES)
def test_potential_falls_with_every_row(name):
    X, _ = problem(name)
    _, indices = kmeans_plusplus(csr(X), 20, random_state=1)
    potentials = [potential(X, indices[: k + 1]) for k in range(20)]
    assert (np.diff(potentials) < 0).all()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_all_distinct_rows_are_found(make):
    X = np.repeat(np.random.default_rng(0).random((12, 3)), 3, axis=0)
    _, indices = kmeans_plusplus(make(X), 12, random_state=0)
    assert len(np.unique(X[indices], axis=0)) == 12


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_fewer_distinct_rows_give_fewer_centers_and_a_warning(make):
    X = make(np.repeat(np.eye(3), 4, axis=0))
    with pytest.warns(ConvergenceWarning, match="Found only 3 of 5 centers: X has too few"):
        centers, indices = kmeans_plusplus(X, 5, random_state=0)
    assert centers.shape == (3, 3)
    assert len(indices) == 3


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_distinct_rows_far_from_the_origin_are_told_apart(make):
    X = 1e9 + np.arange(10.0).reshape(-1, 1)
    _, indices = kmeans_plusplus(make(X), 10, random_state=0)
    assert sorted(indices) == list(range(10))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_rows_that_differ_by_little_are_told_apart(make):
    X = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]])
    _, indices = kmeans_plusplus(make(X), 2, random_state=0)
    assert sorted(indices) == [0, 1]


@pytest.mark.parametrize("value", [1e100, 1e-100, -1e100])
def test_huge_and_tiny_rows_are_chosen_alike(value):
    X, _ = problem("unit")
    _, indices = kmeans_plusplus(csr(X), 10, random_state=0)
    factor = 2.0 ** np.round(np.log2(abs(value))) * np.sign(value)
    _, scaled = kmeans_plusplus(csr(X * factor), 10, random_state=0)
    np.testing.assert_array_equal(scaled, indices)


def test_one_center_is_any_row():
    X = csr(np.eye(6))
    first = [kmeans_plusplus(X, 1, random_state=seed)[1][0] for seed in range(60)]
    assert set(first) == set(range(6))


# --- by which chances ----------------------------------------------------------------------------

SMALL = {
    "unit": np.array([[1, 0, 0], [0.6, 0.8, 0], [0, 1, 0], [0, 0, 1], [0.6, 0, 0.8]]),
    "unnormalised": np.array([[1, 0, 0], [3, 0, 0], [0, 2, 0], [0, 2, 4], [0, 0, 0]], dtype=float),
    "signed": np.array([[1, 0, 0], [-1, 0, 0], [0, -2, 0], [0.5, 2, 0], [0, 0, 0]], dtype=float),
}


def observed_seconds(X, weights=None):
    """How often row j was chosen second, per first row i, with plain k-means++."""
    seen = np.zeros((X.shape[0], X.shape[0]))
    random_state = np.random.RandomState(0)
    for _ in range(1500):
        _, (first, second) = kmeans_plusplus(
            X, 2, sample_weight=weights, random_state=random_state, n_local_trials=1, n_threads=1
        )
        seen[first, second] += 1
    return seen


def p_value(seen, weights, X):
    """That counts like these, or rarer ones, come from weights times squared distances."""
    chances = weights * cdist(X, X, "sqeuclidean")
    chances *= (weights / weights.sum() / chances.sum(axis=1))[:, None]
    possible = chances > 0
    assert not seen[~possible].any()
    return chisquare(seen[possible], chances[possible] * seen.sum()).pvalue


@pytest.mark.parametrize("make", slow_except(["sparse"], MAKERS))
@pytest.mark.parametrize("name", SMALL)
def test_second_row_is_drawn_by_squared_distance(name, make):
    X = SMALL[name]
    assert p_value(observed_seconds(make(X)), np.ones(len(X)), X) > 1e-3


def test_rows_are_drawn_by_weight_times_squared_distance():
    X, weights = SMALL["unnormalised"], np.array([1, 0.5, 3, 0, 2])
    assert p_value(observed_seconds(csr(X), weights), weights, X) > 1e-3


@pytest.mark.parametrize("name", ["text", "signed", "binary"])
def test_greedy_choice_is_better_than_the_plain_one_on_average(name):
    X, _ = problem(name)
    greedy, plain = (
        np.mean(
            [
                potential(X, kmeans_plusplus(csr(X), 15, random_state=s, n_local_trials=n)[1])
                for s in range(20)
            ]
        )
        for n in (None, 1)
    )
    assert greedy < plain


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", ["unit", "signed", "counts", "blobs"])
def test_greedy_choice_is_the_best_row_where_many_are_tried(name, weighted):
    # With thousands of candidates every row of sizable chance is among them, the best one too.
    X, _ = problem(name)
    X = X[:60]
    weights = 0.5 + np.arange(60) % 4 if weighted else np.ones(60)
    _, (first, second) = kmeans_plusplus(
        csr(X), 2, sample_weight=weights, random_state=0, n_local_trials=20000
    )
    potentials = [potential(X, [first, candidate], weights) for candidate in range(60)]
    assert potentials[second] == pytest.approx(min(potentials), rel=1e-9)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_greedy_step_is_the_best_where_many_are_tried(make):
    X = problem("text")[0][:40]
    _, indices = kmeans_plusplus(make(X), 8, random_state=0, n_local_trials=20000)
    for k in range(1, 8):
        potentials = [potential(X, [*indices[:k], candidate]) for candidate in range(40)]
        assert potentials[indices[k]] == pytest.approx(min(potentials), rel=1e-9)


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_rows_of_zero_weight_are_never_chosen(init):
    X, weights = np.eye(8), np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=float)
    for seed in range(20):
        if init == "k-means++":
            _, indices = kmeans_plusplus(X, 4, sample_weight=weights, random_state=seed)
            assert sorted(indices) == [0, 2, 4, 6]
        else:
            km = KMeans(4, init=init, random_state=seed).fit(X, sample_weight=weights)
            assert len(set(km.labels_[::2])) == 4


@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_fewer_weighted_rows_than_clusters_give_fewer_clusters(init):
    km = KMeans(3, init=init, random_state=0)
    with pytest.warns(ConvergenceWarning, match="distinct"):
        km.fit(np.eye(4), sample_weight=[1, 1, 0, 0])
    assert km.n_clusters_ == 2


# --- how a fit starts ----------------------------------------------------------------------------


def test_fit_starts_from_its_seeds():
    # As many clusters as rows: one iteration leaves each center where it started.
    X = np.random.default_rng(0).random((9, 3))
    km = first_iteration(csr(X), 9, random_state=0)
    assert sorted(map(tuple, dense(km.cluster_centers_))) == sorted(map(tuple, X))


def test_random_start_differs_between_seeds():
    X = csr(problem("text")[0])
    labels = [first_iteration(X, 8, init="random", random_state=s).labels_ for s in (0, 1)]
    assert (labels[0] != labels[1]).any()


def test_random_start_takes_every_row_at_some_time():
    X = np.arange(5.0).reshape(-1, 1)
    chosen = set()
    for seed in range(60):
        records = []
        KMeans(
            1, init="random", random_state=seed, callback=records.append, max_iter=1, tol=1e9
        ).fit(X)
        # From row x the one center moves to the mean 2 of all rows.
        chosen.add(round(records[0].shift))
    assert chosen == {0, 1, 4}


@pytest.mark.parametrize("make", [csr, np.array, sp.csc_array, sp.coo_array, sp.csr_matrix])
def test_given_centers_may_be_of_any_kind(make):
    X, centers = problem("text")
    km = KMeans(len(centers), init=make(centers)).fit(csr(X))
    expected = KMeans(len(centers), init=centers.tolist()).fit(csr(X))
    np.testing.assert_array_equal(km.labels_, expected.labels_)


def test_given_centers_are_left_as_they_were():
    X, centers = problem("text")
    start = centers.copy()
    KMeans(len(centers), init=start).fit(csr(X))
    np.testing.assert_array_equal(start, centers)


def test_given_sparse_centers_are_left_as_they_were():
    X, centers = problem("text")
    start = csr(centers)
    KMeans(len(centers), init=start).fit(csr(X))
    np.testing.assert_array_equal(dense(start), centers)


@pytest.mark.parametrize("make", [csr, np.array], ids=MAKERS)
def test_callable_gives_the_centers(make):
    X, centers = problem("text")
    km = KMeans(len(centers), init=lambda X, k, random_state: make(centers)).fit(csr(X))
    expected = KMeans(len(centers), init=centers).fit(csr(X))
    np.testing.assert_array_equal(km.labels_, expected.labels_)


def test_callable_gets_the_data_the_number_and_a_random_state():
    X = csr(np.eye(5))
    seen = []

    def init(X, n_clusters, random_state):
        seen.append((X.shape, n_clusters, random_state.randint(10**6)))
        return X[:n_clusters]

    for _ in range(2):
        KMeans(3, init=init, random_state=0).fit(X)
    assert seen[0] == seen[1]
    assert seen[0][:2] == ((5, 5), 3)


def test_given_centers_are_used_once_whatever_n_init():
    X, centers = problem("text")
    with pytest.warns(RuntimeWarning, match="n_init=5"):
        km = KMeans(len(centers), init=centers, n_init=5).fit(csr(X))
    assert {record.run for record in km.history_} == {0}


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.random.RandomState])
def test_seed_may_be_any_of_numpys(kind):
    X = csr(problem("text")[0])
    _, indices = kmeans_plusplus(X, 5, random_state=kind(7))
    np.testing.assert_array_equal(indices, kmeans_plusplus(X, 5, random_state=7)[1])


def test_weights_of_a_start_are_those_of_the_fit():
    X, _ = problem("text")
    weights = weights_for(len(X))
    km = KMeans(13, random_state=0).fit(csr(X), sample_weight=weights)
    assert len(set(km.labels_[weights > 0])) == 13


def test_squared_norms_are_accepted_and_change_nothing():
    X, _ = problem("text")
    _, plain = kmeans_plusplus(csr(X), 8, random_state=0)
    norms = (X**2).sum(axis=1)
    _, given = kmeans_plusplus(csr(X), 8, x_squared_norms=norms, random_state=0)
    np.testing.assert_array_equal(given, plain)


def test_squared_norms_of_another_length_are_refused():
    with pytest.raises(ValueError, match="length of x_squared_norms 3 should be equal"):
        kmeans_plusplus(np.eye(4), 2, x_squared_norms=np.ones(3))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
def test_a_screen_that_several_threads_build_changes_no_seed(n_threads):
    rng = np.random.default_rng(4)
    n_rows, n_features, per_row = 20_000, 50, 6  # three chunks of the screen
    features = np.minimum(rng.pareto(0.7, size=(n_rows, per_row)), n_features - 1).astype(np.int32)
    ends = np.arange(0, n_rows * per_row + 1, per_row)
    X = sp.csr_array((rng.random(n_rows * per_row), features.ravel(), ends), (n_rows, n_features))
    X.sum_duplicates()
    rows = as_rows(X, n_threads=1).core
    draws = rng.random((24, 4))

    def seeds(memory_limit, n_threads):
        given = (25, 7, draws, 25, 0, np.ones(n_rows), 0.0)
        return _core.greedy_kmeans_plusplus(rows, *given, memory_limit, n_threads)[0].tolist()

    # Without memory for a screen every row is compared with every candidate.
    assert seeds(2**40, n_threads) == seeds(1, 1)
