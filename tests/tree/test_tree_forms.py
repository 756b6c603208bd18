"""A tree says the same in every form that it is turned into."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.cluster.hierarchy import is_valid_linkage
from support.compare import same
from support.trees import uneven_tree

from sparsecluster import ClusterTree, read_newick
from sparsecluster.tree.nodes import breadth_first
from sparsecluster.tree.terms import contrasting_columns

MODEL = uneven_tree()


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
