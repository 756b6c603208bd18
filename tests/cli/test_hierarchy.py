"""The command `hierarchy`, and what other commands make of its model."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from support.commands import refused

from sparsecluster import AgglomerativeClustering, load_model, make_report, read, read_newick
from sparsecluster.cli.hierarchy import hierarchy


def test_files_hold_what_the_library_finds(run):
    run(
        "hierarchy x.txt -k 2 --linkage average --metric cosine --model m --labels l.csv --newick t"
    )
    expected = AgglomerativeClustering(2, linkage="average", metric="cosine").fit(read("x.txt"))
    model = load_model("m")
    np.testing.assert_array_equal(model.linkage_, expected.linkage_)
    labels = np.loadtxt("l.csv", delimiter=",", skiprows=1, dtype=int)[:, 1]
    np.testing.assert_array_equal(labels, expected.labels_)
    assert len(read_newick(Path("t").read_text()).leaves) == 12


def test_clusters_are_joined_to_the_data(run):
    run("hierarchy x.txt -k 2 --join j.csv")
    expected = AgglomerativeClustering(2).fit(read("x.txt")).labels_
    lines = Path("j.csv").read_text().splitlines()
    assert lines[0] == "row,cluster,text"
    assert [int(line.split(",")[1]) for line in lines[1:]] == expected.tolist()


def test_json_has_the_tree_and_the_clusters(run):
    found = json.loads(run("hierarchy x.txt -k 2 --tfidf --unit --json").out)
    assert found["sizes"] == [6, 6]
    assert found["merges"] == 11
    assert found["last_heights"] == sorted(found["last_heights"], reverse=True)
    assert {"apple", "blue"} <= {term for terms in found["top_terms"] for term in terms}


def test_table_shows_clusters_and_terms(run):
    out = run("hierarchy x.txt -k 2").out
    assert "apple" in out
    assert "2 clusters of 12 rows: 11 merges" in out


def test_inspect_and_report_know_the_model(run):
    run("hierarchy x.txt --height 1.2 --model m.st")
    assert "ward" in json.loads(run("inspect m.st --json").out)["linkage"]
    assert "11, 0 of them inversions" in run("inspect m.st").out
    run("report m.st")
    assert 'class="bracket' in Path("m.html").read_text()


def test_predict_says_that_a_tree_has_no_clusters_for_others(run, capfd):
    run("hierarchy x.txt -k 2 --model m.st")
    assert "knows no cluster of others" in refused(run, "predict m.st x.txt", capfd)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-k 2 --height 3", "--clusters cannot be combined with"),
        ("-k 99", "--clusters 99 is more"),
        ("--linkage complete --memory-limit 10", "more than the memory limit"),
        ("--first kmeans --metric jaccard", "--first kmeans"),
        ("--labels l.docx", "docx"),
    ],
)
def test_what_cannot_be_is_refused_in_terms_of_options(run, options, message, capfd):
    assert message in refused(run, f"hierarchy x.txt {options}", capfd)


def test_every_parameter_is_an_option():
    by_hand = {"n_clusters", "random_state", "n_threads", "verbose", "callback", "metric_options"}
    options = set(inspect.signature(hierarchy).parameters)
    assert set(AgglomerativeClustering().get_params()) - by_hand <= options


# --- report --------------------------------------------------------------------------------------


def test_report_of_a_tree_shows_its_top_with_the_leaves_of_each_branch():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = AgglomerativeClustering(4).fit(X)
    page = make_report(model, title="<b>odd & title").html
    picture = re.search(r"<svg.*?</svg>", page, re.DOTALL)[0]
    branches = re.findall(r"rotate\(-90\)\" text-anchor=\"end\">\(?([\d,]+)\)?<", picture)
    assert len(branches) == 60
    assert len(set(re.findall(r"within (k\d)", picture))) == 4
    assert "&lt;b&gt;odd &amp; title" in page


def test_report_of_a_tree_takes_no_rows():
    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match="without any"):
        make_report(AgglomerativeClustering().fit(X), X)


def test_report_of_one_row_has_no_picture():
    assert "nothing was merged" in make_report(AgglomerativeClustering().fit([[1.0, 2]])).html
