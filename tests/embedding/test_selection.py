"""Columns by leverage scores and by the Laplacian score, against plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.neighbors import kneighbors_graph
from support.data import csr

from sparsecluster import LaplacianScore, LeverageSelection, load_model


def rows(n_rows=80, n_features=30, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.4, rng.gamma(2, size=(n_rows, n_features)), 0)
    X[: n_rows // 2, :5] += 3
    return X


# --- leverage scores -----------------------------------------------------------------------------


def leverage(X, rank):
    vectors = np.linalg.svd(X, full_matrices=False)[2][:rank]
    return np.square(vectors).sum(axis=0) / rank


@pytest.mark.parametrize("make", [np.array, csr], ids=["dense", "sparse"])
@pytest.mark.parametrize("rank", [1, 4])
def test_leverage_scores_are_those_of_the_singular_vectors(make, rank):
    rng = np.random.default_rng(1)
    # Gaps between the singular values, so that a randomised SVD finds the same vectors.
    left, right = (np.linalg.qr(rng.normal(size=(n, 20)))[0] for n in (60, 40))
    X = left * 0.5 ** np.arange(20) @ right.T
    scores = LeverageSelection(10, n_clusters=rank, random_state=0).fit(make(X)).scores_
    np.testing.assert_allclose(scores, leverage(X, rank), rtol=1e-7, atol=1e-10)
    assert scores.sum() == pytest.approx(1)


def test_columns_drawn_are_scaled_by_their_probability():
    X = rows()
    model = LeverageSelection(50, n_clusters=3, random_state=0).fit(X)
    counts = np.square(model.scale_) * 50 * model.scores_[model.columns_]
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert counts.round().sum() == 50
    assert np.all(np.diff(model.columns_) > 0)
    np.testing.assert_allclose(model.transform(X), X[:, model.columns_] * model.scale_, rtol=1e-12)


def test_squared_lengths_are_kept_in_expectation():
    X = rows()[:5]
    found = np.array([
        np.square(LeverageSelection(15, n_clusters=2, random_state=s).fit_transform(X)).sum(axis=1)
        for s in range(300)
    ])  # fmt: skip
    kept = leverage(X, 2) > 1e-12  # columns that are never drawn lose their part
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - np.square(X[:, kept]).sum(axis=1)) < 4 * error)


def test_weights_count_as_copies():
    X, weights = rows(), 1 + np.arange(80) % 3
    weighted = LeverageSelection(20, n_clusters=3, random_state=0).fit(X, sample_weight=weights)
    copies = LeverageSelection(20, n_clusters=3, random_state=0).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.scores_, copies.scores_, rtol=1e-6, atol=1e-12)
    assert np.array_equal(weighted.columns_, copies.columns_)


def test_columns_of_zeros_are_never_drawn():
    X = rows()
    X[:, ::2] = 0
    model = LeverageSelection(200, n_clusters=5, random_state=0).fit(X)
    assert np.all(model.columns_ % 2 == 1)


def test_rank_is_not_made_up_where_singular_values_are_zero():
    X = np.outer(np.arange(1, 9.0), [1, 0, 2, 0])
    scores = LeverageSelection(4, n_clusters=3, random_state=0).fit(X).scores_
    np.testing.assert_allclose(scores, [0.2, 0, 0.8, 0], atol=1e-12)


def test_rows_of_zeros_are_refused():
    with pytest.raises(ValueError, match="zero everywhere"):
        LeverageSelection(2, n_clusters=1).fit(np.zeros((4, 3)))


def test_more_singular_vectors_than_there_are_are_refused():
    with pytest.raises(ValueError, match=r"n_clusters=31 singular vectors.*80 rows and 30 columns"):
        LeverageSelection(5, n_clusters=31).fit(rows())


# --- Laplacian score -----------------------------------------------------------------------------


def laplacian_score(X, k, kernel):
    """As the paper writes it, with dense matrices, column by column."""
    links = kneighbors_graph(X, k, mode="distance").toarray()
    near = links > 0
    squares = np.square(links)
    S = np.where(near, kernel(squares, squares[near].mean()), 0)
    S = np.maximum(S, S.T)
    D = np.diag(S.sum(axis=1))
    one, L = np.ones(len(X)), D - S
    scores = []
    for f in X.T:
        f = f - (f @ D @ one) / (one @ D @ one) * one
        scores.append((f @ L @ f) / (f @ D @ f))
    return np.array(scores)


KERNELS = {
    "heat": ({}, lambda squares, mean: np.exp(-squares / mean)),
    "heat of given t": ({"t": 2.5}, lambda squares, mean: np.exp(-squares / 2.5)),
    "binary": ({"weights": "binary"}, lambda squares, mean: np.ones_like(squares)),
}


@pytest.mark.parametrize("make", [np.array, csr], ids=["dense", "sparse"])
@pytest.mark.parametrize(("options", "kernel"), KERNELS.values(), ids=KERNELS)
def test_laplacian_scores_are_those_of_the_paper(make, options, kernel):
    X = rows()
    model = LaplacianScore(7, n_neighbors=4, **options).fit(make(X))
    expected = laplacian_score(X, 4, kernel)
    np.testing.assert_allclose(model.scores_, expected, rtol=1e-9)
    assert model.columns_.tolist() == sorted(np.argsort(expected)[:7])


def test_cosine_is_euclidean_of_unit_rows_but_for_the_columns():
    X = rows()
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    by_cosine = LaplacianScore(7, metric="cosine").fit(unit).scores_
    np.testing.assert_allclose(by_cosine, LaplacianScore(7).fit(unit).scores_, rtol=1e-6)


def test_blocks_of_rows_change_little(monkeypatch):
    X = csr(rows())
    expected = LaplacianScore(7).fit(X).scores_
    monkeypatch.setattr("sparsecluster.embedding.laplacian.BLOCK_ENTRIES", 500)
    np.testing.assert_allclose(LaplacianScore(7).fit(X).scores_, expected, rtol=1e-12)


def test_constant_columns_come_last():
    X = rows()
    X[:, 3] = 7
    X[:, 4] = 0
    scores = LaplacianScore(28).fit(X).scores_
    assert np.flatnonzero(np.isinf(scores)).tolist() == [3, 4]
    assert not {3, 4} & set(LaplacianScore(28).fit(X).columns_)


def test_equal_rows_weigh_one():
    scores = LaplacianScore(1, n_neighbors=1).fit(np.repeat(np.eye(2), 3, axis=0)).scores_
    assert scores.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 31}, "n_components=31 columns are to be kept, and X has 30"),
        ({"n_components": 3, "n_neighbors": 80}, "n_neighbors=80 needs more rows.*n_samples=80"),
        ({"n_components": 3, "t": 1.0, "weights": "binary"}, "t=1.0 has no effect"),
        ({"n_components": 3, "t": -1.0}, "t must be a finite number above 0"),
        ({"n_components": 3, "t": 1e-9}, "all links weigh nothing"),
        ({"n_components": 3, "metric": "cosin"}, "Did you mean 'cosine'"),
        ({"n_components": 3, "memory_limit": 1000}, "more than the memory limit"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LaplacianScore(**options).fit(rows())


# --- both ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [LaplacianScore(6), LeverageSelection(6, random_state=0)], ids=repr
)
def test_names_of_kept_columns(model, tmp_path):
    names = [f"word {i}" for i in range(30)]
    model.fit(csr(rows()), feature_names=names)
    kept = [names[i] for i in model.columns_]
    assert model.get_feature_names_out().tolist() == kept
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.get_feature_names_out().tolist() == kept
    assert model.get_support().nonzero()[0].tolist() == model.get_support(indices=True).tolist()


@pytest.mark.parametrize(
    "model", [LaplacianScore(6), LeverageSelection(6, random_state=0)], ids=repr
)
def test_sparse_rows_stay_sparse(model):
    X = csr(rows(), np.float32)
    found = model.fit_transform(X)
    assert sp.issparse(found)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), model.transform(X.toarray()))
