"""Centers of bounded L1 norm or few entries, as batches leave them."""

from itertools import pairwise

import numpy as np
import pytest
from support.batches import stream_of
from support.data import csr, dense, directions, problem
from support.oracle import nearest

from sparsecluster import MiniBatchKMeans, project_l1


@pytest.mark.parametrize("projection", ["exact", "epsilon"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_centers_stay_in_the_ball(schedule, projection):
    X = csr(directions(problem("text")[0]))
    km = MiniBatchKMeans(
        6, schedule=schedule, batch_size=100, center_l1=1.2, projection=projection, random_state=0
    ).fit(X)
    sizes = abs(km.cluster_centers_).sum(axis=1)
    assert np.all(sizes <= 1.2 * (1.01 if projection == "epsilon" else 1) * (1 + 1e-12))
    free = MiniBatchKMeans(6, schedule=schedule, batch_size=100, random_state=0).fit(X)
    assert km.cluster_centers_.nnz < free.cluster_centers_.nnz / 2
    np.testing.assert_array_equal(km.labels_, nearest(X.toarray(), dense(km.cluster_centers_)))


def test_stream_projects_as_the_paper_says():
    X, centers = problem("text")
    km = stream_of(centers, center_l1=1.0, projection="exact")
    expected = project_l1(centers, 1.0)
    counts = np.zeros(len(centers))
    for begin in range(0, 600, 100):
        part = X[begin : begin + 100]
        labels = nearest(part, expected)
        for k in np.unique(labels):
            rows = part[labels == k]
            total = expected[k] * counts[k] + rows.sum(axis=0)
            counts[k] += len(rows)
            expected[k] = project_l1(total / counts[k], 1.0)
        km.partial_fit(csr(part))
        np.testing.assert_array_equal(km.labels_, labels)
        np.testing.assert_allclose(dense(km.cluster_centers_), expected, atol=1e-9)


def test_nested_centers_are_the_projected_means():
    X, _ = problem("text")
    km = MiniBatchKMeans(
        5, batch_size=100, center_l1=0.8, projection="exact", tol=0, random_state=0
    ).fit(csr(X))
    for k in range(5):
        mean = X[km.labels_ == k].mean(axis=0)
        np.testing.assert_allclose(dense(km.cluster_centers_)[k], project_l1(mean, 0.8), atol=1e-12)
    costs = [record.cost for record in km.history_ if record.rows == 600]
    assert all(after <= before * (1 + 1e-12) for before, after in pairwise(costs))
    assert km.history_[-1].cost == pytest.approx(km.inertia_, rel=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_as_many_entries_as_asked_for(schedule, metric):
    X = csr(problem("text")[0])
    km = MiniBatchKMeans(
        6, schedule=schedule, metric=metric, batch_size=100, center_nnz=7, random_state=0,
        zero_rows="first",
    ).fit(X)  # fmt: skip
    assert np.diff(km.cluster_centers_.indptr).max() == 7
    if metric == "cosine":
        lengths = np.sqrt(km.cluster_centers_.power(2).sum(axis=1))
        np.testing.assert_allclose(lengths, 1, atol=1e-12)
    np.testing.assert_array_equal(km.labels_, km.predict(X))


def test_largest_entries_are_kept_and_of_equals_the_first():
    X = csr(np.array([[1.0, 3.0, -2.0, 2.0, 0.5]]))
    km = MiniBatchKMeans(1, center_nnz=2).partial_fit(X)
    np.testing.assert_array_equal(dense(km.cluster_centers_), [[0, 3, -2, 0, 0]])


@pytest.mark.parametrize("projection", ["exact", "epsilon"])
@pytest.mark.parametrize("schedule", ["nested", "sculley"])
def test_directions_stay_in_the_ball_and_at_unit_length(schedule, projection):
    X = csr(directions(np.abs(problem("text")[0]) + 1e-3))
    km = MiniBatchKMeans(
        4, metric="cosine", schedule=schedule, batch_size=100, center_l1=2.0, projection=projection,
        random_state=0,
    ).fit(X)  # fmt: skip
    centers = dense(km.cluster_centers_)
    assert np.all(
        np.abs(centers).sum(axis=1) <= 2.0 * (1.01 if projection == "epsilon" else 1 + 1e-9)
    )
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(km.labels_, km.predict(X))
    assert km.inertia_ == pytest.approx(-km.score(X), rel=1e-9)


def test_directions_within_the_ball_are_not_projected_again_by_every_batch():
    X = csr(directions(np.abs(problem("text")[0]) + 1e-3))
    scores = []
    for batch in (600, 10):
        km = MiniBatchKMeans(3, metric="cosine", center_l1=3.0, init=X[:3], reassignment_ratio=0)
        for begin in range(0, 600, batch):
            km.partial_fit(X[begin : begin + batch])
        scores.append(km.score(X))
    assert scores[1] > 1.1 * scores[0]
