"""Graphs of near rows against all distances in numpy."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.compare import same
from support.data import KINDS, LAYOUTS, csr, problem
from support.near import assert_sorted_graph, distances, gap_near

from sparsecluster import _core, convert, knn_graph, open_store, radius_graph, read
from sparsecluster.neighbors import trees
from sparsecluster.neighbors.search import entered_search
from sparsecluster.rows.rows import as_rows

METRICS = ("cosine", "euclidean")
KIND_NAMES = [kind.__name__ for kind in KINDS]


def rows_of(name, n=150):
    return problem(name, "float32")[0][:n]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", KIND_NAMES)
@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_radius_graph_has_the_pairs_within_the_radius(name, metric, share):
    X = rows_of(name)
    expected = distances(X, metric=metric)
    radius = gap_near(expected, share)
    atol = 1e-6 if name == "blobs" else 1e-9
    assert_sorted_graph(radius_graph(csr(X), radius, metric=metric), expected, radius, atol)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", KIND_NAMES)
@pytest.mark.parametrize("k", [1, 7, 149])
def test_knn_graph_has_the_least_distances(name, metric, k):
    X = rows_of(name)
    expected = distances(X, metric=metric)
    graph = knn_graph(csr(X), k, metric=metric)
    assert np.array_equal(graph.indices[:: k + 1], np.arange(len(X)))
    least = np.sort(expected, axis=1)[:, : k + 1]
    found = graph.data.reshape(len(X), k + 1)
    np.testing.assert_allclose(found, least, atol=1e-6 if name == "blobs" else 1e-9)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_types_and_layouts_give_the_same_bits(metric, layout, dtype):
    X = rows_of("gaps")
    expected = radius_graph(csr(X), 0.6, metric=metric)
    assert same(radius_graph(LAYOUTS[layout](X, dtype), 0.6, metric=metric), expected)
    expected = knn_graph(csr(X), 5, metric=metric)
    assert same(knn_graph(LAYOUTS[layout](X, dtype), 5, metric=metric), expected)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("block_rows", [1, 17, 64, 65536])
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_blocks_threads_and_memory_change_no_bit(metric, block_rows, n_threads):
    rows = as_rows(csr(rows_of("text", 400), np.float32), n_threads=1).core

    def found(**options):
        near = _core.radius_graph(rows, rows, 0.5, metric, **options)
        nearest = _core.nearest_rows(rows, rows, 6, np.inf, metric, **options)
        tree = _core.spanning_tree(rows, 4, metric, **options)
        return [list(near), list(nearest), list(tree)]

    expected = found(n_threads=1, memory_limit=2**40)
    options = {"n_threads": n_threads, "block_rows": block_rows}
    assert same(found(memory_limit=2**40, **options), expected)
    tight = _core.nearest_rows(rows, rows, 6, np.inf, metric, memory_limit=1, **options)
    assert same(list(tight), expected[1])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["text", "blobs", "grid", "many"])
def test_every_simd_level_finds_the_same_pairs(name, metric, simd):
    X = csr(rows_of(name, 300), np.float32)
    expected = distances(X.toarray(), metric=metric)
    radius = gap_near(expected, 0.1)
    assert_sorted_graph(radius_graph(X, radius, metric=metric), expected, radius, atol=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_other_rows_are_found_among_given_ones(metric):
    X, Y = rows_of("text", 90), problem("text", "float32")[0][90:200]
    expected = distances(X, Y, metric)
    radius = gap_near(expected, 0.2)
    graph = radius_graph(csr(X), radius, metric=metric, Y=csr(Y, np.float32, np.int64))
    assert_sorted_graph(graph, expected, radius)
    nearest = knn_graph(X.astype(np.float32), 4, metric=metric, Y=csr(Y))
    np.testing.assert_allclose(nearest.data.reshape(90, 4), np.sort(expected)[:, :4], atol=1e-9)


def test_ties_go_to_lower_rows():
    X = np.tile(np.eye(3), (4, 1))
    graph = knn_graph(X, 5, include_self=False)
    rows = graph.indices.reshape(12, 5)
    assert rows[0].tolist() == [3, 6, 9, 1, 2]
    assert rows[4].tolist() == [1, 7, 10, 0, 2]
    near = radius_graph(X, 0.0)
    assert near.indices.reshape(12, 4)[4].tolist() == [4, 1, 7, 10]
    assert np.all(near.data == 0)


@given(
    arrays(np.float64, (12, 4), elements=st.integers(-2, 2).map(float)),
    st.sampled_from(METRICS),
    st.integers(1, 11),
)
def test_small_whole_numbers(X, metric, k):
    expected = distances(X, metric=metric)
    graph = knn_graph(csr(X), k, metric=metric)
    least = np.sort(expected, axis=1)[:, : k + 1]
    np.testing.assert_allclose(graph.data.reshape(12, k + 1), least, atol=1e-12)
    assert_sorted_graph(radius_graph(csr(X), 1.01, metric=metric), expected, 1.01)


@given(st.permutations(range(40)))
def test_order_of_rows_does_not_matter(order):
    X = rows_of("unit", 40)
    first = radius_graph(csr(X), 0.7).toarray()
    assert np.array_equal(radius_graph(csr(X[order]), 0.7).toarray(), first[np.ix_(order, order)])


@pytest.mark.parametrize(
    "source",
    [
        lambda X, folder: sp.csc_array(X),
        lambda X, folder: X,
        lambda X, folder: pd.DataFrame(X).add_prefix("c"),
        lambda X, folder: read(npz(X, folder)),
        lambda X, folder: npz(X, folder),
        lambda X, folder: open_store(store(X, folder)),
        lambda X, folder: store(X, folder),
    ],
    ids=["csc", "dense", "frame", "Rows", "path", "opened store", "store"],
)
def test_rows_from_anywhere_give_the_same_bits(source, tmp_path):
    X = rows_of("text").astype(np.float32)
    given_rows = source(X, tmp_path)
    for metric in METRICS:
        assert same(
            radius_graph(given_rows, 0.5, metric=metric), radius_graph(csr(X), 0.5, metric=metric)
        )
        assert same(knn_graph(given_rows, 3, metric=metric), knn_graph(csr(X), 3, metric=metric))


def npz(X, folder):
    sp.save_npz(folder / "rows.npz", sp.csr_matrix(X))
    return folder / "rows.npz"


def store(X, folder):
    convert(npz(X, folder), folder / "rows.store")
    return folder / "rows.store"


def test_streamed_rows_give_the_same_bits(tmp_path):
    X = csr(rows_of("text", 400), np.float32)
    indptr, indices = X.indptr.astype(np.int64), X.indices
    streamed = _core.Rows.sparse(indptr, indices, X.data, X.shape[1], 4096, X.shape[1])
    assert streamed.inspect(1)[0] == "none"
    rows = as_rows(X, n_threads=1).core
    for metric in METRICS:
        options = {"n_threads": 2, "memory_limit": 1, "block_rows": 32}
        expected = _core.nearest_rows(rows, rows, 5, np.inf, metric, 1, 2**40)
        found = _core.nearest_rows(streamed, streamed, 5, np.inf, metric, **options)
        assert same(list(found), list(expected))
        labels = _core.dbscan(rows, 0.4, 3.0, None, metric, 1, 2**40)[0]
        assert same(_core.dbscan(streamed, 0.4, 3.0, None, metric, **options)[0], labels)


@pytest.mark.parametrize("share", [0.001, 0.05])
def test_trees_of_dense_rows_give_what_the_scan_gives(share, monkeypatch):
    monkeypatch.setattr("sparsecluster.neighbors.trees.LEAST_ROWS", 10)
    X = np.round(np.random.default_rng(0).normal(size=(300, 3)), 1)
    radius = gap_near(distances(X, metric="euclidean"), share)
    assert same(
        radius_graph(X, radius, metric="euclidean"),
        radius_graph(csr(X), radius, metric="euclidean"),
    )
    assert same(knn_graph(X, 6, metric="euclidean"), knn_graph(csr(X), 6, metric="euclidean"))
    grid = problem("grid")[0]
    assert same(knn_graph(grid, 9, metric="euclidean"), knn_graph(csr(grid), 9, metric="euclidean"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kos", "stackoverflow-titles"])
def test_real_rows_have_the_neighbors_of_scikit_learn(name, real_data):
    from sklearn.neighbors import NearestNeighbors

    X = sp.csr_matrix(real_data(name)).astype(np.float64)[:3000]
    expected = NearestNeighbors(n_neighbors=10, metric="cosine").fit(X).kneighbors()[0]
    found = knn_graph(X, 10, include_self=False).data.reshape(-1, 10)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("layout", [csr, np.asarray], ids=["sparse", "dense"])
def test_of_many_equal_rows_the_first_are_the_nearest(layout):
    X = np.repeat(np.eye(3), [40, 2, 60], axis=0)
    graph = knn_graph(layout(X), 4, metric="euclidean", include_self=False)
    nearest = graph.indices.reshape(-1, 4)
    assert nearest[2].tolist() == [0, 1, 3, 4]
    assert nearest[30].tolist() == [0, 1, 2, 3]
    assert nearest[40].tolist() == [41, 0, 1, 2]
    assert nearest[101].tolist() == [42, 43, 44, 45]


def test_tied_rows_that_are_too_many_for_a_tree_are_scanned():
    X = np.random.default_rng(0).integers(0, 4, (trees.LEAST_ROWS, 2)).astype(float)
    search = entered_search(X, metric="euclidean", n_threads=2, memory_limit=None, progress=None)
    assert trees.useful(search)
    assert trees.nearest(search, 3) is None
    expected = knn_graph(csr(X), 3, metric="euclidean")
    assert same(knn_graph(X, 3, metric="euclidean"), expected)


def test_blocks_of_a_tree_do_not_show(monkeypatch):
    X = np.random.default_rng(1).random((trees.LEAST_ROWS, 3))
    expected = radius_graph(csr(X), 0.06, metric="euclidean")
    shares = []
    for most in (1, 1000):
        monkeypatch.setattr(trees, "MOST_FOUND", most)
        found = radius_graph(X, 0.06, metric="euclidean", progress=shares.append)
        assert same(found, expected)
    assert max(shares) == 1
