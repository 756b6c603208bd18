"""What batches a stream takes: the first, which may wait; refused ones; those of more columns."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from support.batches import X_OK
from support.data import LAYOUTS, csr, dense, problem

from sparsecluster import MiniBatchKMeans


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
