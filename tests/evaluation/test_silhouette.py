"""Silhouettes from sums against those from all pairs of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples, silhouette_score
from support.data import LAYOUTS, NAMES, csr, directions, problem, weights_for

from sparsecluster import convert, open_store, silhouette, simplified_silhouette

METRICS = ("cosine", "sqeuclidean")


def labels_for(n_rows, n_clusters=7, seed=0):
    """Clusters of very different sizes, one of them of a single row."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.geometric(0.35, n_rows) - 1, n_clusters - 2)
    labels[n_rows // 2] = n_clusters - 1
    return labels


def naive(X, labels, weights, metric):
    """By the definition, with every row as many times as it weighs (a part counts as such)."""
    if metric == "cosine":
        X = directions(X)
        distance = 1 - X @ X.T
    else:
        distance = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    np.fill_diagonal(distance, 0)
    found = np.zeros(len(X))
    for i in range(len(X)):
        left_out = min(weights[i], 1)
        others = {}
        for k in np.unique(labels):
            members = labels == k
            total = weights[members].sum()
            own = k == labels[i]
            if total - own * left_out > 0:
                # Two copies of a row of zeros are as far apart as two such rows.
                apart = (weights * distance[i])[members].sum()
                if metric == "cosine" and own and not X[i].any():
                    apart += weights[i] - left_out
                others[k] = apart / (total - own * left_out)
        a = others.pop(labels[i], None)
        b = min(others.values(), default=None)
        if a is not None and b is not None and max(a, b) > 0:
            found[i] = (b - a) / max(a, b)
    return found


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_the_silhouette_that_scikit_learn_gives(name, metric):
    X, _ = problem(name)
    labels = labels_for(len(X))
    found = silhouette(csr(X), labels, metric=metric, samples=True)
    # scikit-learn loses digits far from the origin, or where all directions are nearly the same:
    # there it gets the same points about their mean. On unit rows both metrics are alike.
    points, by = X, metric
    if name == "blobs" and metric == "cosine":
        points, by = directions(X), "sqeuclidean"
    points = points - points.mean(axis=0) if by == "sqeuclidean" else points
    expected = silhouette_samples(points, labels, metric=by)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    mean = silhouette_score(points, labels, metric=by)
    assert silhouette(csr(X), labels, metric=metric) == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_float32_rows_of_nearly_unit_length_are_compared_as_they_are(layout, metric):
    X, _ = problem("unit", "float32")
    labels = labels_for(len(X))
    found = silhouette(LAYOUTS[layout](X, np.float32), labels, metric=metric, samples=True)
    expected = silhouette_samples(X, labels, metric=metric)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["gaps", "text", "binary"])
def test_a_weight_of_two_is_the_row_twice(name, metric):
    X, _ = problem(name)
    X, labels = X[:150], labels_for(150)
    copies = np.random.default_rng(1).integers(0, 4, 150)
    rows = np.repeat(np.arange(150), copies)
    options = {"metric": metric, "samples": True}
    found = silhouette(csr(X), labels, sample_weight=copies, **options)
    repeated = silhouette_samples(X[rows], labels[rows], metric=metric)
    np.testing.assert_allclose(found[rows], repeated, rtol=0, atol=1e-9)
    mean = silhouette(csr(X), labels, metric=metric, sample_weight=copies)
    assert mean == pytest.approx(repeated.mean(), abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_weights_of_all_sizes_have_the_meaning_that_is_documented(metric):
    X, _ = problem("gaps")
    X, labels, weights = X[:120], labels_for(120), weights_for(120)
    found = silhouette(csr(X), labels, metric=metric, samples=True, sample_weight=weights)
    expected = naive(X, labels, weights, metric)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("measure", [silhouette, simplified_silhouette])
@pytest.mark.parametrize("metric", METRICS)
def test_noise_is_as_if_it_were_not_there(measure, metric):
    X, _ = problem("text")
    labels = labels_for(len(X))
    noise = np.random.default_rng(0).random(len(X)) < 0.3
    found = measure(csr(X), np.where(noise, -1, labels), metric=metric, samples=True)
    expected = measure(csr(X[~noise]), labels[~noise], metric=metric, samples=True)
    assert np.isnan(found[noise]).all()
    np.testing.assert_allclose(found[~noise], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "sqeuclidean"])
def test_simplified_silhouettes_by_their_definition(metric):
    X, _ = problem("gaps")
    labels = labels_for(len(X))
    points = directions(X) if metric == "cosine" else X
    centers = np.array([points[labels == k].mean(axis=0) for k in range(7)])
    if metric == "cosine":
        distances = 1 - points @ directions(centers).T
    else:
        distances = ((X[:, None] - centers) ** 2).sum(axis=2)
        distances = np.sqrt(distances) if metric == "euclidean" else distances
    rows = np.arange(len(X))
    a = distances[rows, labels].copy()
    distances[rows, labels] = np.inf
    b = distances.min(axis=1)
    expected = (b - a) / np.maximum(a, b)
    expected[len(X) // 2] = 0  # alone in its cluster
    found = simplified_silhouette(csr(X), labels, metric=metric, samples=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_nothing_depends_on_threads_store_or_dense_rows(metric, tmp_path):
    X, _ = problem("many")
    labels, matrix = labels_for(len(X), 60), csr(X)
    found = silhouette(matrix, labels, metric=metric, samples=True, n_threads=1)
    sp.save_npz(tmp_path / "x.npz", matrix)
    convert(tmp_path / "x.npz", tmp_path / "x.store")
    for same in (matrix, open_store(tmp_path / "x.store"), tmp_path / "x.npz"):
        again = silhouette(same, labels, metric=metric, samples=True, n_threads=3)
        assert np.array_equal(found, again)
    dense = silhouette(X, labels, metric=metric, samples=True)
    np.testing.assert_allclose(dense, found, rtol=0, atol=1e-12)


def test_rows_of_extreme_lengths_keep_their_directions():
    X, _ = problem("signed")
    labels = labels_for(len(X))
    scales = 10.0 ** np.random.default_rng(0).integers(-120, 120, len(X))
    found = silhouette(csr(X * scales[:, None]), labels, samples=True)
    expected = silhouette_samples(X, labels, metric="cosine")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_many_columns_with_few_entries_take_no_memory_for_the_others():
    X, _ = problem("text")
    labels, wide = labels_for(len(X)), csr(X)
    wide = sp.csr_array((wide.data, wide.indices * 10_000_000, wide.indptr), shape=(600, 2**31 - 1))
    assert silhouette(wide, labels) == pytest.approx(silhouette(csr(X), labels), abs=1e-12)


def test_labels_can_be_strings_or_any_numbers():
    X, _ = problem("text")
    labels = labels_for(len(X))
    expected = silhouette(csr(X), labels)
    assert silhouette(csr(X), [f"cluster {one}" for one in labels]) == expected
    assert silhouette(csr(X), np.array([f"c{one}" for one in labels], dtype=object)) == expected
    assert silhouette(csr(X), labels * 1000.0 + 17) == expected
    assert silhouette(csr(X), labels.astype(np.uint8)) == expected


def test_progress_goes_to_one():
    shares = []
    X, _ = problem("text")
    silhouette(csr(X), labels_for(len(X)), progress=shares.append)
    assert shares
    assert shares[-1] == 1.0


@given(st.data())
def test_small_sets_of_all_kinds(data):
    n_rows = data.draw(st.integers(3, 12))
    n_clusters = data.draw(st.integers(2, n_rows - 1))
    values = st.sampled_from([0.0, 0.0, 1.0, -1.0, 2.5, 1e-3])
    shape = (n_rows, data.draw(st.integers(1, 4)))
    X = np.array(
        data.draw(st.lists(values, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    )
    X = X.reshape(shape)
    order = data.draw(st.permutations(range(n_rows)))
    labels = (np.arange(n_rows) % n_clusters)[list(order)]
    weights = np.array(
        data.draw(st.lists(st.sampled_from([0.25, 1.0, 2.0]), min_size=n_rows, max_size=n_rows))
    )
    for metric in METRICS:
        found = silhouette(csr(X), labels, metric=metric, samples=True, sample_weight=weights)
        # A difference of rounding errors may be all that there is.
        expected = naive(X, labels, weights, metric)
        both = np.abs(found - expected) < 1e-7
        tiny = np.isclose(found, 0, atol=1e-7) | np.isclose(np.abs(found), 1, atol=1e-7)
        assert np.all(both | tiny)


CASES = {
    "labels of another length": ({"labels": [0, 1, 1]}, "3 labels for 4 rows"),
    "one cluster": ({"labels": [5, 5, 5, 5]}, "have 1 cluster; at least 2"),
    "noise alone": ({"labels": [-1, -1, -1, -1]}, "have 0 clusters .4 rows labelled -1: noise"),
    "one cluster and noise": ({"labels": [0, 0, -1, 0]}, "1 cluster .1 row labelled -1: noise"),
    "a cluster for every row": ({"labels": [0, 1, 2, 3]}, "Every row is a cluster of its own"),
    "another negative label": ({"labels": [0, 1, -2, 1]}, "-1 is noise"),
    "NaN as label": ({"labels": [0, 1, np.nan, 1]}, "labels contains NaN or infinity: row 2"),
    "half a label": ({"labels": [0, 1, 0.5, 1]}, "row 2 has 0.5"),
    "labels of two axes": ({"labels": [[0, 1, 0, 1]]}, "one dimension"),
    "a list of integers and strings": ({"labels": [0, "a", "a", 1]}, "one kind"),
    "labels of many kinds": ({"labels": np.array([0, "a", None, 1], dtype=object)}, "one kind"),
    "labels of uneven lists": ({"labels": [0, [1, 2], 0, 1]}, "labels .* of different lengths"),
    "a label beyond whole numbers": ({"labels": [0, 1, 1e300, 1]}, "at most 2.*row 2 has 1e.300"),
    "words as weights": ({"sample_weight": ["a", "b", "c", "d"]}, "must be real numbers"),
    "uneven lists as weights": ({"sample_weight": [1, [2, 3], 1, 1]}, "must be real numbers"),
    "complex weights": ({"sample_weight": [1j, 1, 1, 1]}, "must be real numbers"),
    "NaN as weight": ({"sample_weight": [1, 1, np.nan, 1]}, "NaN"),
    "a negative weight": ({"sample_weight": [1, 1, -1, 1]}, "Negative"),
    "weights of another length": ({"sample_weight": [1, 1]}, "sample_weight"),
    "no weight": ({"sample_weight": [0, 0, 0, 0]}, "at least one non-zero"),
    "one cluster with weight": ({"sample_weight": [1, 1, 0, 0]}, "Only 1 cluster of 2"),
    "an unknown metric": ({"metric": "euclid"}, "can be 'cosine', 'sqeuclidean'"),
    "a wrong progress": ({"progress": 3}, "progress must be callable"),
    "a wrong memory limit": ({"memory_limit": "lots"}, "memory_limit"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_judged_is_refused(case):
    changed, message = CASES[case]
    options = {"labels": [0, 0, 1, 1]} | changed
    with pytest.raises(ValueError, match=message):
        silhouette(np.eye(4), options.pop("labels"), **options)


def test_labels_are_refused_before_a_file_is_read(tmp_path):
    with pytest.raises(ValueError, match="NaN or infinity"):
        silhouette(tmp_path / "there is no such file.npz", [0.0, np.nan])


@pytest.mark.parametrize("metric", METRICS)
def test_equal_rows_in_several_clusters_count_zero(metric):
    X = np.repeat(np.random.default_rng(0).random((3, 20)), 10, axis=0)
    labels = np.r_[np.arange(10) % 2, [2] * 10, [3] * 10]
    values = silhouette(X, labels, metric=metric, samples=True)
    assert np.array_equal(values[:10], np.zeros(10))
    assert np.allclose(values[10:], 1)


def test_rows_of_one_direction_count_zero_by_cosine():
    X = np.arange(1.0, 11)[:, None]
    assert not silhouette(X, [0] * 5 + [1] * 5, samples=True).any()


@pytest.mark.parametrize("measure", [silhouette, simplified_silhouette])
@pytest.mark.parametrize("factor", [2.0**-700, 2.0**400])
def test_the_scale_of_the_rows_does_not_count(measure, factor):
    rng = np.random.default_rng(0)
    X, labels = rng.random((20, 3)), np.arange(20) % 3
    expected = measure(X, labels, metric="sqeuclidean", samples=True)
    for rows in (X * factor, sp.csr_array(X * factor)):
        found = measure(rows, labels, metric="sqeuclidean", samples=True)
        assert np.allclose(found, expected, rtol=1e-12)


def test_silhouettes_by_distances_that_are_not_squared_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match="Pass 'sqeuclidean', or use simplified_silhouette"):
        silhouette(np.eye(4), [0, 0, 1, 1], metric="euclidean")
