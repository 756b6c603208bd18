"""Mini-batch k-means: streams and batches against the oracle, nested batches, sparse centers."""

import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from support.data import LAYOUTS, NAMES, csr, dense, directions, problem, weights_for
from support.marks import slow_except
from support.oracle import cost, nearest

from sparsecluster import KMeans, MiniBatchKMeans, project_l1
from sparsecluster.kmeans.nested import NestedBatches
from sparsecluster.rows.rows import as_rows


class Oracle:
    """Sculley's algorithm 1 in dense numpy: a center is the mean of all rows that it has seen."""

    def __init__(self, centers, metric="euclidean"):
        self.metric = metric
        self.centers = np.array(centers, dtype=np.float64)
        self.sums = np.zeros_like(self.centers)
        self.counts = np.zeros(len(centers))

    def learn(self, X, weights=None):
        weights = np.ones(len(X)) if weights is None else weights
        labels = nearest(X, self.centers)
        loss = cost(X, self.centers, labels, weights)
        if self.metric == "cosine":
            weights = weights * np.any(X, axis=1)  # without direction, without a say
        for x, weight, k in zip(X, weights, labels, strict=True):
            self.sums[k] += weight * x
            self.counts[k] += weight
        for k in np.unique(labels[weights > 0]):
            if self.metric == "euclidean":
                self.centers[k] = self.sums[k] / self.counts[k]
            elif np.linalg.norm(self.sums[k]) > 0:
                self.centers[k] = directions(self.sums[k])
        return labels, loss


def stream_of(centers, **options):
    return MiniBatchKMeans(
        len(centers), **{"init": centers, "reassignment_ratio": 0, "n_threads": 1} | options
    )


def quietly(km, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(*args, **kwargs)


# --- streams -------------------------------------------------------------------------------------


# How the sums of a stream are kept: as a table, or as rows and lists where there is little memory.
KEPT = pytest.mark.parametrize("memory_limit", [None, 1000], ids=["table", "lists"])


@KEPT
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("name", NAMES)
def test_every_batch_equals_the_oracle(name, metric, dtype, weighted, memory_limit):
    X, centers = problem(name, dtype)
    if metric == "cosine":
        X = directions(X).astype(dtype).astype(float)
        centers = directions(np.where(np.any(centers, axis=1, keepdims=True), centers, 1.0))
    weights = weights_for(len(X)) if weighted else None
    oracle = Oracle(centers, metric)
    km = stream_of(centers, metric=metric, zero_rows="first", memory_limit=memory_limit)
    for begin, end in ((0, 1), (1, 60), (60, 61), (61, 300), (300, len(X)), (0, len(X))):
        part = slice(begin, end)
        share = None if weights is None else weights[part]
        if share is not None and not share.any():
            continue
        labels, loss = oracle.learn(X[part], share)
        km.partial_fit(csr(X[part], dtype), sample_weight=share)
        np.testing.assert_array_equal(km.labels_, labels)
        np.testing.assert_allclose(dense(km.cluster_centers_), oracle.centers, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(km.counts_, oracle.counts, rtol=1e-12)
        assert km.inertia_ == pytest.approx(loss, rel=1e-7, abs=1e-9)


@KEPT
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 7, 600])
def test_layout_and_batch_size_make_no_difference_to_the_oracle(layout, batch, simd, memory_limit):
    X, centers = problem("text", "float32")
    oracle = Oracle(centers)
    km = stream_of(centers, memory_limit=memory_limit)
    for begin in range(0, 140 if batch == 1 else len(X), batch):
        labels, _ = oracle.learn(X[begin : begin + batch])
        km.partial_fit(LAYOUTS[layout](X[begin : begin + batch], "float32"))
        np.testing.assert_array_equal(km.labels_, labels)
    np.testing.assert_allclose(dense(km.cluster_centers_), oracle.centers, atol=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_long_stream_of_signed_values_does_not_drift(metric):
    # The sums grow and shrink again: running norms must not keep what was taken away.
    rng = np.random.default_rng(0)
    centers = directions(rng.normal(size=(6, 12)))
    oracle, km = Oracle(centers, metric), stream_of(centers, metric=metric)
    for step in range(120):
        X = rng.normal(size=(25, 12)) * 10.0 ** rng.integers(-3, 4)
        X = np.concatenate([X, -X]) if step % 2 else X
        X = directions(X) if metric == "cosine" else X
        labels, _ = oracle.learn(X)
        np.testing.assert_array_equal(km.partial_fit(csr(X)).labels_, labels)
    np.testing.assert_allclose(dense(km.cluster_centers_), oracle.centers, rtol=1e-7, atol=1e-10)


STREAMS = [
    {},
    {"memory_limit": 1000},
    {"center_l1": 2.0},
    {"metric": "cosine", "memory_limit": 1000},
]


@pytest.mark.parametrize("options", slow_except(STREAMS[3:], STREAMS))
def test_stream_is_the_same_for_any_number_of_threads(options):
    X = sp.random(6000, 5000, density=0.01, format="csr", random_state=0, dtype=np.float32)
    found = []
    for n_threads in (1, 2, 5):
        km = MiniBatchKMeans(40, random_state=0, n_threads=n_threads, zero_rows="first", **options)
        for begin in range(0, 6000, 1500):
            km.partial_fit(X[begin : begin + 1500])
        found.append((km.labels_, km.inertia_, km.cluster_centers_))
    for labels, inertia, centers in found[1:]:
        np.testing.assert_array_equal(labels, found[0][0])
        assert inertia == found[0][1]
        np.testing.assert_array_equal(centers.data, found[0][2].data)
        np.testing.assert_array_equal(centers.indices, found[0][2].indices)


@KEPT
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_pickled_stream_goes_on_to_the_bit(metric, memory_limit):
    X = csr(problem("text")[0])
    options = {"metric": metric, "zero_rows": "first", "memory_limit": memory_limit}
    one = MiniBatchKMeans(9, random_state=0, **options)
    for begin in range(0, 300, 50):
        one.partial_fit(X[begin : begin + 50])
    other = pickle.loads(pickle.dumps(one))
    for km in (one, other):
        for begin in range(300, 600, 50):
            km.partial_fit(X[begin : begin + 50])
    np.testing.assert_array_equal(one.labels_, other.labels_)
    np.testing.assert_array_equal(one.cluster_centers_.data, other.cluster_centers_.data)
    assert one.inertia_ == other.inertia_


def test_partial_fit_goes_on_after_fit():
    X, _ = problem("text")
    km = MiniBatchKMeans(8, random_state=0).fit(csr(X))
    oracle = Oracle(dense(km.cluster_centers_))
    oracle.counts = np.bincount(km.labels_, minlength=8).astype(float)
    oracle.sums = oracle.centers * oracle.counts[:, None]
    np.testing.assert_array_equal(km.counts_, oracle.counts)
    labels, _ = oracle.learn(X[:50])
    km.set_params(reassignment_ratio=0).partial_fit(csr(X[:50]))
    np.testing.assert_array_equal(km.labels_, labels)
    np.testing.assert_allclose(dense(km.cluster_centers_), oracle.centers, atol=1e-9)


@pytest.mark.parametrize("weights", [None, [0.0, 1.0, 1.0]], ids=["alike", "weighted"])
def test_opposite_rows_have_no_direction_and_the_first_stands_for_them(weights):
    x = directions(np.arange(1.0, 8.0))
    X = np.array([np.eye(7)[4], x, -x])
    km = stream_of(np.eye(7)[:1], metric="cosine")
    if weights is None:
        km.partial_fit(X[1:])
    else:
        km.partial_fit(X, sample_weight=np.array(weights))
    np.testing.assert_allclose(km.cluster_centers_, [x], atol=1e-12)


def test_shifts_of_a_stream_are_what_the_centers_moved():
    rng = np.random.default_rng(0)
    for metric in ("euclidean", "cosine"):
        X = directions(rng.normal(size=(60, 9)))
        X[30:] = -X[:30]  # all is taken back
        centers = directions(rng.normal(size=(4, 9)))
        stream = stream_of(centers, metric=metric).partial_fit(csr(X[:5]))._stream
        for begin in range(5, 60, 5):
            before = stream.centers.toarray()
            rows = as_rows(csr(X[begin : begin + 5]), n_threads=1)
            shift = stream.learn(rows, None, 1).shift
            moved = np.square(stream.centers.toarray() - before).sum()
            assert shift == pytest.approx(moved, rel=1e-6, abs=1e-12)


def test_weight_two_is_the_row_twice():
    X, centers = problem("text")
    weighted = stream_of(centers).partial_fit(csr(X[:200]), sample_weight=np.full(200, 2.0))
    twice = stream_of(centers).partial_fit(csr(np.repeat(X[:200], 2, axis=0)))
    np.testing.assert_allclose(
        dense(weighted.cluster_centers_), dense(twice.cluster_centers_), atol=1e-12
    )
    np.testing.assert_array_equal(weighted.counts_, twice.counts_)


def test_starved_centers_are_put_where_rows_are():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) + 50])
    rng.shuffle(X)
    far = np.array([[0.0, 0.0], [1e6, 1e6]])
    km = MiniBatchKMeans(2, init=far, random_state=0, reassignment_ratio=0.01)
    for begin in range(0, 600, 100):
        km.partial_fit(X[begin : begin + 100])
    assert np.abs(np.sort(km.cluster_centers_[:, 0]) - [0, 50]).max() < 10
    kept = MiniBatchKMeans(2, init=far, random_state=0, reassignment_ratio=0)
    for begin in range(0, 600, 100):
        kept.partial_fit(X[begin : begin + 100])
    np.testing.assert_array_equal(kept.cluster_centers_[1], far[1])


# --- streams: growing vocabularies ---------------------------------------------------------------


# A table of the sums has room for none, for 70, or for all of the features.
@pytest.mark.parametrize("memory_limit", [1000, 4 * 8 * 8 * 70, None])
def test_batches_with_more_features_equal_batches_that_had_them_all_along(memory_limit):
    X, _ = problem("text")
    X = X[:, np.argsort(np.count_nonzero(X, axis=0))[::-1]]
    grown = MiniBatchKMeans(5, random_state=0, grow_features=True, memory_limit=memory_limit)
    wide = MiniBatchKMeans(5, random_state=0)
    for begin, width in ((0, 40), (100, 40), (200, 90), (300, 60), (400, X.shape[1])):
        part = np.array(X[begin : begin + 100])
        part[:, width:] = 0
        wide.partial_fit(csr(part))
        grown.partial_fit(csr(part[:, :width]))
        np.testing.assert_array_equal(grown.labels_, wide.labels_)
    assert grown.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(dense(grown.cluster_centers_), dense(wide.cluster_centers_))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prediction_takes_narrower_and_wider_rows_where_features_grow(layout):
    X, _ = problem("text")
    km = MiniBatchKMeans(5, random_state=0, grow_features=True).partial_fit(csr(X[:, :100]))
    make = LAYOUTS[layout]
    known = np.where(np.arange(150) < 100, X, 0)
    np.testing.assert_array_equal(
        km.predict(make(X, "float64")), km.predict(make(known, "float64"))
    )
    narrow = np.where(np.arange(100) < 60, X[:, :100], 0)
    np.testing.assert_array_equal(
        km.predict(make(X[:, :60], "float64")), km.predict(make(narrow, "float64"))
    )
    assert km.n_features_in_ == 100
    assert km.cluster_centers_.shape == (5, 100)


# --- streams: bad input --------------------------------------------------------------------------

X_OK = csr(problem("text")[0][:200])


def spoiled(value):
    X = X_OK.copy()
    X.data[17] = value
    return X


@pytest.mark.parametrize(
    ("batch", "weights", "message"),
    [
        (spoiled(np.nan), None, "NaN: row"),
        (spoiled(np.inf), None, "infinity: row"),
        (spoiled(1e120), None, "do not add up"),
        (X_OK[:, :149], None, "149 features"),
        (X_OK[:0], None, "0 sample"),
        (X_OK, -np.ones(200), "egative"),
        (X_OK, np.ones(199), "sample_weight.shape"),
        (X_OK, np.zeros(200), "zero"),
        ([["a"]], None, "could not convert"),
    ],
    ids=["NaN", "inf", "huge", "columns", "empty", "negative", "short", "zero", "text"],
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_refused_batch_changes_nothing(batch, weights, message, first):
    km = MiniBatchKMeans(6, random_state=0)
    if first and "149" in message:
        pytest.skip("a first batch may have any columns")
    expected = MiniBatchKMeans(6, random_state=0)
    if not first:
        km.partial_fit(X_OK)
        expected.partial_fit(X_OK)
    with pytest.raises(ValueError, match=message):
        km.partial_fit(batch, sample_weight=weights)
    for one in (km, expected):
        one.partial_fit(X_OK[:150])
    np.testing.assert_array_equal(km.labels_, expected.labels_)
    np.testing.assert_array_equal(km.cluster_centers_.data, expected.cluster_centers_.data)
    assert km.n_steps_ == expected.n_steps_


def test_rows_wait_until_there_are_enough():
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(10, random_state=0)
    for begin in (0, 4):
        with pytest.warns(UserWarning, match="more .different ones. are needed"):
            km.partial_fit(X[begin : begin + 4])
        assert not hasattr(km, "cluster_centers_")
    with pytest.raises(NotFittedError, match="8 rows are kept"):
        km.predict(X)
    km.partial_fit(X[8:60])
    at_once = MiniBatchKMeans(10, random_state=0).partial_fit(X[:60])
    np.testing.assert_array_equal(km.cluster_centers_.data, at_once.cluster_centers_.data)
    assert km.counts_.sum() == 60


def test_equal_rows_wait_for_different_ones_and_keep_their_weight():
    eye = np.eye(5)
    km = MiniBatchKMeans(4, random_state=0)
    for _ in range(3):
        with pytest.warns(UserWarning, match="2 rows are kept, and 2 more"):
            km.partial_fit(csr(np.repeat(eye[:2], 50, axis=0)))
    km.partial_fit(csr(eye[2:]))
    assert km.n_clusters_ == 4
    assert km.counts_.sum() == 303


def test_init_size_is_waited_for():
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(5, init_size=100, random_state=0)
    with pytest.warns(UserWarning, match="60 rows are kept, and 40 more"):
        km.partial_fit(X[:60])
    assert km.partial_fit(X[60:110]).counts_.sum() == 110


def test_what_waits_is_a_copy():
    X = np.eye(6)
    km = MiniBatchKMeans(4, random_state=0)
    with pytest.warns(UserWarning, match="are needed"):
        km.partial_fit(X[:2])
    X[:2] = 0
    km.partial_fit(np.eye(6)[2:])
    assert np.count_nonzero(km.cluster_centers_) >= 4


def test_dense_batches_give_dense_centers():
    X, _ = problem("blobs")
    km = MiniBatchKMeans(7, random_state=0)
    for begin in range(0, 600, 100):
        km.partial_fit(X[begin : begin + 100])
    assert isinstance(km.cluster_centers_, np.ndarray)
    np.testing.assert_array_equal(km.predict(X), nearest(X, km.cluster_centers_))


# --- fit -----------------------------------------------------------------------------------------


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


# --- sparse centers ------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", ["exact", "epsilon"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_centers_stay_in_the_ball(schedule, projection):
    X = csr(directions(problem("text")[0]))
    km = MiniBatchKMeans(
        6, schedule=schedule, batch_size=100, center_l1=1.2, projection=projection, random_state=0
    ).fit(X)
    sizes = abs(km.cluster_centers_).sum(axis=1)
    assert np.all(sizes <= 1.2 * (1.01 if projection == "epsilon" else 1) * (1 + 1e-12))
    free = MiniBatchKMeans(6, schedule=schedule, batch_size=100, random_state=0).fit(X)
    assert km.cluster_centers_.nnz < free.cluster_centers_.nnz / 2
    np.testing.assert_array_equal(km.labels_, nearest(X.toarray(), dense(km.cluster_centers_)))


def test_stream_projects_as_the_paper_says():
    X, centers = problem("text")
    km = stream_of(centers, center_l1=1.0, projection="exact")
    expected = project_l1(centers, 1.0)
    counts = np.zeros(len(centers))
    for begin in range(0, 600, 100):
        part = X[begin : begin + 100]
        labels = nearest(part, expected)
        for k in np.unique(labels):
            rows = part[labels == k]
            total = expected[k] * counts[k] + rows.sum(axis=0)
            counts[k] += len(rows)
            expected[k] = project_l1(total / counts[k], 1.0)
        km.partial_fit(csr(part))
        np.testing.assert_array_equal(km.labels_, labels)
        np.testing.assert_allclose(dense(km.cluster_centers_), expected, atol=1e-9)


def test_nested_centers_are_the_projected_means():
    X, _ = problem("text")
    km = MiniBatchKMeans(
        5, batch_size=100, center_l1=0.8, projection="exact", tol=0, random_state=0
    ).fit(csr(X))
    for k in range(5):
        mean = X[km.labels_ == k].mean(axis=0)
        np.testing.assert_allclose(dense(km.cluster_centers_)[k], project_l1(mean, 0.8), atol=1e-12)
    costs = [record.cost for record in km.history_ if record.rows == 600]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(costs))
    assert km.history_[-1].cost == pytest.approx(km.inertia_, rel=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_as_many_entries_as_asked_for(schedule, metric):
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(
        6, schedule=schedule, metric=metric, batch_size=100, center_nnz=7, random_state=0,
        zero_rows="first",
    ).fit(X)  # fmt: skip
    assert np.diff(km.cluster_centers_.indptr).max() == 7
    if metric == "cosine":
        lengths = np.sqrt(km.cluster_centers_.power(2).sum(axis=1))
        np.testing.assert_allclose(lengths, 1, atol=1e-12)
    np.testing.assert_array_equal(km.labels_, km.predict(X))


def test_largest_entries_are_kept_and_of_equals_the_first():
    X = csr(np.array([[1.0, 3.0, -2.0, 2.0, 0.5]]))
    km = MiniBatchKMeans(1, center_nnz=2).partial_fit(X)
    np.testing.assert_array_equal(dense(km.cluster_centers_), [[0, 3, -2, 0, 0]])


@pytest.mark.parametrize("projection", ["exact", "epsilon"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_directions_stay_in_the_ball_and_at_unit_length(schedule, projection):
    X = csr(directions(np.abs(problem("text")[0]) + 1e-3))
    km = MiniBatchKMeans(
        4, metric="cosine", schedule=schedule, batch_size=100, center_l1=2.0, projection=projection,
        random_state=0,
    ).fit(X)  # fmt: skip
    centers = dense(km.cluster_centers_)
    assert np.all(
        np.abs(centers).sum(axis=1) <= 2.0 * (1.01 if projection == "epsilon" else 1 + 1e-9)
    )
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(km.labels_, km.predict(X))
    assert km.inertia_ == pytest.approx(-km.score(X), rel=1e-9)


def test_directions_within_the_ball_are_not_projected_again_by_every_batch():
    X = csr(directions(np.abs(problem("text")[0]) + 1e-3))
    scores = []
    for batch in (600, 10):
        km = MiniBatchKMeans(3, metric="cosine", center_l1=3.0, init=X[:3], reassignment_ratio=0)
        for begin in range(0, 600, batch):
            km.partial_fit(X[begin : begin + batch])
        scores.append(km.score(X))
    assert scores[1] > 1.1 * scores[0]


# --- what a review found --------------------------------------------------------------------------


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


def test_weights_that_wait_are_a_copy():
    X, weights = problem("text")[0], np.ones(3)
    km = MiniBatchKMeans(5, random_state=0)
    with pytest.warns(UserWarning, match="are needed"):
        km.partial_fit(csr(X[:3]), sample_weight=weights)
    weights[:] = 100
    assert km.partial_fit(csr(X[3:50]), sample_weight=np.ones(47)).counts_.sum() == 50


def test_rows_without_weight_or_direction_are_waited_past():
    km = MiniBatchKMeans(3, metric="cosine", zero_rows="first", random_state=0)
    with pytest.warns(UserWarning, match="are needed"):
        km.partial_fit(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]))
    assert km.partial_fit(np.eye(3)).n_clusters_ == 3


def test_stream_goes_on_after_a_fit_whose_rows_cancel():
    X = np.array([[1.0], [-1.0]])
    km = quietly(MiniBatchKMeans(1, metric="cosine", max_iter=1, random_state=0), X)
    assert np.abs(km.partial_fit(X).cluster_centers_).sum() == 1


def test_changed_parameters_are_refused_by_a_stream():
    km = MiniBatchKMeans(3, random_state=0).partial_fit(X_OK)
    for change in ({"metric": "cosine"}, {"n_clusters": 5}, {"center_l1": 1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(change))} changed"):
            pickle.loads(pickle.dumps(km)).set_params(**change).partial_fit(X_OK)


def test_names_keep_their_columns_when_features_grow():
    X = np.abs(problem("text")[0])
    km = MiniBatchKMeans(2, grow_features=True, random_state=0)
    km.partial_fit(pd.DataFrame(X[:, :3], columns=list("abc")))
    with pytest.raises(ValueError, match="not those of before"):
        km.partial_fit(pd.DataFrame(X[:, :3], columns=list("cba")))
    km.partial_fit(pd.DataFrame(X[:, :5], columns=list("abcde")))
    assert {term for terms in km.top_terms(5) for term in terms} <= {"a", "b", "c", "x3", "x4"}


def test_streams_of_several_threads_do_not_corrupt_each_other():
    X = sp.random(400, 3000, density=0.02, format="csr", random_state=0)
    km = MiniBatchKMeans(10, random_state=0, memory_limit=1000, n_threads=1).partial_fit(X)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: km.partial_fit(X) and km.predict(X), range(40)))
    assert km.counts_.sum() >= 41 * 400


# --- parameters ----------------------------------------------------------------------------------


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
