"""The command `tree`, and what other commands make of its model."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.commands import refused

from sparsecluster import ClusterTree, load_model, make_report, read, read_newick
from sparsecluster.cli.tree import tree


def test_files_hold_what_the_library_finds(run):
    run(
        "tree x.txt --branching 2 --max-leaf-size 3 --seed 0 --model m --labels l.csv --newick t "
        "--nodes n.json --chain c"
    )
    expected = ClusterTree(branching=2, max_leaf_size=3, random_state=0).fit(read("x.txt"))
    model = load_model("m")
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    labels = np.loadtxt("l.csv", delimiter=",", skiprows=1, dtype=int)[:, 1]
    np.testing.assert_array_equal(labels, expected.labels_)
    assert len(read_newick(Path("t").read_text()).leaves) == expected.n_leaves_
    assert json.loads(Path("n.json").read_text()) == expected.to_dict(n_terms=8)
    length = json.loads(Path("c/config.json").read_text())["len"]
    chain = [sp.load_npz(f"c/C{i}.npz") for i in range(length)]
    for found, wanted in zip(chain, expected.cluster_chain(), strict=True):
        assert found.format == "csc"
        assert (found != wanted).nnz == 0


def test_json_tells_of_the_tree(run):
    found = json.loads(run("tree x.txt --max-leaf-size 4 --seed 0 --json").out)
    assert found["sizes"] == [4, 4, 4]
    assert (found["nodes"], found["levels"], found["clusters"]) == (4, 1, 3)
    assert any("apple" in terms for terms in found["top_terms"])


def test_screen_shows_the_leaves(run):
    out = run("tree x.txt --max-leaf-size 6 --branching 2 --seed 0").out
    assert "2 leaves of 12 rows: 1 level" in out
    assert "apple" in out


def test_labels_of_a_file_become_a_tree(run):
    Path("y.svm").write_text("0,1 1:1\n1 2:1\n2 3:1 1:0.5\n3 3:1\n")
    found = json.loads(run("tree y.svm --metalabels --max-leaf-size 2 --seed 0 --json").out)
    assert (found["rows"], found["sizes"]) == (4, [2, 2])
    run("convert y.svm y.store --metalabels")
    stored = json.loads(run("tree y.store --max-leaf-size 2 --seed 0 --json").out)
    assert stored["cost"] == found["cost"]


def test_model_predicts_and_is_inspected(run):
    run("tree x.txt --max-leaf-size 3 --unbalanced --seed 0 --model m")
    model = load_model("m")
    assert not model.balanced
    labels = [int(line) for line in run("predict m x.txt").out.split()]
    np.testing.assert_array_equal(labels, model.predict(read("x.txt")))
    labels = [int(line) for line in run("predict m x.txt --beam 0").out.split()]
    np.testing.assert_array_equal(labels, model.predict(read("x.txt"), beam=0))
    found = json.loads(run("inspect m --json").out)
    assert (found["estimator"], found["clusters"]) == ("ClusterTree", model.n_leaves_)
    assert "ClusterTree" in run("inspect m").out


def test_beam_is_for_trees(run, capfd):
    run("fit x.txt -k 2 --model k")
    assert "--beam needs a model that tree wrote" in refused(run, "predict k x.txt --beam 2", capfd)


def test_page_shows_every_node_with_its_terms(run):
    run("tree x.txt --branching 2 --max-leaf-size 3 --seed 0 --model m.st")
    run("report m.st")
    page = Path("m.html").read_text()
    model = load_model("m.st")
    inner = int(np.count_nonzero(model.tree_.n_children))
    assert page.count("<details") == inner
    assert page.count("<li>") == model.tree_.n_nodes
    told = {term for terms in model.node_terms(10) for term in terms}
    assert all(f"<bdi>{term}</bdi>" in page for term in told)


def test_page_escapes_terms_and_takes_no_rows():
    X = np.kron(np.eye(2), np.ones((3, 1)))
    model = ClusterTree(max_leaf_size=3, random_state=0).fit(X, feature_names=["<b>", "&"])
    page = make_report(model).html
    assert "&lt;b&gt;" in page
    assert "<b></bdi>" not in page
    with pytest.raises(ValueError, match="takes no rows"):
        make_report(model, X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--branching 1", "branching"),
        ("--max-leaf-size 0", "max-leaf-size"),
        ("--min-leaf-size 101", "--min-leaf-size 101 is more than --max-leaf-size 100"),
        ("--min-leaf-size 60 --unbalanced", "--min-leaf-size"),
        ("--min-leaf-size 50", "more than there are rows"),
        ("--metric jaccard", "metric"),
        ("--chain .", "exists"),
        ("--memory-limit lots", "memory"),
    ],
)
def test_what_cannot_be_is_refused(run, options, message, capfd):
    assert message in refused(run, f"tree x.txt {options}", capfd)


def test_options_have_the_defaults_of_the_estimator():
    chosen = inspect.signature(tree).parameters
    usual = ClusterTree().get_params()
    for name in ("branching", "max_leaf_size", "min_leaf_size", "balanced", "metric", "zero_rows"):
        assert chosen[name].default == usual[name]
    assert chosen["runs"].default == usual["n_init"]
    assert (chosen["max_iter"].default, chosen["tol"].default) == (usual["max_iter"], usual["tol"])


def test_help_names_the_options(run, capfd):
    out = re.sub(r"\s+", " ", run("tree --help").out)
    for option in ("--branching", "--max-leaf-size", "--unbalanced", "--chain", "--metalabels"):
        assert option in out
