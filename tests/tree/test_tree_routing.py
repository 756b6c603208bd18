"""Rows go down a tree to the leaves that a wide enough beam finds."""

import numpy as np
import pytest
from support.compare import same
from support.data import directions
from support.trees import X, uneven_tree

from sparsecluster import ClusterTree


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


def test_beam_below_zero_is_refused():
    with pytest.raises(ValueError, match="beam"):
        uneven_tree().predict(X, beam=-1)
