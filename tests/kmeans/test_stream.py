"""A stream of batches against the oracle, from the first one on."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from support.batches import quietly, stream_of
from support.data import LAYOUTS, NAMES, csr, dense, directions, problem, weights_for
from support.levels import LEVELS
from support.marks import covering, slow_except
from support.oracle import cost, nearest

from sparsecluster import MiniBatchKMeans
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


# How the sums of a stream are kept: as a table, or as rows and lists where there is little memory.
KEPT = {"table": None, "lists": 1000}


@covering(
    strength=3,
    name=NAMES,
    metric=["euclidean", "cosine"],
    dtype=["float32", "float64"],
    weighted={"alike": False, "weighted": True},
    memory_limit=KEPT,
)
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


@covering(layout=list(LAYOUTS), batch=[1, 7, 600], simd=LEVELS, memory_limit=KEPT)
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


@pytest.mark.parametrize("memory_limit", KEPT.values(), ids=KEPT)
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


def test_dense_batches_give_dense_centers():
    X, _ = problem("blobs")
    km = MiniBatchKMeans(7, random_state=0)
    for begin in range(0, 600, 100):
        km.partial_fit(X[begin : begin + 100])
    assert isinstance(km.cluster_centers_, np.ndarray)
    np.testing.assert_array_equal(km.predict(X), nearest(X, km.cluster_centers_))


def test_stream_goes_on_after_a_fit_whose_rows_cancel():
    X = np.array([[1.0], [-1.0]])
    km = quietly(MiniBatchKMeans(1, metric="cosine", max_iter=1, random_state=0), X)
    assert np.abs(km.partial_fit(X).cluster_centers_).sum() == 1


def test_streams_of_several_threads_do_not_corrupt_each_other():
    X = sp.random(400, 3000, density=0.02, format="csr", random_state=0)
    km = MiniBatchKMeans(10, random_state=0, memory_limit=1000, n_threads=1).partial_fit(X)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: km.partial_fit(X) and km.predict(X), range(40)))
    assert km.counts_.sum() >= 41 * 400
