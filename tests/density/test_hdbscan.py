"""HDBSCAN against scikit-learn's on densified rows."""

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN as Reference
from support.data import csr, problem
from support.near import distances

from sparsecluster import HDBSCAN, load_model


def normal_groups(n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    means = 4 * rng.normal(size=(5, n_features))
    return means[rng.integers(0, 5, size=300)] + rng.normal(size=(300, n_features))


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("min_samples", [None, 2, 10])
@pytest.mark.parametrize("method", ["eom", "leaf"])
def test_clusters_are_those_of_scikit_learn(metric, min_samples, method):
    X = normal_groups()
    options = {"min_samples": min_samples, "cluster_selection_method": method}
    ours = HDBSCAN(metric=metric, **options).fit(csr(X))
    found = distances(X, metric=metric)
    theirs = Reference(metric="precomputed", copy=True, **options).fit(found)
    assert np.array_equal(ours.labels_ < 0, theirs.labels_ < 0)
    # Numbers follow the order of edges, which is open between equal weights.
    pairs = set(zip(ours.labels_.tolist(), theirs.labels_.tolist(), strict=True))
    assert len(pairs) == len(set(ours.labels_)) == len(set(theirs.labels_))
    np.testing.assert_allclose(ours.probabilities_, theirs.probabilities_, atol=1e-6)


@pytest.mark.parametrize("name", ["text", "unit", "counts", "grid", "gaps"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_tree_has_the_heights_of_scikit_learn(name, metric):
    X = problem(name)[0][:200]
    ours = HDBSCAN(metric=metric).fit(csr(X))
    theirs = Reference(metric="precomputed", copy=True).fit(distances(X, metric=metric))
    heights = theirs._single_linkage_tree_["value"]
    np.testing.assert_allclose(ours.tree_weights_, heights, atol=1e-9)


def test_rows_alone_and_few_rows_are_noise():
    assert HDBSCAN(2, min_samples=1).fit(np.ones((1, 2))).labels_.tolist() == [-1]
    assert HDBSCAN(5, min_samples=1).fit(np.eye(3)).labels_.tolist() == [-1] * 3


def test_equal_rows_do_not_crash():
    labels = HDBSCAN(allow_single_cluster=True).fit(csr(np.ones((20, 3)))).labels_
    assert len(set(labels.tolist())) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_cluster_size": 1}, "min_cluster_size"),
        ({"min_samples": 0}, "min_samples"),
        ({"min_samples": 500}, "at most the number of samples"),
        ({"cluster_selection_method": "best"}, "cluster_selection_method"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        HDBSCAN(**options).fit(normal_groups())


def test_file_keeps_the_tree(tmp_path):
    model = HDBSCAN(metric="euclidean").fit(normal_groups())
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for one, other in zip(loaded.spanning_tree_, model.spanning_tree_, strict=True):
        assert np.array_equal(one, other)
