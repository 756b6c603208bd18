"""`--join` and `--labels` for data that are not one file of text: folders, several files, standard
input, tables of numbers, columns of text in Parquet."""

import csv
import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.matrix_files import write_table

from sparsecluster import ReadError, join_labels
from sparsecluster.cli import app

WORDS = ["red apple", "blue sky", "apple pie", "sky sea"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in a folder of its own, which must succeed."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        app.meta([*map(str, arguments), "-q"])  # which ends the process where it fails

    return command


def table(path, delimiter=","):
    with open(path, newline="") as file:
        return list(csv.reader(file, delimiter=delimiter))


def test_folder_is_joined_as_ids(run, tmp_path):
    for number, text in enumerate(WORDS):
        path = tmp_path / "texts" / f"{number % 2}" / f"n{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run("fit", "texts", "-k", 2, "--seed", 0, "--join", "j.csv", "--model", "m.st")
    header, *rows = table("j.csv")
    assert header == ["row", "id", "cluster", "cluster_distance"]
    assert [row[1] for row in rows] == ["0/n0.txt", "0/n2.txt", "1/n1.txt", "1/n3.txt"]
    assert rows[0][2] == rows[1][2] != rows[2][2] == rows[3][2]
    run("predict", "m.st", "texts", "--join", "p.csv")
    assert table("p.csv") == [header, *rows]


def test_several_tables_of_text_become_one(run, tmp_path):
    for name, words in {"a.csv": WORDS[:2], "b.csv": WORDS[2:]}.items():
        lines = "\n".join(f"{name}-{row},{text}" for row, text in enumerate(words))
        (tmp_path / name).write_text("key,text\n" + lines)  # no newline at the end
    arguments = ("a.csv", "b.csv", "-k", 2, "--id-column", "key")
    run("fit", *arguments, "--join", "j.csv", "--labels", "l.csv", "--model", "m.st")
    header, *rows = table("j.csv")
    assert header == ["key", "text", "cluster", "cluster_distance"]
    assert [row[1] for row in rows] == WORDS
    assert [[cluster, id] for _, cluster, id in table("l.csv")[1:]] == [
        [cluster, id] for id, _, cluster, _ in rows
    ]
    run("predict", "m.st", "[ab].csv", "--join", "p.csv.gz")
    with gzip.open("p.csv.gz", "rt", newline="") as file:
        assert list(csv.reader(file)) == [header, *rows]


def test_several_files_of_json_lines_become_one(run, tmp_path):
    for name, words in {"a.jsonl": WORDS[:2], "b.jsonl": WORDS[2:]}.items():
        lines = [json.dumps({"text": text}) for text in words]
        (tmp_path / name).write_text("\n".join(lines))
    run("fit", "a.jsonl", "b.jsonl", "-k", 2, "--join", "j.jsonl")
    joined = [json.loads(line) for line in Path("j.jsonl").read_text().splitlines()]
    assert [record["text"] for record in joined] == WORDS
    assert all(record["cluster"] in (0, 1) for record in joined)


@pytest.mark.parametrize("name", ["part-{}.parquet", "part-{}.feather"])
def test_part_files_become_one(run, tmp_path, name):
    (tmp_path / "parts").mkdir()
    parts = {0: WORDS[:1], 1: [], 2: WORDS[1:]}
    pa = pytest.importorskip("pyarrow")
    for number, words in parts.items():
        columns = {
            "text": pa.array(words, pa.string()),
            "n": pa.array(range(len(words)), pa.int64()),
        }
        write_table(tmp_path / "parts" / name.format(number), columns)
    out = "j" + Path(name).suffix
    run("fit", "parts", "-k", 2, "--join", out, "--labels", "l.csv")
    joined = pd.read_parquet(out) if name.endswith("parquet") else pd.read_feather(out)
    assert joined["text"].tolist() == WORDS
    assert joined["n"].tolist() == [0, 0, 1, 2]
    assert joined["cluster"].tolist() == [int(row[1]) for row in table("l.csv")[1:]]


@pytest.mark.parametrize("second", ["text,key\nred,1\n", "key;text\n1;red\n", "text\nred\n"])
def test_tables_that_differ_are_not_joined_into_one(tmp_path, second):
    (tmp_path / "a.csv").write_text("key,text\n1,red\n")
    (tmp_path / "b.csv").write_text(second)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    with pytest.raises(ReadError, match=r"b\.csv does not have the columns of .*a\.csv"):
        join_labels(files, [0, 1], tmp_path / "j.csv")


def test_pattern_with_one_file_is_joined_like_the_file(run, tmp_path):
    (tmp_path / "part-1.csv").write_text("text,n\n" + "".join(f"{text},1\n" for text in WORDS))
    run("fit", "part-*.csv", "-k", 2, "--join", "j.csv")
    assert table("j.csv")[0] == ["text", "n", "cluster", "cluster_distance"]


def test_standard_input_is_joined(run, monkeypatch):
    content = "n;text\n" + "".join(f'{row};"{text}"\n' for row, text in enumerate(WORDS))
    stdin = io.TextIOWrapper(io.BytesIO(content.encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    run("fit", "-", "--format", "csv", "-k", 2, "--seed", 0, "--join", "j.csv")
    lines = Path("j.csv").read_text().splitlines()
    assert [line.rsplit(";", 2)[0] for line in lines] == content.splitlines()


@pytest.mark.parametrize("delimiter", [";", "|", "\t", ","])
def test_table_of_numbers_keeps_its_delimiter(run, tmp_path, delimiter):
    cells = [["name", "x", "y"], ["a", "1", "2"], ["b", "1", "2.5"], ["c", "9", "9e0"]]
    content = "\r\n".join(delimiter.join(row) for row in cells)
    (tmp_path / "a.csv").write_bytes(content.encode())
    run("fit", "a.csv", "-k", 2, "--id-column", "name", "--join", "j.csv")
    joined = table("j.csv", delimiter)
    assert [row[:3] for row in joined] == cells
    assert joined[1][3] == joined[2][3] != joined[3][3]
    assert Path("j.csv").read_bytes().count(b"\r\n") == 3


def test_table_without_a_header_gets_none(run, tmp_path):
    (tmp_path / "a.csv").write_text("\n1,2\n1,3\n\n9,9\n")
    run("fit", "a.csv", "-k", 2, "--seed", 0, "--no-header", "--join", "j.csv")
    joined = table("j.csv")
    assert [row[:2] for row in joined] == [[], ["1", "2"], ["1", "3"], [], ["9", "9"]]
    assert [len(row) for row in joined] == [0, 4, 4, 0, 4]


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
@pytest.mark.parametrize("numbers", [False, True])
def test_columns_of_arrow_files_are_joined(run, tmp_path, name, numbers):
    pytest.importorskip("pyarrow")
    import pandas as pd

    columns = {"id": ["p", "q", "r", "s"], "x": [1.0, 9.0, 1.5, 9.5], "text": WORDS}
    write_table(tmp_path / name, columns)
    out = f"j{Path(name).suffix}"
    chosen = ("--columns", "x") if numbers else ("--column", "text")
    line = ("fit", name, "-k", 2, "--seed", 0, *chosen, "--id-column", "id")
    run(*line, "--join", out, "--labels", "l.csv")
    found = pd.read_parquet(out) if out.endswith("parquet") else pd.read_feather(out)
    assert list(found) == [*columns, "cluster", "cluster_distance"]
    assert found["text"].tolist() == WORDS
    assert np.array_equal(found["cluster"], found["cluster"][[2, 3, 0, 1]])
    assert [row[2] for row in table("l.csv")] == ["id", *columns["id"]]
