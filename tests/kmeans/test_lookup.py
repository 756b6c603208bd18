"""Predictions from a large model in a file: the same labels, from a small part of it."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import sparsecluster.kmeans.lookup as lookup
from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans, load_model


def wide(n_rows=3000, n_features=20_000, per_row=40, seed=0):
    rng = np.random.RandomState(seed)
    columns = (n_features * rng.rand(n_rows * per_row) ** 3).astype(np.int32)
    rows = np.repeat(np.arange(n_rows), per_row)
    values = rng.rand(len(rows)).astype(np.float32)
    X = sp.csr_array((values, (rows, columns)), shape=(n_rows, n_features))
    X.sum_duplicates()
    return X


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(lookup, "LARGE", 0)
    monkeypatch.setattr(lookup, "WORTH_IT", 1)


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans, MiniBatchKMeans])
def test_labels_are_those_of_the_model(tmp_path, estimator, everything_is_large):
    X = wide()
    model = estimator(n_clusters=60, random_state=0, max_iter=5, tol=1).fit(X)
    model.save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    found = [loaded._looked_up(loaded._points(X[i : i + 7])) for i in range(0, 3000, 7)]
    assert sum(one is not None for one in found) > 100
    expected = model.predict(X)
    for i, one in zip(range(0, 3000, 7), found, strict=True):
        if one is not None:
            assert np.array_equal(one, expected[i : i + 7])


def test_ties_go_to_the_lowest_index(tmp_path, everything_is_large):
    centers = sp.csr_array(np.eye(6)[[3, 1, 1, 0, 5, 0]] * 2.0)
    X = sp.csr_array(np.eye(6)[[0, 1, 5, 3, 2]])
    model = KMeans(6, init=centers, max_iter=1, tol=1e9)
    model.fit(sp.csr_array(np.eye(6)))
    model.cluster_centers_ = centers
    model.save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    rows = loaded._points(X)
    assert loaded._looked_up(rows).tolist() == model.predict(X).tolist() == [3, 1, 4, 0, 0]


def test_a_row_without_known_features_goes_to_the_shortest_center(tmp_path, everything_is_large):
    centers = sp.csr_array(np.diag([3.0, 1.0, 2.0, 0.0])[:3])
    model = KMeans(3, init=centers, max_iter=1, tol=1e9).fit(centers)
    model.save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    assert loaded.predict(sp.csr_array([[0, 0, 0, 5.0], [0, 0, 0, 0]])).tolist() == [1, 1]


def test_a_few_rows_read_a_few_features(tmp_path, monkeypatch):
    monkeypatch.setattr(lookup, "LARGE", 50_000)
    X = wide(n_rows=8000, n_features=60_000)
    model = KMeans(100, random_state=0, max_iter=1, tol=1e9, init="random").fit(X)
    assert model.cluster_centers_.nnz > lookup.LARGE
    model.save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    lists = loaded._by_feature
    needed = np.zeros(len(lists.values), dtype=bool)
    for feature in np.unique(X[:3].indices):
        needed[lists.indptr[feature] : lists.indptr[feature + 1]] = True
    assert 0 < needed.sum() < model.cluster_centers_.nnz / lookup.WORTH_IT
    # What is read besides would show.
    lists.values = np.where(needed, lists.values, np.nan)
    lists.clusters = np.where(needed, lists.clusters, -1)
    rows = loaded._points(X[:3])
    assert np.array_equal(loaded._looked_up(rows), model.predict(X[:3]))


def test_other_centers_make_the_lists_useless(tmp_path, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    KMeans(5, random_state=0).fit(X).save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    loaded.cluster_centers_ = sp.csr_array(loaded.cluster_centers_[::-1])
    assert np.array_equal(loaded.predict(X[:9]), 4 - KMeans(5, random_state=0).fit(X).labels_[:9])


def test_a_stream_that_goes_on_makes_the_lists_useless(tmp_path, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    model = MiniBatchKMeans(5, random_state=0).fit(X)
    model.save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    other = wide(n_rows=200, n_features=500, seed=1)
    loaded.partial_fit(other), model.partial_fit(other)
    assert np.array_equal(loaded.predict(X[:9]), model.predict(X[:9]))


def test_lists_survive_a_pickle(tmp_path, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    model = KMeans(5, random_state=0).fit(X)
    model.save(tmp_path / "m.st")
    copy = pickle.loads(pickle.dumps(load_model(tmp_path / "m.st")))
    assert copy._by_feature.of is copy.cluster_centers_
    assert np.array_equal(copy.predict(X[:9]), model.labels_[:9])


@pytest.mark.parametrize("name", ["indptr", "clusters"])
def test_damaged_lists_are_refused(tmp_path, name, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    KMeans(5, random_state=0).fit(X).save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    broken = getattr(loaded._by_feature, name).copy()
    broken[:], broken[::2] = 10**6, -5
    setattr(loaded._by_feature, name, broken)
    with pytest.raises(ValueError, match="damaged"):
        loaded.predict(X[:2])


def test_centers_that_can_be_changed_have_no_lists(tmp_path, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    KMeans(5, random_state=0).fit(X).save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st", mmap=False)
    rows = loaded._points(X[:2])
    assert loaded._looked_up(rows) is None


def test_arrays_longer_than_the_rows_are_no_part_of_them(tmp_path, everything_is_large):
    X = wide(n_rows=300, n_features=500)
    KMeans(5, random_state=0).fit(X).save(tmp_path / "m.st")
    loaded = load_model(tmp_path / "m.st")
    longer = X[:9].copy()
    longer.data, longer.indices = np.append(longer.data, [9.0]), np.append(longer.indices, [3])
    assert np.array_equal(loaded.predict(longer), loaded.predict(X[:9]))
