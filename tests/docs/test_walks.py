"""The walks in docs/walks: their files are written, their commands run as they stand there, and
what these print is what the page shows."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.processes import HANGS

WALKS = Path(__file__).parents[2] / "docs" / "walks"
FILE = re.compile(r"^`(\S+)`:\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^```sh\n(.*?)^```\n(?:```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shown(output):
    """What must be as on the page: the rows of a table, without times and the like, or all."""
    lines = output.splitlines()
    return [line for line in lines if line.startswith("│")] or lines


def walk(page, folder):
    """Run a page in a folder: its commands, then its Python."""
    text = (WALKS / page).read_text()
    for name, content in FILE.findall(text):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    command = f'sparsecluster() {{ "{sys.executable}" -m sparsecluster "$@"; }}\n'
    commands = COMMAND.findall(text)
    assert commands
    for lines, expected in commands:
        done = subprocess.run(
            ["bash", "-ec", f"set -o pipefail\n{command}{lines}"],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "COLUMNS": "100"},
            timeout=HANGS,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert shown(done.stdout) == shown(expected)
    return PYTHON.findall(text)


def test_comments(tmp_path, monkeypatch):
    (python,) = walk("comments.md", tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(python, {})
    lines = (tmp_path / "new-from-python.csv").read_text().splitlines()
    joined = (tmp_path / "new-clustered.csv").read_text().splitlines()
    assert lines == [line.rpartition(",")[0] for line in joined]


def test_folder(tmp_path):
    walk("folder.md", tmp_path)


def test_pipe(tmp_path):
    walk("pipe.md", tmp_path)


def test_cells(tmp_path, monkeypatch):
    write_cells(tmp_path / "cells.h5ad")
    (python,) = walk("cells.md", tmp_path)
    import h5py

    with h5py.File(tmp_path / "clustered.h5ad") as file:
        codes = file["obs/cluster/codes"][:]
        assert len(np.unique(codes)) == 3
        assert (codes == codes[np.arange(30) // 10 * 10]).all()  # as the cells were made
    if find_spec("anndata") is not None:
        monkeypatch.chdir(tmp_path)
        exec(python, names := {})
        assert names["adata"].obs["cluster"].astype(int).tolist() == codes.tolist()


def write_cells(path):
    """Thirty cells of three kinds, each with genes of its own, as anndata writes them."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, (30, 12)) + 5 * (np.arange(30)[:, None] // 10 == np.arange(12) // 4)
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"], file.attrs["encoding-version"] = "anndata", "0.1.0"
        file["X"] = counts.astype(np.float32)
        file["X"].attrs["encoding-type"], file["X"].attrs["encoding-version"] = "array", "0.2.0"
        for name, index in {
            "obs": [f"cell{i}" for i in range(30)],
            "var": [f"{kind}-{i}" for kind in ("liver", "heart", "brain") for i in range(4)],
        }.items():
            group = file.create_group(name)
            group.attrs["encoding-type"], group.attrs["encoding-version"] = "dataframe", "0.2.0"
            group.attrs["_index"], group.attrs["column-order"] = "_index", np.zeros(0)
            group.create_dataset("_index", data=index, dtype=h5py.string_dtype())
            group["_index"].attrs["encoding-type"] = "string-array"
            group["_index"].attrs["encoding-version"] = "0.2.0"
