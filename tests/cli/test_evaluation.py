"""The commands evaluate and choose-k, and terms that tell clusters apart in fit."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import choose_k, evaluate, load_model, read
from sparsecluster.cli import app

LINES = ["red apple pie", "red apple tart", "green apple pie", "blue sky sun", "blue sea sky",
         "blue sky rain", "fast car road", "slow car road", "car road trip"]  # fmt: skip


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run a command in a folder with a text; its status, output and errors."""
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("\n".join(LINES * 4) + "\n")

    def run(line):
        status = 0
        try:
            app.meta(line.split())
        except SystemExit as end:
            status = end.code
        out, err = capfd.readouterr()
        return status, out, err

    return run


def summary(command, line):
    status, out, err = command(f"{line} --json")
    assert (status, err) == (0, "")
    return json.loads(out)


@pytest.mark.parametrize("ending", ["npy", "csv", "txt"])
def test_evaluate_says_what_the_library_says(command, ending):
    command(f"fit x.txt -k 3 --seed 0 --metric cosine --labels l.{ending} --quiet")
    classes = ["food", "food", "food", "sky", "sky", "sky", "car", "car", "car"] * 4
    Path("true.txt").write_text("\n".join(classes) + "\n")
    found = summary(command, f"evaluate x.txt --labels l.{ending} --true true.txt")
    rows = read("x.txt")
    command("fit x.txt -k 3 --seed 0 --metric cosine --labels again.npy --quiet")
    expected = evaluate(rows, np.load("again.npy"), classes)
    assert found["silhouette"] == expected.silhouette
    assert found["agreement"]["accuracy"] == expected.agreement.accuracy
    assert [one["rows"] for one in found["clusters"]] == [one.rows for one in expected.clusters]


def test_evaluate_a_model_by_its_own_metric(command):
    command("fit x.txt -k 3 --seed 0 --tfidf --model m.st --labels l.npy --quiet")
    found = summary(command, "evaluate x.txt --model m.st")
    assert found["metric"] == "sqeuclidean"
    assert found["agreement"] is None
    assert found["cost"] == pytest.approx(load_model("m.st").inertia_)
    assert summary(command, "evaluate x.txt --model m.st --metric cosine")["metric"] == "cosine"
    status, out, _ = command("evaluate x.txt --labels l.npy")
    assert status == 0
    assert "silhouette" in out
    assert "separation" in out


def test_true_labels_come_from_the_data_where_these_have_them(command):
    lines = [f"{i % 2} 1:{1 + i % 2} {2 + i % 2}:5\n" for i in range(8)]
    Path("x.svm").write_text("".join(lines))
    np.save("l.npy", np.arange(8) % 2)
    assert summary(command, "evaluate x.svm --labels l.npy")["agreement"]["accuracy"] == 1.0


def test_noise_and_weights(command):
    labels = np.tile([0, 0, -1, 1, 1, 1, 2, 2, 2], 4)
    np.save("l.npy", labels)
    np.save("w.npy", np.arange(36) % 3 + 1.0)
    found = summary(command, "evaluate x.txt --labels l.npy --weights w.npy")
    assert found["noise"] == 4
    assert found["clusters"][0]["weight"] > 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("evaluate x.txt", "either --labels or --model"),
        ("evaluate x.txt --labels short.npy", "3 labels for 36 rows"),
        ("evaluate x.txt --labels one.npy", "at least 2 are needed"),
        ("evaluate x.txt --labels l.json", "labels are read from"),
        ("evaluate x.txt --labels bad.csv", "no column named label"),
        ("evaluate x.txt --labels empty.txt", "no labels"),
        ("evaluate x.txt --labels gap.txt", "label 2 is empty"),
        ("evaluate x.txt --labels missing.npy", "missing.npy"),
        ("choose-k x.txt --least 5 --most 4", "--least 5 is above --most 4"),
        ("choose-k x.txt --most 60", "--most is 60, and X has 36 rows"),
        ("choose-k x.txt --least 1", "2"),
        ("choose-k x.txt --table t.json", "written as .csv"),
        ("choose-k x.txt --plot p.bmp", "pictures are written as"),
        ("choose-k x.txt --zero-rows first", "--zero-rows needs --metric cosine"),
        ("fit x.npz -k 2 --terms-by tfidf", "terms-by"),
    ],
)
def test_what_cannot_be_done_is_refused(command, line, message):
    np.save("short.npy", np.array([0, 1, 1]))
    np.save("one.npy", np.zeros(36, dtype=int))
    Path("bad.csv").write_text("row,cluster\n0,1\n")
    Path("empty.txt").write_text("")
    Path("gap.txt").write_text("1\n\n2\n")
    sp.save_npz("x.npz", sp.csr_array(np.eye(4)))
    status, out, err = command(line)
    assert status == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_choose_k_says_what_the_library_says(command):
    found = summary(
        command, "choose-k x.txt --metric cosine --most 6 --seed 0 --table t.csv --model m.st"
    )
    expected = choose_k(read("x.txt"), range(2, 7), metric="cosine", random_state=0)
    assert (found["k"], found["reason"]) == (expected.k, expected.reason)
    assert [one["cost"] for one in found["tried"]] == expected.table["cost"].tolist()
    assert Path("t.csv").read_text().splitlines()[0].startswith("k,cost,silhouette")
    assert len(Path("t.csv").read_text().splitlines()) == 6
    assert load_model("m.st").n_clusters_ == expected.k


def test_choose_k_shows_a_table_its_reason_and_its_doubt(command):
    status, out, _ = command("choose-k x.txt --metric cosine --most 5 --seed 0 --checkpoint c")
    assert status == 0
    assert "silhouette" in out
    assert "Doubt: " in out
    assert "choice" in out
    assert command("choose-k x.txt --metric cosine --most 5 --seed 0 --checkpoint c")[0] == 0


def test_choose_k_draws_a_picture(command):
    pytest.importorskip("matplotlib")
    assert command("choose-k x.txt --most 5 --seed 0 --plot p.svg")[0] == 0
    assert Path("p.svg").read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize("by", ["c-tf-idf", "log-odds"])
def test_fit_shows_terms_that_tell_clusters_apart(command, by):
    found = summary(command, f"fit x.txt -k 3 --seed 0 --terms 2 --terms-by {by} --model m.st")
    assert found["distinguishing_terms"] == load_model("m.st").distinguishing_terms(2, method=by)
    status, out, _ = command(f"fit x.txt -k 3 --seed 0 --terms-by {by}")
    assert status == 0
    assert f"terms by {by}" in out


def test_fit_names_nearly_equal_clusters(command):
    X = np.array([[9.0, 0, 0], [9, 1, 0], [9, 0, 1], [0, 9, 9]])
    sp.save_npz("near.npz", sp.csr_array(np.repeat(X, 3, axis=0)))
    status, out, _ = command("fit near.npz -k 4 --seed 0")
    assert status == 0
    assert "nearly equal" in out
    assert len(summary(command, "fit near.npz -k 4 --seed 0")["similar_clusters"]) == 3


@pytest.mark.parametrize("name", ["l.csv", "l.parquet"])
def test_labels_in_another_order_than_the_rows_are_refused(command, name):
    assert command(f"fit x.txt -k 3 --seed 0 --labels {name}")[0] == 0
    assert command(f"evaluate x.txt --labels {name}")[0] == 0
    if name == "l.csv":
        header, *lines = Path(name).read_text().splitlines()
        Path(name).write_text("\n".join([header, *reversed(lines)]) + "\n")
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        table = pq.read_table(name)
        pq.write_table(table.take(list(reversed(range(len(table))))), name)
    status, _, err = command(f"evaluate x.txt --labels {name}")
    assert status != 0
    assert "is that of row 35, not of row 0" in err


def test_files_that_are_no_labels_or_weights_are_refused_in_words(command):
    np.save("whole.npy", np.arange(36) % 3)
    Path("cut.npy").write_bytes(Path("whole.npy").read_bytes()[:200])
    Path("empty.npy").write_bytes(b"")
    np.save("objects.npy", np.array([0, "a"], dtype=object), allow_pickle=True)
    Path("latin.txt").write_bytes("é\n".encode("latin-1"))
    for option, message in [
        ("--labels cut.npy", "cut.npy is not a whole .npy file of labels"),
        ("--labels empty.npy", "empty.npy is not a whole .npy file of labels"),
        ("--labels objects.npy", "objects.npy holds Python objects. Save labels as numbers"),
        ("--labels latin.txt", "latin.txt is not UTF-8 text (byte 0)"),
        ("--labels whole.npy --weights cut.npy", "cut.npy is not a whole .npy file of weights"),
        ("--labels whole.npy --weights objects.npy", "Save weights as numbers"),
    ]:
        status, _, err = command(f"evaluate x.txt {option}")
        assert status == 2
        assert message in err


def test_a_time_between_checkpoints_is_refused_by_its_own_name(command):
    status, _, err = command("choose-k x.txt --most 3 --checkpoint c --every often")
    assert status == 2
    assert "--every must be a number of seconds" in err


def test_an_empty_name_of_a_checkpoint_is_refused(command):
    status, _, err = command("choose-k x.txt --most 3 --checkpoint=")
    assert status == 2
    assert "Invalid value for --checkpoint: it must be the path of a folder, got ''." in err


def test_an_interrupted_search_says_how_it_resumes(command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsecluster.choose_k", interrupted)
    status, _, err = command("choose-k x.txt --most 3 --checkpoint c")
    assert status == 130
    assert "run the same command again to resume" in " ".join(err.split())
