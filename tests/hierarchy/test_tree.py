"""Newick text, leaf order and dendrograms say what the tree says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import dendrogram, leaves_list, linkage

from sparsecluster import AgglomerativeClustering, read_newick
from sparsecluster.hierarchy.dendrogram import dendrogram_of
from sparsecluster.hierarchy.newick import write_newick

X = np.random.default_rng(0).normal(size=(30, 3))


def tree(n_rows=30, method="average"):
    return linkage(X[:n_rows], method)


def test_leaf_order_is_that_of_scipy():
    model = AgglomerativeClustering(linkage="average", metric="sqeuclidean").fit(X)
    np.testing.assert_array_equal(model.leaf_order(), leaves_list(model.linkage_))


def test_dendrogram_has_the_lines_of_scipy():
    expected = dendrogram(tree(), no_plot=True)
    found = dendrogram_of(tree(), None)
    assert [branch.first for branch in found.branches] == expected["leaves"]
    highest = sorted(max(line) for line in expected["dcoord"])
    np.testing.assert_allclose(sorted(found.brackets[:, 4]), highest)


@pytest.mark.parametrize("shown", [2, 7, 29])
def test_truncated_dendrogram_shows_the_last_merges(shown):
    found = dendrogram_of(tree(), shown)
    assert len(found.branches) == shown
    assert sum(branch.size for branch in found.branches) == 30
    np.testing.assert_array_equal(np.sort(found.brackets[:, 4]), tree()[-(shown - 1) :, 2])


def test_tree_of_a_chain_is_no_problem_for_its_depth():
    n = 20_000
    model = AgglomerativeClustering(linkage="single").fit(np.cumsum(1 + np.arange(n) / n)[:, None])
    assert len(model.leaf_order()) == n
    assert len(read_newick(model.newick()).leaves) == n
    assert len(dendrogram_of(model.linkage_, 50).branches) == 50


@given(st.integers(2, 30), st.sampled_from(["average", "complete", "single", "ward"]))
def test_tree_survives_newick(n_rows, method):
    expected = tree(n_rows, method)
    names = [f"row {i}, 'quoted'; [odd] (name):" if i % 3 else str(i) for i in range(n_rows)]
    found = read_newick(write_newick(expected, names))
    order = [names.index(leaf.name) for leaf in found.leaves]
    assert order == leaves_list(expected).tolist()
    # The leaves of the text are numbered from left to right.
    again = found.linkage()
    np.testing.assert_allclose(again[:, 2:], expected[:, 2:], rtol=1e-9, atol=1e-9)


def test_newick_of_primates_is_read():
    text = "(Bovine: 0.69, (Spider Monkey: 0.39, (Chimp: 0.19, Human: 0.12): 0.08)[a comment]);"
    found = read_newick(text)
    assert [leaf.name for leaf in found.leaves] == ["Bovine", "Spider Monkey", "Chimp", "Human"]
    assert [leaf.length for leaf in found.leaves] == [0.69, 0.39, 0.19, 0.12]
    np.testing.assert_allclose(found.linkage()[0, 2], (0.19 + 0.12) / 2)


def test_nodes_of_many_children_become_merges_of_one_height():
    found = read_newick("(a:1,b:1,c:1,d:1);").linkage()
    assert found[:, 2].tolist() == [1, 1, 1]
    assert found[-1, 3] == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(a,b)", "semicolon"),
        ("((a,b);", "not closed"),
        ("a,b;", "outside"),
        ("(a:x,b);", "no length"),
        ("(a'b,c);", "cannot be read"),
        ("", "semicolon"),
    ],
)
def test_what_is_no_newick_text_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        read_newick(text)


def test_picture_shows_names_and_clusters():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    model = AgglomerativeClustering(3).fit(X)
    assert model.plot(names=[f"row {i}" for i in range(30)], ax=axes) is axes
    shown = [text.get_text() for text in axes.get_xticklabels()]
    assert shown == [f"row {i}" for i in model.leaf_order()]
    model.plot(max_leaves=5, ax=axes, orientation="right")
    pyplot.close(figure)


def test_wrong_number_of_names_is_refused():
    with pytest.raises(ValueError, match="2 names for 30 leaves"):
        AgglomerativeClustering().fit(X).newick(["a", "b"])
