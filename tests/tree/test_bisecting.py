"""BisectingKMeans against scikit-learn's, and by its own definition."""

import numpy as np
import pytest
import sklearn.cluster
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from support.compare import same
from support.data import csr, directions, text

from sparsecluster import BisectingKMeans

X = csr(text(np.random.default_rng(0), 500, 100), np.float32)


@pytest.mark.parametrize("strategy", ["biggest_inertia", "largest_cluster"])
@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_clear_clusters_are_those_of_scikit_learn(strategy, init):
    rows, _ = make_blobs(
        [60, 50, 40, 30], centers=[[0, 0], [30, 0], [0, 90], [50, 90]], random_state=0
    )
    parameters = {"n_clusters": 4, "bisecting_strategy": strategy, "init": init, "n_init": 5}
    ours = BisectingKMeans(random_state=0, **parameters).fit(rows)
    theirs = sklearn.cluster.BisectingKMeans(random_state=0, **parameters).fit(rows)
    assert adjusted_rand_score(ours.labels_, theirs.labels_) == 1
    assert ours.inertia_ == pytest.approx(theirs.inertia_)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("strategy", ["biggest_inertia", "largest_cluster"])
def test_the_worst_cluster_was_split_each_time(metric, strategy):
    model = BisectingKMeans(12, metric=metric, bisecting_strategy=strategy, random_state=0)
    tree = model.set_params(zero_rows="first").fit(X).tree_
    worth = model.node_costs_ if strategy == "biggest_inertia" else tree.sizes
    inner = tree.n_children > 0
    assert set(tree.n_children) == {0, 2}
    assert worth[inner].min() >= worth[~inner].max()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_cost_is_that_of_the_labels(metric):
    model = BisectingKMeans(9, metric=metric, zero_rows="first", random_state=0).fit(X)
    rows = X.toarray().astype(float)
    rows = rows if metric == "euclidean" else directions(rows)
    gaps = rows - model.cluster_centers_.toarray()[model.labels_]
    assert model.inertia_ == pytest.approx((gaps**2).sum(), rel=1e-5)
    assert model.score(X) == pytest.approx(-model.inertia_)
    labels, distances = model.nearest_center(X)
    assert same(labels, model.labels_)
    assert distances.sum() == pytest.approx(model.inertia_)


def test_clusters_of_fewer_are_split_for_more():
    few, many = (BisectingKMeans(k, random_state=3, init="k-means++").fit(X) for k in (4, 11))
    pairs = set(zip(many.labels_.tolist(), few.labels_.tolist(), strict=True))
    assert len(pairs) == 11
    assert many.inertia_ < few.inertia_


def test_number_of_threads_changes_nothing():
    one, three = (BisectingKMeans(20, random_state=0, n_threads=n).fit(X) for n in (1, 3))
    assert same(one.labels_, three.labels_)
    assert same(one.cluster_centers_, three.cluster_centers_)


@pytest.mark.parametrize("init", ["random", "k-means++"])
def test_fewer_distinct_rows_than_clusters_end_in_fewer(init):
    rows = np.repeat([[1.0, 0], [0, 2], [3, 3]], 20, axis=0)
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        model = BisectingKMeans(5, init=init, n_init=3, random_state=0).fit(rows)
    assert model.n_clusters_ == 3
    assert model.inertia_ == 0


def test_weights_count_as_copies_do():
    rows, weights = np.array([[0.0], [1], [10], [30]]), [1, 1, 1, 50]
    model = BisectingKMeans(2, init="k-means++", n_init=5, random_state=0)
    labels = model.fit(rows, sample_weight=weights).labels_
    assert labels[3] not in labels[:3]


def test_callback_hears_how_many_clusters_there_are():
    seen = []
    BisectingKMeans(6, random_state=0, callback=seen.append).fit(X)
    assert seen[-1].clusters == seen[-1].wanted == 6


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_clusters": 0},
        {"n_clusters": 501},
        {"init": "first"},
        {"bisecting_strategy": "smallest"},
        {"algorithm": "hamerly"},
        {"n_init": 0},
        {"max_iter": 0},
        {"tol": -1.0},
        {"copy_x": "yes"},
    ],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(parameters):
    name = next(iter(parameters))
    with pytest.raises(ValueError, match=name):
        BisectingKMeans(**parameters).fit(X)
