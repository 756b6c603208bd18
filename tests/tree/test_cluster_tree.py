"""Trees have the centers and costs of their rows, and depend on nothing else."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from support.compare import same
from support.data import directions
from support.trees import X, assert_bounds_kept, best_total

from sparsecluster import ClusterTree, load_model, metalabels


@pytest.mark.parametrize("balanced", [True, False])
def test_number_of_threads_changes_nothing(balanced):
    one, three = (
        ClusterTree(max_leaf_size=9, branching=4, balanced=balanced, random_state=1, n_threads=n)
        for n in (1, 3)
    )
    one.fit(X), three.fit(X)
    assert same(one.labels_, three.labels_)
    assert same(one.node_centers_, three.node_centers_)
    assert same(one.node_costs_, three.node_costs_)


MOST_CELLS = np.where(
    np.random.default_rng(7).random((400, 33)) < 0.6, np.random.default_rng(8).random((400, 33)), 0
)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("branching", [3, 16, 20])
def test_rows_of_most_cells_give_one_tree_at_every_simd_level(
    monkeypatch, simd, metric, branching, threads_for_little_work
):
    model = ClusterTree(branching=branching, max_leaf_size=25, metric=metric, random_state=3)
    here = model.set_params(n_threads=3).fit(MOST_CELLS).node_centers_
    monkeypatch.setenv("SPARSECLUSTER_SIMD", "base")
    assert same(here, model.set_params(n_threads=1).fit(MOST_CELLS).node_centers_)


def test_rows_of_most_cells_are_divided_at_nearly_the_lowest_cost():
    rows = directions(MOST_CELLS)
    model = ClusterTree(branching=16, max_leaf_size=25, max_iter=50, tol=0, random_state=0)
    labels = model.fit(rows).labels_
    scores = rows @ model.node_centers_[model.tree_.leaves].T
    found = scores[np.arange(400), labels].sum()
    assert found == pytest.approx(best_total(scores, 25, 25), rel=2e-3)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_centers_and_costs_are_those_of_the_rows_of_a_node(metric):
    model = ClusterTree(max_leaf_size=20, branching=4, metric=metric, random_state=0).fit(X)
    rows = X.toarray().astype(float)
    rows = directions(rows) if metric == "cosine" else rows
    paths = model.paths()
    for node in range(model.tree_.n_nodes):
        of_node = rows[np.any(paths == node, axis=1)] if node else rows
        center = of_node.mean(axis=0)
        center = directions(center) if metric == "cosine" else center
        np.testing.assert_allclose(model.node_centers_[[node]].toarray()[0], center, atol=1e-7)
        cost = ((of_node - center) ** 2).sum()
        assert model.node_costs_[node] == pytest.approx(cost, rel=1e-5)
    assert model.inertia_ == pytest.approx(model.node_costs_[model.tree_.leaves].sum())


def test_weight_counts_in_centers_and_not_in_sizes():
    weights = 1.0 + np.arange(X.shape[0]) % 3
    model = ClusterTree(max_leaf_size=150, branching=4, metric="euclidean", random_state=0)
    model.fit(X, sample_weight=weights)
    assert_bounds_kept(model, X.shape[0])
    rows = X.toarray()
    for leaf, node in enumerate(model.tree_.leaves):
        inside = model.labels_ == leaf
        center = np.average(rows[inside], axis=0, weights=weights[inside])
        np.testing.assert_allclose(model.node_centers_[[node]].toarray()[0], center, atol=1e-6)


def test_more_runs_and_iterations_lower_the_cost():
    costs = {
        n: ClusterTree(max_leaf_size=100, n_init=n, max_iter=n, tol=0, random_state=0)
        .fit(X)
        .inertia_
        for n in (1, 10)
    }
    assert costs[10] < costs[1]


def test_clear_groups_of_one_size_are_found():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(12), 30)
    rows = np.eye(12)[groups] * 10 + rng.random((360, 12))
    model = ClusterTree(branching=12, max_leaf_size=30, n_init=5, random_state=0).fit(rows)
    assert {(a, b) for a, b in zip(groups, model.labels_, strict=True)} == {
        (g, model.labels_[30 * g]) for g in range(12)
    }


def test_callback_hears_of_every_level():
    seen = []
    model = ClusterTree(branching=3, max_leaf_size=10, random_state=0, callback=seen.append).fit(X)
    whole = [record.level for record in seen if record.done == record.total]
    assert sorted(set(whole)) == list(range(1, model.tree_.depth + 1))


def test_what_a_callback_raises_ends_the_fit():
    def fail(record):
        raise RuntimeError("enough")

    model = ClusterTree(max_leaf_size=10, callback=fail)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(X)
    assert not hasattr(model, "labels_")


def test_label_tree_of_instances(tmp_path):
    rng = np.random.default_rng(0)
    labels = (rng.random((400, 25)) < 0.1).astype(int)
    model = ClusterTree(branching=4, max_leaf_size=4, random_state=0).fit(metalabels(X, labels))
    assert_bounds_kept(model, 25)
    model.save(tmp_path / "tree")
    loaded = load_model(tmp_path / "tree").cluster_chain()
    assert same(loaded[-1].toarray(), model.cluster_chain()[-1].toarray())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e9, 1e18, 1e100])
def test_balanced_trees_do_not_depend_on_the_unit_of_the_values(size, weighted):
    rng = np.random.default_rng(0)
    blobs = 10.0 * rng.integers(0, 2, (400, 3)) + rng.random((400, 3))
    weights = np.ones(400) if weighted else None
    given = {"branching": 4, "max_leaf_size": 50, "metric": "euclidean", "random_state": 0}
    costs = []
    for unit in (1.0, size):
        tree = ClusterTree(**given).fit(unit * blobs, sample_weight=weights)
        labels = tree.labels_
        assert np.bincount(labels).max() <= 50
        middle = np.array([blobs[labels == leaf].mean(axis=0) for leaf in range(tree.n_leaves_)])
        costs.append(np.sum((blobs - middle[labels]) ** 2))
    assert costs[1] < 1.1 * costs[0]


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize(("balanced", "branching"), [(True, 4), (True, 16), (False, 16)])
@pytest.mark.parametrize(
    ("shape", "density", "seed"),
    [((600, 64), density, 1) for density in (0.15, 0.2, 0.3, 0.6)]
    + [((40, 100), 0.02, 1), ((2000, 30), 0.02, 1), ((3000, 64), 0.02, 4), ((3000, 64), 0.02, 5)],
)
def test_trees_of_dense_and_sparse_rows_are_the_same_to_the_bit(
    shape, density, seed, balanced, branching, metric
):
    rng = np.random.default_rng(seed)
    X = rng.random(shape) * (rng.random(shape) < density)
    stored_zeros = sp.csr_array(np.ones_like(X))
    stored_zeros.data[:] = X.ravel()
    model = ClusterTree(
        branching=branching,
        max_leaf_size=shape[0] // 15,
        metric=metric,
        balanced=balanced,
        random_state=0,
    )
    tree, *others = (clone(model).fit(rows) for rows in (X, sp.csr_array(X), stored_zeros))
    for other in others:
        np.testing.assert_array_equal(tree.labels_, other.labels_)
        np.testing.assert_array_equal(tree.node_costs_, other.node_costs_)
        np.testing.assert_array_equal(tree.node_centers_, other.node_centers_.toarray())


def test_columns_that_sum_to_zero_are_not_in_the_root():
    rng = np.random.default_rng(2)
    half = rng.normal(size=(300, 8))
    X = np.round(np.vstack([half, -half]) * 64) / 64
    tree = ClusterTree(branching=4, max_leaf_size=80, metric="euclidean", random_state=0).fit(X)
    assert not np.any(tree.node_centers_[0])
