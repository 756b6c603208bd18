"""Clusters of bounded sizes: bounds hold, and each assignment is one of the lowest cost."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning
from support.compare import same
from support.data import NAMES, csr, dense, directions, problem, weights_for
from support.estimators import fitted

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans, load_model

ESTIMATORS = {"euclidean": KMeans, "cosine": SphericalKMeans}
REAL = ("bbc", "classic3", "delicious", "kos", "nips", "scrna", "sector", "stackoverflow-titles")
REAL += ("tdt2", "20news-tfidf")
#: Fewest and most rows of a cluster, in parts of the mean size.
BOUNDS = {
    "equal": (1, 1),
    "max": (None, 1.2),
    "min": (0.6, None),
    "both": (0.8, 1.25),
    "wide": (0.1, 2.5),
}


def rows_of(name, metric="euclidean"):
    X, _ = problem(name)
    return directions(X[np.any(X, axis=1)]) if metric == "cosine" else X


def bounds_for(name, n_rows, n_clusters):
    least, most = BOUNDS[name]
    size_min = None if least is None else max(1, int(least * (n_rows // n_clusters)))
    size_max = None if most is None else int(np.ceil(most * -(-n_rows // n_clusters)))
    return {"size_min": size_min, "size_max": size_max}


def fit(X, n_clusters, metric="euclidean", weights=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator = ESTIMATORS[metric](n_clusters, random_state=0, **options)
        return estimator.fit(X, sample_weight=weights)


def sizes(labels, n_clusters):
    return np.bincount(labels, minlength=n_clusters)


def kept(model):
    """Whether the labels keep the bounds, in as many clusters as were asked for."""
    found = sizes(model.labels_, model.n_clusters)
    least, most = model.size_min or 1, model.size_max or len(model.labels_)
    return model.n_clusters_ == len(found) and least <= found.min() and found.max() <= most


def least_cost(costs, size_min, size_max):
    """The cost of the best assignment: a column for each place in a cluster.

    Places that may stay empty are filled with rows that cost nothing there, and very much in the
    places that must be taken.
    """
    n_rows, n_clusters = costs.shape
    clusters = np.repeat(np.arange(n_clusters), size_max)
    needed = np.tile(np.arange(size_max) < size_min, n_clusters)
    square = np.zeros((len(clusters), len(clusters)))
    square[:n_rows] = costs[:, clusters]
    square[n_rows:, needed] = 1e6 * (1 + costs.max())
    _, places = linear_sum_assignment(square)
    return costs[np.arange(n_rows), clusters[places[:n_rows]]].sum()


def check_optimal(model, X, weights=None):
    """Whether the labels are a best assignment to the centers, by the oracle."""
    costs = cdist(X, dense(model.cluster_centers_), "sqeuclidean")
    costs *= 1 if weights is None else weights[:, None]
    size_max = min(model.size_max or len(X), len(X))
    expected = least_cost(costs, model.size_min or 1, size_max)
    found = costs[np.arange(len(X)), model.labels_].sum()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * (1 + costs.max()))
    np.testing.assert_allclose(model.inertia_, expected, rtol=1e-9, atol=1e-12 * (1 + costs.max()))


# --- bounds and cost -----------------------------------------------------------------------------


def can_be_improved(costs, labels, size_min, size_max):
    """Whether a round of rows, each into the cluster of the next, lowers the cost.

    A round may pass through a pool, which takes a row of one cluster and gives one to another. That
    there is none is the mark of an optimum.
    """
    n_rows, n_clusters = costs.shape
    steps = np.full((n_clusters + 1, n_clusters + 1), np.inf)
    losses = costs - costs[np.arange(n_rows), labels][:, None]
    for cluster in range(n_clusters):
        steps[cluster, :-1] = losses[labels == cluster].min(axis=0) + 1e-9 * costs.max()
    found = sizes(labels, n_clusters)
    steps[:-1, -1][found < size_max] = 0
    steps[-1, :-1][found > size_min] = 0
    for via in range(n_clusters + 1):
        steps = np.minimum(steps, steps[:, [via]] + steps[[via]])
    return bool((np.diag(steps) < 0).any())


@pytest.mark.parametrize("bounds", [(0.9, 1.1), (1, 1), (0.5, 3)])
@pytest.mark.parametrize("n_clusters", [15, 75])  # costs of all clusters, and lists
def test_many_rows_begin_with_prices_of_samples_and_end_at_the_lowest_cost(n_clusters, bounds):
    chance = np.random.RandomState(0)
    X = chance.standard_normal((9000, 3)) * chance.choice([0.1, 3], 9000)[:, None]
    mean = len(X) // n_clusters
    limits = {"size_min": int(bounds[0] * mean), "size_max": int(bounds[1] * mean)}
    for max_iter in (1, 3):
        model = fit(X, n_clusters, init=X[:n_clusters], max_iter=max_iter, **limits)
        assert kept(model)
        costs = cdist(X, model.cluster_centers_, "sqeuclidean")
        assert not can_be_improved(costs, model.labels_, **limits)


class Listener:
    """A callback that keeps what it hears within iterations, and may end the fit there."""

    def __init__(self, error=None):
        self.heard, self.iterations, self.error = [], 0, error

    def __call__(self, record):
        self.iterations += 1

    def on_assignment(self, record):
        self.heard.append(record)
        if self.error is not None:
            raise self.error


def many_rows():
    return np.random.RandomState(0).standard_normal((60_000, 4))


def test_a_long_assignment_tells_how_far_it_is():
    X, listener = many_rows(), Listener()
    fit(X, 100, init=X[:100], size_max=600, max_iter=1, callback=listener)
    shares = [record.share for record in listener.heard if record.iteration == 1]
    assert shares
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1
    assert all(record.run == 0 and record.seconds > 0 for record in listener.heard)


def test_a_fit_can_be_ended_within_an_assignment():
    X, listener = many_rows(), Listener(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fit(X, 100, init=X[:100], size_max=600, callback=listener)
    assert len(listener.heard) == 1
    assert listener.iterations == 0


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("name", ["text", "grid", "many"])
@pytest.mark.parametrize("metric", ESTIMATORS)
def test_labels_are_a_best_assignment_to_the_centers(name, metric, bounds):
    X = rows_of(name, metric)[:90]
    for n_clusters in (4, 29):
        model = fit(csr(X), n_clusters, metric, tol=0, **bounds_for(bounds, len(X), n_clusters))
        assert kept(model)
        check_optimal(model, X)


@pytest.mark.parametrize("seed", range(12))
def test_rows_without_weight_do_not_move_for_ever(seed):
    # They cost nothing anywhere: what rounding leaves in the prices is all that they could gain.
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (68, 3)).astype(float)
    weights = rng.integers(0, 3, 68) + (rng.random() > 0.5)
    start = X[:17] + 0.25
    model = fit(csr(X), 17, weights=weights, size_min=2, size_max=4, init=start, max_iter=2)
    assert kept(model)
    check_optimal(model, X, weights.astype(float))


@pytest.mark.parametrize("seed", [5, 34, 44, 47, 68, 74, 83, 84, 114, 137, 176, 201])
def test_costs_of_very_different_size_do_not_move_rows_for_ever(seed):
    # In float64, prices that are sums of both kept what rounding left of the small ones.
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (60, 3)) * rng.choice([1, 1e6, 1e-6, 1 / 3], (60, 1))
    weights = rng.integers(0, 3, 60)
    model = fit(X, 18, weights=weights, size_min=2, size_max=5, init=X[:18] + 0.25, max_iter=2)
    assert kept(model)
    check_optimal(model, X, weights.astype(float))


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_step_is_a_best_assignment(data):
    seed = data.draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    n_rows = data.draw(st.integers(1, 70))
    n_clusters = data.draw(st.integers(1, min(n_rows, 30)))
    size_min = data.draw(st.integers(1, n_rows // n_clusters))
    size_max = data.draw(st.integers(-(-n_rows // n_clusters), n_rows))
    # Few different values: many rows are equal, and many distances.
    X = rng.integers(0, data.draw(st.sampled_from([2, 4, 1000])), (n_rows, 3)).astype(float)
    weights = data.draw(st.sampled_from([None, rng.integers(0, 3, n_rows) + (rng.random() > 0.5)]))
    if weights is not None and not weights.any():
        weights = None
    model = fit(
        csr(X),
        n_clusters,
        weights=weights,
        size_min=size_min,
        size_max=size_max,
        init=X[:n_clusters] + 0.25,
        max_iter=data.draw(st.integers(1, 3)),
        memory_limit=data.draw(st.sampled_from([None, 1])),
    )
    assert kept(model)
    check_optimal(model, X, None if weights is None else weights.astype(float))


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in REAL), *NAMES]
)
def test_bounds_are_never_broken(name, bounds, real_data):
    X = csr(problem(name)[0]) if name in NAMES else real_data(name)
    n_clusters = 12 if name in NAMES else 40
    for metric in ESTIMATORS:
        given = bounds_for(bounds, X.shape[0], n_clusters)
        model = fit(X, n_clusters, metric, zero_rows="first", max_iter=10, **given)
        assert kept(model), (metric, sizes(model.labels_, n_clusters))


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_cost_falls_from_iteration_to_iteration(metric):
    X = csr(rows_of("text", metric))
    model = fit(X, 20, metric, size_min=20, size_max=36, tol=0)
    costs = [record.cost for record in model.history_]
    assert np.all(np.diff(costs) <= 1e-9 * costs[0])
    assert model.converged_
    assert {record.algorithm for record in model.history_} == {"bounded"}


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_bounds_that_do_not_matter_change_nothing(metric):
    X = csr(rows_of("text", metric))
    plain = fit(X, 8, metric)
    bounded = fit(X, 8, metric, size_min=1, size_max=X.shape[0])
    assert same(bounded.labels_, plain.labels_)
    assert same(dense(bounded.cluster_centers_), dense(plain.cluster_centers_))


def test_weights_weigh_the_cost_and_rows_fill_the_clusters():
    X = np.array([[0.0], [0.1], [0.2], [10.0]])
    # The heavy row stays, the lighter ones make room.
    model = fit(X, 2, weights=np.array([9.0, 1.0, 1.0, 1.0]), init=[[0.0], [10.0]], size_max=2)
    assert model.labels_.tolist() == [0, 0, 1, 1]
    model = fit(X, 2, weights=np.array([1.0, 1.0, 9.0, 1.0]), init=[[0.2], [10.0]], size_max=2)
    assert model.labels_[2] == 0
    assert sizes(model.labels_, 2).tolist() == [2, 2]


def test_weighted_rows_are_assigned_at_the_lowest_cost():
    X = rows_of("text")[:80]
    weights = weights_for(len(X))
    model = fit(csr(X), 9, weights=weights, size_min=7, size_max=10, tol=0)
    assert kept(model)
    check_optimal(model, X, weights)


# --- ties ----------------------------------------------------------------------------------------


def test_equal_rows_are_shared_out():
    X = np.ones((50, 3))
    with pytest.warns(ConvergenceWarning, match="several begin at the same center"):
        model = KMeans(4, size_min=10, size_max=13, random_state=0).fit(X)
    assert kept(model)
    assert model.inertia_ == 0
    assert np.array_equal(model.predict(X), np.zeros(50))


def test_clusters_that_begin_at_the_same_center_are_warned_of_once():
    X = np.repeat(np.eye(3), 20, axis=0)
    with pytest.warns(ConvergenceWarning) as caught:
        model = KMeans(5, random_state=0, size_min=5).fit(X)
    assert model.n_clusters_ == 5
    assert [str(one.message) for one in caught] == [
        "Found only 3 centers for 5 clusters: X has too few distinct rows. With size_min or "
        "size_max all 5 are kept, and several begin at the same center."
    ]


def test_few_distinct_rows_fill_many_clusters():
    X = np.repeat(np.eye(3), [40, 15, 5], axis=0)
    model = fit(csr(X), 24, size_max=4)
    assert kept(model)


@pytest.mark.parametrize("n_clusters", [5, 30])
def test_rows_without_direction_go_where_there_is_room(n_clusters):
    X = rows_of("text", "cosine")[:100].copy()
    X[::3] = 0
    model = fit(csr(X), n_clusters, "cosine", zero_rows="first", size_max=120 // n_clusters)
    assert kept(model)
    lengths = np.linalg.norm(dense(model.cluster_centers_), axis=1)
    np.testing.assert_allclose(lengths, 1)


# --- the same for all ----------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ESTIMATORS)
@pytest.mark.parametrize("name", ["text", "grid", "many"])
def test_threads_change_nothing(name, metric, threads_for_little_work):
    X = csr(rows_of(name, metric))
    given = bounds_for("both", X.shape[0], 40)
    models = [fit(X, 40, metric, n_threads=n, **given) for n in (1, 2, 5)]
    assert same(fitted(models[1]), fitted(models[0]))
    assert same(fitted(models[2]), fitted(models[0]))


@pytest.mark.slow
def test_many_rows_in_few_clusters_are_shared_out(threads_for_little_work):
    X = csr(np.random.default_rng(0).exponential(size=(10_500, 2)) ** 4)
    models = [fit(X, 60, size_max=190, max_iter=2, n_threads=n) for n in (1, 3)]
    assert kept(models[0])
    assert sizes(fit(X, 60, max_iter=1).labels_, 60).max() > 10 * 190
    assert same(fitted(models[1]), fitted(models[0]))


@pytest.mark.parametrize("name", ["text", "grid"])
def test_simd_levels_change_nothing(name, simd, monkeypatch):
    X = csr(rows_of(name), np.float32)
    options = {**bounds_for("both", X.shape[0], 70), "max_iter": 5}
    found = fit(X, 70, **options)
    monkeypatch.delenv("SPARSECLUSTER_SIMD")
    assert same(fitted(found), fitted(fit(X, 70, **options)))


@pytest.mark.slow
def test_simd_levels_change_nothing_where_most_rows_have_to_move(simd, monkeypatch):
    X = csr(np.random.default_rng(0).exponential(size=(10_500, 2)) ** 4, np.float32)
    options = {"size_min": 100, "size_max": 160, "max_iter": 2}
    found = fit(X, 80, **options)
    monkeypatch.delenv("SPARSECLUSTER_SIMD")
    assert same(fitted(found), fitted(fit(X, 80, **options)))


def test_lists_and_tables_of_costs_give_an_optimum_of_the_same_cost():
    X = csr(rows_of("text"))
    step = {"init": dense(X)[:30], "max_iter": 1, **bounds_for("both", X.shape[0], 30)}
    costs = [fit(X, 30, memory_limit=limit, **step).history_[0].cost for limit in (None, 1)]
    assert np.isclose(*costs, rtol=1e-9)


def test_predict_gives_nearest_centers():
    X = rows_of("text")
    model = fit(csr(X), 10, size_max=len(X) // 10)
    nearest = cdist(X, dense(model.cluster_centers_)).argmin(axis=1)
    assert np.array_equal(model.predict(csr(X)), nearest)
    assert not np.array_equal(model.labels_, nearest)
    assert -model.score(csr(X)) < model.inertia_


def test_bounds_and_labels_are_saved(tmp_path):
    model = fit(csr(rows_of("text")), 10, size_min=20, size_max=70)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert (loaded.size_min, loaded.size_max, loaded.algorithm_) == (20, 70, "bounded")
    assert same(loaded.labels_, model.labels_)


def test_the_report_names_the_bounds(tmp_path):
    X = csr(rows_of("text"))
    fit(X, 10, size_min=20, size_max=70).report(tmp_path / "page.html", X)
    page = (tmp_path / "page.html").read_text()
    assert "20 to 70 rows in each cluster" in page
    assert "by nearest centers" in page
    assert "other data than" not in page


def test_several_runs_keep_the_cheapest():
    X = csr(rows_of("text"))
    costs = [fit(X, 15, size_max=45, init="random", n_init=n).inertia_ for n in (1, 4)]
    assert costs[1] <= costs[0]


# --- what cannot be ------------------------------------------------------------------------------

REFUSED = [
    ({"size_min": 0}, "size_min must be an integer of at least 1"),
    ({"size_max": -3}, "size_max must be an integer of at least 1"),
    ({"size_max": 2.5}, "size_max must be an integer"),
    ({"size_min": True}, "size_min must be an integer"),
    ({"size_min": "many"}, "size_min must be an integer"),
    ({"size_min": 9, "size_max": 8}, "size_min=9 is larger than size_max=8"),
    ({"size_min": 13}, "size_min=13 is too large: 8 clusters would need 104 rows, and X has 100"),
    ({"size_max": 12}, "size_max=12 is too small: 8 clusters would hold 96 rows, and X has 100"),
    ({"size_max": 20, "algorithm": "elkan"}, "algorithm='elkan' cannot be combined with size_min"),
    ({"size_min": 2, "refine": "first-variation"}, "refine='first-variation' cannot be combined"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_what_cannot_be_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        KMeans(8, **options).fit(rows_of("text")[:100])


def test_batches_have_no_bounds():
    with pytest.raises(TypeError, match="size_max"):
        MiniBatchKMeans(3, size_max=10)


def test_bounds_may_be_numpy_integers_and_just_fit():
    X = sp.csr_array(rows_of("text")[:100])
    assert kept(fit(X, 8, size_min=np.int64(12), size_max=np.int32(13)))


@pytest.mark.parametrize("offset", [1e3, 1e5])
def test_far_from_the_origin_an_assignment_is_still_the_best(offset):
    """There the kernels cannot tell which of more than 48 clusters are the nearest ones."""
    X = np.random.default_rng(0).random((500, 2)).round(3)
    model = KMeans(50, size_max=10, init=X[:50] + offset, tol=0).fit(X + offset)
    costs = cdist(X + offset, model.cluster_centers_, "sqeuclidean")
    rows, places = linear_sum_assignment(np.repeat(costs, 10, axis=1))
    assert np.isclose(model.inertia_, costs[rows, places // 10].sum(), rtol=1e-6)
