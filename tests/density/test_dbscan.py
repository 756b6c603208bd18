"""DBSCAN: the labels of scikit-learn's on densified rows, and what goes beyond it."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.cluster import DBSCAN as Reference
from support.data import NAMES, csr, directions, problem
from support.marks import covering
from support.near import distances, gap_near

from sparsecluster import DBSCAN, ModelFileError, k_distances, load_model, radius_graph

METRICS = ("cosine", "euclidean")


def reference(X, eps, min_samples, metric, weights=None):
    found = distances(X, metric=metric)
    return Reference(eps=eps, min_samples=min_samples, metric="precomputed").fit(
        found, sample_weight=weights
    )


def assert_like(ours, theirs):
    assert np.array_equal(ours.labels_, theirs.labels_)
    assert np.array_equal(ours.core_sample_indices_, theirs.core_sample_indices_)


@covering(name=NAMES, min_samples=[1, 3, 8], metric=METRICS, share=[0.002, 0.03, 0.2])
def test_labels_are_those_of_scikit_learn(name, min_samples, metric, share):
    X = problem(name)[0][:250]
    eps = max(gap_near(distances(X, metric=metric), share), 1e-6)
    ours = DBSCAN(eps, min_samples=min_samples, metric=metric).fit(csr(X))
    assert_like(ours, reference(X, eps, min_samples, metric))


@pytest.mark.parametrize("metric", METRICS)
def test_labels_are_those_of_scikit_learn_by_its_own_search(metric):
    X = directions(problem("text")[0])
    X = X[X.any(axis=1)]
    ours = DBSCAN(0.3, min_samples=4, metric=metric).fit(csr(X))
    assert_like(ours, Reference(eps=0.3, min_samples=4, metric=metric).fit(X))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("limit", [None, 1])
def test_weights_count_as_in_scikit_learn(metric, limit):
    X = problem("counts")[0][:200]
    eps = gap_near(distances(X, metric=metric), 0.05)
    weights = np.random.default_rng(0).integers(0, 4, size=len(X)).astype(float)
    ours = DBSCAN(eps, metric=metric, memory_limit=limit).fit(csr(X), sample_weight=weights)
    assert_like(ours, reference(X, eps, 5, metric, weights))


@given(
    arrays(np.float64, (14, 2), elements=st.integers(0, 6).map(float)),
    st.sampled_from([1.0, 1.5, 2.3]),
    st.integers(1, 5),
)
def test_points_of_a_lattice(X, eps, min_samples):
    ours = DBSCAN(eps, min_samples=min_samples, metric="euclidean").fit(csr(X))
    assert_like(ours, reference(X, eps, min_samples, "euclidean"))


def test_border_row_belongs_to_the_lowest_cluster_that_reaches_it():
    X = np.array([[0.0], [0.1], [0.2], [1.0], [1.8], [1.9], [2.0]])
    db = DBSCAN(0.85, min_samples=4, metric="euclidean").fit(X)
    assert db.labels_.tolist() == reference(X, 0.85, 4, "euclidean").labels_.tolist()


@pytest.mark.parametrize("metric", METRICS)
def test_pairs_that_do_not_fit_are_searched_again(metric):
    X = csr(problem("text")[0])
    expected = DBSCAN(0.5, metric=metric).fit(X)
    assert_like(DBSCAN(0.5, metric=metric, memory_limit=100).fit(X), expected)


def test_all_rows_equal_are_one_cluster():
    X = csr(np.tile([1.0, 2.0, 0.0], (20, 1)))
    assert not DBSCAN(1e-9, min_samples=20).fit(X).labels_.any()
    assert (DBSCAN(0.1, min_samples=21).fit(X).labels_ == -1).all()


def test_one_row_is_noise_or_a_cluster():
    assert DBSCAN().fit(np.ones((1, 2))).labels_.tolist() == [-1]
    assert DBSCAN(min_samples=1).fit(np.ones((1, 2))).labels_.tolist() == [0]


# --- predict -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
def test_predict_gives_the_cluster_of_the_nearest_core_row(metric):
    X = problem("text")[0]
    db = DBSCAN(0.4, metric=metric).fit(csr(X[:400]))
    found = distances(X[400:], X[:400][db.core_sample_indices_], metric)
    nearest = db.labels_[db.core_sample_indices_][found.argmin(axis=1)]
    expected = np.where(found.min(axis=1) <= 0.4, nearest, -1)
    assert np.array_equal(db.predict(csr(X[400:], np.float32)), expected)
    assert np.array_equal(db.predict(X[400:]), expected)


def test_core_rows_keep_their_clusters_and_noise_stays_noise():
    X = csr(problem("unit")[0])
    db = DBSCAN(0.4).fit(X)
    again = db.predict(X)
    core = db.core_sample_indices_
    assert np.array_equal(again[core], db.labels_[core])
    assert np.array_equal(again < 0, db.labels_ < 0)


def test_predict_without_core_rows_is_noise():
    db = DBSCAN(0.1, min_samples=9).fit(np.eye(4))
    assert db.components_.shape == (0, 4)
    assert (db.predict(np.eye(4)) == -1).all()


def test_components_are_the_core_rows():
    X = csr(problem("text")[0], np.float32)
    db = DBSCAN(0.4).fit(X)
    assert (db.components_ != X[db.core_sample_indices_]).nnz == 0
    assert db.components_.dtype == np.float32


# --- precomputed ---------------------------------------------------------------------------------


@pytest.mark.parametrize("min_samples", [1, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_precomputed_distances_give_the_same_clusters(min_samples, weighted):
    X = problem("unit")[0][:200]
    weights = np.arange(len(X)) % 3.0 if weighted else None
    expected = DBSCAN(0.4, min_samples=min_samples).fit(csr(X), sample_weight=weights)
    other = DBSCAN(0.4, min_samples=min_samples, metric="precomputed")
    for given_distances in (distances(X), radius_graph(csr(X), 0.6), radius_graph(csr(X), 0.4)):
        assert_like(other.fit(given_distances, sample_weight=weights), expected)


def test_precomputed_predict_takes_distances_to_the_rows_of_the_fit():
    X = problem("unit")[0]
    db = DBSCAN(0.4).fit(csr(X[:300]))
    other = DBSCAN(0.4, metric="precomputed").fit(distances(X[:300]))
    expected = db.predict(csr(X[300:]))
    assert np.array_equal(other.predict(distances(X[300:], X[:300])), expected)
    graph = radius_graph(csr(X[300:]), 0.4, Y=csr(X[:300]))
    assert np.array_equal(other.predict(graph), expected)


@pytest.mark.parametrize(
    ("given_distances", "message"),
    [
        (np.zeros((3, 2)), "square"),
        (np.full((2, 2), -1.0), "[Nn]egative"),
        (np.array([[0, np.nan], [1, 0]]), "NaN"),
        (np.array([[0, 0.1], [0.9, 0]]), "not symmetric"),
        (sp.csr_array(([0.1], ([0], [1])), shape=(2, 2)), "not symmetric"),
    ],
    ids=["shape", "negative", "NaN", "asymmetric", "sparse"],
)
def test_precomputed_that_are_no_distances_are_refused(given_distances, message):
    with pytest.raises(ValueError, match=message):
        DBSCAN(0.5, metric="precomputed").fit(given_distances)


# --- parameters, files ---------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0, -1.0, np.nan, np.inf, "0.5", None, True])
def test_eps_that_is_no_distance_is_refused(eps):
    with pytest.raises(ValueError, match="eps must be a finite number above 0"):
        DBSCAN(eps).fit(np.eye(3))


@pytest.mark.parametrize("options", [{"min_samples": 0}, {"metric": "cityblock"}])
def test_other_parameters_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        DBSCAN(**options).fit(np.eye(3))


def test_file_whose_core_rows_do_not_fit_is_refused(tmp_path):
    db = DBSCAN(0.4).fit(csr(problem("unit")[0]))
    db.core_labels_ = db.core_labels_[1:]
    db.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="do not fit together"):
        load_model(tmp_path / "model")


def test_callback_gets_shares_and_verbose_a_line(capsys):
    shares = []
    DBSCAN(0.4, callback=shares.append, verbose=1).fit(csr(problem("unit")[0]))
    assert all(0 <= share <= 1 for share in shares)
    assert "of noise" in capsys.readouterr().out


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_rows_whose_k_distance_is_within_eps_are_core(metric):
    X = sp.random_array((100, 20), density=0.2, format="csr", rng=3)
    model = DBSCAN(0.5, min_samples=4, metric=metric).fit(X)
    near = np.flatnonzero(model.k_distances(X) <= 0.5)
    assert np.array_equal(near, model.core_sample_indices_)
    assert np.array_equal(model.k_distances(X, 7), k_distances(X, 7, metric=metric))
