"""Distances of sparse rows are those that scipy computes from dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import cosine_distances, rbf_kernel
from support.data import csr

from sparsecluster import pairwise
from sparsecluster.distances.metrics import METRICS

SCIPY = {
    "euclidean": ("euclidean", {}),
    "sqeuclidean": ("sqeuclidean", {}),
    "manhattan": ("cityblock", {}),
    "minkowski": ("minkowski", {"p": 3.5}),
    "cosine": ("cosine", {}),
    "hamming": ("hamming", {}),
}
ROWS = [name for name in METRICS if name != "edit"]


def rows(seed=0, n_rows=30, n_features=12, *, signed=True):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.4, rng.normal(size=(n_rows, n_features)), 0)
    X[~X.any(axis=1), 0] = 1
    return X if signed else np.abs(X)


def by_hand(metric, X, Y):
    """The metrics that scipy does not have, or has for booleans only."""
    found = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            if metric == "jaccard":
                both, either = np.sum((x != 0) & (y != 0)), np.sum((x != 0) | (y != 0))
            else:
                both, either = np.minimum(x, y).sum(), np.maximum(x, y).sum()
            found[i, j] = 1 - both / either if either else 0
    return found


@pytest.mark.parametrize("layout", [csr, np.asarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("metric", SCIPY)
def test_distances_are_those_of_scipy(metric, layout):
    X, Y = rows(0), rows(1, 17)
    X[3], Y[5] = X[4], X[4]
    name, options = SCIPY[metric]
    found = pairwise(layout(X), layout(Y), metric, **options)
    np.testing.assert_allclose(found, cdist(X, Y, name, **options), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", ["jaccard", "weighted_jaccard"])
def test_jaccard_distances_are_those_of_their_definition(metric):
    X, Y = rows(0, signed=False), rows(1, 17, signed=False)
    X[2] = Y[3] = 0
    found = pairwise(csr(X), csr(Y), metric)
    np.testing.assert_allclose(found, by_hand(metric, X, Y), rtol=1e-12, atol=1e-12)


def test_kernels_are_those_of_their_definition():
    X, Y = rows(0), rows(1, 17)
    squared = cdist(X, Y, "sqeuclidean")
    np.testing.assert_allclose(pairwise(csr(X), csr(Y), "inner_product"), X @ Y.T, atol=1e-12)
    np.testing.assert_allclose(pairwise(csr(X), csr(Y), "rbf"), rbf_kernel(X, Y), rtol=1e-12)
    found = pairwise(csr(X), csr(Y), "squared_exponential", length_scale=2.5, variance=3)
    np.testing.assert_allclose(found, 3 * np.exp(-squared / 2 / 2.5**2), rtol=1e-12)
    scales = np.linspace(0.5, 3, X.shape[1])
    found = pairwise(csr(X), csr(Y), "ard", length_scales=scales)
    expected = np.exp(-cdist(X / scales, Y / scales, "sqeuclidean") / 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_near_rows_far_from_the_origin_keep_their_digits():
    X = 1e6 + np.arange(6.0)[:, None] * 1e-4 * np.ones((6, 5))
    for metric in ("euclidean", "manhattan", "minkowski"):
        name, options = SCIPY[metric]
        found = pairwise(X, metric=metric, **options)
        np.testing.assert_allclose(found, cdist(X, X, name, **options), rtol=1e-9)


@given(st.integers(0, 10_000), st.sampled_from([one for one in ROWS if one != "ard"]))
def test_distances_are_symmetric_and_zero_for_equal_rows(seed, metric):
    X = np.round(3 * rows(seed, 12, 6, signed=False)) * np.pi
    X[3] = X[7]
    found = pairwise(csr(X), metric=metric)
    np.testing.assert_array_equal(found, found.T)
    if not METRICS[metric].similarity:
        filled = X.any(axis=1)
        assert found[3, 7] == 0 or not filled[3]
        assert np.all(np.diag(found)[filled] == 0)
        assert found.min() >= 0


@pytest.mark.parametrize("metric", [one for one in ROWS if one != "ard"])
def test_any_number_of_threads_gives_the_same_bits(metric):
    X = csr(rows(3, 50, signed=False), np.float32)
    one = pairwise(X, metric=metric, n_threads=1)
    for n_threads in (2, 5):
        np.testing.assert_array_equal(pairwise(X, metric=metric, n_threads=n_threads), one)


def test_row_of_zeros_is_at_1_from_all_others_by_cosine():
    X = csr(np.array([[0.0, 0], [1, 2], [0, 0]]))
    found = pairwise(X, metric="cosine")
    assert found.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    assert np.array_equal(found, cosine_distances(X))


@pytest.mark.parametrize("factor", [1e-160, 1e-100, 1e100, 1e140])
def test_cosine_does_not_depend_on_lengths(factor):
    X = np.random.default_rng(1).random((20, 6)) - 0.3
    lengths = np.where(np.arange(20) % 2, factor, 1.0)[:, None]
    expected = pairwise(X, metric="cosine")
    np.testing.assert_allclose(pairwise(X * lengths, metric="cosine"), expected, atol=1e-14)


def test_cosine_of_rows_nearly_alike_has_its_digits():
    angle = 1e-9
    X = np.array([[1.0, 0.0], [1.0, angle]])
    assert pairwise(X, metric="cosine")[0, 1] == pytest.approx(angle**2 / 2, rel=1e-6)


def test_hamming_distance_compares_categories():
    X = np.array([["red", "round"], ["red", "square"], ["blue", "square"]])
    found = pairwise(X, metric="hamming", count=True)
    assert found.tolist() == [[0, 1, 2], [1, 0, 1], [2, 1, 0]]


def test_edit_distance_of_peter_and_piotr_is_3():
    pytest.importorskip("rapidfuzz")
    assert pairwise(["Peter"], ["Piotr", "Pioter", "Peter"], "edit").tolist() == [[3, 2, 0]]


def test_costs_of_edits_count():
    pytest.importorskip("rapidfuzz")
    # One way is to substitute, the other to delete and insert.
    assert pairwise(["ab"], ["ac"], "edit", substitute=5)[0, 0] == 2
    assert pairwise(["ab"], ["abc"], "edit", insert=4)[0, 0] == 4
    assert pairwise(["abc"], ["ab"], "edit", insert=4)[0, 0] == 1


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "euclidian"}, "Did you mean 'euclidean'"),
        ({"metric": "minkowski", "q": 3}, "'p'"),
        ({"metric": "minkowski", "p": 0.5}, "p must be"),
        ({"metric": "euclidean", "p": 2}, "no options"),
        ({"metric": "rbf", "gamma": 0}, "gamma must be"),
        ({"metric": "ard", "length_scales": [1, 2]}, "12 positive numbers"),
        ({"metric": "weighted_jaccard"}, "not negative; row"),
        ({"metric": "edit"}, "compares strings"),
        ({"metric": "cosine", "memory_limit": 100}, "more than the memory limit"),
        ({"metric": "cosine", "Y": np.ones((3, 5))}, "same columns"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        pairwise(rows(), **arguments)


def test_result_is_never_made_where_it_does_not_fit():
    X = sp.csr_array((100_000, 5))
    with pytest.raises(ValueError, match="80 GB"):
        pairwise(X, metric="euclidean", memory_limit="1GB")


@pytest.mark.parametrize("factor", [1e-200, 1e-100, 1e100, 1e140])
@pytest.mark.parametrize(("metric", "options"), [("euclidean", {}), ("minkowski", {"p": 7.5})])
def test_distances_scale_with_the_values(metric, options, factor):
    X = np.random.default_rng(2).random((12, 5))
    expected = pairwise(X, metric=metric, **options)
    found = pairwise(X * factor, X[:4] * factor, metric=metric, **options)
    np.testing.assert_allclose(found / factor, expected[:, :4], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("p", [0.5, 21, np.inf, np.nan, "2"])
def test_powers_that_lose_digits_are_refused(p):
    with pytest.raises(ValueError, match="p must be"):
        pairwise(np.eye(3), metric="minkowski", p=p)
