"""Data on standard input, and several files as the shell gives them, by processes."""

import gzip
import json

import pytest
from support.processes import command

SVM = "".join(f"0 {1 + i % 2}:{1 + i}\n" for i in range(12)).encode()


@pytest.fixture
def run(tmp_path):
    def run(*arguments, given=b""):
        done = command(*arguments, folder=tmp_path, given=given, TMPDIR=str(tmp_path))
        assert not list(tmp_path.glob("sparsecluster-*"))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_fit_and_predict_read_standard_input(run, tmp_path):
    (tmp_path / "x.svm").write_bytes(SVM)
    files = ("--json", "--seed", "0", "-k", "2")
    status, from_file, _ = run("fit", "x.svm", *files)
    assert status == 0
    for given in (SVM, gzip.compress(SVM)):
        status, found, error = run("fit", "-", *files, "--model", "x.model", given=given)
        assert (status, error) == (0, "")
        assert json.loads(found)["cost"] == json.loads(from_file)["cost"]
    status, labels, _ = run("predict", "x.model", "-", "-q", given=SVM)
    assert (status, len(labels.split())) == (0, 12)


def test_convert_and_inspect_read_standard_input(run, tmp_path):
    lines = b'{"text": "red sky", "id": 5}\n{"text": "blue sky", "id": 6}\n'
    status, found, _ = run("convert", "-", "x.store", "--id-column", "id", "--json", given=lines)
    assert (status, json.loads(found)["format"]) == (0, "jsonl")
    table = b"x,y\n1,2\n3,4\n"
    status, found, _ = run("inspect", "-", "--format", "table", "--json", given=table)
    assert (status, json.loads(found)["columns"]) == (0, 2)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "Standard input is empty."),
        (b"1 1:1\n1 2:3\n2 2:2 2:2\n", "standard input, line 3:"),
        (gzip.compress(SVM, mtime=0)[:-9], "standard input: the gzip data are broken"),
    ],
)
def test_what_is_wrong_with_it_is_one_line(run, given, message):
    status, _, error = run("fit", "-", "-k", "2", given=given)
    assert (status, error.count("\n")) == (2, 1)
    assert message in error


def test_several_files_are_read_as_one(run, tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("name;text\nu;red sky\nv;blue sea\n")
    for data in (("a.csv", "b.csv"), ("*.csv",), (".",)):
        status, found, error = run("fit", *data, "-k", 2, "--id-column", "name", "--json")
        assert (status, error) == (0, "")
        assert json.loads(found)["rows"] == 4
    status, _, error = run("fit", "*.csv", "-k", 2, "--labels", "a.csv")
    assert status == 2
    assert "a.csv would be written over a.csv" in error


def test_standard_input_named_twice_is_refused(run):
    status, out, error = run("fit", "-", "-", "-k", "2", given=SVM)
    assert (status, out, error) == (2, "", "sparsecluster: Standard input is named twice.\n")
