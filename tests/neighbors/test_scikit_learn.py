"""scikit-learn's estimators take the graphs as they are, and find what they find by themselves."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import DBSCAN, HDBSCAN
from sklearn.manifold import TSNE, Isomap
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsTransformer,
    NearestNeighbors,
    RadiusNeighborsTransformer,
)
from support.data import csr, problem

from sparsecluster import knn_graph, radius_graph

X = problem("unit")[0][:200]
X = X[X.any(axis=1)]
LABELS = np.arange(len(X)) % 3


@pytest.fixture(autouse=True)
def no_warnings():
    """scikit-learn warns of graphs that are not sorted by distance."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The number of connected components")
        yield


def test_dbscan_takes_a_radius_graph():
    expected = DBSCAN(eps=0.4, metric="cosine").fit(X).labels_
    graph = radius_graph(csr(X), 0.4)
    assert np.array_equal(DBSCAN(eps=0.4, metric="precomputed").fit(graph).labels_, expected)


def test_hdbscan_takes_a_graph_of_all_pairs():
    expected = HDBSCAN(metric="euclidean", copy=True).fit(X).labels_
    graph = radius_graph(csr(X), 10.0, metric="euclidean").toarray()
    assert np.array_equal(HDBSCAN(metric="precomputed", copy=True).fit(graph).labels_, expected)


def test_isomap_takes_a_knn_graph():
    graph = knn_graph(csr(X), 8, metric="euclidean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Isomap(n_neighbors=8, metric="precomputed").fit(graph).dist_matrix_
        expected = Isomap(n_neighbors=8).fit(X).dist_matrix_
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_tsne_takes_a_knn_graph():
    graph = knn_graph(csr(X), 31)
    options = {"perplexity": 10, "init": "random", "random_state": 0, "max_iter": 250}
    found = TSNE(metric="precomputed", **options).fit(graph)
    expected = TSNE(metric="cosine", **options).fit(X)
    assert found.kl_divergence_ == pytest.approx(expected.kl_divergence_, rel=0.2)


def test_transformers_give_the_same_graphs():
    ours = knn_graph(csr(X), 7, metric="euclidean")
    theirs = KNeighborsTransformer(n_neighbors=7).fit_transform(X)
    assert ours.nnz == theirs.nnz
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), atol=1e-7)
    ours = radius_graph(csr(X), 0.9, metric="euclidean")
    theirs = RadiusNeighborsTransformer(radius=0.9).fit_transform(X)
    assert ours.nnz == theirs.nnz


def test_nearest_neighbors_and_classifiers_take_a_knn_graph():
    graph = knn_graph(csr(X), 6)
    found = NearestNeighbors(n_neighbors=6, metric="precomputed").fit(graph).kneighbors()[0]
    expected = NearestNeighbors(n_neighbors=6, metric="cosine").fit(X).kneighbors()[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    given = KNeighborsClassifier(5, metric="precomputed").fit(graph, LABELS)
    own = KNeighborsClassifier(5, metric="cosine").fit(X, LABELS)
    other = knn_graph(csr(X[:50]), 5, Y=csr(X))
    assert np.array_equal(given.predict(other), own.predict(X[:50]))
