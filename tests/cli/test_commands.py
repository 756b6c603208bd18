"""The commands that work on files, run in this process; test_cli.py has the process around them."""

import io
import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, SphericalKMeans, load_model, open_store, read, seed_centers
from sparsecluster.cli import app

WORDS = ["red apple", "green apple", "apple pear", "blue sky", "sky sea", "blue sea", "sea sky"]


class Done:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a command in a folder of its own; paths are relative to it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def command(*arguments):
        status = 0
        try:
            app.meta([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Done(status, out, err)

    return command


@pytest.fixture
def documents(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS * 5) + "\n")
    return path


@pytest.fixture
def matrix(tmp_path):
    X = sp.random_array((200, 40), density=0.1, format="csr", dtype=np.float32, rng=1)
    sp.save_npz(tmp_path / "x.npz", X)
    return X


def test_what_was_asked_is_what_is_told(run, documents):
    asked = ["--min-df", 5, "--max-df", 0.9, "--ngram-range", "1,2", "--norm", "l2", "--keep-case"]
    assert run("convert", documents, "w.store", *asked).status == 0
    for made in ("w.store", "m.st"):
        told = json.loads(run("inspect", made, "--json").out)["recipe"]
        assert told == {
            "text": {"lowercase": False, "ngram_range": [1, 2]},
            "values": {"min_df": 5, "max_df": 0.9, "norm": "l2"},
        }
        assert "--min-df 5, --max-df 0.9, --norm l2" in run("inspect", made).out
        run("fit", "w.store", "-k", 2, "--model", "m.st")
    assert run("report", "m.st").status == 0
    assert "min_df=5, max_df=0.9, norm=l2" in (documents.parent / "m.html").read_text()


def test_many_stop_words_are_counted_and_json_has_all(run, documents):
    words = [f"word{i}" for i in range(30)]
    (documents.parent / "stop.txt").write_text("\n".join(words))
    assert run("convert", documents, "w.store", "--stop-words", "stop.txt").status == 0
    assert json.loads(run("inspect", "w.store", "--json").out)["recipe"]["text"] == {
        "stop_words": words
    }
    assert "'word9'] and 20 more" in run("inspect", "w.store").out


@pytest.mark.parametrize("option", [("--unit",), ("--norm", "l2")])
def test_unit_rows_by_either_word(run, matrix, option):
    assert run("convert", "x.npz", "u.store", *option).status == 0
    assert open_store("u.store").recipe.described() == {"values": {"norm": "l2"}}


def test_convert_then_fit_then_predict(run, documents):
    assert run("convert", documents, "w.store", "--tfidf", "--unit").status == 0
    rows = open_store("w.store")
    fitted = run("fit", "w.store", "-k", 2, "--seed", 0, "--model", "m.st", "--labels", "l.npy")
    assert fitted.status == 0
    assert "apple" in fitted.out
    expected = KMeans(2, random_state=0).fit(rows)
    assert np.array_equal(np.load("l.npy"), expected.labels_)
    assert np.array_equal(load_model("m.st").labels_, expected.labels_)
    predicted = run("predict", "m.st", documents)
    assert predicted.status == 0
    assert [int(label) for label in predicted.out.split()] == expected.labels_.tolist()


@pytest.mark.parametrize("ending", ["npy", "csv", "txt"])
def test_labels_are_written_as_their_ending_says(run, matrix, ending):
    assert run("fit", "x.npz", "-k", 3, "--seed", 0, "--labels", f"l.{ending}", "-q").status == 0
    expected = KMeans(3, random_state=0).fit(matrix).labels_
    if ending == "npy":
        found = np.load("l.npy")
    elif ending == "txt":
        found = np.loadtxt("l.txt", dtype=int)
    else:
        table = np.loadtxt("l.csv", dtype=int, delimiter=",", skiprows=1)
        assert table[:, 0].tolist() == list(range(200))
        found = table[:, 1]
    assert np.array_equal(found, expected)


def test_labels_on_standard_output_are_alone_there(run, matrix):
    done = run("fit", "x.npz", "-k", 3, "--seed", 0, "--labels", "-")
    expected = KMeans(3, random_state=0).fit(matrix).labels_
    assert [int(line) for line in done.out.splitlines()] == expected.tolist()
    assert "3 clusters" in done.err


def test_quiet_says_nothing(run, matrix):
    done = run("fit", "x.npz", "-k", 3, "--quiet", "--model", "m.st")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_json_is_for_machines(run, matrix):
    done = run("fit", "x.npz", "-k", 3, "--seed", 0, "--json")
    summary = json.loads(done.out)
    assert summary["clusters"] == 3
    assert sum(summary["sizes"]) == 200
    assert summary["cost"] == KMeans(3, random_state=0).fit(matrix).inertia_


def test_many_clusters_are_left_out_of_the_table_in_one_line(run, matrix):
    done = run("fit", "x.npz", "-k", 60, "--seed", 0)
    assert "\nand 10 smaller ones (use --json to list all)\n" in done.out


def test_defaults_are_those_of_the_library(run, matrix):
    run("fit", "x.npz", "-k", 3, "--model", "m.st")
    found = load_model("m.st").get_params()
    expected = KMeans(3).get_params()
    for name in ("checkpoint", "checkpoint_every"):
        found.pop(name), expected.pop(name)
    assert found == expected


def test_fit_by_cosine(run, matrix):
    filled = matrix[np.diff(matrix.indptr) > 0]
    sp.save_npz("filled.npz", filled)
    arguments = ("-k", 3, "--seed", 1, "--metric", "cosine", "--labels", "l.npy")
    assert run("fit", "filled.npz", *arguments).status == 0
    assert np.array_equal(np.load("l.npy"), SphericalKMeans(3, random_state=1).fit(filled).labels_)


@pytest.mark.parametrize("length", [1, 300])
def test_seed_takes_the_options_of_the_methods(run, matrix, length):
    common = ("-k", 4, "--seed", 2, "--method", "mcmc")
    found = run("seed", "x.npz", *common, "--chain-length", length)
    _, expected = seed_centers(matrix, 4, "mcmc", random_state=2, chain_length=length)
    assert [int(row) for row in found.out.split()] == expected.tolist()


def test_fit_from_centers_in_a_file(run, matrix):
    seeded = run("seed", "x.npz", "-k", 4, "--seed", 2, "--centers", "c.npz")
    rows = [int(row) for row in seeded.out.split()]
    assert np.array_equal(sp.load_npz("c.npz").toarray(), matrix[rows].toarray())
    assert run("fit", "x.npz", "-k", 4, "--init", "c.npz", "--labels", "l.npy").status == 0
    assert np.array_equal(np.load("l.npy"), KMeans(4, init=matrix[rows]).fit(matrix).labels_)


def test_fit_goes_on_from_a_checkpoint(run, matrix):
    command = ("fit", "x.npz", "-k", 3, "--seed", 0, "--checkpoint", "state", "--labels", "l.npy")
    assert run(*command, "--every", "0s").status == 0
    first = np.load("l.npy")
    assert run(*command).status == 0
    assert np.array_equal(np.load("l.npy"), first)
    refused = run(*command[:3], 4, *command[4:])
    assert refused.status == 2
    assert "another fit" in refused.err


def test_inspect_tells_of_a_file(run, documents):
    found = json.loads(run("inspect", documents, "--json", "-k", 5).out)
    rows = read(documents)
    assert (found["rows"], found["columns"]) == rows.shape
    assert found["entries"] == rows.matrix.nnz
    assert found["density"] == pytest.approx(rows.matrix.nnz / np.prod(rows.shape))
    assert found["row_lengths"]["50%"] == np.median(np.diff(rows.matrix.indptr))
    counts = np.bincount(rows.matrix.indices)
    assert dict(found["frequent"]) == dict(zip(rows.feature_names, counts.tolist(), strict=True))
    assert found["memory"]["clusters"] == 5


def test_inspect_tells_of_a_store_and_verifies_it(run, documents):
    run("convert", documents, "w.store", "--tfidf")
    done = run("inspect", "w.store", "--verify")
    assert done.status == 0
    assert "checksums are right" in done.out
    assert "--tfidf" in done.out


def test_inspect_tells_of_a_model(run, documents):
    run("fit", documents, "-k", 2, "--seed", 0, "--model", "m.st")
    found = json.loads(run("inspect", "m.st", "--json").out)
    assert found["estimator"] == "KMeans"
    assert found["clusters"] == 2
    assert any("sky" in terms for terms in found["top_terms"])
    assert "apple" in run("inspect", "m.st").out


def test_labels_become_rows(run, tmp_path):
    (tmp_path / "y.svm").write_text("2 3 2\n0 0:1 1:1\n0,1 2:3\n")
    assert run("convert", "y.svm", "labels.store", "--metalabels").status == 0
    expected = np.array([[1, 1, 3], [0, 0, 3]]) / np.array([[np.sqrt(11)], [3]])
    np.testing.assert_allclose(open_store("labels.store").matrix.toarray(), expected, rtol=1e-6)
    assert run("fit", "y.svm", "--metalabels", "-k", 2, "--labels", "l.txt").status == 0


def test_convert_like_a_model(run, documents, tmp_path):
    run("fit", documents, "-k", 2, "--tfidf", "--model", "m.st")
    (tmp_path / "new.txt").write_text("blue apple\n")
    assert run("convert", "new.txt", "new.store", "--like", "m.st").status == 0
    assert run("predict", "m.st", "new.store").out == run("predict", "m.st", "new.txt").out
    own_words = run("convert", "new.txt", "own.store", "--tfidf")
    assert own_words.status == 0
    refused = run("predict", "m.st", "own.store")
    assert refused.status == 2
    assert "another way" in refused.err


def test_a_warning_is_a_line(run, matrix):
    done = run("fit", "x.npz", "-k", 5, "--max-iter", 1)
    assert done.status == 0
    assert done.err.startswith("warning: K-means did not converge")
    assert "kmeans.py" not in done.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["fit", "missing.npz", "-k", 3], "missing.npz does not exist"),
        (["fit", "x.npz"], "clusters"),
        (["fit", "x.npz", "-k", 0], "for -k. Must be >= 1."),
        (["fit", "x.npz", "-k", 1000], "--clusters 1000 is too many for 200 rows"),
        (["fit", "x.npz", "-k", 3, "--labels", "l.xls"], ".npy, .csv, .txt"),
        (["fit", "x.npz", "-k", 3, "--labels", "no/l.npy"], "there is no folder"),
        (["fit", "x.npz", "-k", 3, "--model", "no/m.st"], "there is no folder"),
        (["fit", "x.npz", "-k", 3, "--model", "."], "is a folder"),
        (["fit", "x.npz", "-k", 3, "--init", "best"], "--init best is not known"),
        (["fit", "x.npz", "-k", 3, "--zero-rows", "first"], "--zero-rows"),
        (["fit", "x.npz", "-k", 3, "--minibatch", "--checkpoint", "c"], "--checkpoint"),
        (["fit", "missing", "-k", 3, "--every", "5m"], "--checkpoint-every needs --checkpoint"),
        (
            ["fit", "x.npz", "-k", 3, "--checkpoint", "c", "--every", "often"],
            "--checkpoint-every must be",
        ),
        (["fit", "x.npz", "-k", 3, "--terms", 0], "--terms"),
        (["fit", "x.npz", "-k", 3, "--memory-limit", "lots"], "--memory-limit must be"),
        (["fit", "x.npz", "-k", 3, "--model", "x.npz"], "written over x.npz"),
        (["fit", "x.npz", "-k", 3, "--model", "a.csv", "--labels", "a.csv"], "written over"),
        (["fit", "x.npz", "-k", 3, "--model", "/dev/null"], "not a regular file"),
        (["seed", "x.npz", "-k", 3, "--centers", "x.npz"], "written over"),
        (["convert", "x.npz", "y.npz"], "a store is a folder"),
        (["convert", "/dev/null", "y.store"], "is a pipe or a device"),
        (["fit", "x.npz", "-k", 3, "--transpose"], "--transpose: no effect on x.npz"),
        (["fit", "x.npz", "-k", 3, "--metalabels"], "no labels"),
        (["fit", "x.npz", "-k", 3, "--min-df", 1000], "Lower --min-df"),
        (["predict", "missing.st", "x.npz"], "missing.st"),
        (["predict", "x.npz", "x.npz"], "x.npz"),
        (["convert", "x.npz", "no/x.store"], "no folder"),
        (["inspect", "x.npz", "--verify"], "no checksums"),
        (["inspect", "missing"], "missing does not exist"),
        (["seed", "x.npz", "-k", 3, "--centers", "c.txt"], ".npz"),
        (["seed", "missing.npz", "-k", 3, "--method", "best"], "--method best is not known"),
        (
            ["seed", "missing.npz", "-k", 3, "--rounds", 2],
            "--rounds is not an option of --method k-means++",
        ),
        (["seed", "missing.npz", "-k", 3, "--n-local-trials", 0], "--n-local-trials must be"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(run, matrix, arguments, named):
    done = run(*arguments)
    assert done.status == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert named in done.err


def test_a_failure_of_the_system_exits_1(run, matrix, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sparsecluster.storage.model.save_model", full)
    done = run("fit", "x.npz", "-k", 3, "--model", "m.st")
    assert done.status == 1
    assert "the disk is full" in done.err


def test_progress_is_shown_to_a_terminal_only(run, matrix, monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    run("fit", "x.npz", "-k", 3)
    assert "clustering" in terminal.getvalue()
    terminal.truncate(0)
    run("fit", "x.npz", "-k", 3, "--quiet")
    assert terminal.getvalue().strip("\x00") == ""
