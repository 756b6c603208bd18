"""KMeans as a scikit-learn estimator, and what a user reads off it."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import euclidean_distances
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from support.data import LAYOUTS, blobs, csr, dense, problem, weights_for
from support.oracle import cost
from threadpoolctl import threadpool_limits

from sparsecluster import KMeans, SphericalKMeans
from sparsecluster.rows.resources import effective_n_threads

TEXTS = [
    "cat kitten mat",
    "cat kitten purr",
    "kitten cat tail",
    "stocks market fell",
    "market stocks shares",
    "stocks market rose",
]


@pytest.fixture(scope="module")
def fitted():
    X, _ = problem("text")
    return KMeans(10, random_state=0).fit(csr(X)), csr(X)


# --- conventions of scikit-learn -----------------------------------------------------------------


def test_pipeline_clusters_texts():
    pipeline = make_pipeline(TfidfVectorizer(), KMeans(2, random_state=0))
    labels = pipeline.fit_predict(TEXTS)
    assert labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_pipeline_passes_weights():
    X, _ = problem("text")
    weights = weights_for(len(X))
    pipeline = make_pipeline(KMeans(5, random_state=0))
    pipeline.fit(csr(X), kmeans__sample_weight=weights)
    expected = KMeans(5, random_state=0).fit(csr(X), sample_weight=weights)
    np.testing.assert_array_equal(pipeline[-1].labels_, expected.labels_)


def test_grid_search_prefers_more_clusters_by_score():
    X, _ = problem("blobs")
    search = GridSearchCV(KMeans(random_state=0), {"n_clusters": [1, 7]}, cv=2).fit(X)
    assert search.best_params_ == {"n_clusters": 7}


def test_names_of_distances_are_numbered_clusters(fitted):
    names = fitted[0].get_feature_names_out()
    assert names.tolist() == [f"kmeans{k}" for k in range(10)]


# --- what a fit leaves ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_centers_are_sparse_for_sparse_rows_only(layout):
    X = LAYOUTS[layout](problem("text")[0], "float32")
    centers = KMeans(4, random_state=0).fit(X).cluster_centers_
    assert isinstance(centers, np.ndarray if layout == "dense" else sp.csr_array)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_centers_are_float64(dtype):
    X = csr(problem("text")[0], dtype)
    assert KMeans(4, random_state=0).fit(X).cluster_centers_.dtype == np.float64


@pytest.mark.parametrize("name", ["text", "blobs", "binary", "landmark"])
@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_inertia_is_the_cost_of_labels_and_centers(name, weighted):
    X, _ = problem(name)
    weights = weights_for(len(X)) if weighted else None
    km = KMeans(8, random_state=0).fit(csr(X), sample_weight=weights)
    expected = cost(X, dense(km.cluster_centers_), km.labels_, weights)
    assert km.inertia_ == pytest.approx(expected, rel=1e-9)


def test_score_is_minus_the_inertia(fitted):
    km, X = fitted
    assert km.score(X) == pytest.approx(-km.inertia_, rel=1e-12)


def test_score_takes_weights(fitted):
    km, X = fitted
    weights = weights_for(X.shape[0])
    expected = -cost(dense(X), dense(km.cluster_centers_), km.labels_, weights)
    assert km.score(X, sample_weight=weights) == pytest.approx(expected, rel=1e-9)


def test_one_weight_for_all_changes_no_label(fitted):
    km, X = fitted
    again = KMeans(10, random_state=0).fit(X, sample_weight=np.full(X.shape[0], 2.5))
    start = KMeans(10, random_state=0).fit(X, sample_weight=np.ones(X.shape[0]))
    np.testing.assert_array_equal(again.labels_, start.labels_)
    assert km.n_clusters_ == again.n_clusters_


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["int32", "int64", "dense"])
@pytest.mark.parametrize("name", ["text", "signed", "blobs", "gaps"])
def test_transform_gives_the_distances_to_all_centers(name, layout, dtype):
    X, centers = problem(name, dtype)
    matrix = LAYOUTS[layout](X, dtype)
    km = KMeans(len(centers), random_state=0).fit(matrix)
    distances = km.transform(matrix)
    assert distances.dtype == dtype
    np.testing.assert_allclose(
        distances,
        cdist(X, dense(km.cluster_centers_)),
        rtol=1e-6 if dtype == "float32" else 1e-10,
        atol=1e-12 * np.abs(X).max(),
    )


@pytest.mark.parametrize("name", ["text", "signed", "gaps"])
def test_transform_agrees_with_scikit_learn(name):
    X, _ = problem(name)
    km = KMeans(8, random_state=0).fit(csr(X))
    expected = euclidean_distances(csr(X), km.cluster_centers_)
    # scikit-learn subtracts squares, which costs it half of the digits near zero.
    np.testing.assert_allclose(km.transform(csr(X)), expected, atol=1e-7 * np.abs(X).max())


def test_transform_gives_zero_on_a_center():
    X = np.array([[0.1, 0.7], [3.3, 0.2]])
    distances = KMeans(2, random_state=0).fit_transform(X)
    assert np.sort(distances, axis=1)[:, 0].tolist() == [0, 0]


def test_predict_takes_rows_of_other_types(fitted):
    km, X = fitted
    for other in (X.toarray(), X.tocsc(), sp.coo_matrix(X), pd.DataFrame(X.toarray())):
        np.testing.assert_array_equal(km.predict(other), km.labels_)


def test_predict_sends_a_tie_to_the_lowest_index():
    km = KMeans(2, init=np.array([[4.0], [0.0]])).fit([[4.0], [0.0]])
    assert km.predict([[2.0]]).tolist() == [0]


def test_n_init_keeps_the_best_run():
    X, _ = problem("text")
    seen = {}

    def note(record):
        seen.setdefault(record.run, []).append(record.cost)

    km = KMeans(12, n_init=5, random_state=0, init="random", callback=note, tol=0).fit(csr(X))
    assert sorted(seen) == [0, 1, 2, 3, 4]
    finals = [costs[-1] for costs in seen.values()]
    assert len(set(finals)) > 1
    assert km.inertia_ == pytest.approx(min(finals), rel=1e-9)


def test_history_is_that_of_the_run_that_was_kept():
    X, _ = problem("text")
    km = KMeans(12, n_init=5, random_state=0, init="random", tol=0).fit(csr(X))
    assert len({record.run for record in km.history_}) == 1
    assert km.history_[-1].cost == pytest.approx(km.inertia_, rel=1e-9)


def test_tolerance_ends_a_run_earlier():
    X, _ = problem("text")
    loose, strict = (KMeans(12, random_state=0, tol=tol).fit(csr(X)) for tol in (1, 0))
    assert loose.n_iter_ < strict.n_iter_


def test_run_stops_at_the_first_shift_below_tol_times_the_mean_variance():
    X, _ = problem("text")
    km = KMeans(12, random_state=0, tol=0.05).fit(csr(X))
    below = [record.shift <= 0.05 * X.var(axis=0).mean() for record in km.history_]
    assert below == [False] * (len(below) - 1) + [True]


def test_strict_run_ends_when_no_row_moves():
    X, _ = problem("text")
    moved = [record.moved for record in KMeans(12, random_state=0, tol=0).fit(csr(X)).history_]
    assert moved[-1] == 0
    assert min(moved[:-1]) > 0


def test_max_iter_gives_a_warning_when_it_ends_the_run():
    X, _ = problem("text")
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        KMeans(12, random_state=0, max_iter=2).fit(csr(X))


def test_converged_run_gives_no_warning():
    X, _ = problem("text")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        km = KMeans(12, random_state=0).fit(csr(X))
    assert km.n_iter_ < km.max_iter


# --- history, callback, verbose ------------------------------------------------------------------


def test_history_has_a_record_for_each_iteration(fitted):
    history = fitted[0].history_
    assert [record.iteration for record in history] == list(range(1, fitted[0].n_iter_ + 1))


def test_first_record_moves_every_row(fitted):
    km, X = fitted
    assert km.history_[0].moved == X.shape[0]


@pytest.mark.parametrize("algorithm", ["lloyd", "elkan", "hamerly"])
def test_record_names_the_algorithm(algorithm):
    km = KMeans(3, random_state=0, algorithm=algorithm).fit(np.eye(9))
    assert {record.algorithm for record in km.history_} == {algorithm} == {km.algorithm_}


@pytest.mark.parametrize("algorithm", ["elkan", "hamerly"])
def test_bounds_save_distances(algorithm):
    X = blobs(np.random.default_rng(0), offset=0)
    km = KMeans(7, random_state=0, algorithm=algorithm, tol=0).fit(X)
    assert km.history_[0].distances == 7 * len(X)
    assert km.history_[-1].distances < 3 * len(X)


def test_shift_is_the_sum_of_squared_shifts():
    # From 0 and 10 the centers go to 1 and 12.
    km = KMeans(2, init=np.array([[0.0], [10.0]])).fit([[0.0], [2.0], [11.0], [13.0]])
    assert km.history_[0].shift == 1 + 4


def test_records_cannot_be_changed(fitted):
    with pytest.raises(AttributeError):
        fitted[0].history_[0].cost = 0


def test_seconds_are_positive(fitted):
    assert all(record.seconds > 0 for record in fitted[0].history_)


def test_callback_ends_the_fit():
    X = csr(problem("text")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        km = KMeans(12, random_state=0, tol=0, callback=lambda record: record.iteration == 2).fit(X)
    assert km.n_iter_ == 2
    np.testing.assert_array_equal(km.labels_, km.predict(X))


# --- top terms -----------------------------------------------------------------------------------

TERMS = np.array([[3.0, 1, 0, 0], [3, 1, 0, 0], [0, 0, 1, 5], [0, 0, 2, 5]])


def terms_of_first_and_last(km, *arguments, **options):
    terms = km.top_terms(*arguments, **options)
    return [terms[km.labels_[0]], terms[km.labels_[-1]]]


@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_top_terms_are_the_largest_first(make):
    km = KMeans(2, random_state=0).fit(make(TERMS), feature_names=["apple", "pear", "oak", "elm"])
    assert terms_of_first_and_last(km) == [["apple", "pear"], ["elm", "oak"]]


def test_top_terms_are_as_many_as_asked_for():
    km = KMeans(2, random_state=0).fit(csr(TERMS), feature_names=["apple", "pear", "oak", "elm"])
    assert terms_of_first_and_last(km, 1) == [["apple"], ["elm"]]


def test_top_terms_take_names_given_later():
    km = KMeans(2, random_state=0).fit(csr(TERMS))
    assert terms_of_first_and_last(km, 1, feature_names=list("abcd")) == [["a"], ["d"]]


def test_top_terms_take_the_names_of_a_data_frame():
    km = KMeans(2, random_state=0).fit(pd.DataFrame(TERMS, columns=list("abcd")))
    assert terms_of_first_and_last(km, 1) == [["a"], ["d"]]


def test_top_terms_without_names_are_numbered():
    km = KMeans(2, random_state=0).fit(csr(TERMS))
    assert terms_of_first_and_last(km, 1) == [["x0"], ["x3"]]


def test_top_terms_leave_out_what_a_center_lacks():
    km = KMeans(2, random_state=0).fit(csr(-TERMS + [[4, 0, 0, 0]]))
    assert all("x0" in terms or not terms for terms in km.top_terms())


def test_wrong_number_of_names_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\); one name for each of the 4 columns"):
        KMeans(2).fit(csr(TERMS), feature_names=list("abc"))


# --- threads -------------------------------------------------------------------------------------


def test_threadpool_limits_are_respected():
    # scikit-learn brings an OpenMP pool, which carries the limit.
    with threadpool_limits(limits=1):
        assert effective_n_threads(None) == 1


def test_given_n_threads_wins_over_limits():
    with threadpool_limits(limits=1):
        assert effective_n_threads(3) == 3


def test_omp_num_threads_is_respected(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert effective_n_threads(None) == 1


def test_fit_under_a_limit_gives_the_same_labels(fitted):
    km, X = fitted
    with threadpool_limits(limits=1):
        np.testing.assert_array_equal(clone(km).fit(X).labels_, km.labels_)


def test_numpys_integers_are_integers():
    km = KMeans(np.int64(2), n_init=np.int32(1), max_iter=np.int16(9), n_threads=np.int64(2))
    assert km.fit(np.eye(4)).n_clusters_ == 2


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
def test_nearest_centers_are_those_of_predict_with_their_distances(estimator):
    X, _ = problem("text")
    X = X[np.any(X, axis=1)]
    km = estimator(6, random_state=0).fit(csr(X))
    labels, distances2 = km.nearest_center(csr(X))
    np.testing.assert_array_equal(labels, km.predict(csr(X)))
    assert distances2.sum() == pytest.approx(-km.score(csr(X)))
