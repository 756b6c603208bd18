"""A tree that several files of tests look at; the sizes and the cost that trees have to have."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from sparsecluster import ClusterTree
from support.data import csr, text

X = csr(text(np.random.default_rng(0), 400, 80), np.float32)


def uneven_tree():
    """Of X, unbalanced: leaves at several levels."""
    return ClusterTree(branching=3, max_leaf_size=40, balanced=False, random_state=0).fit(X)


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


def best_total(scores, lower, upper):
    """By scipy: a place per row that a cluster may have, and much more for those it has to fill."""
    n_places = np.tile(np.arange(upper), scores.shape[1])
    places = np.repeat(scores, upper, axis=1)
    chosen = linear_sum_assignment(places + 1e3 * (n_places < lower), maximize=True)
    return places[chosen].sum()
