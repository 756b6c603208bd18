"""Parameters that cannot be are named before any work, and changed ones change no fit."""

import warnings

import numpy as np
import pytest
from support.data import csr

from sparsecluster import (
    KMeans,
    MiniBatchKMeans,
    kmeans_plusplus,
    load_model,
)

X = np.arange(12.0).reshape(4, 3)


def fit(matrix, n_clusters=2, *, sample_weight=None, **options):
    return KMeans(n_clusters, random_state=0, **options).fit(matrix, sample_weight=sample_weight)


def never(record):
    raise AssertionError("work was done before the input was refused")


@pytest.mark.parametrize("value", [0, -1, 2.0, 2.5, "8", None, True, [3], np.nan])
@pytest.mark.parametrize("name", ["n_clusters", "n_init", "max_iter"])
def test_parameter_that_is_no_positive_integer_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        KMeans(**{name: value}).fit(X)


@pytest.mark.parametrize("value", [0, -1, 2.5, "8", None])
def test_number_of_seeds_that_is_no_positive_integer_is_named(value):
    with pytest.raises(ValueError, match="n_clusters must be an integer"):
        kmeans_plusplus(X, value)


@pytest.mark.parametrize("value", [0, -1, 2.5, "8"])
def test_number_of_trials_that_is_no_positive_integer_is_named(value):
    with pytest.raises(ValueError, match="n_local_trials must be an integer"):
        kmeans_plusplus(X, 2, n_local_trials=value)


@pytest.mark.parametrize("value", [-1e-9, "small", None, np.nan, [0.1]])
def test_tolerance_that_is_no_number_from_zero_is_named(value):
    with pytest.raises(ValueError, match="tol must be a number"):
        fit(X, tol=value)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("elkn", "elkan"), ("Lloyd", "lloyd"), ("hammerly", "hamerly"), ("automatic", "auto")],
)
def test_misspelt_algorithm_gets_the_nearest_name(value, nearest):
    with pytest.raises(ValueError, match=f"algorithm='{value}'.*Did you mean '{nearest}'"):
        fit(X, algorithm=value)


@pytest.mark.parametrize("value", ["full", None, 3])
def test_unknown_algorithm_gets_the_known_names(value):
    with pytest.raises(
        ValueError, match=r"algorithm=.*'auto', 'lloyd', 'elkan', 'elkan-rows', 'hamerly'"
    ):
        fit(X, algorithm=value)


@pytest.mark.parametrize(
    ("value", "nearest"),
    [("kmeans++", "k-means++"), ("k-means", "k-means++"), ("Random", "random"), ("rand", "random")],
)
def test_misspelt_init_gets_the_nearest_name(value, nearest):
    with pytest.raises(ValueError, match=r"init=.*Did you mean") as caught:
        fit(X, init=value)
    assert nearest in str(caught.value).split("Did you mean")[1]


@pytest.mark.parametrize("value", [None, 3, np.ones(3), np.ones((2, 4)), np.ones((3, 3)), csr(X)])
def test_centers_of_the_wrong_shape_are_named_with_both_shapes(value):
    with pytest.raises(ValueError, match=r"initial centers.* must have the shape \(2, 3\)"):
        fit(X, init=value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("make", [csr, np.array], ids=["sparse", "dense"])
def test_centers_that_are_not_finite_are_refused(make, value):
    with pytest.raises(ValueError, match="init contains NaN or infinity"):
        fit(X, init=make(np.full((2, 3), value)))


@pytest.mark.parametrize("value", [[["a", "b", "c"]] * 2, np.full((2, 3), 1j)])
def test_centers_that_are_no_numbers_are_refused(value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="init"):
            fit(X, init=value)


def test_callable_that_returns_nonsense_is_refused():
    with pytest.raises(ValueError, match="init"):
        fit(X, init=lambda X, n_clusters, random_state: None)


@pytest.mark.parametrize("value", [0, -2, 1.5, "2", True, 2**40])
def test_number_of_threads_that_cannot_be_is_named(value):
    with pytest.raises(ValueError, match="n_threads"):
        fit(X, n_threads=value)


@pytest.mark.parametrize("value", [0, -5, "much", "2 XB", "0GB", "1..2GB", "", np.nan, [1]])
def test_memory_limit_that_cannot_be_is_named(value):
    with pytest.raises(ValueError, match="memory_limit"):
        fit(X, memory_limit=value)


@pytest.mark.parametrize("value", ["2GB", "500 MiB", "1.5g", "100000", 10**9, 1e9, np.int64(10**9)])
def test_memory_limit_may_be_bytes_or_a_size(value):
    assert fit(X, memory_limit=value).n_clusters_ == 2


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "fast"},
        {"init": "kmeans"},
        {"tol": -1},
        {"n_threads": 0},
        {"memory_limit": "much"},
        {"init": np.ones((3, 3))},
        {"init": np.full((2, 3), np.nan)},
    ],
    ids=str,
)
def test_bad_option_is_refused_before_any_work(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        fit(X, callback=never, **options)


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_a_metric_that_changes_after_the_fit_changes_no_prediction(kind, tmp_path):
    rows = np.random.default_rng(0).random((60, 5)) * np.arange(1, 61)[:, None]
    km = kind(4, random_state=0).fit(rows)
    labels, distances = km.predict(rows), km.transform(rows)
    km.set_params(metric="cosine")
    assert km.predict(rows).tolist() == labels.tolist()
    np.testing.assert_array_equal(km.transform(rows), distances)
    km.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(rows).tolist() == labels.tolist()


def test_an_estimator_is_what_it_was_until_a_fit_has_succeeded():
    first, second = np.eye(6)[:, :4] + 1, np.eye(6)
    found = []

    def callback(record):
        found.append(km.predict(first).tolist())

    km = KMeans(2, random_state=0).fit(first)
    before = km.labels_.tolist()
    km.set_params(callback=callback).fit(second)
    assert found
    assert all(labels == before for labels in found)
    assert km.n_features_in_ == 6
