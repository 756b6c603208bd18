"""Bad input ends in a message that says what is wrong, or in the defined result."""

import signal
import threading
import time

import numpy as np
import pytest
from support.data import csr

from sparsecluster import (
    k_distances,
    knn_graph,
    minimum_spanning_tree,
    plot_k_distances,
    radius_graph,
    suggest_eps,
)

X = np.array([[1.0, 0], [2.0, 0.5], [0, 1.0]])


@pytest.mark.parametrize("radius", [-0.1, np.nan, np.inf, "1", None, True])
def test_radius_that_is_none_is_refused(radius):
    with pytest.raises(ValueError, match="radius must be"):
        radius_graph(X, radius)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "2"])
def test_k_that_is_no_count_is_refused(k):
    with pytest.raises(ValueError, match="k must be"):
        knn_graph(X, k)


def test_more_neighbors_than_rows_are_refused():
    with pytest.raises(ValueError, match="only 2 others"):
        knn_graph(X, 3)
    with pytest.raises(ValueError, match="only 3 rows in Y"):
        knn_graph(X, 4, Y=X)
    with pytest.raises(ValueError, match="only 0 others"):
        knn_graph(X[:1], 1)


def test_unknown_metric_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'cosine'"):
        radius_graph(X, 0.5, metric="cosin")


def test_other_columns_are_refused():
    with pytest.raises(ValueError, match="X has 2 columns and Y has 3"):
        radius_graph(X, 0.5, Y=np.eye(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="Input Y contains"):
        knn_graph(X, 1, Y=np.array([[bad, 1.0]]))


def test_graph_over_the_memory_limit_is_refused_with_its_size():
    rows = csr(np.ones((100, 3)))
    with pytest.raises(ValueError, match=r"10,000 entries .* Choose a smaller radius"):
        radius_graph(rows, 0.5, memory_limit=5000)
    with pytest.raises(ValueError, match=r"Choose a smaller k"):
        knn_graph(rows, 50, memory_limit=5000)


def test_one_row_is_its_own_neighbor():
    graph = radius_graph(X[:1], 0.5)
    assert graph.shape == (1, 1)
    assert graph.nnz == 1
    assert radius_graph(X[:1], 0.5, include_self=False).nnz == 0
    assert len(minimum_spanning_tree(X[:1]).weights) == 0


def test_rows_of_zeros_are_at_distance_one_by_cosine():
    rows = csr(np.array([[0.0, 0], [1, 0], [0, 0], [-1, 0]]))
    expected = [[0, 1, 1, 1], [1, 0, 1, 2], [1, 1, 0, 1], [1, 2, 1, 0]]
    assert radius_graph(rows, 2.0).toarray().tolist() == expected
    assert radius_graph(rows, 0.99).nnz == 4
    assert knn_graph(rows, 3).toarray().tolist() == expected


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_equal_rows_are_at_distance_zero(metric):
    rows = csr(np.tile(np.random.default_rng(0).random(50), (30, 1)))
    assert radius_graph(rows, 0.0, metric=metric).nnz == 900
    assert not minimum_spanning_tree(rows, metric=metric, min_samples=3).weights.any()


@pytest.mark.parametrize("scale", [1e-200, 1e-150, 1e140])
def test_cosines_of_tiny_and_huge_rows_are_right(scale):
    rows = np.random.default_rng(0).random((20, 5))
    expected = radius_graph(rows, 0.1).toarray()
    np.testing.assert_allclose(radius_graph(rows * scale, 0.1).toarray(), expected, atol=1e-12)


def test_progress_comes_as_shares_and_may_end_the_search():
    rows = csr(np.random.default_rng(0).random((6000, 60)) < 0.2)
    seen = []
    radius_graph(rows, 0.9, progress=seen.append, n_threads=1)
    assert seen == sorted(seen)
    assert all(0 <= share <= 1 for share in seen)

    def stop(share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        knn_graph(rows, 40, progress=stop, n_threads=1)
    with pytest.raises(ValueError, match="progress must be callable"):
        radius_graph(rows, 0.5, progress=3)


@pytest.mark.parametrize(
    "search",
    [
        lambda rows: radius_graph(rows, 1.5, metric="euclidean"),
        lambda rows: knn_graph(rows, 100, metric="euclidean"),
        lambda rows: minimum_spanning_tree(rows, metric="euclidean", min_samples=20),
    ],
    ids=["radius", "knn", "tree"],
)
def test_ctrl_c_is_heard_within_a_second(search):
    rows = csr(np.random.default_rng(0).random((30_000, 200)) < 0.2, np.float32)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = []

    def press():
        pressed.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(0.4, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            search(rows)
        assert time.monotonic() - pressed[0] < 1.5
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)


# --- k-distances ---------------------------------------------------------------------------------


def test_k_distances_are_those_to_the_kth_neighbor():
    rows = np.random.default_rng(0).random((50, 4))
    graph = knn_graph(rows, 3, metric="euclidean", include_self=False)
    found = k_distances(rows, 3, metric="euclidean")
    assert np.array_equal(found, graph.data.reshape(50, 3)[:, 2])


def test_knee_is_where_two_lines_meet():
    curve = np.concatenate([np.linspace(0, 1, 81), np.linspace(1, 11, 21)[1:]])
    assert suggest_eps(np.random.default_rng(0).permutation(curve)) == 1.0
    assert suggest_eps([2.0, 2.0, 2.0]) == 2.0


@pytest.mark.parametrize("distances", [[], [np.nan], [np.inf, 1], [-1.0]])
def test_distances_that_are_none_are_refused(distances):
    with pytest.raises(ValueError, match="distances must be"):
        suggest_eps(distances)


def test_plot_shows_the_knee():
    pytest.importorskip("matplotlib").use("Agg")
    axes = plot_k_distances([3.0, 1.0, 2.0], 2.0)
    assert axes.lines[0].get_ydata().tolist() == [1, 2, 3]
    assert suggest_eps([0.0, 0.1, 1.0], plot=axes) == pytest.approx(0.1)
