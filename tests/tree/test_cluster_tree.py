"""Trees keep their bounds, whatever the rows, and say the same in every form."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import is_valid_linkage
from scipy.optimize import linear_sum_assignment
from support.compare import same
from support.data import csr, directions, text

from sparsecluster import ClusterTree, _core, load_model, metalabels, read_newick
from sparsecluster.tree.nodes import Tree, breadth_first
from sparsecluster.tree.plan import SizePlan
from sparsecluster.tree.terms import contrasting_columns

X = csr(text(np.random.default_rng(0), 400, 80), np.float32)
KINDS = {
    "text": lambda rng, n: text(rng, n, 40),
    "all equal": lambda rng, n: np.ones((n, 3)),
    "zero": lambda rng, n: np.zeros((n, 3)),
    "few distinct": lambda rng, n: rng.integers(0, 2, size=(n, 2)).astype(float),
    "one far away": lambda rng, n: np.r_[np.full((1, 2), 1e6), rng.random((n - 1, 2))],
    "dense": lambda rng, n: rng.normal(size=(n, 4)),
}


def assert_bounds_kept(model, n_rows):
    tree, sizes = model.tree_, np.bincount(model.labels_, minlength=model.n_leaves_)
    assert len(model.labels_) == n_rows == sizes.sum()
    assert sizes.max() <= model.max_leaf_size
    assert sizes.min() >= model.min_leaf_size
    np.testing.assert_array_equal(tree.sizes[tree.leaves], sizes)
    for node in np.flatnonzero(tree.n_children):
        of_children = tree.sizes[tree.children(node)]
        assert 2 <= len(of_children) <= model.branching
        assert of_children.sum() == tree.sizes[node]
        assert not model.balanced or of_children.max() - of_children.min() <= 1


@settings(max_examples=60)
@given(
    st.sampled_from(list(KINDS)),
    st.integers(2, 150),
    st.integers(2, 20),
    st.integers(1, 30),
    st.integers(1, 15),
    st.booleans(),
    st.sampled_from(["cosine", "euclidean"]),
    st.integers(0, 3),
)
def test_bounds_are_kept(kind, n, branching, max_leaf, min_leaf, balanced, metric, seed):
    rows = KINDS[kind](np.random.default_rng(seed), n)
    model = ClusterTree(branching=branching, max_leaf_size=max_leaf, random_state=seed)
    model.set_params(metric=metric, balanced=balanced)
    model.set_params(min_leaf_size=min(min_leaf, (max_leaf + 1) // 2, n))
    assert_bounds_kept(model.fit(rows), n)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [(2, 1), (16, 100), (3, 10), (64, 7), (5, 33)], ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_kept_on_many_sets(seed, bounds):
    branching, max_leaf = bounds
    rng = np.random.default_rng(seed)
    n = int(rng.integers(200, 2000))
    rows = list(KINDS.values())[seed % len(KINDS)](rng, n)
    for balanced in (True, False):
        for low in (1, (max_leaf + 1) // 2):
            model = ClusterTree(branching=branching, max_leaf_size=max_leaf, min_leaf_size=low)
            model.set_params(balanced=balanced, random_state=seed)
            assert_bounds_kept(model.fit(csr(rows)), n)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 100), st.booleans())
def test_balanced_assignment_is_the_best_there_is(n, k, seed, ties):
    rng = np.random.default_rng(seed)
    n = max(n // k, 1) * k
    scores = rng.integers(0, 3, size=(n, k)).astype(float) if ties else rng.random((n, k))
    labels = _core.bounded_labels(scores, n // k, n // k, 1)
    assert set(np.bincount(labels, minlength=k)) == {n // k}
    places = np.repeat(scores, n // k, axis=1)
    best = places[linear_sum_assignment(places, maximize=True)].sum()
    assert scores[np.arange(n), labels].sum() == pytest.approx(best, abs=1e-9)


def best_total(scores, lower, upper):
    """By scipy: a place per row that a cluster may have, and much more for those it has to fill."""
    n_places = np.tile(np.arange(upper), scores.shape[1])
    places = np.repeat(scores, upper, axis=1)
    chosen = linear_sum_assignment(places + 1e3 * (n_places < lower), maximize=True)
    return places[chosen].sum()


SCORES = {
    "uniform": lambda rng, n, k: rng.random((n, k)),
    "some clusters suit all rows": lambda rng, n, k: rng.random((n, k)) + 2 * rng.random(k),
    "most scores are low": lambda rng, n, k: rng.random((n, k)) ** 8,
    "ties": lambda rng, n, k: rng.integers(0, 3, size=(n, k)).astype(float),
    "centers": lambda rng, n, k: rng.normal(size=(n, 4)) @ rng.normal(size=(4, k)),
}


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize(("n", "k"), [(300, 16), (320, 16), (1000, 16), (150, 5)])
def test_balanced_assignment_of_a_node_is_the_best_there_is(kind, n, k):
    for seed in range(3):
        scores = SCORES[kind](np.random.default_rng(seed), n, k)
        lower, upper = n // k, -(-n // k)
        labels = _core.bounded_labels(scores, lower, upper, 1)
        sizes = np.bincount(labels, minlength=k)
        assert lower <= sizes.min() <= sizes.max() <= upper
        found = scores[np.arange(n), labels].sum()
        assert found == pytest.approx(best_total(scores, lower, upper), abs=1e-6)


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


# --- predict -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_rows_of_an_unbalanced_tree_go_down_as_they_were_split(metric):
    rows = np.random.default_rng(0).normal(size=(400, 5))
    model = ClusterTree(branching=4, max_leaf_size=50, balanced=False, metric=metric)
    model.set_params(random_state=0).fit(rows)
    assert same(model.predict(rows), model.labels_)


def test_wide_beam_finds_the_nearest_leaf():
    model = ClusterTree(branching=3, max_leaf_size=12, random_state=0).fit(X)
    exact = model.predict(X, beam=0)
    centers = model.node_centers_[model.tree_.leaves].toarray()
    nearest = (directions(X.toarray().astype(float)) @ centers.T).argmax(axis=1)
    filled = np.diff(X.indptr) > 0
    assert same(exact[filled], nearest[filled].astype(np.int32))
    for beam in (10_000, 2**40):
        assert same(model.predict(X, beam=beam)[filled], exact[filled])
    misses = [model.beam_misses(X, beam=beam) for beam in (1, 2, 4)]
    assert misses == [np.mean(model.predict(X, beam=beam) != exact) for beam in (1, 2, 4)]
    assert misses[0] > misses[1] > misses[2]


@pytest.mark.parametrize("beam", [1, 3])
def test_beam_follows_the_nearest_nodes_of_each_level(beam):
    model = ClusterTree(branching=3, max_leaf_size=30, metric="euclidean", random_state=0).fit(X)
    tree, centers, rows = model.tree_, model.node_centers_.toarray(), X.toarray()
    found = []
    for row in rows[:60]:
        kept = [0]
        while any(tree.n_children[node] for node in kept):
            kept = [
                n for one in kept for n in (tree.children(one) if tree.n_children[one] else [one])
            ]
            kept = sorted(kept, key=lambda node: ((row - centers[node]) ** 2).sum())[:beam]
        found.append(tree.first_leaves[kept[0]])
    assert same(model.predict(X[:60], beam=beam), np.array(found, dtype=np.int32))


def test_tree_of_one_leaf_takes_all_rows():
    model = ClusterTree().fit(X[:20])
    assert model.n_leaves_ == 1
    assert not model.predict(X).any()
    assert [matrix.shape for matrix in model.cluster_chain()] == [(20, 1)]
    assert model.newick() == "0;"


# --- forms ---------------------------------------------------------------------------------------

MODEL = ClusterTree(branching=3, max_leaf_size=40, balanced=False, random_state=0).fit(X)


def test_paths_lead_from_the_root_to_the_leaf_of_each_row():
    paths, tree = MODEL.paths(), MODEL.tree_
    assert paths.shape == (400, tree.depth)
    for path, label in zip(paths, MODEL.labels_, strict=True):
        nodes = path[path >= 0]
        assert list(tree.parents[nodes]) == [0, *nodes[:-1]]
        assert nodes[-1] == tree.leaves[label]


def test_leaves_below_a_node_are_a_range():
    tree, paths = MODEL.tree_, MODEL.tree_.leaf_paths()
    for node in range(1, tree.n_nodes):
        below = np.flatnonzero(np.any(paths == node, axis=1))
        first = tree.first_leaves[node]
        assert list(below) == list(range(first, first + tree.n_leaves_below[node]))


def test_leaf_order_lists_the_rows_leaf_by_leaf():
    assert same(np.sort(MODEL.leaf_order()), np.arange(400))
    assert np.all(np.diff(MODEL.labels_[MODEL.leaf_order()]) >= 0)


def test_chain_leads_from_the_root_to_the_rows():
    chain = MODEL.cluster_chain()
    assert len(chain) == MODEL.tree_.depth + 1
    assert chain[0].shape[1] == 1
    product = chain[0]
    for level, matrix in enumerate(chain):
        assert matrix.format == "csc"
        assert matrix.dtype == np.float32
        assert np.all(matrix.sum(axis=1) == 1)
        assert np.all(matrix.sum(axis=0) > 0)
        product = matrix if level == 0 else matrix @ product
    assert product.shape == (400, 1)
    assert same(chain[-1].tocsr().indices.astype(np.int32), MODEL.labels_)


def test_newick_and_linkage_have_the_leaves():
    names = [f"leaf {i}" for i in range(MODEL.n_leaves_)]
    assert [leaf.name for leaf in read_newick(MODEL.newick(names)).leaves] == names
    linkage = MODEL.linkage()
    assert is_valid_linkage(linkage)
    assert linkage[-1, 2:].tolist() == [MODEL.tree_.depth, MODEL.n_leaves_]
    with pytest.raises(ValueError, match="names for"):
        MODEL.newick(names[1:])


def test_dicts_hold_the_tree():
    root = json.loads(json.dumps(MODEL.to_dict(n_terms=2)))
    leaves, pending = [], [root]
    while pending:
        node = pending.pop()
        assert node["size"] == MODEL.tree_.sizes[node["node"]]
        children = node.get("children", [])
        assert not children or sum(child["size"] for child in children) == node["size"]
        leaves += [] if children else [node["leaf"]]
        assert len(node["terms"]) <= 2
        pending += children
    assert sorted(leaves) == list(range(MODEL.n_leaves_))


def test_terms_tell_siblings_apart():
    centers = sp.csr_array([[5.0, 1, 0, -3], [5.0, 0, 2, 0], [5.0, 0, 0.5, 0]])
    told = contrasting_columns(centers, np.ones(3), 2)
    assert [columns.tolist() for columns in told] == [[1], [2], []]


def test_terms_of_nodes_go_by_the_names_of_the_fit():
    rows = np.kron(np.eye(2), np.ones((3, 1)))
    model = ClusterTree(branching=2, max_leaf_size=3, random_state=0)
    model.fit(rows, feature_names=["red", "blue"])
    assert sorted(map(tuple, model.node_terms())) == [(), ("blue",), ("red",)]


def test_breadth_first_order_keeps_children_together():
    assert breadth_first([-1, 0, 0, 1, 2, 1]).tolist() == [0, 1, 2, 3, 5, 4]


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"branching": 1}, "branching must be an integer of at least 2"),
        ({"max_leaf_size": 0}, "max_leaf_size"),
        ({"min_leaf_size": 101}, "min_leaf_size=101 is more than max_leaf_size=100"),
        ({"min_leaf_size": 51, "balanced": False}, "Pass at most 50"),
        ({"min_leaf_size": 500, "max_leaf_size": 900}, "more than there are rows"),
        ({"min_leaf_size": 90, "max_leaf_size": 130}, "leaves of 100"),
        ({"metric": "jaccard"}, "metric"),
        ({"init": "first"}, "init"),
        ({"tol": -1}, "tol"),
        ({"memory_limit": 1000}, "memory limit"),
        ({"zero_rows": "error"}, "zero"),
    ],
)
def test_what_cannot_be_is_refused(parameters, message):
    rows = X if "zero_rows" not in parameters else sp.csr_array((400, 3))
    parameters = parameters | ({"min_leaf_size": 101} if message == "leaves of 100" else {})
    with pytest.raises(ValueError, match=message):
        ClusterTree(**parameters).fit(rows)


def test_beam_below_zero_is_refused():
    with pytest.raises(ValueError, match="beam"):
        MODEL.predict(X, beam=-1)


@pytest.mark.parametrize(
    "parents", [[-1, 0, 0, 3], [0, 0, 0], [-1, -1, 0], [-1, 1, 0], []], ids=str
)
def test_nodes_that_are_no_tree_are_refused(parents):
    with pytest.raises(ValueError, match="no tree"):
        Tree.restored(np.array(parents, dtype=np.int32), np.ones(len(parents), dtype=np.int64))


def test_file_with_sizes_that_do_not_add_up_is_refused():
    with pytest.raises(ValueError, match="no tree"):
        Tree.restored(np.array([-1, 0, 0], dtype=np.int32), np.array([5, 2, 2]))


def test_plan_of_a_balanced_tree_leaves_the_rest_to_the_root():
    plan = SizePlan(16, 100, 1, True)
    plan.check(63618)
    assert plan.height(63618) == 3
    n_children, lower, upper = plan.children(np.array([63618]), 3)
    assert (n_children[0], upper[0] - lower[0]) == (3, 0)


# --- progress ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("density", [0.15, 0.2, 0.3, 0.6])
def test_trees_of_dense_and_sparse_rows_are_the_same(density):
    rng = np.random.default_rng(1)
    X = rng.random((600, 64)) * (rng.random((600, 64)) < density)
    stored_zeros = sp.csr_array(np.ones_like(X))
    stored_zeros.data[:] = X.ravel()
    found = [
        ClusterTree(branching=4, max_leaf_size=40, random_state=0).fit(rows).labels_
        for rows in (X, sp.csr_array(X), stored_zeros)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_columns_that_sum_to_zero_are_not_in_the_root():
    rng = np.random.default_rng(2)
    half = rng.normal(size=(300, 8))
    X = np.round(np.vstack([half, -half]) * 64) / 64
    tree = ClusterTree(branching=4, max_leaf_size=80, metric="euclidean", random_state=0).fit(X)
    assert not np.any(tree.node_centers_[0])
