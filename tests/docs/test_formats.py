"""The examples on the page about formats run as they are written, one after the other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import HANGS

from sparsecluster import open_store
from sparsecluster.formats.registry import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()


def test_every_format_has_its_line_with_endings_and_options():
    lines = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    assert lines.keys() == FORMATS.keys()
    for name, format in FORMATS.items():
        for ending in format.suffixes:
            assert ending in lines[name]
        if not format.reader.terms:
            for option in format.reader.options:
                assert "--" + option.name.replace("_", "-") in lines[name]


@pytest.mark.slow
def test_commands_run_one_after_the_other(tmp_path, monkeypatch):
    examples = re.findall(r"```(sh|python)\n(.*?)```", PAGE, re.DOTALL)
    command = f'sparsecluster() {{ "{sys.executable}" -m sparsecluster "$@"; }}\n'
    script = command + "".join(code for language, code in examples if language == "sh")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
        timeout=HANGS,
    )
    assert done.returncode == 0, done.stderr
    assert "all.store: read as svmlight, 3 rows, 3 columns" in done.stdout
    assert "people.store: read as table, 3 rows, 2 columns" in done.stdout
    assert open_store(tmp_path / "people.store").ids.tolist() == ["ann", "bob", "cid"]
    monkeypatch.chdir(tmp_path)
    names = {}
    first, second = (code for language, code in examples if language == "python")
    exec(first, names)
    shown = dict(re.findall(r"rows\.(\w+) *# (\[.*\])", first))
    for attribute, value in shown.items():
        assert str(getattr(names["rows"], attribute).tolist()) == value
    exec(second, names)
    assert names["rows"].shape == (3, 3)
