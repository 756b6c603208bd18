"""Two labellings of the same rows: against scikit-learn, by hand, and with weights."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from sparsecluster import (
    KMeans,
    adjusted_rand,
    clustering_accuracy,
    normalized_mutual_info,
    purity,
    stability,
)

MEASURES = (adjusted_rand, clustering_accuracy, normalized_mutual_info, purity)
LARGE = (2.0**150, 2.0**900)
small_labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30)


@given(small_labels)
def test_indices_are_those_of_scikit_learn(pairs):
    true, found = np.array(pairs).T
    assert adjusted_rand(true, found) == pytest.approx(adjusted_rand_score(true, found), abs=1e-12)
    expected = normalized_mutual_info_score(true, found)
    assert normalized_mutual_info(true, found) == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("error")
@given(small_labels)
def test_large_weights_give_the_index_of_rows_that_occur_often(pairs):
    true, found = np.array(pairs).T
    many, more = (adjusted_rand(true, found, sample_weight=[by] * len(true)) for by in LARGE)
    assert many == more


@given(small_labels)
def test_accuracy_is_that_of_the_best_of_all_matchings(pairs):
    true, found = np.array(pairs).T
    best = max(
        np.mean(np.array(matching)[found] == true) for matching in itertools.permutations(range(4))
    )
    assert clustering_accuracy(true, found) == pytest.approx(best)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_weight_of_two_is_the_row_twice(measure):
    rng = np.random.default_rng(0)
    true, found, copies = (rng.integers(0, 5, 80) for _ in range(3))
    rows = np.repeat(np.arange(80), copies)
    weighted = measure(true, found, sample_weight=copies)
    assert weighted == pytest.approx(measure(true[rows], found[rows]), abs=1e-12)


def test_purity_by_hand():
    assert purity(["a", "a", "b", "b", "b"], [0, 0, 0, 1, 1]) == pytest.approx(4 / 5)


def test_noise_is_wrong_for_accuracy_and_purity_and_a_label_for_the_others():
    true, found = [0, 0, 1, 1], [0, 0, -1, -1]
    assert clustering_accuracy(true, found) == purity(true, found) == 0.5
    assert adjusted_rand(true, found) == normalized_mutual_info(true, found) == 1.0
    assert clustering_accuracy(true, [-1] * 4) == purity(true, [-1] * 4) == 0.0


@pytest.mark.parametrize("measure", MEASURES)
def test_what_cannot_be_compared_is_refused(measure):
    with pytest.raises(ValueError, match="labels_true has 2 labels and labels_pred 3"):
        measure([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="no labels"):
        measure([], [])
    with pytest.raises(ValueError, match="one weight for each of the 2"):
        measure([0, 1], [0, 1], sample_weight=[1])
    with pytest.raises(ValueError, match="finite, not negative"):
        measure([0, 1], [0, 1], sample_weight=[1, np.nan])
    with pytest.raises(ValueError, match="sample_weight must be real numbers"):
        measure([0, 1], [0, 1], sample_weight=["a", "b"])
    with pytest.raises(ValueError, match="labels_pred contains NaN"):
        measure([0, 1], [0, np.nan])


def test_clear_clusters_are_stable_and_made_up_ones_are_not():
    rng = np.random.default_rng(0)
    clear = np.repeat([[0.0, 9], [9, 0], [9, 9]], 40, axis=0) + rng.normal(size=(120, 2))
    assert stability(KMeans(3, n_init=3), clear, random_state=0) > 0.95
    samples = stability(
        KMeans(7), rng.normal(size=(120, 2)), n_resamples=3, samples=True, random_state=0
    )
    assert samples.shape == (3,)
    assert samples.max() < 0.9


def test_stability_is_the_same_for_the_same_seed_and_takes_weights():
    X = np.random.default_rng(0).random((60, 3))
    weights = np.arange(60) % 3 + 1.0
    shares = []
    runs = [
        stability(KMeans(3), X, random_state=4, sample_weight=weights, progress=shares.append)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fraction": 1.0}, "fraction must be below 1"),
        ({"n_resamples": 0}, "n_resamples"),
        ({"estimator": 3}, "must have fit"),
        ({"fraction": 0.01}, "share too few"),
        ({"progress": 1}, "callable"),
        ({"sample_weight": [np.nan] * 9}, "NaN"),
    ],
)
def test_wrong_resampling_is_refused(changed, message):
    options = {"estimator": KMeans(2), **changed}
    with pytest.raises(ValueError, match=message):
        stability(options.pop("estimator"), np.eye(9), **options)


def test_samples_with_fewer_rows_than_clusters_are_refused():
    with pytest.raises(ValueError, match=r"0\.7 of 10 rows has 7 rows, fewer than n_clusters=8"):
        stability(KMeans(8), np.arange(10.0)[:, None], fraction=0.7)


def test_integers_held_as_objects_are_integers():
    labels = np.array([0, 0, 1, -1], dtype=object)
    assert clustering_accuracy([5, 5, 6, 6], labels) == 0.75
