"""Single moves after convergence, and runs side by side."""

import itertools
import threading
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support.data import csr, dense, problem, weights_for

from sparsecluster import KMeans, SphericalKMeans

ESTIMATORS = {"euclidean": KMeans, "cosine": SphericalKMeans}


def rows_of(name, metric):
    X, _ = problem(name)
    X = X[np.any(X, axis=1)]
    return X / np.linalg.norm(X, axis=1, keepdims=True) if metric == "cosine" else X


def cost(X, labels, weights, metric):
    """The cost of labels with the best centers for them."""
    total = 0.0
    for k in np.unique(labels):
        part, w = X[labels == k], weights[labels == k]
        total_weight = w @ part
        if metric == "cosine":
            total += 2 * (w.sum() - np.linalg.norm(total_weight))
        elif w.sum() > 0:
            total += w @ np.square(part - total_weight / w.sum()).sum(axis=1)
    return total


def fit(X, n_clusters, metric, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weights = options.pop("weights", None)
        return ESTIMATORS[metric](n_clusters, tol=0, **options).fit(csr(X), sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("metric", ESTIMATORS)
@pytest.mark.parametrize("name", ["text", "unit", "counts", "binary", "signed"])
def test_refined_cost_is_lower(name, metric, weighted):
    X = rows_of(name, metric)
    weights = weights_for(len(X)) if weighted else None
    plain, refined = (
        [fit(X, 20, metric, weights=weights, random_state=s, refine=how).inertia_ for s in range(3)]
        for how in (None, "first-variation")
    )
    assert all(b <= a * (1 + 1e-12) for a, b in zip(plain, refined, strict=True))
    assert sum(refined) < sum(plain)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("metric", ESTIMATORS)
def test_no_single_move_would_lower_the_cost(metric, weighted):
    X = rows_of("unit", metric)[:120]
    weights = weights_for(len(X)) if weighted else np.ones(len(X))
    km = fit(X, 8, metric, weights=weights, random_state=0, refine="first-variation")
    least = cost(X, km.labels_, weights, metric)
    assert least == pytest.approx(km.inertia_, rel=1e-9)
    for row, k in itertools.product(range(len(X)), range(8)):
        labels = km.labels_.copy()
        labels[row] = k
        alone = weights[km.labels_ == km.labels_[row]].sum() <= weights[row]
        if weights[row] > 0 and not alone:
            assert cost(X, labels, weights, metric) >= least * (1 - 1e-9)


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_labels_stay_those_of_the_nearest_centers(metric):
    X = rows_of("text", metric)
    km = fit(X, 25, metric, random_state=1, refine="first-variation")
    np.testing.assert_array_equal(km.predict(csr(X)), km.labels_)
    assert len(np.unique(km.labels_)) == 25


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_refinement_is_the_same_for_any_threads_and_simd_level(metric, simd):
    X = rows_of("many", metric)
    fits = [
        fit(X, 40, metric, random_state=2, refine="first-variation", n_threads=n, algorithm=a)
        for n, a in ((1, "auto"), (2, "lloyd"), (3, "hamerly"))
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].labels_, other.labels_)
        np.testing.assert_array_equal(
            dense(fits[0].cluster_centers_), dense(other.cluster_centers_)
        )


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_history_tells_single_moves_and_a_cost_that_falls(metric):
    X = rows_of("unit", metric)
    seen = []
    km = fit(
        X, 20, metric, random_state=0, refine="first-variation",
        callback=lambda record: seen.append(record) and None,
    )  # fmt: skip
    assert [record.iteration for record in km.history_] == list(range(1, km.n_iter_ + 1))
    assert seen == km.history_
    assert "single moves" in {record.path for record in km.history_}
    costs = [record.cost for record in km.history_]
    assert (np.diff(costs) <= 1e-9 * costs[0]).all()


def test_refinement_keeps_to_max_iter():
    km = fit(rows_of("unit", "euclidean"), 20, "euclidean", random_state=0, max_iter=3,
             refine="first-variation")  # fmt: skip
    assert km.n_iter_ <= 3


def test_unknown_refinement_is_refused():
    with pytest.raises(ValueError, match="refine"):
        KMeans(2, refine="annealing").fit(np.eye(3))


# --- runs side by side ---------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ESTIMATORS)
def test_runs_side_by_side_give_the_same_as_one_after_the_other(metric):
    X = rows_of("text", metric)
    fits = [fit(X, 9, metric, random_state=0, n_init=5, n_threads=n) for n in (1, 2, 4)]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].labels_, other.labels_)
        assert other.inertia_ == fits[0].inertia_
        assert [r.run for r in other.history_] == [r.run for r in fits[0].history_]


def test_best_of_several_runs_is_kept():
    X = rows_of("text", "euclidean")
    one, many = (fit(X, 9, "euclidean", random_state=0, n_init=n) for n in (1, 8))
    assert many.inertia_ <= one.inertia_


def test_callback_is_called_by_one_run_at_a_time():
    X = rows_of("text", "euclidean")
    inside, seen = threading.Lock(), []

    def callback(record):
        assert inside.acquire(blocking=False)
        seen.append(record.run)
        inside.release()

    fit(X, 9, "euclidean", random_state=0, n_init=4, n_threads=4, callback=callback)
    assert set(seen) == {0, 1, 2, 3}


def test_error_in_a_callback_ends_all_runs():
    def callback(record):
        raise RuntimeError("enough")

    X = rows_of("text", "euclidean")
    with pytest.raises(RuntimeError, match="enough"):
        fit(X, 9, "euclidean", random_state=0, n_init=4, n_threads=2, callback=callback)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(
    "options",
    [{"refine": "first-variation"}, {"n_init": 3}, {"n_init": 3, "refine": "first-variation"}],
)
def test_callback_that_says_stop_ends_everything(options, n_threads):
    calls = []

    def callback(record):
        calls.append(record)
        return True

    X = rows_of("unit", "euclidean")
    fit(X, 20, "euclidean", random_state=0, n_threads=n_threads, callback=callback, **options)
    assert len(calls) == 1
