"""All ways to shrink rows by one function: what each is, and what is refused before any work."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.manifold import LocallyLinearEmbedding
from sklearn.random_projection import SparseRandomProjection
from support.data import csr, text

from sparsecluster import (
    KMeans,
    LaplacianScore,
    LeverageSelection,
    RandomSigns,
    SparseEmbedding,
    Sparsification,
    convert,
    dimensions,
    reduce,
)
from sparsecluster.embedding.dimensions import TABLE
from sparsecluster.embedding.reduce import METHODS
from sparsecluster.embedding.rule import components_for

DENSE = text(np.random.default_rng(0), 60, 50)
X = csr(DENSE)


def same(one, other):
    one, other = (m.toarray() if sp.issparse(m) else m for m in (one, other))
    return np.array_equal(one, other)


EXPECTED = {
    "sparse-embedding": SparseEmbedding(9, random_state=0),
    "random-signs": RandomSigns(9, random_state=0),
    "sparse-projection": SparseRandomProjection(9, random_state=0, dense_output=True),
    "svd": TruncatedSVD(9, random_state=0),
    "svd-selection": LeverageSelection(9, random_state=0),
    "laplacian-score": LaplacianScore(9),
    "lle": LocallyLinearEmbedding(n_components=9, n_neighbors=12, random_state=0),
    "sparsified": Sparsification(9, random_state=0),
}


@pytest.mark.parametrize("method", METHODS)
def test_result_is_that_of_the_transformer(method):
    given = DENSE if method == "lle" else X
    expected = EXPECTED[method].fit_transform(given)
    found = reduce(X, method, 9, random_state=0)
    if method in ("svd", "lle"):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    else:
        assert same(found, expected)
    assert found.shape[0] == 60


@pytest.mark.parametrize("method", METHODS)
def test_any_source_and_form_gives_the_same(method, tmp_path):
    sp.save_npz(tmp_path / "X.npz", sp.csr_matrix(X))
    convert(tmp_path / "X.npz", tmp_path / "X.store")
    expected = reduce(X, method, 9, random_state=0)
    for other in (DENSE, tmp_path / "X.npz", tmp_path / "X.store", X.tocsc()):
        found = reduce(other, method, 9, random_state=0, n_threads=2)
        if method in ("svd", "lle", "sparse-projection"):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
        else:
            assert same(found, expected)


def test_lle_of_sparse_rows_of_many_columns_is_that_of_dense_rows():
    wide = text(np.random.default_rng(1), 40, 300)
    expected = LocallyLinearEmbedding(n_components=3, n_neighbors=12).fit_transform(wide)
    found = reduce(csr(wide), "lle", 3)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["random-signs", "svd-selection", "laplacian-score", "svd"])
def test_k_means_goes_by_way_of_the_transformer(method):
    options = {"n_clusters": 4, "n_init": 2, "random_state": 0}
    km = KMeans(embedding=EXPECTED[method], finish="none", **options).fit(X)
    small = KMeans(**options).fit(EXPECTED[method].fit_transform(X))
    assert same(km.labels_, small.labels_)
    assert km.cluster_centers_.shape == (4, 50)


OPTIONS = {
    "svd": {"n_iter": 2},
    "svd-selection": {"n_clusters": 3},
    "laplacian-score": {"n_neighbors": 3, "weights": "binary", "metric": "cosine"},
    "lle": {"n_neighbors": 6},
}


@pytest.mark.parametrize("method", OPTIONS)
def test_options_change_the_result(method):
    plain = reduce(X, method, 9, random_state=0)
    assert not same(reduce(X, method, 9, random_state=0, **OPTIONS[method]), plain)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "svds"}, "method='svds' is not known.*Did you mean 'svd'"),
        ({"method": "svd", "n_neighbors": 3}, "has no option 'n_neighbors'; it takes n_iter"),
        ({"method": "random-signs", "t": 3}, "has no option 't'; it takes none"),
        ({"method": "lle", "n_neighbors": 0}, "n_neighbors must be an integer of at least 1"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_components": 1.5}, "n_components must be an integer of at least 1"),
        ({"memory_limit": "lots"}, "memory_limit must be"),
        ({"method": "svd", "n_components": 51}, "singular vectors are asked for.*has 50"),
        ({"method": "lle", "n_components": 60}, "below the number of rows, 60"),
        ({"method": "lle", "n_neighbors": 60}, "n_neighbors=60 needs more rows"),
        ({"method": "sparse-projection", "n_components": 51}, "more than the 50 columns"),
        ({"method": "laplacian-score", "n_components": 51}, "X has 50"),
        ({"random_state": "x"}, "x"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        reduce(X, **{"n_components": 9, **options})


@pytest.mark.parametrize("method", METHODS)
def test_sparse_rows_are_not_made_dense_beyond_the_memory_limit(method):
    wide = sp.csr_array(
        (np.ones(3000), np.arange(3000) * 97 % 100_000, np.arange(3001)), shape=(3000, 100_000)
    )
    with pytest.raises(ValueError, match="memory limit"):
        reduce(wide, method, 500, memory_limit="30kB", random_state=0)


# --- Table 1 -------------------------------------------------------------------------------------

TABLE_1 = {  # for n = 1024, k = 8, eps = 1/4, delta = 1/8, d = 4096
    "svd-k": (8, 2),
    "random-projection": (160, 1.25),
    "svd-selection": (640, 2.25),
    "svd": (128, 1.25),
    "random-signs": (128, 2.25),
    "sparsified": (40, None),
    "sparse-embedding": (3888, 1.25),  # e = 1/9: 81 max(8 + 3, 48)
}


def test_every_row_of_the_table_is_there():
    assert TABLE_1.keys() == TABLE.keys()
    assert TABLE_1.keys() - METHODS.keys() == {"svd-k", "random-projection"}


@pytest.mark.parametrize(("method", "expected"), TABLE_1.items(), ids=TABLE_1)
def test_dimensions_by_hand(method, expected):
    row = dimensions(method, 1024, 8, 0.25, 0.125, n_features=4096)
    assert (row.n_components, row.factor) == expected
    assert row.source
    assert row.constant


def test_sparse_embedding_uses_the_same_rule():
    found = dimensions("sparse-embedding", 5, 20, 0.5, 0.1).n_components
    assert found == components_for(20, 0.5, 0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"method": "pca"}, "method='pca' is not known"),
        ({"n": 0}, "n must be an integer of at least 1"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer"),
        ({"eps": 0}, "eps must be a number above 0 and below 1"),
        ({"eps": 1}, "eps must be a number above 0 and below 1"),
        ({"delta": -0.1}, "delta must be a number above 0 and below 1"),
        ({"method": "sparsified"}, "pass n_features"),
    ],
)
def test_impossible_tasks_are_refused(changed, message):
    task = {"method": "svd", "n": 100, "n_clusters": 5, "eps": 0.5, "delta": 0.1}
    with pytest.raises(ValueError, match=message):
        dimensions(**task | changed)
