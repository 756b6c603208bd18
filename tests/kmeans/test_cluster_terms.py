"""Terms that tell clusters apart, clusters that are alike, and clusters made one."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.data import csr, problem

from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans, load_model
from sparsecluster.kmeans.cluster_terms import METHODS

WORDS = ["the", "cat", "dog", "fish", "rare"]
COUNTS = np.array(
    [
        [9, 4, 0, 0, 0],
        [8, 5, 0, 0, 0],
        [9, 0, 4, 0, 0],
        [9, 0, 6, 0, 1],
        [9, 1, 0, 7, 0],
        [8, 0, 0, 6, 0],
    ],
    dtype=float,
)


def fitted(kind=KMeans, X=COUNTS, **options):
    model = kind(3, init=X[[0, 2, 4]], **options)
    return model.fit(X, feature_names=WORDS)


def naive_scores(model, method, prior=1.0):
    """By the formulas, on dense sums."""
    centers = np.asarray(model.cluster_centers_)
    sums = centers * model.cluster_weights_[:, None]
    of_cluster, of_column, total = sums.sum(axis=1, keepdims=True), sums.sum(axis=0), sums.sum()
    if method == "c-tf-idf":
        return sums / of_cluster * np.log(1 + total / len(sums) / of_column)
    weight = prior * total / len(sums)
    alpha = weight * of_column / total
    rest, of_rest = of_column - sums, total - of_cluster
    odds = np.log((sums + alpha) / (of_cluster + weight - sums - alpha))
    odds -= np.log((rest + alpha) / (of_rest + weight - rest - alpha))
    return odds / np.sqrt(1 / (sums + alpha) + 1 / (rest + alpha))


@pytest.mark.parametrize("prior", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("method", METHODS)
def test_terms_are_ranked_by_the_formula(method, prior):
    model = fitted()
    scores = naive_scores(model, method, prior)
    scores[np.asarray(model.cluster_centers_) == 0] = 0
    for found, row in zip(
        model.distinguishing_terms(5, method=method, prior=prior), scores, strict=True
    ):
        order = np.argsort(-row, kind="stable")
        assert found == [WORDS[one] for one in order if row[one] > 0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans, MiniBatchKMeans])
def test_what_all_clusters_have_does_not_tell_them_apart(kind, method):
    model = fitted(kind)
    assert {terms[0] for terms in model.top_terms(1)} == {"the"}
    assert [terms[0] for terms in model.distinguishing_terms(1, method=method)] == [
        "cat",
        "dog",
        "fish",
    ]
    sparse = fitted(kind, sp.csr_array(COUNTS)).distinguishing_terms(3, method=method)
    assert sparse == model.distinguishing_terms(3, method=method)


def test_weights_of_clusters_are_those_of_their_rows():
    weights = np.array([1, 2, 0.5, 3, 0, 4])
    model = KMeans(3, init=COUNTS[[0, 2, 4]]).fit(COUNTS, sample_weight=weights)
    assert model.cluster_weights_.tolist() == [3, 3.5, 4]


def test_a_loaded_model_knows_the_same_terms(tmp_path):
    model = fitted()
    for labels in (True, False):
        model.save(tmp_path / "model", labels=labels)
        loaded = load_model(tmp_path / "model")
        assert loaded.distinguishing_terms(2) == model.distinguishing_terms(2)


def test_a_model_of_an_older_version_counts_its_labels_or_says_why_not():
    model = fitted()
    expected = model.distinguishing_terms(3)
    del model.cluster_weights_
    assert model.distinguishing_terms(3) == expected
    del model.labels_
    with pytest.raises(ValueError, match="does not know how large its clusters are"):
        model.distinguishing_terms(3)


def test_terms_without_names_and_by_other_names():
    model = KMeans(3, init=COUNTS[[0, 2, 4]]).fit(COUNTS)
    assert model.distinguishing_terms(1) == [["x1"], ["x2"], ["x3"]]
    assert model.distinguishing_terms(1, feature_names=list("abcde")) == [["b"], ["c"], ["d"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_terms": 0}, "n_terms"),
        ({"method": "tfidf"}, "Did you mean 'c-tf-idf'"),
        ({"prior": 0}, "prior must be a finite number above 0"),
        ({"feature_names": ["a"]}, "feature_names has the shape"),
    ],
)
def test_wrong_questions_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fitted().distinguishing_terms(**options)


def test_negative_values_are_refused():
    model = KMeans(2, random_state=0).fit(COUNTS - 5)
    with pytest.raises(ValueError, match="not negative"):
        model.distinguishing_terms()


# --- similar clusters ----------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_similar_clusters_are_all_pairs_above_the_threshold(metric):
    X, _ = problem("text")
    X = X[X.any(axis=1)]
    model = KMeans(15, metric=metric, random_state=0).fit(csr(X))
    C = model.cluster_centers_.toarray()
    norm2 = (C * C).sum(axis=1)
    similarity = 2 * C @ C.T / (norm2[:, None] + norm2)
    expected = {(i, j) for i in range(15) for j in range(i + 1, 15) if similarity[i, j] >= 0.3}
    found = model.similar_clusters(0.3)
    assert {pair[:2] for pair in found} == expected
    assert expected
    assert [pair[2] for pair in found] == sorted((pair[2] for pair in found), reverse=True)
    for one, other, value in found:
        assert value == pytest.approx(similarity[one, other])


@pytest.mark.parametrize("threshold", [0, -1, 1.5, np.nan, "high"])
def test_a_wrong_threshold_is_refused(threshold):
    with pytest.raises(ValueError, match="threshold"):
        fitted().similar_clusters(threshold)


# --- merging -------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", [csr, np.array])
@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans])
def test_a_merged_model_is_consistent(kind, layout, weighted, tmp_path):
    X, _ = problem("text")
    X = layout(X[X.any(axis=1)])
    weights = np.arange(X.shape[0]) % 3 + 0.5 if weighted else None
    model = kind(8, random_state=0).fit(X, sample_weight=weights)
    before = sp.csr_array(model.cluster_centers_).toarray()
    assert model.merge([(1, 5), (2, 7), (5, 6)], X, sample_weight=weights) is model
    assert model.n_clusters_ == model.cluster_centers_.shape[0] == 5
    assert sp.issparse(model.cluster_centers_) == sp.issparse(X)
    assert np.array_equal(model.labels_, model.predict(X))
    assert model.inertia_ == pytest.approx(-model.score(X, sample_weight=weights), rel=1e-12)
    sizes = np.bincount(model.labels_, weights, minlength=5)
    np.testing.assert_allclose(model.cluster_weights_, sizes)
    after = sp.csr_array(model.cluster_centers_).toarray()
    # Numbered by their first members: 0, 1 (with 5 and 6), 2 (with 7), 3, 4.
    for new, old in enumerate([0, None, None, 3, 4]):
        if old is not None:
            assert np.array_equal(after[new], before[old])
    assert model.transform(X).shape == (X.shape[0], 5)
    assert len(model.distinguishing_terms(2)) == 5
    model.save(tmp_path / "model")
    assert np.array_equal(load_model(tmp_path / "model").predict(X), model.labels_)


def test_a_merged_center_is_the_mean_of_its_rows():
    X = np.array([[0.0, 1], [0, 2], [0, 9], [50, 0]])
    model = KMeans(3, init=X[[0, 2, 3]]).fit(X)
    model.merge([(0, 1)], X)
    np.testing.assert_allclose(model.cluster_centers_, [[0, 4], [50, 0]])
    assert model.labels_.tolist() == [0, 0, 0, 1]
    assert model.inertia_ == pytest.approx(9 + 4 + 25)


def test_a_merged_center_by_cosine_is_the_direction_of_its_rows():
    X = np.array([[1.0, 0, 0], [1, 0.2, 0], [0.5, 1, 0], [0, 0, 1]])
    model = SphericalKMeans(3, init=X[[0, 2, 3]]).fit(X)
    model.merge([(0, 1)], X)
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    mean = unit[:3].sum(axis=0)
    np.testing.assert_allclose(model.cluster_centers_[0], mean / np.linalg.norm(mean))


def test_all_clusters_can_become_one():
    model = fitted().merge([(0, 1), (1, 2)], COUNTS)
    assert model.n_clusters_ == 1
    assert set(model.labels_) == {0}


@pytest.mark.parametrize(
    "pairs", [[], [(0, 0)], [(0, 3)], [(-1, 0)], [(0, 1, 2)], [(0, 0.5)], [0, 1], None]
)
def test_wrong_pairs_are_refused_and_change_nothing(pairs):
    model = fitted()
    centers = model.cluster_centers_
    with pytest.raises(ValueError, match="pairs"):
        model.merge(pairs, COUNTS)
    assert model.cluster_centers_ is centers
    assert model.n_clusters_ == 3


def test_a_merge_of_other_rows_or_within_bounds_is_refused():
    X = np.random.default_rng(0).random((20, 3))
    with pytest.raises(ValueError, match="X has 3 rows, but 20 were fitted"):
        KMeans(3, random_state=0).fit(X).merge([(0, 1)], X[:3])
    bounded = KMeans(3, size_max=7, random_state=0).fit(X)
    with pytest.raises(ValueError, match="cannot keep size_min and size_max"):
        bounded.merge([(0, 1)], X)


def test_pairs_are_taken_as_similar_clusters_returns_them():
    X = np.array([[9.0, 0], [9, 1], [0, 5]])
    model = KMeans(3, init=X).fit(X)
    assert model.merge(model.similar_clusters(), X).labels_.tolist() == [0, 0, 1]
