"""The command line as a user meets it: a process with arguments, output and an exit status."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from support.processes import HANGS, command

from sparsecluster.cli import app

HEAVY = ("numpy", "pandas", "scipy", "sklearn", "safetensors")


def sparsecluster(*arguments, stdout=subprocess.PIPE):
    return subprocess.run(
        [sys.executable, "-m", "sparsecluster", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=HANGS,
        env={**os.environ, "COLUMNS": "100"},
    )


def test_version_is_that_of_the_installed_package():
    done = sparsecluster("--version")
    assert done.returncode == 0
    assert done.stdout.strip() == version("sparsecluster")


def test_help_names_every_command():
    done = sparsecluster("--help")
    assert done.returncode == 0
    commands = ("demo", "fit", "predict", "seed", "convert", "inspect", "report")
    for name in (*commands, "dbscan", "neighbors"):
        assert name in done.stdout
    assert "--debug" in done.stdout


def test_help_of_a_command_explains_its_options():
    done = sparsecluster("demo", "--help")
    assert done.returncode == 0
    assert "--clusters" in done.stdout
    assert "How many clusters to make." in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(tmp_path, shell):
    script = tmp_path / "completion"
    done = command("--install-completion", "--shell", shell, "--output", str(script))
    assert done.returncode == 0
    for word in ("sparsecluster", "convert", "checkpoint", "hamerly"):
        assert word in script.read_text()


def test_command_line_loads_nothing_heavy():
    code = f"import sys, sparsecluster.cli; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_of_a_command_needs_no_scikit_learn():
    code = "import sys, sparsecluster.cli.convert; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["demo", "--clusters", "0"], "clusters"),
        (["demo", "--terms", "0"], "terms"),
        (["demo", "--terms", "many"], "--terms"),
        (["demo", "--colour"], "--colour"),
        (["dmeo"], "dmeo"),
    ],
)
def test_user_errors_are_one_line_and_exit_2(arguments, named):
    done = command(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr.decode()


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"], []])
def test_output_to_a_full_disk_fails_in_one_line(arguments):
    with open("/dev/full", "w") as full:
        done = sparsecluster(*arguments, stdout=full)
    assert done.returncode == 1
    assert done.stderr == (
        "sparsecluster: The output cannot be written: the disk is full. Free some space, or choose "
        "another place.\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"]])
def test_output_that_nobody_reads_ends_quietly(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = sparsecluster(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_debug_shows_the_traceback():
    done = sparsecluster("--debug", "demo", "--terms", "0")
    assert done.returncode != 0
    assert "Traceback" in done.stderr
    assert "ValueError" in done.stderr


def test_interrupt_exits_130_with_a_short_message(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("sparsecluster.datasets.docstrings.load_docstrings", interrupted)
    with pytest.raises(SystemExit) as ended:
        app.meta(["demo"])
    assert ended.value.code == 130
    assert capsys.readouterr().err == "sparsecluster: interrupted\n"
