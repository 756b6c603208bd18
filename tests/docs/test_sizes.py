"""The examples in docs/sizes.md run, and show what they say."""

import re
from pathlib import Path

import numpy as np

from sparsecluster.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "sizes.md").read_text()


def test_python_example_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "sizes.md", "exec"), {})
    kept, nearest = capsys.readouterr().out.splitlines()
    assert kept == "[3 3]"
    assert sorted(re.findall(r"\d", nearest)) == ["1", "5"]


def test_command_keeps_the_bounds(tmp_path, monkeypatch):
    (line,) = re.findall(r"```sh\nsparsecluster (.*)\n```", PAGE)
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((300, 4)))
    arguments = line.replace("rows.store", "rows.npy").replace("-k 1000", "-k 3").split()
    app.meta([*arguments, "--quiet"])
    labels = np.load("labels.npy")
    assert len(labels) == 300
    assert np.bincount(labels).max() <= 120
