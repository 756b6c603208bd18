"""Huge and tiny values and weights: refused where squares or sums fail, exact elsewhere."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from support.data import csr
from support.machines import stored

from sparsecluster import (
    BisectingKMeans,
    ClusterTree,
    KMeans,
    MiniBatchKMeans,
    choose_k,
    seed_centers,
)
from sparsecluster.run.local import LocalExecutor

X = np.arange(12.0).reshape(4, 3)


def fit(matrix, n_clusters=2, *, sample_weight=None, **options):
    return KMeans(n_clusters, random_state=0, **options).fit(matrix, sample_weight=sample_weight)


@pytest.mark.parametrize("value", [1e160, -1e160, np.finfo(np.float64).max])
def test_value_too_large_to_square_is_named_with_its_row(value):
    bad = X.copy()
    bad[1, 2] = value
    with pytest.raises(ValueError, match=r"too large.*row 1"):
        fit(bad)


TINY = np.random.default_rng(0).random((60, 4))

FITS = {
    "KMeans": lambda X: KMeans(3, random_state=0).fit(X),
    "MiniBatchKMeans": lambda X: MiniBatchKMeans(3, random_state=0).fit(X),
    "partial_fit": lambda X: MiniBatchKMeans(3, random_state=0).partial_fit(X),
    "ClusterTree": lambda X: ClusterTree(metric="euclidean", random_state=0).fit(X),
    "BisectingKMeans": lambda X: BisectingKMeans(3, random_state=0).fit(X),
    "choose_k": lambda X: choose_k(X, [2, 3], random_state=0),
    "seed_centers": lambda X: seed_centers(X, 3, random_state=0),
}


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
@pytest.mark.parametrize("scale", [1e-150, 1e-165, 1e-300])
@pytest.mark.parametrize("name", FITS)
def test_values_too_small_to_square_are_refused(name, scale, make):
    with pytest.raises(ValueError, match=r"too small to square.*1e-140.*Scale the values first"):
        FITS[name](make(TINY * scale))


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_tiny_values_beside_others_and_zeros_alone_are_taken(make):
    mixed = TINY.copy()
    mixed[::2] *= 1e-200
    assert fit(make(mixed), 3).n_clusters_ == 3
    with pytest.warns(ConvergenceWarning, match="distinct"):
        assert fit(make(np.zeros((5, 2)))).n_clusters_ == 1


def test_small_values_that_can_be_squared_give_the_same_labels():
    small = np.ldexp(TINY, -440)
    assert np.array_equal(fit(small, 3).labels_, fit(TINY, 3).labels_)


def test_tiny_rows_are_taken_by_cosine_and_by_predict():
    assert fit(TINY * 1e-165, 3, metric="cosine").n_clusters_ == 3
    model = fit(TINY, 3)
    assert np.array_equal(model.predict(TINY * 1e-165), model.predict(TINY * 0))


def test_tiny_batches_are_taken_once_there_are_centers():
    km = MiniBatchKMeans(3, random_state=0).partial_fit(TINY)
    assert np.array_equal(km.partial_fit(TINY * 1e-165).labels_, km.predict(TINY * 0))


EXECUTED = {
    "KMeans": lambda X, workers: KMeans(3, random_state=0, executor=workers).fit(X),
    "MiniBatchKMeans": lambda X, workers: MiniBatchKMeans(3, random_state=0, executor=workers).fit(
        X
    ),
    "seed_centers": lambda X, workers: seed_centers(X, 3, random_state=0, executor=workers),
}


@pytest.mark.parametrize("name", EXECUTED)
def test_values_too_small_to_square_are_refused_by_workers(name, tmp_path):
    store = stored(tmp_path, TINY * 1e-150)
    with pytest.raises(ValueError, match=r"too small to square.*1e-140.*Scale the values first"):
        EXECUTED[name](store, LocalExecutor(2))


def test_workers_take_tiny_values_beside_others_and_score_any(tmp_path):
    mixed = TINY.copy()
    mixed[30:, 0] = 0
    mixed[:30, 0] *= 1e-200
    mixed[:30, 1:] = 0  # all that the first worker has
    km = KMeans(3, random_state=0, executor=LocalExecutor(2)).fit(stored(tmp_path, mixed))
    assert np.array_equal(km.labels_, fit(mixed, 3).labels_)
    assert km.score(stored(tmp_path, TINY * 1e-150, "tiny")) <= 0


def test_centers_too_large_to_square_are_refused():
    with pytest.raises(ValueError, match="init"):
        fit(X, init=np.full((2, 3), 1e200))


@pytest.mark.parametrize("init", ["k-means++", "random", X[:2]], ids=["greedy", "random", "given"])
def test_weights_whose_sum_is_infinite_are_refused(init):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="sample_weight"):
            fit(X, init=init, sample_weight=[1e308] * 4)


@pytest.mark.parametrize("weight", [1e-300, 1e-310, 5e-324])
def test_weights_too_small_for_sums_are_refused(weight):
    with pytest.raises(ValueError, match="sample_weight has values below 1e-100"):
        fit(X, sample_weight=np.full(len(X), weight))


@pytest.mark.parametrize("algorithm", ["auto", "lloyd", "hamerly", "elkan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_huge_value_leaves_the_labels_of_the_other_rows_exact(algorithm, dtype):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 10)).astype(dtype)
    values[7, 3] = 1e19
    start = values[[7, 0, 1, 2]].astype(np.float64)
    km = KMeans(4, init=start, algorithm=algorithm).fit(values)
    exact, centers = values.astype(np.longdouble), sp.csr_array(km.cluster_centers_).toarray()
    distance2 = ((exact[:, None] - centers[None]) ** 2).sum(axis=2)
    assert km.labels_.tolist() == distance2.argmin(axis=1).tolist()


def test_far_rows_are_decided_by_the_columns_in_which_centers_differ():
    km = KMeans(2, random_state=0).fit([[1e8, 0], [0, 1e-3]])
    km.cluster_centers_ = np.array([[0, 1e-3], [0, 0]])
    assert km.predict([[1e8, 0]]).tolist() == [1]
