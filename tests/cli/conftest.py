"""A way to run a line of the command."""

from pathlib import Path

import pytest
from support.commands import TEXT

from sparsecluster.cli import app


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Run a line in a folder that has x.txt, and answer what it wrote."""
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text(TEXT)

    def command(line):
        app.meta(line.split())
        return capfd.readouterr()

    return command
