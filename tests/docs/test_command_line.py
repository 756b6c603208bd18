"""Every field of the JSON of a command is documented."""

import json
import re
from pathlib import Path

import pytest

from sparsecluster.cli import app
from sparsecluster.cli.options import Running
from sparsecluster.cli.screen import Screen

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
# Their keys are names of the user's file or of the library.
OPEN = {"parameters", "recipe", "quantiles"}


def documented(command):
    """The fields in the tables of a command."""
    section = re.search(rf"^### {command}\n(.*?)(?=^###|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    return set(re.findall(r"`([\w%]+)`", "".join(re.findall(r"^\|.*", section, re.MULTILINE))))


def fields(value):
    """All keys of a document, however deep."""
    if isinstance(value, list):
        return set().union(*(fields(one) for one in value))
    if not isinstance(value, dict):
        return set()
    inner = (fields(one) for key, one in value.items() if key not in OPEN)
    return set(value).union(*inner)


@pytest.fixture
def summary(tmp_path, monkeypatch, capfd):
    """The JSON of a command in a folder with a text."""
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("red apple\ngreen apple\nblue sky\nblue sea\n" * 3)

    def command(line):
        app.meta([*line.split(), "--json"])
        out, err = capfd.readouterr()
        assert err == ""
        return json.loads(out)

    return command


def test_all_fields_of_all_commands_are_documented(summary):
    fit = summary("fit x.txt -k 2 --seed 0 --tfidf --model m.st --labels l.csv --checkpoint c")
    assert fields(fit) <= documented("fit")
    model = summary("inspect m.st")
    assert fields(model) <= documented("inspect") | documented("fit")
    tree = summary("hierarchy x.txt -k 2 --model t.st --labels t.csv --newick t.nwk")
    assert fields(tree) <= documented("hierarchy")
    assert fields(summary("inspect t.st")) <= documented("inspect") | documented("hierarchy")
    tree = summary("tree x.txt --max-leaf-size 2 --model r.st --labels r.csv --newick r.nwk")
    assert fields(tree) <= documented("tree")
    assert fields(summary("inspect r.st")) <= documented("inspect") | documented("tree")
    lines = {
        "convert": "convert x.txt x.store",
        "inspect": "inspect x.store",
        "predict": "predict m.st x.txt --labels p.csv",
        "report": "report m.st x.txt",
        "seed": "seed x.txt -k 2 --seed 0",
        "dbscan": "dbscan x.txt --min-samples 2 --k-distances",
        "neighbors": "neighbors x.txt -k 2",
        "choose-k": "choose-k x.txt --most 4 --seed 0 --table t.csv",
        "evaluate": "evaluate x.txt --labels l.csv --true l.csv",
        "plan": "plan x.store -k 2 --machines 3",
    }
    for command, line in lines.items():
        assert fields(summary(line)) <= documented(command), command


def test_a_model_tells_what_its_fit_told(summary):
    fit = summary("fit x.txt -k 2 --seed 0 --tfidf --norm l2 --model m.st --labels l.csv")
    model = summary("inspect m.st --terms 8")
    for field in ("sizes", "history", "cost", "converged", "distances", "top_terms", "iterations"):
        assert model[field] == fit[field], field
    assert sum(fit["sizes"]) == fit["rows"] == 12
    assert fit["distances"] == sum(record["distances"] for record in fit["history"]) > 0
    assert fit["iterations"] == len(fit["history"])
    assert model["recipe"] == {"text": {}, "values": {"tfidf": True, "norm": "l2"}}
    assert (fit["model"], fit["labels"]) == ("m.st", "l.csv")
    assert fit["seconds_by_phase"]["reading"] > 0


def test_what_is_not_finite_is_null(capfd):
    Screen(Running(json=True)).result({"a": float("inf"), "b": [{"c": float("nan")}, 1.5]})
    assert capfd.readouterr().out == '{"a": null, "b": [{"c": null}, 1.5]}\n'
