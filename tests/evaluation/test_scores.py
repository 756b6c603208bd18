"""Cost, Calinski-Harabasz and Davies-Bouldin against scikit-learn and their definitions."""

import numpy as np
import pytest
from sklearn.metrics import calinski_harabasz_score, davies_bouldin_score
from support.data import NAMES, csr, directions, problem

from sparsecluster import KMeans, calinski_harabasz, clustering_cost, davies_bouldin, evaluate

SCORES = {calinski_harabasz: calinski_harabasz_score, davies_bouldin: davies_bouldin_score}


def labels_for(n_rows, n_clusters=6):
    return np.random.default_rng(0).integers(0, n_clusters, n_rows)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("score", SCORES)
def test_scores_are_those_of_scikit_learn(score, name):
    X, _ = problem(name)
    labels = labels_for(len(X))
    expected = SCORES[score](X - X.mean(axis=0), labels)
    assert score(csr(X), labels) == pytest.approx(expected, rel=1e-9)
    assert score(X, labels) == pytest.approx(expected, rel=1e-9)
    with_direction = X.any(axis=1)
    points = directions(X[with_direction])
    expected = SCORES[score](points - points.mean(axis=0), labels[with_direction])
    found = score(csr(X[with_direction]), labels[with_direction], metric="cosine")
    assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("score", [calinski_harabasz, clustering_cost])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_a_weight_of_two_is_the_row_twice(score, metric):
    X, _ = problem("gaps")
    labels, copies = labels_for(len(X)), np.random.default_rng(1).integers(0, 4, len(X))
    rows = np.repeat(np.arange(len(X)), copies)
    found = score(csr(X), labels, metric=metric, sample_weight=copies)
    expected = score(csr(X[rows]), labels[rows], metric=metric)
    assert found == pytest.approx(expected, rel=1e-12)


def test_weights_count_in_the_widths_of_davies_and_bouldin():
    X = np.array([[0.0], [3.0], [10.0], [12.0]])
    found = davies_bouldin(X, [0, 0, 1, 1], sample_weight=[2, 1, 1, 1])
    # The means are 1 and 11, the mean distances from them 4/3 and 1.
    assert found == pytest.approx((4 / 3 + 1) / 10)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_cost_of_the_labels_of_k_means_is_its_inertia(metric):
    X, _ = problem("text")
    km = KMeans(5, metric=metric, tol=0, random_state=0, zero_rows="first")
    X = X[X.any(axis=1)]
    km.fit(csr(X))
    assert clustering_cost(csr(X), km.labels_, metric=metric) == pytest.approx(km.inertia_)
    worse = clustering_cost(csr(X), labels_for(len(X), 5), metric=metric)
    assert worse > km.inertia_


def test_the_cost_of_one_cluster_is_the_scatter():
    X, _ = problem("blobs")
    scatter = ((X - X.mean(axis=0)) ** 2).sum()
    assert clustering_cost(csr(X), np.zeros(len(X), dtype=int)) == pytest.approx(scatter, rel=1e-9)


def test_clusters_at_one_place():
    X = np.ones((6, 2))
    labels = [0, 0, 1, 1, 2, 2]
    assert calinski_harabasz(X, labels) == calinski_harabasz_score(X, labels) == 1.0
    assert davies_bouldin(X, labels) == davies_bouldin_score(X, labels) == 0.0
    X[0, 0] = 3
    X[1, 0] = -1
    assert davies_bouldin(X, labels) == davies_bouldin_score(X, labels)


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
def test_cohesion_and_separation_by_their_definitions(metric):
    X, _ = problem("text")
    X = X[X.any(axis=1)]
    labels = labels_for(len(X), 4)
    found = evaluate(csr(X), labels, metric=metric)
    points = directions(X) if metric == "cosine" else X
    centers = np.array([points[labels == k].mean(axis=0) for k in range(4)])
    centers = directions(centers) if metric == "cosine" else centers
    half = 0.5 if metric == "cosine" else 1.0
    apart = half * ((centers[:, None] - centers) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    for k, one in enumerate(found.clusters):
        own = half * ((points[labels == k] - centers[k]) ** 2).sum(axis=1)
        assert (one.cluster, one.rows, one.weight) == (k, len(own), len(own))
        assert one.cohesion == pytest.approx(own.mean())
        assert one.separation == pytest.approx(apart[k].min())
        assert one.nearest == apart[k].argmin()
    by_rows = sum(one.silhouette * one.rows for one in found.clusters) / len(X)
    assert by_rows == pytest.approx(found.silhouette)


def test_evaluate_gathers_what_the_functions_say():
    from sparsecluster import silhouette, simplified_silhouette

    X, _ = problem("gaps")
    labels = np.where(np.arange(len(X)) % 9 == 0, -1, labels_for(len(X)))
    true = [f"class {one}" for one in labels_for(len(X), 3)]
    found = evaluate(csr(X), labels, true)
    assert found.noise == np.count_nonzero(labels == -1)
    assert found.silhouette == silhouette(csr(X), labels)
    assert found.simplified_silhouette == simplified_silhouette(csr(X), labels)
    assert found.cost == clustering_cost(csr(X), labels, metric="cosine")
    assert found.davies_bouldin == davies_bouldin(csr(X), labels, metric="cosine")
    assert set(found.scores()) >= {"accuracy", "purity", "adjusted_rand", "cost"}
    assert "silhouette" in str(found)
    with pytest.raises(ValueError, match="3 true labels for 600 rows"):
        evaluate(csr(X), labels, [1, 2, 3])


@pytest.mark.parametrize("score", [clustering_cost, calinski_harabasz])
def test_both_names_of_squared_distances_mean_the_same(score):
    X, labels = np.array([[0.0], [2.0], [10.0], [12.0]]), [0, 0, 1, 1]
    assert score(X, labels, metric="sqeuclidean") == score(X, labels, metric="euclidean")
