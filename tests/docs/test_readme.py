"""The examples in the README run as they are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.processes import HANGS

from sparsecluster import load_model, open_store


@pytest.mark.slow
def test_walk_in_the_readme_runs(tmp_path):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (walk,) = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    command = f'sparsecluster() {{ "{sys.executable}" -m sparsecluster "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-ec", command + walk],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    rows, model = open_store(tmp_path / "docs.store"), load_model(tmp_path / "docs.model")
    labels = np.loadtxt(tmp_path / "labels.csv", delimiter=",", skiprows=1, dtype=int)[:, 1]
    assert np.array_equal(labels, model.labels_)
    assert np.array_equal(model.predict(rows), labels)
    predicted = next(int(line) for line in done.stdout.splitlines() if line.isdigit())
    assert "file" in model.top_terms(10)[predicted]
    assert "<html" in (tmp_path / "docs.html").read_text()


def test_example_in_the_readme_runs(corpus, monkeypatch):
    monkeypatch.setattr("sparsecluster.datasets.docstrings.load_docstrings", lambda: corpus)
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    names = {}
    exec(example, names)
    km = names["km"]
    np.testing.assert_array_equal(km.labels_, km.predict(names["X"]))
    assert len(km.top_terms(5)) == 50


def test_every_extra_is_in_the_readme():
    root = Path(__file__).parents[2]
    declared = re.search(
        r"^\[project.optional-dependencies\]\n(.*?)^test = ",
        (root / "pyproject.toml").read_text(),
        re.DOTALL | re.MULTILINE,
    )[1]
    extras = re.findall(r"^(\w+) = ", declared, re.MULTILINE)
    assert {"h5ad", "parquet", "zstd", "report", "all"} <= set(extras)
    readme = (root / "README.md").read_text()
    assert [extra for extra in extras if f"pip install '.[{extra}]'" not in readme] == []
