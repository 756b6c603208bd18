"""K-means by way of an embedding: clustered in few columns, lifted, and finished."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.random_projection import GaussianRandomProjection, SparseRandomProjection
from support.compare import same
from support.data import csr, dense, directions, text

from sparsecluster import KMeans, Prepare, SparseEmbedding, SphericalKMeans, convert, load_model

K = 10


def rows(seed=0, n_rows=400, n_features=300):
    X = np.round(16 * text(np.random.default_rng(seed), n_rows, n_features)) / 16
    X[~X.any(axis=1), 0] = 1
    return X


ROWS = rows()
SPARSE = csr(ROWS)
EMBEDDING = SparseEmbedding(40, random_state=7)


def cost(X, labels, weights=None):
    """Weighted squared distances to the weighted means, cluster by cluster."""
    weights = np.ones(len(X)) if weights is None else weights
    total = 0.0
    for k in np.unique(labels):
        members, own = X[labels == k], weights[labels == k]
        total += own @ ((members - np.average(members, axis=0, weights=own)) ** 2).sum(axis=1)
    return total


# --- the paper's ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("X", [SPARSE, ROWS], ids=["sparse", "dense"])
def test_without_a_finish_the_labels_are_those_of_the_embedded_rows(X, n_init):
    options = {"n_clusters": K, "random_state": 0, "n_init": n_init}
    km = KMeans(**options, embedding=EMBEDDING, finish="none").fit(X)
    small = KMeans(**options).fit(clone(EMBEDDING).fit_transform(X))
    assert same(km.labels_, small.labels_)
    assert [one.cost for one in km.history_] == [one.cost for one in small.history_]
    assert {one.space for one in km.history_} == {"embedded"}
    assert km.inertia_ == pytest.approx(cost(ROWS, km.labels_), rel=1e-12)
    for k in range(K):
        mean = ROWS[km.labels_ == k].mean(axis=0)
        assert np.allclose(dense(km.cluster_centers_)[k], mean, rtol=1e-12, atol=0)
    assert km.predict(X).shape == (400,)  # of rows of X, not of embedded ones


def test_centers_by_cosine_are_directions_of_their_rows():
    km = SphericalKMeans(K, random_state=0, embedding=EMBEDDING, finish="none").fit(SPARSE)
    unit = directions(ROWS)
    small = clone(EMBEDDING).fit_transform(csr(unit))
    assert same(km.labels_, SphericalKMeans(K, random_state=0).fit(small).labels_)
    sums = np.array([unit[km.labels_ == k].sum(axis=0) for k in range(K)])
    assert np.allclose(dense(km.cluster_centers_), directions(sums), rtol=0, atol=1e-12)
    expected = 2 * (1 - (unit * directions(sums)[km.labels_]).sum(axis=1)).sum()
    assert km.inertia_ == pytest.approx(expected, rel=1e-9)


# --- the finish ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans])
def test_finish_is_a_fit_from_the_lifted_centers(kind):
    lifted = kind(K, random_state=0, embedding=EMBEDDING, finish="none").fit(SPARSE)
    km = kind(K, random_state=0, embedding=EMBEDDING).fit(SPARSE)
    expected = kind(K, init=lifted.cluster_centers_).fit(SPARSE)
    assert same(km.labels_, expected.labels_)
    assert same(km.cluster_centers_, expected.cluster_centers_)
    assert km.inertia_ == expected.inertia_ <= lifted.inertia_
    assert same(km.labels_, km.predict(SPARSE))


def test_history_says_which_space_and_counts_through_both():
    km = KMeans(K, random_state=0, embedding=EMBEDDING).fit(SPARSE)
    spaces = [one.space for one in km.history_]
    n_embedded = spaces.count("embedded")
    assert spaces == ["embedded"] * n_embedded + ["original"] * (len(spaces) - n_embedded)
    assert 0 < n_embedded < len(spaces)
    assert [one.iteration for one in km.history_] == list(range(1, len(spaces) + 1))
    costs = [one.cost for one in km.history_ if one.space == "original"]
    assert np.all(np.diff(costs) <= 1e-9 * costs[0])
    assert costs[-1] == pytest.approx(km.inertia_, rel=1e-9)
    assert {one.space for one in KMeans(2, random_state=0).fit(SPARSE).history_} == {"original"}


def test_each_space_has_max_iter_iterations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        km = KMeans(K, random_state=0, embedding=EMBEDDING, max_iter=2, tol=0).fit(SPARSE)
    assert [one.space for one in km.history_] == ["embedded"] * 2 + ["original"] * 2
    assert not km.converged_


def test_fit_that_does_not_converge_in_the_end_says_so_once():
    km = KMeans(K, random_state=0, embedding=EMBEDDING, max_iter=2, tol=0)
    with pytest.warns(ConvergenceWarning) as caught:
        km.fit(SPARSE)
    assert len(caught) == 1


def test_refinement_is_for_the_space_that_the_fit_ends_in():
    for finish, space in (("exact", "original"), ("none", "embedded")):
        km = KMeans(K, random_state=0, embedding=EMBEDDING, finish=finish, refine="first-variation")
        moves = [one.space for one in km.fit(SPARSE).history_ if one.path == "single moves"]
        assert set(moves) == {space}


@pytest.mark.parametrize("finish", ["exact", "none"])
def test_bounds_of_sizes_hold(finish):
    km = KMeans(K, random_state=0, embedding=EMBEDDING, finish=finish, size_min=30, size_max=50)
    sizes = np.bincount(km.fit(SPARSE).labels_)
    assert 30 <= sizes.min() <= sizes.max() <= 50


def test_fewer_distinct_rows_than_clusters_leave_fewer_clusters():
    X = csr(np.repeat(ROWS[:3], 5, axis=0))
    with pytest.warns(ConvergenceWarning, match="continues with 3 clusters") as caught:
        km = KMeans(K, random_state=0, embedding=EMBEDDING).fit(X)
    assert len(caught) == 1
    assert km.n_clusters_ == 3
    assert km.inertia_ == 0


# In one component many of these rows are equal.
COUNTS = np.eye(12)[:, np.arange(24) % 12] * np.where(np.arange(12) % 2, 1.0, 2.0)[:, None]


def test_clusters_that_only_the_embedding_lacks_are_not_said_to_be_missing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        km = KMeans(8, random_state=0, embedding=SparseEmbedding(1, random_state=0)).fit(COUNTS)
    assert km.n_clusters_ == 8


def test_clusters_that_the_embedding_lacks_are_said_to_be_missing_where_the_fit_ends_there():
    km = KMeans(8, random_state=0, embedding=SparseEmbedding(1, random_state=0), finish="none")
    with pytest.warns(ConvergenceWarning, match=r"continues with \d clusters") as caught:
        km.fit(COUNTS)
    assert f"continues with {km.n_clusters_} clusters" in str(caught[0].message)
    assert km.n_clusters_ < 8


def test_rows_that_vanish_in_the_embedding_are_clustered_by_what_they_are():
    signs = SparseEmbedding(1, random_state=0).fit(np.eye(4)).components(range(4))[1]
    one = np.flatnonzero(signs > 0)[0]
    other = np.flatnonzero(signs < 0)[0]
    X = np.zeros((6, 4))
    X[:3, [one, other]] = 1  # + and - of the same component
    X[3:, one] = [5, 6, 7]
    for kind in (KMeans, SphericalKMeans):
        km = kind(2, random_state=0, embedding=SparseEmbedding(1, random_state=0)).fit(csr(X))
        assert len(set(km.labels_[:3])) == len(set(km.labels_[3:])) == 1
        assert km.labels_[0] != km.labels_[3]


# --- weights, starts, callbacks ------------------------------------------------------------------


@pytest.mark.parametrize("finish", ["exact", "none"])
def test_weights_count_in_centers_and_cost(finish):
    weights = np.random.default_rng(1).integers(0, 4, size=400).astype(float)
    km = KMeans(K, random_state=0, embedding=EMBEDDING, finish=finish)
    km.fit(SPARSE, sample_weight=weights)
    assert km.inertia_ == pytest.approx(cost(ROWS, km.labels_, weights + 1e-300), rel=1e-9)
    assert np.allclose(km.cluster_weights_, np.bincount(km.labels_, weights))


def test_given_centers_are_embedded_too():
    km = KMeans(K, init=ROWS[:K], embedding=EMBEDDING, finish="none").fit(SPARSE)
    embedding = clone(EMBEDDING).fit(SPARSE)
    small = KMeans(K, init=dense(embedding.transform(SPARSE[:K])))
    assert same(km.labels_, small.fit(embedding.transform(SPARSE)).labels_)


def test_function_that_starts_gets_the_embedded_rows():
    shapes = []

    def first(X, n_clusters, random_state):
        shapes.append(X.shape)
        return X[:n_clusters]

    KMeans(K, init=first, n_init=1, embedding=EMBEDDING).fit(SPARSE)
    assert shapes == [(400, 40)]


@pytest.mark.parametrize("space", ["embedded", "original"])
def test_callback_that_stops_leaves_a_whole_fit(space):
    km = KMeans(K, random_state=0, embedding=EMBEDDING, callback=lambda one: one.space == space)
    km.fit(SPARSE)
    assert km.history_[-1].space == space
    assert [one.space for one in km.history_].count(space) == 1
    assert same(km.labels_, km.predict(SPARSE))
    assert not km.converged_


def test_record_of_an_embedded_iteration_shows_lifted_centers():
    shown = []

    def watch(record):
        shown.append((record.space, dense(record.centers()), record.labels()))

    KMeans(K, random_state=0, embedding=EMBEDDING, callback=watch).fit(SPARSE)
    space, centers, labels = shown[0]
    assert space == "embedded"
    means = [ROWS[labels == k].mean(axis=0) for k in range(K)]
    assert np.allclose(centers, means, rtol=1e-12, atol=0)


class Stop(Exception):
    pass


@pytest.mark.parametrize("random_state", [0, None])
@pytest.mark.parametrize("space", ["embedded", "original"])
def test_checkpoint_in_either_space_is_resumed_from(tmp_path, space, random_state):
    def stop(record):
        if record.space == space and record.iteration > 1:
            raise Stop

    options = {"checkpoint": tmp_path / "kept", "checkpoint_every": 0, "n_init": 2}
    options |= {"n_clusters": K, "random_state": random_state, "embedding": 40}
    with pytest.raises(Stop):
        KMeans(callback=stop, **options).fit(SPARSE)
    resumed = KMeans(**options).fit(SPARSE)
    again = KMeans(**options).fit(SPARSE)  # from the end
    assert same(resumed.labels_, again.labels_)
    assert [one.space for one in resumed.history_] == [one.space for one in again.history_]
    if random_state == 0:
        expected = KMeans(K, random_state=0, n_init=2, embedding=40).fit(SPARSE)
        assert same(resumed.labels_, expected.labels_)
        assert same(resumed.cluster_centers_, expected.cluster_centers_)
        assert len(resumed.history_) == len(expected.history_)


def test_checkpoint_of_another_embedding_is_refused(tmp_path):
    options = {"n_clusters": K, "random_state": 0, "checkpoint": tmp_path / "kept"}
    KMeans(embedding=EMBEDDING, **options).fit(SPARSE)
    with pytest.raises(ValueError, match=r"another fit \(different embedding\)"):
        KMeans(embedding=SparseEmbedding(41, random_state=7), **options).fit(SPARSE)


# --- embeddings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "transformer",
    [
        TruncatedSVD(10),
        GaussianRandomProjection(20),
        SparseRandomProjection(20),
        Prepare(min_df=5),
    ],
    ids=lambda one: type(one).__name__,
)
def test_any_transformer_is_an_embedding(transformer):
    X = SPARSE
    parameters = transformer.get_params()
    km = KMeans(K, random_state=0, embedding=transformer).fit(X)
    assert transformer.get_params() == parameters
    assert not hasattr(transformer, "n_features_in_")
    assert same(km.labels_, km.predict(X))
    # The seed of the fit is that of the transformer.
    assert same(km.labels_, KMeans(K, random_state=0, embedding=transformer).fit(X).labels_)


def test_number_is_that_of_a_sparse_embedding_with_a_seed_of_the_fit():
    one, two = (KMeans(K, random_state=0, embedding=40, finish="none").fit(SPARSE) for _ in "ab")
    assert same(one.labels_, two.labels_)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=2)[1]
    embedding = SparseEmbedding(40, random_state=int(seed))
    other = KMeans(K, random_state=0, embedding=embedding, finish="none").fit(SPARSE)
    assert same(one.labels_, other.labels_)


def test_rule_takes_the_number_of_clusters_of_the_fit():
    X = sp.random_array((60, 4000), density=0.01, format="csr", rng=np.random.default_rng(0))
    rule = SparseEmbedding(eps=0.9, delta=0.3, random_state=0)
    km = KMeans(3, random_state=0, embedding=rule, finish="none").fit(X)
    by_hand = SparseEmbedding(n_clusters=3, eps=0.9, delta=0.3, random_state=0)
    small = by_hand.fit_transform(X)
    assert small.shape[1] == by_hand.n_components_ < 4000
    assert same(km.labels_, KMeans(3, random_state=0).fit(small).labels_)


class OneTooMany(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.ones((X.shape[0] + 1, 2))


class OnlyFits:
    def fit_transform(self, X):
        return X[:, :20]


def test_embedding_that_loses_rows_is_refused():
    with pytest.raises(ValueError, match="OneTooMany made 401 rows of 400"):
        KMeans(K, embedding=OneTooMany()).fit(SPARSE)


def test_embedding_without_transform_cannot_take_given_centers():
    km = KMeans(K, random_state=0, embedding=OnlyFits(), finish="none").fit(SPARSE)
    assert same(km.labels_, KMeans(K, random_state=0).fit(SPARSE[:, :20]).labels_)
    with pytest.raises(ValueError, match="has no method transform"):
        KMeans(K, init=ROWS[:K], embedding=OnlyFits()).fit("no such file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"embedding": 0}, "embedding must be a number of components of at least 1"),
        ({"embedding": True}, "embedding must be a number"),
        ({"embedding": 2.5}, "embedding must be a number"),
        ({"embedding": "svd"}, "embedding must be a number"),
        ({"embedding": SparseEmbedding(0)}, "n_components must be an integer"),
        ({"embedding": SparseEmbedding(eps=2)}, "eps must be a number above 0 and below 1"),
        ({"embedding": 5, "finish": "exakt"}, "Did you mean 'exact'"),
        ({"finish": None}, "finish=None is not known"),
    ],
)
def test_bad_embeddings_are_refused_before_the_rows_are_looked_at(options, message):
    with pytest.raises(ValueError, match=message):
        KMeans(K, **options).fit("no such file")


def test_embedded_rows_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(ValueError, match="embedded rows take"):
        KMeans(K, embedding=40, memory_limit=1000).fit(SPARSE)


# --- stores and files ----------------------------------------------------------------------------


def test_streamed_store_gives_what_memory_gives(tmp_path, monkeypatch):
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(SPARSE))
    convert(tmp_path / "rows.npz", tmp_path / "rows.store")
    expected = KMeans(K, random_state=0, embedding=EMBEDDING).fit(SPARSE)
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: 0)
    monkeypatch.setattr("sparsecluster.storage.store.CHUNK_BYTES", 5_000)
    km = KMeans(K, random_state=0, embedding=EMBEDDING).fit(tmp_path / "rows.store")
    assert same(km.labels_, expected.labels_)
    assert km.inertia_ == expected.inertia_
    with pytest.raises(ValueError, match=r"TruncatedSVD needs all of them at once"):
        KMeans(K, embedding=TruncatedSVD(5)).fit(tmp_path / "rows.store")


def test_file_keeps_the_embedding_and_the_spaces(tmp_path):
    km = KMeans(K, random_state=0, embedding=SparseEmbedding(40, hashed=False)).fit(SPARSE)
    km.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert repr(loaded.embedding) == repr(km.embedding)
    assert [one.space for one in loaded.history_] == [one.space for one in km.history_]
    assert same(loaded.predict(SPARSE), km.labels_)


def test_file_leaves_out_an_embedding_of_another_library(tmp_path):
    KMeans(K, random_state=0, embedding=TruncatedSVD(5)).fit(SPARSE).save(tmp_path / "model")
    assert load_model(tmp_path / "model").embedding is None
