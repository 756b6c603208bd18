"""The page of a tree from the root down."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import ClusterTree, make_report


@pytest.mark.parametrize(("n_rows", "told"), [(8, "none"), (24, "3"), (64, "2 to 4"), (100, "4")])
def test_the_page_says_how_many_children_nodes_have(n_rows, told):
    X = sp.csr_array(np.random.default_rng(0).random((n_rows, 5)))
    model = ClusterTree(branching=4, max_leaf_size=8, random_state=0).fit(X)
    words = make_report(model).html.split("children per node")[1]
    assert words.split("<dd>")[1].split("</dd>")[0].strip() == told
