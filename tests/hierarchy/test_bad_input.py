"""What cannot be merged is refused with the reason; what is only odd has a defined result."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist, squareform
from support.data import csr

from sparsecluster import AgglomerativeClustering, load_model, read_newick
from sparsecluster.hierarchy.merging import LINKAGES

SQUARE = squareform(pdist(np.random.default_rng(0).normal(size=(6, 2))))


def spoiled(at, value):
    distances = SQUARE.copy()
    distances[at] = value
    return distances


@pytest.mark.parametrize(
    ("distances", "message"),
    [
        (SQUARE[:5], "must be square, got 5 x 6"),
        (-SQUARE, "not be negative"),
        (spoiled((1, 2), np.nan), "NaN"),
        (spoiled((1, 2), np.inf), "infinite"),
        (spoiled((1, 2), 99), r"symmetric: \(1, 2\) is 99"),
        (spoiled((3, 3), 1), "Row 3 is at 1 from itself"),
        (SQUARE[:, :, None], "square matrix, or condensed"),
        (np.ones(7), "7 condensed distances"),
        (sp.csr_array(SQUARE), "leaves some out"),
        (np.full((3, 3), "far"), "real numbers"),
        (np.empty((0, 0)), "the shape"),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(distances, message):
    with pytest.raises(ValueError, match=message):
        AgglomerativeClustering(metric="precomputed").fit(distances)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linkage": "wards"}, "Did you mean 'ward'"),
        ({"metric": "cosin"}, "Did you mean 'cosine'"),
        ({"metric": "rbf", "linkage": "average"}, "is a similarity"),
        ({"n_clusters": 3, "height": 1.0}, "cannot be combined"),
        ({"n_clusters": 0}, "at least 1"),
        ({"n_clusters": 99}, "more than the tree has leaves"),
        ({"height": -1}, "at least 0"),
        ({"metric": "minkowski", "metric_options": {"power": 3}}, "'p'"),
        ({"metric_options": [3]}, "must be a dict"),
        ({"metric": "precomputed", "metric_options": {"p": 3}}, "has no options"),
        ({"metric": "edit", "metric_options": {"insert": 2}}, "insert and delete differ"),
        ({"first": "kmeans", "metric": "manhattan"}, "first='kmeans' has the metrics"),
    ],
)
def test_wrong_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AgglomerativeClustering(**options).fit(np.random.default_rng(0).normal(size=(9, 2)))


def test_row_of_zeros_has_no_direction():
    X = np.array([[1.0, 2], [0, 0], [3, 1]])
    for linkage in ("average", "single"):
        with pytest.raises(ValueError, match="Row 1 of X is zero"):
            AgglomerativeClustering(linkage=linkage, metric="cosine").fit(csr(X))


def test_all_distances_that_do_not_fit_are_refused_before_any_work():
    X = sp.eye_array(100_000, format="csr")
    with pytest.raises(ValueError, match="take 40 GB, more than the memory limit of 1 GB"):
        AgglomerativeClustering(linkage="complete", memory_limit="1GB").fit(X)


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "jaccard"])
def test_one_row_is_one_cluster(linkage, metric):
    model = AgglomerativeClustering(linkage=linkage, metric=metric).fit(np.ones((1, 3)))
    assert model.linkage_.shape == (0, 4)
    assert model.labels_.tolist() == [0]
    assert model.newick() == "0;"
    assert model.cophenetic().shape == (0,)


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "jaccard"])
def test_equal_rows_are_merged_at_height_0(linkage, metric):
    X = csr(np.tile([0.1, 0, 0.7, 0.3], (40, 1)), np.float32)
    model = AgglomerativeClustering(linkage=linkage, metric=metric).fit(X)
    np.testing.assert_allclose(model.linkage_[:, 2], 0, atol=1e-15)
    assert model.n_clusters_ == 1


def test_lowest_indices_come_first_among_ties():
    model = AgglomerativeClustering().fit(np.array([[0.0], [0], [5], [5], [0]]))
    assert model.linkage_[:3, :2].tolist() == [[0, 1], [4, 5], [2, 3]]


def test_single_linkage_by_any_metric_needs_no_room_for_all_distances():
    X = csr(np.random.default_rng(0).normal(size=(50, 4)))
    options = {"linkage": "single", "metric": "manhattan"}
    expected = AgglomerativeClustering(**options).fit(X)
    found = AgglomerativeClustering(**options, memory_limit=1000).fit(X)
    np.testing.assert_allclose(found.linkage_, expected.linkage_, rtol=1e-12)


def test_callback_that_raises_ends_the_fit_and_changes_nothing():
    def stop(record):
        raise RuntimeError("enough")

    X = csr(np.random.default_rng(0).normal(size=(60, 4)))
    model = AgglomerativeClustering(linkage="complete", metric="manhattan").fit(X)
    labels = model.labels_
    with pytest.raises(RuntimeError, match="enough"):
        model.set_params(callback=stop).fit(X[:30])
    assert model.labels_ is labels


def test_file_with_something_else_than_a_tree_is_refused(tmp_path):
    model = AgglomerativeClustering().fit(np.random.default_rng(0).normal(size=(9, 2)))
    model.linkage_[3, 0] = 16
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="no tree"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("X", ["Peter", np.eye(3), csr(np.eye(3)), [1, 2], [], b"ab"])
def test_edit_distances_need_strings(X):
    with pytest.raises(ValueError, match="sequence of str"):
        AgglomerativeClustering(linkage="single", metric="edit").fit(X)


@pytest.mark.parametrize("text", ["(a,b);(c,d);", "(a:nan,b:1);", "(a:inf,b:1);", "a;b"])
def test_newick_text_of_no_tree_is_refused(text):
    with pytest.raises(ValueError, match="Newick text"):
        read_newick(text)
