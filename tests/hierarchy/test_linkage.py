"""Trees of sparse rows are those that scipy makes of all distances of dense ones."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, fcluster, is_valid_linkage, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import adjusted_rand_score
from support.data import csr

from sparsecluster import AgglomerativeClustering, KMeans, pairwise
from sparsecluster.distances.metrics import METRICS
from sparsecluster.hierarchy.merging import BY_SUMS, LINKAGES

OPTIONS = {"minkowski": {"p": 3.0}}
DISTANCES = [name for name, one in METRICS.items() if not one.similarity and name != "edit"]
TIED = ("jaccard", "hamming")  # which have few values


def rows(seed=0, n_rows=60, n_features=15):
    """Sparse rows, no two distances of which are equal."""
    rng = np.random.default_rng(seed)
    X = np.where(
        rng.random((n_rows, n_features)) < 0.5, rng.lognormal(size=(n_rows, n_features)), 0
    )
    X[~X.any(axis=1), 0] = 1
    return X


def all_distances(X, metric):
    names = {"manhattan": "cityblock"}
    if "jaccard" in metric:
        return squareform(pairwise(X, metric=metric), checks=False)
    return pdist(X, names.get(metric, metric), **OPTIONS.get(metric, {}))


def fitted(X, linkage, metric="euclidean", **options):
    options = {"metric_options": OPTIONS.get(metric)} | options
    return AgglomerativeClustering(linkage=linkage, metric=metric, **options).fit(X)


def assert_same_tree(found, expected):
    """The same merges at the same heights; of a merge the clusters, not their order."""
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[:, 3], expected[:, 3])
    np.testing.assert_array_equal(np.sort(found[:, :2]), np.sort(expected[:, :2]))


@pytest.mark.parametrize("layout", [csr, np.asarray], ids=["sparse", "dense"])
@pytest.mark.parametrize("linkage_name", LINKAGES)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine", "manhattan", "minkowski"])
def test_tree_is_that_of_scipy(metric, linkage_name, layout):
    for seed in range(4):
        X = rows(seed)
        expected = linkage(all_distances(X, metric), linkage_name)
        assert_same_tree(fitted(layout(X), linkage_name, metric).linkage_, expected)


@pytest.mark.parametrize(
    ("metric", "linkage_name"),
    [(one, name) for one in DISTANCES for name in LINKAGES if one not in TIED or name == "single"],
)
def test_heights_and_cophenetic_distances_are_those_of_scipy(metric, linkage_name):
    """Also where distances tie: single linkage does not depend on which comes first."""
    X = rows(5, 40)
    distances = all_distances(X, metric)
    expected = linkage(distances, linkage_name)
    found = fitted(csr(X), linkage_name, metric)
    np.testing.assert_allclose(found.linkage_[:, 2], expected[:, 2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.cophenetic(), cophenet(expected), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean", "cosine"])
def test_single_linkage_needs_no_memory_for_pairs(metric):
    X = rows(6, 80)
    expected = linkage(all_distances(X, metric), "single")
    assert_same_tree(fitted(csr(X), "single", metric, memory_limit=1).linkage_, expected)


def test_heights_of_squares_are_not_rounded_twice():
    X = np.array([[0.0, 0], [1, 1], [3, 4], [7, 7]])
    assert fitted(csr(X), "single", "sqeuclidean").linkage_[:, 2].tolist() == [2, 13, 25]


@pytest.mark.parametrize("linkage_name", ["single", "average", "complete"])
@pytest.mark.parametrize("factor", [1e-160, 1e140])
def test_directions_do_not_depend_on_lengths(linkage_name, factor):
    X = rows(7, 40)
    lengths = np.where(np.arange(40) % 3, factor, 1.0)[:, None]
    expected = fitted(csr(X), linkage_name, "cosine").linkage_
    found = fitted(csr(X * lengths), linkage_name, "cosine").linkage_
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9)


@pytest.mark.parametrize("linkage_name", LINKAGES)
@pytest.mark.parametrize("square", [True, False], ids=["square", "condensed"])
def test_precomputed_distances_give_what_the_rows_give(linkage_name, square):
    X = rows(1)
    distances = squareform(pdist(X)) if square else pdist(X)
    before = distances.copy()
    found = fitted(distances, linkage_name, "precomputed", metric_options=None)
    assert_same_tree(found.linkage_, fitted(csr(X), linkage_name).linkage_)
    np.testing.assert_array_equal(distances, before)


def test_tree_is_the_same_without_fastcluster(monkeypatch):
    X = rows(8)
    expected = fitted(X, "complete").linkage_
    monkeypatch.setitem(sys.modules, "fastcluster", None)
    assert_same_tree(fitted(X, "complete").linkage_, expected)


@given(
    st.integers(0, 10_000), st.sampled_from(list(BY_SUMS)), st.integers(1, 40), st.integers(1, 6)
)
def test_tree_of_tied_rows_is_a_tree_of_the_heights_that_its_merges_cost(seed, kind, n_rows, width):
    """Rows of a small lattice: many are equal, and most distances tie."""
    linkage_name, metric = kind
    X = np.random.default_rng(seed).integers(0, 3, size=(n_rows, width)).astype(float)
    if metric == "cosine":
        X[:, 0] += 1
    found = fitted(csr(X), linkage_name, metric).linkage_
    assert n_rows == 1 or is_valid_linkage(found)
    distances = squareform(all_distances(X, metric)) if n_rows > 1 else np.zeros((1, 1))
    clusters = {i: [i] for i in range(n_rows)}
    for at, (one, other, height, size) in enumerate(found):
        a, b = clusters.pop(int(one)), clusters.pop(int(other))
        assert height == pytest.approx(cost(linkage_name, X, distances, a, b), rel=1e-9, abs=1e-7)
        assert size == len(a) + len(b)
        others = list(clusters.values())
        best = min(
            [cost(linkage_name, X, distances, *two) for two in pairs_of([a, b, *others])],
        )
        assert height == pytest.approx(best, rel=1e-9, abs=1e-7)
        clusters[n_rows + at] = a + b


def pairs_of(clusters):
    return [(one, other) for i, one in enumerate(clusters) for other in clusters[i + 1 :]]


def cost(linkage_name, X, distances, a, b):
    """The height of a merge, from its definition."""
    if linkage_name == "average":
        return distances[np.ix_(a, b)].mean()
    gap = np.linalg.norm(X[a].mean(axis=0) - X[b].mean(axis=0))
    return gap if linkage_name == "centroid" else gap * np.sqrt(2 / (1 / len(a) + 1 / len(b)))


@pytest.mark.parametrize("kind", [*BY_SUMS, ("single", "euclidean"), ("complete", "manhattan")])
def test_any_number_of_threads_gives_the_same_bits(kind, real_data):
    X = real_data("kos")[:700]
    X = X[np.flatnonzero(np.diff(X.indptr))]
    expected = fitted(X, *kind, n_threads=1).linkage_
    for n_threads in (2, 5):
        np.testing.assert_array_equal(fitted(X, *kind, n_threads=n_threads).linkage_, expected)


@pytest.mark.parametrize("kind", BY_SUMS)
def test_tree_does_not_depend_on_what_is_kept_in_memory(kind):
    X = csr(rows(2, 300))
    expected = fitted(X, *kind).linkage_
    assert_same_tree(fitted(X, *kind, memory_limit=1).linkage_, expected)


@pytest.mark.parametrize("scale", [1e-120, 1e120])
@pytest.mark.parametrize("kind", [*BY_SUMS, ("single", "euclidean")])
def test_scale_of_the_rows_only_scales_the_heights(kind, scale):
    X = rows(3)
    expected, found = fitted(X, *kind).linkage_, fitted(X * scale, *kind).linkage_
    power = {"euclidean": 1, "sqeuclidean": 2, "cosine": 0}[kind[1]]
    expected[:, 2] *= scale**power
    assert_same_tree(found, expected)


@pytest.mark.parametrize("kind", [*BY_SUMS, ("single", "euclidean")])
def test_rows_far_from_the_origin_keep_their_digits(kind):
    X = rows(4) + 1e6
    expected = linkage(all_distances(X, kind[1]), kind[0])
    if kind[1] == "cosine":  # distances of 1e-12, of which scipy has no digits
        return
    np.testing.assert_allclose(fitted(X, *kind).linkage_[:, 2], expected[:, 2], rtol=1e-6)


def test_inversions_of_centroid_linkage_are_counted():
    X = np.array([[0.0, 0], [1, 0], [0.5, 0.9]])
    found = fitted(X, "centroid")
    assert found.linkage_[1, 2] == pytest.approx(0.9)
    assert found.n_inversions_ == 1
    assert fitted(X, "ward").n_inversions_ == 0


# --- cuts ----------------------------------------------------------------------------------------


def same_partition(one, other):
    return adjusted_rand_score(one, other) == 1


@pytest.mark.parametrize("linkage_name", ["ward", "average", "complete", "single"])
def test_labels_by_count_and_by_height_are_those_of_scipy(linkage_name):
    X = rows(6)
    model = fitted(csr(X), linkage_name)
    expected = linkage(pdist(X), linkage_name)
    for n_clusters in (1, 2, 7, 60):
        labels = model.cut(n_clusters)
        assert same_partition(labels, fcluster(expected, n_clusters, "maxclust"))
        assert len(np.unique(labels)) == n_clusters
    for height in np.quantile(expected[:, 2], [0, 0.3, 0.9]):
        cut = fcluster(expected, height * (1 + 1e-9), "distance")
        assert same_partition(model.cut(height=height * (1 + 1e-9)), cut)


def test_clusters_are_numbered_by_their_first_rows():
    X = np.array([[9.0], [0], [9.1], [0.1], [50]])
    assert AgglomerativeClustering(3).fit(X).labels_.tolist() == [0, 1, 0, 1, 2]


def test_tree_is_cut_at_the_widest_gap_by_default():
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [10, 0], [0, 10]], 20, axis=0) + rng.normal(size=(60, 2))
    model = AgglomerativeClustering().fit(X)
    assert model.n_clusters_ in (2, 3)
    gaps = np.diff(model.linkage_[:, 2])
    assert model.n_clusters_ == len(X) - 1 - gaps.argmax()


def test_cut_by_height_counts_the_highest_merge_below_an_inversion():
    X = np.array([[0.0, 0], [1, 0], [0.5, 0.9]])
    assert fitted(X, "centroid", height=0.95).n_clusters_ == 3
    assert fitted(X, "centroid", height=1.0).n_clusters_ == 1


def test_isolated_rows_are_outliers():
    X = np.array([[0.0], [1], [2], [50], [100], [101]])
    model = AgglomerativeClustering(height=5, linkage="single").fit(X)
    assert model.outliers().tolist() == [3]
    assert model.outliers(max_size=2).tolist() == [3, 4, 5]
    assert model.outliers(height=0.5).tolist() == list(range(6))


# --- k-means first -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [("ward", "euclidean"), ("average", "cosine")])
def test_hierarchy_of_as_many_centers_as_rows_is_that_of_the_rows(kind):
    X = rows(7)
    found = fitted(X, *kind, first="kmeans", random_state=0, n_clusters=5)
    assert same_partition(found.labels_, fitted(X, *kind, n_clusters=5).labels_)


def test_ward_of_centers_weighs_them_by_their_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = AgglomerativeClustering(4, first="kmeans", first_clusters=20, random_state=0).fit(X)
    km = KMeans(20, random_state=0).fit(X)
    assert same_partition(model.leaf_labels_, km.labels_)
    # The first merge is the one by which the sum of squares grows least.
    one, other, height, _ = model.linkage_[0]
    costs = [growth(X, model.leaf_labels_, a, b) for a in range(20) for b in range(a + 1, 20)]
    assert growth(X, model.leaf_labels_, one, other) == pytest.approx(min(costs))
    assert height == pytest.approx(np.sqrt(2 * min(costs)))


def growth(X, labels, a, b):
    def scatter(rows):
        return ((rows - rows.mean(axis=0)) ** 2).sum()

    both = X[(labels == a) | (labels == b)]
    return scatter(both) - scatter(X[labels == a]) - scatter(X[labels == b])
