"""Empty clusters by algorithm E.1: the farthest rows, by true distance, that are not alone.

The positions are small integers, so that the expected centers can be computed by hand.
"""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from support.data import csr, dense
from support.oracle import lloyd

from sparsecluster import KMeans
from sparsecluster._core import ALGORITHMS

FAR = 1000.0


def fit(X, centers, *, max_iter=1, weights=None, **options):
    km = KMeans(
        len(centers), init=np.array(centers, dtype=float), max_iter=max_iter, tol=0, **options
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(X, sample_weight=weights)


def column(*values):
    return csr(np.array(values, dtype=float).reshape(-1, 1))


def centers_of(km):
    return dense(km.cluster_centers_).ravel().tolist()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_farthest_row_fills_the_empty_cluster(algorithm):
    # All rows go to 0; distances 0, 1, 2, 7; row 3 moves, and 0, 1, 2 leave a mean of 1.
    km = fit(column(0, 1, 2, 7), [[0], [FAR]], algorithm=algorithm)
    assert centers_of(km) == [1, 7]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_farthest_rows_fill_the_lowest_empty_cluster_first(algorithm):
    # Distances to 0: 1, 2, 3, 6, 8; row 4 (the farthest) fills cluster 0, row 3 cluster 2.
    km = fit(column(1, 2, 3, 6, 8), [[-FAR], [0], [FAR]], algorithm=algorithm)
    assert centers_of(km) == [8, 2, 6]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_lowest_row_goes_first_among_equal_distances(algorithm):
    # Rows -4 and 4 are both at distance 4 from 0.
    km = fit(column(0, -4, 4, 1), [[0], [FAR]], algorithm=algorithm)
    assert centers_of(km) == [5 / 3, -4]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_row_alone_in_its_cluster_stays(algorithm):
    # Row 100 is the farthest from its center 130, but alone there; next is row 5 at distance 5.
    km = fit(column(0, 1, 5, 100), [[0], [130], [FAR]], algorithm=algorithm)
    assert centers_of(km) == [0.5, 100, 5]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_last_row_of_a_cluster_stays_when_the_others_left(algorithm):
    # Rows 20 and 26 belong to 40, at distances 20 and 14. Row 20 goes first; row 26, next in line
    # by distance, is alone by then; so row 4 fills the second empty cluster.
    km = fit(column(0, 1, 4, 20, 26), [[0], [40], [FAR], [2 * FAR]], algorithm=algorithm)
    assert centers_of(km) == [0.5, 26, 20, 4]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_are_ranked_with_their_own_norms(algorithm):
    # Squared distances are 1, 1, 16 around (10, 0) and 1, 1 around the origin: row 2 goes first.
    # Without |x|^2 the ranks would be -80, -120, -100 and 0, 0: row 3 would be.
    X = csr(np.array([[9, 0], [11, 0], [10, 4], [0, 1], [0, -1]], dtype=float))
    km = fit(X, [[10, 0], [0, 0], [0, -FAR]], algorithm=algorithm)
    np.testing.assert_array_equal(dense(km.cluster_centers_), [[10, 0], [0, 0], [10, 4]])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_distances_are_to_the_centers_before_they_move(algorithm):
    # Distances are 4, 5, 6 to center 0 and 3, 3 to center 20: row 6 is the farthest.
    # To the means 5 and 20 they would be 1, 0, 1 and 3, 3.
    km = fit(column(4, 5, 6, 17, 23), [[0], [20], [FAR]], algorithm=algorithm)
    assert centers_of(km) == [4.5, 20, 6]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_refilled_run_equals_the_oracle_to_its_end(algorithm):
    rng = np.random.default_rng(4)
    X = rng.integers(0, 30, size=(120, 2)).astype(float)
    centers = np.concatenate([X[:3], X[:9] + FAR])
    step = lloyd(X, centers)[-1]
    km = fit(csr(X), centers, max_iter=300, algorithm=algorithm)
    np.testing.assert_array_equal(km.labels_, step.labels)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_clusters_emptied_in_the_middle_of_a_run_are_refilled(algorithm, dtype):
    # A search over seeds found data where the oracle refills later than in its first iteration.
    X, centers = late_refill()
    steps = lloyd(X, centers)
    km = fit(csr(X, dtype), centers, max_iter=300, algorithm=algorithm)
    np.testing.assert_array_equal(km.labels_, steps[-1].labels)
    assert km.n_iter_ == len(steps)


def late_refill():
    """Data and centers of which a cluster loses all its rows after the first iteration."""
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 12, size=(25, 2)).astype(float)
        centers = rng.integers(-3, 15, size=(6, 2)).astype(float)
        if any(step.refilled for step in lloyd(X, centers)[1:]):
            return X, centers
    raise AssertionError("no such data among these seeds")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_centers_far_away_still_give_every_cluster_a_row(algorithm):
    X = np.random.default_rng(0).random((50, 4))
    km = fit(
        csr(X), np.full((8, 4), 1e6) + np.arange(8)[:, None], max_iter=300, algorithm=algorithm
    )
    assert sorted(set(km.labels_)) == list(range(8))


@pytest.mark.parametrize("distance", [1e10, 1e50, 1e140])
def test_centers_at_any_distance_end_at_the_data(distance):
    X = np.random.default_rng(0).random((50, 4))
    km = fit(csr(X), [[distance] * 4, [-distance] * 4, [distance, 0, 0, 0]], max_iter=300)
    assert np.abs(dense(km.cluster_centers_)).max() <= 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_equal_centers_are_parted(algorithm):
    # Ties go to the lowest index, so clusters 1 and 2 start without rows.
    km = fit(column(0, 3, 10), [[5], [5], [5]], max_iter=300, algorithm=algorithm)
    assert sorted(centers_of(km)) == [0, 3, 10]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_run_ends_where_fewer_distinct_rows_exist_than_centers(algorithm):
    # Two distinct rows for four clusters: two clusters go, once, and the run converges.
    km = fit(column(0, 0, 0, 5, 5), [[0], [1], [2], [3]], max_iter=300, algorithm=algorithm)
    assert km.n_clusters_ == 2
    assert sorted(centers_of(km)) == [0, 5]
    assert km.n_iter_ < 10


def test_clusters_that_remain_keep_their_order():
    # Row 0 fills none: cluster 1 can be filled by no row that is off its center, and goes.
    km = fit(column(0, 0, 8, 8), [[0], [FAR], [8]], max_iter=300)
    assert centers_of(km) == [0, 8]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_zero_weight_fill_no_cluster(algorithm):
    # Row 50 is by far the farthest, but counts for nothing; row 7 is next.
    km = fit(column(0, 1, 2, 7, 50), [[0], [FAR]], weights=[1, 1, 1, 1, 0], algorithm=algorithm)
    assert centers_of(km) == [1, 7]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cluster_of_zero_weights_only_counts_as_empty(algorithm):
    # Row 50 alone is near center 60; it has no weight, so row 7 takes the cluster over.
    km = fit(column(0, 1, 2, 7, 50), [[0], [60]], weights=[1, 1, 1, 1, 0], algorithm=algorithm)
    assert centers_of(km) == [1, 7]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_weights_do_not_change_which_row_is_farthest(algorithm):
    # Row 7 is the farthest although row 2 has ten times its weight.
    km = fit(column(0, 0, 2, 7), [[0], [FAR]], weights=[1, 1, 10, 0.5], algorithm=algorithm)
    assert centers_of(km) == [20 / 12, 7]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_zero_weight_get_the_label_of_their_nearest_center(algorithm):
    X = column(0, 1, 10, 11, 4)
    km = fit(X, [[0], [10]], weights=[1, 1, 1, 1, 0], max_iter=300, algorithm=algorithm)
    assert km.labels_.tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_of_zero_weight_outlive_their_cluster(algorithm):
    # Only row 9, which has no weight, is near the last center; nothing can fill that cluster.
    X = column(0, 5, 9)
    km = fit(X, [[0], [5], [9]], weights=[1, 1, 0], max_iter=300, algorithm=algorithm)
    assert km.labels_.tolist() == [0, 1, 1]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_labels_after_a_refill_in_the_last_iteration_fit_the_centers(algorithm):
    X = column(0, 1, 2, 7, 8)
    km = fit(X, [[0], [FAR]], algorithm=algorithm)
    # Row 8 made the second center; 7 is nearer to it than to the mean 2.5 of the others.
    assert km.labels_.tolist() == [0, 0, 0, 1, 1]
