"""What `auto` scans where few centers moved: these, and others as long as that costs less than an
index of all centers."""

from itertools import pairwise

import numpy as np
import pytest
from support.data import csr, dense, directions, text

from sparsecluster import KMeans


def fit(X, n_clusters, **options):
    """A fit from the first rows; of each iteration but the first, how many centers were scanned,
    and how many had moved."""
    centers = [X[:n_clusters]]
    km = KMeans(
        n_clusters,
        init=X[:n_clusters],
        tol=0,
        callback=lambda record: centers.append(dense(record.centers())),
        **options,
    ).fit(csr(X))
    moved = [int((now != before).any(axis=1).sum()) for before, now in pairwise(centers)]
    records = zip(km.history_[1:], moved, strict=False)
    # The rest are rows that are compared with all centers.
    scans = [
        (record.distances // len(X), n_moved)
        for record, n_moved in records
        if record.path == "moved centers"
    ]
    return km, scans


def unit_text(n_rows, n_features):
    return directions(text(np.random.default_rng(0), n_rows, n_features))


def test_many_rows_meet_no_center_that_stayed():
    _, scans = fit(unit_text(6000, 30), 40)
    assert len(scans) > 4
    assert all(scanned == moved for scanned, moved in scans)


def test_few_rows_meet_centers_that_stayed_rather_than_an_index_of_all():
    _, scans = fit(unit_text(600, 3000), 80)
    assert any(scanned > max(16, 1.5 * moved) for scanned, moved in scans)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_index_of_few_centers_follows_one_of_many_and_the_other_way_round(n_threads):
    X = unit_text(1500, 400)
    auto, scans = fit(X, 100, n_threads=n_threads)
    wide = [scanned > 32 for scanned, _ in scans]  # few centers have a row for every feature
    assert (False, True) in pairwise(wide)
    assert (True, False) in pairwise(wide)
    plain, _ = fit(X, 100, n_threads=n_threads, algorithm="lloyd")
    np.testing.assert_array_equal(auto.labels_, plain.labels_)
    assert [record.cost for record in auto.history_] == [record.cost for record in plain.history_]


@pytest.mark.parametrize(("n_columns", "n_clusters"), [(30, 40), (200, 150), (400, 300)])
def test_rows_that_are_scanned_again_meet_centers_that_moved_a_while_ago(n_columns, n_clusters):
    X = unit_text(6000, n_columns)
    auto, _ = fit(X, n_clusters)
    plain, _ = fit(X, n_clusters, algorithm="lloyd")
    np.testing.assert_array_equal(auto.labels_, plain.labels_)
    assert [record.cost for record in auto.history_] == [record.cost for record in plain.history_]
