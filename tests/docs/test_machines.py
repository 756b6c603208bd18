"""The examples in docs/machines.md run, and show what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

from sparsecluster import convert
from sparsecluster.cli import app

pytest.importorskip("distributed")
PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text()


def test_python_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "machines.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "True True\n"


def test_command_runs(tmp_path, monkeypatch):
    (line,) = re.findall(r"sparsecluster (fit .*--workers.*)\n", PAGE)
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((300, 4)))
    convert("rows.npy", "rows.store")
    app.meta([*line.split(), "--seed", "0", "--quiet"])
    found = np.load("labels.npy")
    app.meta(["fit", "rows.store", "-k", "10", "--seed", "0", "--labels", "here.npy", "--quiet"])
    assert np.array_equal(found, np.load("here.npy"))
