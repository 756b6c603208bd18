"""`--labels` with ids and `--join`, of fit and predict, run in this process."""

import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import Rows, load_model, read
from sparsecluster.cli import app
from sparsecluster.cli.labels import write_labels
from sparsecluster.prepare.join_text import Results

COMMENTS = """\
id,text,stars
7,"red apple, sweet",5
8,green apple,4

9,blue sky,1
10,"sky
and sea",2
11,the apple pie,3
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command in a folder of its own: its status, what it printed, its errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        status = 0
        try:
            app.meta([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
        sys.stdout.flush()
        return status, *capfd.readouterr()

    return command


@pytest.fixture
def comments(tmp_path):
    path = tmp_path / "comments.csv"
    path.write_text(COMMENTS)
    return path


PARTS = (slice(1), slice(1, None))


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_fit_joins_clusters_and_distances(run, comments):
    status, out, _ = run(
        *("fit", comments, "-k", 2, "--seed", 0, "--unit", "--model", "m.st", "--join", "j.csv")
    )
    assert status == 0
    assert "joined: j.csv" in out
    model, found = load_model("m.st"), rows_of("j.csv")
    assert [row["id"] for row in found] == ["7", "8", "9", "10", "11"]
    assert [int(row["cluster"]) for row in found] == model.labels_.tolist()
    distances = model.transform(read(comments, like=model))[np.arange(5), model.labels_]
    np.testing.assert_allclose([float(row["cluster_distance"]) for row in found], distances, 1e-6)
    assert found[3]["text"] == "sky\nand sea"


def test_predict_joins_what_fit_joined(run, comments):
    fit = ("fit", comments, "-k", 2, "--seed", 0, "--model", "m.st", "--join", "j.csv", "-q")
    assert run(*fit)[0] == 0
    status, out, _ = run("predict", "m.st", comments, "--join", "p.csv")
    assert (status, out) == (0, "p.csv: clusters of 5 rows\n")
    assert Path("p.csv").read_text() == Path("j.csv").read_text()
    status, out, _ = run("predict", "m.st", comments, "--join", "q.csv", "--labels", "-", "-q")
    assert status == 0
    assert out.split() == [row["cluster"] for row in rows_of("q.csv")]


def test_predict_reads_as_the_model_was_fitted(run, tmp_path):
    for name, words in {"a.csv": "grün rot", "b.csv": "grün blau"}.items():
        (tmp_path / name).write_text("n,body\n1,{}\n2,{}\n".format(*words.split()), "latin-1")
    options = ("--encoding", "latin-1", "--column", "body")
    assert run("fit", "a.csv", "-k", 2, *options, "--model", "m.st", "-q")[0] == 0
    assert run("predict", "m.st", "b.csv", "--join", "j.csv")[0] == 0
    with open("j.csv", encoding="latin-1") as file:
        assert [line.split(",")[1] for line in file] == ["body", "grün", "blau"]


def test_predict_joins_block_by_block(run, tmp_path, monkeypatch):
    words = ["red apple", "blue sky", "green pear"] * 40
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in words))
    assert run("fit", "a.jsonl", "-k", 3, "--model", "m.st", "--join", "j.jsonl", "-q")[0] == 0
    monkeypatch.setattr("sparsecluster.formats.text.BLOCK_TOKENS", 7)
    assert run("predict", "m.st", "a.jsonl", "--join", "p.jsonl", "--labels", "l.csv")[0] == 0
    assert Path("p.jsonl").read_text() == Path("j.jsonl").read_text()
    clusters = [json.loads(line)["cluster"] for line in Path("p.jsonl").read_text().splitlines()]
    assert len(clusters) == 120
    assert [int(row["label"]) for row in rows_of("l.csv")] == clusters


def test_store_and_matrix_are_joined_as_a_table(run, tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.random_array((30, 8), density=0.5, format="csr", rng=1))
    assert run("convert", "x.npz", "x.store")[0] == 0
    for data in ("x.npz", "x.store"):
        joined = f"{data}.csv"
        fit = ("fit", data, "-k", 3, "--seed", 0, "--join", joined, "--labels", "l.npy", "-q")
        assert run(*fit)[0] == 0
        found = rows_of(joined)
        assert [int(row["row"]) for row in found] == list(range(30))
        assert [int(row["cluster"]) for row in found] == np.load("l.npy").tolist()


def test_summary_names_what_was_joined(run, comments):
    _, out, _ = run("fit", comments, "-k", 2, "--join", "j.csv", "--model", "m.st", "--json")
    assert json.loads(out)["join"] == "j.csv"
    _, out, _ = run("predict", "m.st", comments, "--join", "p.csv", "--json")
    assert json.loads(out) == {"rows": 5, "labels": None, "join": "p.csv"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--join", "comments.csv"], "would be written over"),
        (["--join", "j.parquet"], "ends in .csv"),
        (["--join", "no/j.csv"], "there is no folder"),
        (["--join", "j.csv", "--labels", "j.csv"], "would be written over"),
        (["--join", "j.csv", "--join-column", "stars"], "'stars' already"),
        (["--join-column", "x"], "no effect without --join"),
        (["--join", "j.csv", "--metalabels"], "--join cannot be combined with --metalabels"),
        (["--join", "j.csv", "--layer", "x"], "--layer: no effect on comments.csv"),
    ],
)
def test_wrong_join_is_refused_before_work(run, comments, monkeypatch, arguments, message):
    def work(*_, **__):
        raise AssertionError("work has begun")

    monkeypatch.setattr("sparsecluster.formats.text.TextSource.blocks", work)
    status, out, err = run("fit", "comments.csv", "-k", 2, *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert comments.read_text() == COMMENTS


def test_column_that_is_there_is_refused_with_the_option_that_helps(run, tmp_path):
    (tmp_path / "a.csv").write_text("text,cluster\nred,1\nblue,2\n")
    status, _, err = run("fit", "a.csv", "-k", 2, "--join", "j.csv")
    assert status == 2
    assert "--join-column" in err
    assert run("fit", "a.csv", "-k", 2, "--join", "j.csv", "--join-column", "mine", "-q")[0] == 0
    assert set(rows_of("j.csv")[0]) == {"text", "cluster", "mine", "mine_distance"}


def test_labels_have_ids_where_rows_have(tmp_path):
    ids = np.array(["plain", 'a "b", c', "two\nlines", "old\rMac"], dtype=object)
    labels = np.array([3, 1, 2, 0], dtype=np.int32)
    parts = [Results(labels[:1], ids=ids[:1]), Results(labels[1:], ids=ids[1:])]
    assert write_labels(str(tmp_path / "l.csv"), parts) == 4
    found = rows_of(tmp_path / "l.csv")
    assert list(found[0]) == ["row", "label", "id"]
    assert [row["id"] for row in found] == ids.tolist()
    assert [int(row["label"]) for row in found] == labels.tolist()
    assert [int(row["row"]) for row in found] == [0, 1, 2, 3]
    for name in ("l.txt", "l.npy"):
        write_labels(str(tmp_path / name), parts)
    assert (tmp_path / "l.txt").read_text() == "3\n1\n2\n0\n"
    assert np.load(tmp_path / "l.npy").tolist() == labels.tolist()


def test_labels_are_written_as_parquet(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    labels, ids = np.array([3, 1, 2], dtype=np.int32), np.array(["a", "b", "c"], dtype=object)
    for name, given in {"l.parquet": None, "i.parquet": ids}.items():
        parts = [
            Results(labels[rows], ids=None if given is None else given[rows]) for rows in PARTS
        ]
        assert write_labels(str(tmp_path / name), parts) == 3
    assert pq.read_table(tmp_path / "l.parquet").to_pydict() == {
        "row": [0, 1, 2],
        "label": [3, 1, 2],
    }
    assert pq.read_table(tmp_path / "i.parquet").to_pydict() == {
        "row": [0, 1, 2],
        "label": [3, 1, 2],
        "id": ["a", "b", "c"],
    }


@pytest.mark.parametrize("joined", [False, True])
def test_ids_of_rows_reach_the_files(run, tmp_path, monkeypatch, joined):
    sp.save_npz(tmp_path / "x.npz", sp.eye_array(4, format="csr"))
    ids = np.array([f"r,{row}" for row in range(4)], dtype=object)

    def with_ids(path, **options):
        rows = read(path, **options)
        return Rows(rows.matrix, rows.core, provenance=replace(rows.provenance, ids=ids))

    monkeypatch.setattr("sparsecluster.read", with_ids)
    option = "--join" if joined else "--labels"
    assert run("fit", "x.npz", "-k", 2, option, "out.csv", "-q")[0] == 0
    assert [row["id"] for row in rows_of("out.csv")] == ids.tolist()
