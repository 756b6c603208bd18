"""docs/planning.md: its code runs, and the output of the commands is what they print."""

import re
import shlex
from pathlib import Path

import pytest

from sparsecluster.cli import app

PAGE = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()
COMMANDS = re.findall(r"```console\n\$ sparsecluster (.*?)\n(.*?)```", PAGE, re.DOTALL)


def test_the_code_runs():
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), names)
    assert names["plan"].in_memory


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_commands_print_what_the_page_shows(command, output, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    app.meta(shlex.split(command))
    printed = capsys.readouterr().out

    def plain(text):
        return [line.rstrip() for line in text.splitlines()]

    assert plain(printed) == plain(output)
    assert len(COMMANDS) == 2
