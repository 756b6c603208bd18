"""Rows mixed and sampled, and k-means on them, against plain numpy."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from support.data import csr

from sparsecluster import KMeans, Sparsification, SparsifiedKMeans, clustering_accuracy
from sparsecluster.embedding.mixing import Mixer, hadamard


def groups(n_rows=150, n_features=90, seed=0):
    """Three groups of sparse rows, and which one each row is of."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n_rows)
    X = np.where(rng.random((n_rows, n_features)) < 0.1, rng.random((n_rows, n_features)), 0)
    X[np.arange(n_rows), 5 * group] += 4
    return X, group


# --- mixing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 4, 8, 32, 256])
def test_transform_is_the_product_with_the_hadamard_matrix(length):
    X = np.random.default_rng(0).normal(size=(3, length))
    expected = X @ scipy.linalg.hadamard(length) / np.sqrt(length)
    np.testing.assert_allclose(hadamard(X), expected, rtol=1e-12, atol=1e-12)


@given(st.integers(1, 70), st.integers(0, 2**31 - 1))
def test_mixing_keeps_lengths_and_is_undone(n_features, seed):
    X = np.random.default_rng(seed).normal(size=(3, n_features))
    mixer = Mixer(seed, n_features)
    mixed = mixer.mix(sp.csr_array(X))
    assert mixed.shape == (3, mixer.length)
    np.testing.assert_allclose(np.square(mixed).sum(axis=1), np.square(X).sum(axis=1))
    np.testing.assert_allclose(mixer.unmix(mixed), X, atol=1e-12)


@pytest.mark.parametrize(("n_features", "n_drawn"), [(5, 3), (64, 10), (3000, 40)])
def test_entries_are_drawn_without_replacement_and_evenly(n_features, n_drawn):
    n_rows = 3000
    X = sp.csr_array(np.arange(1.0, n_rows + 1)[:, None])
    X.resize(n_rows, n_features)
    mixer = Mixer(0, n_features)
    drawn = mixer.draw(X, n_drawn)
    assert np.all(np.diff(drawn, axis=1) > 0)
    counts = np.bincount(drawn.ravel(), minlength=mixer.length)
    assert len(counts) == mixer.length
    expected = n_rows * n_drawn / mixer.length
    chance = (np.square(counts - expected) / expected).sum() / (1 - n_drawn / mixer.length)
    degrees = mixer.length - 1
    assert abs(chance - degrees) < 5 * np.sqrt(2 * degrees)


def test_sampled_entries_are_those_of_the_mixed_row():
    X = groups()[0]
    model = Sparsification(20, random_state=1).fit(X)
    found = model.transform(csr(X))
    mixed = Mixer(1, 90).mix(sp.csr_array(X))
    assert found.shape == (150, 128)
    assert np.all(np.diff(found.indptr) == 20)
    rows, columns = np.repeat(np.arange(150), 20), found.indices
    np.testing.assert_allclose(found.data, mixed[rows, columns], rtol=1e-12, atol=1e-14)


def test_draws_of_a_row_do_not_depend_on_place_type_or_stored_zeros():
    X = np.float32(groups()[0])
    model = Sparsification(20, random_state=1).fit(X)
    expected = model.transform(X)
    order = np.random.default_rng(0).permutation(150)
    moved = model.transform(csr(X[order], np.float64))
    with_zeros = csr(X, np.float32)
    with_zeros.data[::7] = 0
    without = with_zeros.copy()
    without.eliminate_zeros()
    assert np.array_equal(moved.indices.reshape(150, -1), expected.indices.reshape(150, -1)[order])
    assert (model.transform(with_zeros) != model.transform(without)).nnz == 0


def test_more_entries_than_there_are_are_refused():
    with pytest.raises(ValueError, match=r"n_components=129 .* has 128 after mixing"):
        Sparsification(129).fit(np.ones((3, 90)))


def test_too_large_a_result_is_refused_before_the_work():
    X = sp.csr_array((1_000_000, 2000), dtype=np.float64)
    for model in (Sparsification(1000, memory_limit="1GB"), SparsifiedKMeans(memory_limit="1GB")):
        with pytest.raises(ValueError, match="more than the memory limit of 1 GB"):
            model.set_params(n_components=1000).fit(X)


# --- k-means -------------------------------------------------------------------------------------


def lloyd(values, seen, centers, max_iter=100):
    """K-means over observed entries, as the paper writes it, row by row."""
    labels = None
    for _ in range(max_iter):
        apart = np.array([[(np.square(w - c) * m).sum() for c in centers]
                          for w, m in zip(values, seen, strict=True)])  # fmt: skip
        found = apart.argmin(axis=1)
        if labels is not None and np.array_equal(found, labels):
            return labels, centers
        labels, centers = found, centers.copy()
        for k in range(len(centers)):
            counts = seen[labels == k].sum(axis=0)
            sums = (values * seen)[labels == k].sum(axis=0)
            centers[k] = np.divide(sums, counts, out=np.zeros(len(counts)), where=counts > 0)
    return labels, centers


def test_clusters_are_those_of_the_loop_written_out(monkeypatch):
    X = groups()[0]
    sparse = Sparsification(25, random_state=2).fit_transform(X)
    seen = np.zeros(sparse.shape)
    seen[np.repeat(np.arange(150), 25), sparse.indices] = 1
    start = Mixer(2, 90).mix(sp.csr_array(X[[0, 1, 2]]))
    monkeypatch.setattr(
        "sparsecluster.embedding.sparsified.starting_centers", lambda *given: start.copy()
    )
    model = SparsifiedKMeans(3, n_components=25, random_state=2, tol=0).fit(X)
    labels, centers = lloyd(sparse.toarray(), seen, start)
    assert np.array_equal(model.labels_, labels)
    np.testing.assert_allclose(model.mixed_centers_, centers, rtol=1e-10, atol=1e-12)
    unmixed = Sparsification(25, random_state=2).fit(X).inverse_transform(centers)
    np.testing.assert_allclose(model.cluster_centers_, unmixed, rtol=1e-9, atol=1e-12)


def test_all_entries_give_plain_k_means():
    X = groups(n_features=64)[0]
    model = SparsifiedKMeans(3, n_components=64, random_state=0, tol=0).fit(X)
    plain = KMeans(3, init=model.cluster_centers_, tol=0).fit(X)
    assert np.array_equal(plain.labels_, model.labels_)
    assert model.inertia_ == pytest.approx(plain.inertia_, rel=1e-9)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)


def test_clear_groups_are_found_from_few_entries():
    X, group = groups()
    model = SparsifiedKMeans(3, n_components=40, n_init=5, random_state=0).fit(csr(X))
    assert clustering_accuracy(group, model.labels_) > 0.95
    means = np.array([X[model.labels_ == k].mean(axis=0) for k in range(3)])
    assert np.abs(model.cluster_centers_ - means).max() < 1


def test_cost_never_goes_up():
    X = groups()[0]
    costs = []
    for max_iter in range(1, 12):
        model = SparsifiedKMeans(5, n_components=20, max_iter=max_iter, tol=0, random_state=0)
        with pytest.warns() if max_iter == 1 else _quiet():
            costs.append(model.fit(X).inertia_)
    assert np.all(np.diff(costs) <= 1e-9 * costs[0])


def _quiet():
    import contextlib
    import warnings

    stack = contextlib.ExitStack()
    stack.enter_context(warnings.catch_warnings())
    warnings.simplefilter("ignore", ConvergenceWarning)
    return stack


def test_labels_are_those_that_predict_gives():
    X = groups()[0]
    for options in ({}, {"max_iter": 1}, {"n_init": 3}):
        with _quiet():
            model = SparsifiedKMeans(4, n_components=20, random_state=0, **options).fit(X)
        assert np.array_equal(model.predict(csr(X)), model.labels_)
        assert np.array_equal(model.predict(X[60:61]), model.labels_[60:61])


def test_rows_without_weight_do_not_count():
    X = groups()[0]
    weights = np.where(np.arange(150) % 4, 1.0, 0.0)
    X[weights == 0] += 100
    model = SparsifiedKMeans(3, n_components=128, random_state=0).fit(X, sample_weight=weights)
    plain = KMeans(3, init=model.cluster_centers_, tol=0).fit(X, sample_weight=weights)
    np.testing.assert_allclose(model.cluster_centers_, plain.cluster_centers_, atol=1e-9)


def test_fewer_distinct_rows_than_clusters_are_said():
    X = np.repeat(np.eye(3), 5, axis=0)
    with pytest.warns(ConvergenceWarning, match="smaller than n_clusters"):
        model = SparsifiedKMeans(6, n_components=4, random_state=0).fit(X)
    assert model.n_clusters_ == 3 == len(model.cluster_centers_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_clusters": 200}, "n_samples=150 should be >= n_clusters=200"),
        ({"n_components": 129}, "has 128 after mixing"),
        ({"tol": -1}, "tol must be a number of at least 0"),
        ({"random_state": "x"}, "x"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SparsifiedKMeans(**options).fit(groups()[0])
