"""The examples in docs/machines.md run, and show what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

from sparsecluster import convert
from sparsecluster.cli import app
from sparsecluster.kmeans.seeding.registry import METHODS

pytest.importorskip("distributed")
PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()


def test_python_examples_run(capsys):
    names = {"__name__": "__main__"}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "machines.md", "exec"), names)
        assert capsys.readouterr().out == "True True\n"


def test_starts_that_workers_find_are_named():
    table = PAGE.split("## Where a fit starts")[1].split("All others")[0].replace("\\|", "|")
    named = set(re.findall(r'`"([^"]+)"`', table))
    assert named == {name for name, method in METHODS.items() if method.distributed}


def test_command_runs(tmp_path, monkeypatch):
    (line,) = re.findall(r"sparsecluster (fit .*--workers.*)\n", PAGE)
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((300, 4)))
    convert("rows.npy", "rows.store")
    app.meta([*line.split(), "--seed", "0", "--quiet"])
    found = np.load("labels.npy")
    app.meta(["fit", "rows.store", "-k", "10", "--seed", "0", "--labels", "here.npy", "--quiet"])
    assert np.array_equal(found, np.load("here.npy"))
