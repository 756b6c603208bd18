"""Parameters, files and plans that cannot be are refused before any work."""

import numpy as np
import pytest
import scipy.sparse as sp
from support.trees import X

from sparsecluster import ClusterTree
from sparsecluster.tree.nodes import Tree
from sparsecluster.tree.plan import SizePlan


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
