"""The commands neighbors and dbscan, and what other commands make of their models."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.compare import same

from sparsecluster import DBSCAN, HDBSCAN, knn_graph, radius_graph, read, suggest_eps
from sparsecluster.cli import app


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command in a folder of its own: its status, and what it wrote."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        status = 0
        try:
            app.meta([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
        return status, *capfd.readouterr()

    return command


@pytest.fixture
def X(tmp_path):
    X = sp.random_array((200, 40), density=0.1, format="csr", dtype=np.float32, rng=1)
    sp.save_npz(tmp_path / "x.npz", X)
    return X


def test_neighbors_writes_the_graph(run, X):
    status, out, _ = run("neighbors", "x.npz", "--k", 3, "--out", "g.npz", "--json")
    assert status == 0
    graph, expected = sp.load_npz("g.npz"), knn_graph(X, 3)
    assert same(graph, expected)
    told = json.loads(out)
    assert told["entries"] == graph.nnz
    assert told["k_distances"]["suggested_eps"] == suggest_eps(expected.data[3::4])
    status, out, _ = run("neighbors", "x.npz", "--radius", 0.4, "--out", "g.npz")
    assert same(sp.load_npz("g.npz"), radius_graph(X, 0.4))
    assert "neighbors each on average" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--k", 3, "--radius", 1], "--k cannot be combined with --radius"),
        (["--radius", -1], "--radius must be"),
        (["--k", 200], "--k 200 neighbors are asked for"),
        (["--out", "g.txt"], "written as .npz"),
        (["--radius", 2, "--memory-limit", "1kB"], "raise --memory-limit"),
    ],
)
def test_neighbors_refuses_what_cannot_be(run, X, options, message):
    status, out, err = run("neighbors", "x.npz", *options)
    assert (status, out) == (2, "")
    assert message in err


def test_dbscan_writes_labels_and_a_model(run, X):
    expected = DBSCAN(0.4, min_samples=3).fit(X)
    options = ["--eps", 0.4, "--min-samples", 3, "--model", "m", "--labels", "l.npy"]
    status, out, _ = run("dbscan", "x.npz", *options, "--k-distances", "--json")
    assert status == 0
    assert np.array_equal(np.load("l.npy"), expected.labels_)
    told = json.loads(out)
    assert told["clusters"] == expected.n_clusters_
    assert told["noise"] == expected.n_noise_
    assert told["k_distances"]["k"] == 2
    assert run("predict", "m", "x.npz", "--labels", "p.npy")[0] == 0
    assert np.array_equal(np.load("p.npy"), expected.predict(X))
    assert json.loads(run("inspect", "m", "--json")[1])["sizes"] == told["sizes"]
    assert "are noise" in run("inspect", "m")[1]


def test_labels_go_to_standard_output(run, X):
    _, out, err = run("dbscan", "x.npz", "--labels", "-")
    assert [int(line) for line in out.split()] == DBSCAN().fit(X).labels_.tolist()
    assert "are noise" in err


def test_models_without_centers_are_refused_where_these_are_needed(run, X):
    DBSCAN().fit(X).save("db")
    HDBSCAN().fit(X).save("hdb")
    assert "--zero-rows needs a model" in run("predict", "db", "x.npz", "--zero-rows", "first")[2]
    assert "knows no cluster of others" in run("predict", "hdb", "x.npz")[2]
    assert run("inspect", "hdb")[0] == 0
    assert "--eps must be" in run("dbscan", "x.npz", "--eps", 0)[2]


def test_clusters_are_joined_to_the_data_without_distances(run):
    rows = ["name,text", "a,red apple", "b,red apple pie", "c,blue sky", "d,blue sky sea", "e,odd"]
    Path("x.csv").write_text("\n".join(rows) + "\n")
    options = ["--eps", 0.5, "--min-samples", 2]
    status, out, _ = run("dbscan", "x.csv", *options, "--join", "j.csv", "--model", "m", "--json")
    assert status == 0
    found = DBSCAN(0.5, min_samples=2).fit(read("x.csv")).labels_
    expected = [f"{row},{label}" for row, label in zip(rows, ["cluster", *found], strict=True)]
    assert Path("j.csv").read_text().splitlines() == expected
    told = json.loads(out)
    assert told["join"] == "j.csv"
    assert told["top_terms"][0][:2] == ["apple", "red"]
    assert run("predict", "m", "x.csv", "--join", "p.csv")[0] == 0
    assert Path("p.csv").read_text().splitlines() == expected
    assert "--metalabels" in run("dbscan", "x.csv", "--join", "q.csv", "--metalabels")[2]


def test_report_shows_noise_and_with_data_how_far_neighbors_are(run, X):
    run("dbscan", "x.npz", "--eps", 0.4, "--min-samples", 3, "--model", "m.st")
    status, out, _ = run("report", "m.st", "--json")
    assert status == 0
    assert json.loads(out)["clusters"] == DBSCAN(0.4, min_samples=3).fit(X).n_clusters_
    assert "Pass the data" in Path("m.html").read_text()
    assert json.loads(run("report", "m.st", "x.npz", "--json")[1])["rows"] == 200
    assert "distance of each row to its neighbor 2" in Path("m.html").read_text()
