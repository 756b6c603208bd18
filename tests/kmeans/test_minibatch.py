"""Mini-batch k-means of rows at hand: nested batches and Sculley's, where they start and end."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from support.batches import X_OK, quietly
from support.data import NAMES, csr, dense, directions, problem, weights_for
from support.oracle import cost, nearest

from sparsecluster import KMeans, MiniBatchKMeans
from sparsecluster.kmeans.nested import NestedBatches


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
@pytest.mark.parametrize("name", NAMES)
def test_labels_are_those_of_the_nearest_centers(name, schedule, metric, weighted):
    X, _ = problem(name, "float32")
    weights = weights_for(len(X)) if weighted else None
    km = MiniBatchKMeans(
        12, schedule=schedule, metric=metric, batch_size=50, random_state=0, zero_rows="first"
    )
    quietly(km, csr(X, "float32"), sample_weight=weights)
    X = directions(X).astype("float32").astype(float) if metric == "cosine" else X
    centers = dense(km.cluster_centers_)
    np.testing.assert_array_equal(km.labels_, nearest(X, centers))
    np.testing.assert_array_equal(km.labels_, km.predict(csr(X, "float32")))
    assert km.inertia_ == pytest.approx(cost(X, centers, km.labels_, weights), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_fit_is_the_same_for_any_number_of_threads(schedule):
    X = sp.random(8000, 3000, density=0.01, format="csr", random_state=1, dtype=np.float32)
    fits = [
        MiniBatchKMeans(
            30, schedule=schedule, batch_size=500, random_state=0, n_threads=n, max_iter=20
        )
        for n in (1, 2, 5)
    ]
    for km in fits:
        quietly(km, X)
        np.testing.assert_array_equal(km.labels_, fits[0].labels_)
        np.testing.assert_array_equal(km.cluster_centers_.data, fits[0].cluster_centers_.data)
        assert km.inertia_ == fits[0].inertia_
        assert [r.cost for r in km.history_] == [r.cost for r in fits[0].history_]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("name", ["text", "counts", "blobs", "grid", "gaps"])
def test_nested_batches_end_where_nothing_moves(name, metric):
    X = csr(problem(name)[0])
    km = MiniBatchKMeans(
        6, metric=metric, batch_size=40, tol=0, random_state=0, zero_rows="first"
    ).fit(X)
    assert km.history_[-1].moved == 0
    assert km.history_[-1].rows == X.shape[0]
    again = clone(km).set_params(init=km.cluster_centers_, batch_size=X.shape[0], max_iter=1)
    np.testing.assert_array_equal(quietly(again, X).labels_, km.labels_)


@pytest.mark.parametrize("name", NAMES)
def test_one_batch_of_all_rows_is_k_means(name):
    X, centers = problem(name)
    options = {"n_clusters": len(centers), "init": centers, "max_iter": 30}
    one = quietly(MiniBatchKMeans(**options, batch_size=len(X)), csr(X))
    full = quietly(KMeans(**options), csr(X))
    np.testing.assert_array_equal(one.labels_, full.labels_)
    np.testing.assert_array_equal(one.cluster_centers_.data, full.cluster_centers_.data)
    assert one.n_iter_ == full.n_iter_


def test_nested_batches_double_and_each_holds_the_one_before():
    useful = np.arange(600) % 10 > 0
    batches = NestedBatches(50, np.random.RandomState(0), useful)
    assert batches.sizes == [50, 100, 200, 400, 600]
    assert sorted(batches.order) == list(range(600))
    assert useful[batches.order[:400]].all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_costs_of_the_history_are_those_of_the_rows_that_took_part(metric, weighted):
    X, _ = problem("text")
    X = X[np.any(X, axis=1)]
    weights = weights_for(len(X)) if weighted else None
    km = MiniBatchKMeans(5, metric=metric, batch_size=100, max_iter=1, random_state=3)
    quietly(km, csr(X), sample_weight=weights)
    record = km.history_[0]
    assert record.rows == 100
    useful = np.ones(len(X), dtype=bool) if weights is None else weights > 0
    order = NestedBatches(100, np.random.RandomState(3), useful).order[:100]
    X = directions(X[order]) if metric == "cosine" else X[order]
    weights = None if weights is None else weights[order]
    # After one iteration the centers are the means of what the first batch was assigned to, so no
    # other centers of these labels cost less.
    expected = cost(X, dense(km.cluster_centers_), nearest(X, dense(km.cluster_centers_)), weights)
    assert record.cost >= expected * (1 - 1e-12)
    assert record.cost < 1.5 * expected


def test_history_of_nested_batches_grows_to_all_rows():
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(5, batch_size=50, random_state=0).fit(X)
    rows = [record.rows for record in km.history_]
    assert rows[0] == 50
    assert rows == sorted(rows)
    assert rows[-1] == 600


def test_callback_ends_either_schedule():
    X = csr(problem("text")[0])
    for schedule in ("nested", "sculley"):
        km = MiniBatchKMeans(
            5, schedule=schedule, batch_size=50, random_state=0, callback=lambda r: r.iteration == 3
        ).fit(X)
        assert km.n_iter_ == 3
        np.testing.assert_array_equal(km.labels_, km.predict(X))


def test_sculley_stops_when_the_smoothed_cost_no_longer_falls():
    X = csr(problem("text")[0])
    options = {"schedule": "sculley", "batch_size": 100, "random_state": 0, "tol": 0}
    patient = MiniBatchKMeans(5, max_no_improvement=None, max_iter=40, **options).fit(X)
    hasty = MiniBatchKMeans(5, max_no_improvement=3, max_iter=40, **options).fit(X)
    assert patient.n_iter_ == 240
    assert hasty.n_iter_ < 240
    assert all(record.rows == 100 for record in patient.history_)


def test_every_pass_takes_each_row_once():
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(
        5, schedule="sculley", batch_size=70, max_iter=2, max_no_improvement=None,
        reassignment_ratio=0, random_state=0,
    ).fit(X)  # fmt: skip
    assert km.counts_.sum() == 1200
    assert km.n_iter_ == 18


def test_without_labels_the_cost_is_estimated():
    X = csr(directions(problem("text")[0]))
    options = {"schedule": "sculley", "batch_size": 200, "random_state": 0}
    labelled = MiniBatchKMeans(5, **options).fit(X)
    km = MiniBatchKMeans(5, compute_labels=False, **options).fit(X)
    assert not hasattr(km, "labels_")
    np.testing.assert_array_equal(km.cluster_centers_.data, labelled.cluster_centers_.data)
    assert km.inertia_ == pytest.approx(labelled.inertia_, rel=0.2)


@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_sample_with_too_few_different_rows_is_not_trusted(schedule):
    X = np.zeros((500, 20))
    X[::50] = np.eye(20)[:10]
    km = MiniBatchKMeans(8, schedule=schedule, batch_size=10, init_size=10, random_state=0)
    assert quietly(km, csr(X)).n_clusters_ == 8


def test_fewer_different_rows_than_clusters_are_said():
    X = csr(np.repeat(np.eye(3), 40, axis=0))
    with pytest.warns(ConvergenceWarning, match="distinct"):
        km = MiniBatchKMeans(5, random_state=0).fit(X)
    assert km.n_clusters_ == 3
    assert km.inertia_ == 0


def test_more_starts_do_not_start_worse():
    X = csr(problem("text")[0])
    options = {"init": "random", "max_iter": 1, "batch_size": 600, "random_state": 0}
    costs = [quietly(MiniBatchKMeans(10, n_init=n, **options), X).history_[0].cost for n in (1, 20)]
    assert costs[1] < costs[0]


def test_init_can_be_a_function():
    X, _ = problem("text")
    seen = []

    def first_rows(X, n_clusters, random_state):
        seen.append(X.shape)
        return X[:n_clusters]

    MiniBatchKMeans(4, init=first_rows, init_size=77, random_state=0).fit(csr(X))
    assert seen == [(77, 150)]


def test_start_is_drawn_from_all_rows():
    X = np.repeat(np.eye(5) * 10, 200, axis=0) + np.random.RandomState(0).rand(1000, 5) * 0.1
    for seed in range(5):
        assert MiniBatchKMeans(5, init_size=100, random_state=seed).fit(X).inertia_ < 10


def test_start_is_drawn_from_rows_that_have_weight():
    X, weights = np.arange(20.0)[:, None], np.array([0.0] * 18 + [1, 1])
    km = MiniBatchKMeans(2, random_state=0).fit(X, sample_weight=weights)
    np.testing.assert_array_equal(np.sort(km.cluster_centers_.ravel()), [18, 19])


def test_labels_are_those_of_predict_when_fit_ends_early():
    X = np.random.RandomState(0).randint(0, 4, size=(62, 1)).astype(float)
    for seed in range(30):
        km = MiniBatchKMeans(6, batch_size=40, init="random", max_iter=1, random_state=seed)
        quietly(km, X)
        np.testing.assert_array_equal(km.labels_, km.predict(X))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "nestd"}, "Did you mean 'nested'"),
        ({"metric": "cos"}, "metric"),
        ({"batch_size": 0}, "batch_size"),
        ({"init_size": -1}, "init_size"),
        ({"max_no_improvement": -1}, "max_no_improvement"),
        ({"reassignment_ratio": -0.1}, "reassignment_ratio"),
        ({"center_l1": 0}, "center_l1"),
        ({"center_l1": np.nan}, "center_l1"),
        ({"center_nnz": 0}, "center_nnz"),
        ({"center_nnz": 2.5}, "center_nnz"),
        ({"projection": "exakt"}, "Did you mean 'exact'"),
        ({"projection_epsilon": -1}, "projection_epsilon"),
        ({"projection_epsilon": np.inf}, "projection_epsilon"),
        ({"reassignment_ratio": 5}, "reassignment_ratio"),
        ({"grow_features": "no"}, "grow_features"),
        ({"metric": "cosine", "center_l1": 0.5}, "at least 1"),
        ({"zero_rows": "drop"}, "zero_rows"),
        ({"init": "spkm++"}, "cosine"),
        ({"n_clusters": 1000}, "n_clusters=1000"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_before_work(options, message):
    with pytest.raises(ValueError, match=message):
        MiniBatchKMeans(**options).fit(X_OK)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nested_batches_do_not_depend_on_the_unit_of_the_weights(metric):
    X = problem("unit", "float64")[0]
    fits = [
        quietly(
            MiniBatchKMeans(6, metric=metric, batch_size=40, zero_rows="first", random_state=0),
            csr(X),
            sample_weight=np.full(len(X), weight),
        )
        for weight in (1.0, 7.0)
    ]
    sizes = [[record.rows for record in km.history_] for km in fits]
    assert len(set(sizes[0])) > 2
    assert sizes[0] == sizes[1]
    assert np.array_equal(fits[0].labels_, fits[1].labels_)
