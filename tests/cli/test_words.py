"""What the command line says: its own options, what to do, and a result on any terminal."""

import errno
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from support.processes import HANGS, forked

from sparsecluster import KMeans
from sparsecluster.cli import app, main
from sparsecluster.cli.words import SYSTEM_ERRORS, in_options, system_error

# Commands in a process in which some modules are not installed.
COMMANDS = """
import shlex, sys
_, hidden, *lines = sys.argv
sys.modules.update(dict.fromkeys(hidden.split(",")))
from sparsecluster.cli import main
for line in lines:
    sys.argv = ["sparsecluster", *shlex.split(line)]
    main()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = sp.random_array((60, 8), density=0.5, format="csr", dtype=np.float32, rng=1)
    sp.save_npz("small.npz", X)
    KMeans(3, random_state=0).fit(X).save("s.model")
    return tmp_path


@pytest.fixture
def refused(folder, capfd):
    """Run a command that is refused; the one line that it says."""

    def command(line, status=2):
        with pytest.raises(SystemExit) as ended:
            app.meta(shlex.split(line))
        out, err = capfd.readouterr()
        assert (ended.value.code, out, err.count("\n")) == (status, "", 1)
        return err.removeprefix("sparsecluster: ").rstrip("\n")

    return command


def run_lines(hidden, *lines):
    """The same in a copy of this process."""

    def program():
        sys.modules.update(dict.fromkeys(hidden.split(",")))
        for line in lines:
            sys.argv = ["sparsecluster", *shlex.split(line)]
            main()

    return forked(program)


def process(hidden, *lines, **environment):
    return subprocess.run(
        [sys.executable, "-c", COMMANDS, hidden, *lines],
        capture_output=True,
        timeout=HANGS,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "predict small.npz s.model",
            "small.npz is not a model, and s.model is one. "
            "Did you mean `sparsecluster predict s.model small.npz`?",
        ),
        (
            "report small.npz s.model",
            "small.npz is not a model, and s.model is one. "
            "Did you mean `sparsecluster report s.model small.npz`?",
        ),
        (
            "convert new.store small.npz",
            "new.store does not exist, and small.npz does. "
            "Did you mean `sparsecluster convert small.npz new.store`?",
        ),
        (
            "fit s.model -k 3",
            "s.model is a model, and data are needed. Did you mean `sparsecluster inspect s.model` "
            "or `sparsecluster predict s.model DATA`?",
        ),
        ("predict m.model small.npz", "m.model does not exist."),
        (
            "predict small.npz none.npz",
            "small.npz is not a file that sparsecluster wrote, or only its beginning. Give one "
            "that fit --model wrote.",
        ),
        ("inspect small.npz other", "other: not expected. See `sparsecluster help`."),
        (
            "fit small.npz -k 2 --join -",
            "--join needs a file. --labels - writes to standard output.",
        ),
        ("fit", "fit needs DATA. See `sparsecluster help fit`."),
        ("fit small.npz", "fit needs --clusters. See `sparsecluster help fit`."),
        ("fit small.npz -k", "-k needs a value."),
        (
            "fit small.npz --clusers 3",
            "Unknown option: --clusers. Did you mean --clusters?",
        ),
        (
            "fit small.npz -k 3 --metrics cosine",
            "Unknown option: --metrics. Did you mean --metric?",
        ),
        (
            "fit small.npz -k 3 --model /proc/m",
            "/proc/m cannot be written: its folder takes no new files. Choose another place.",
        ),
    ],
)
def test_what_was_meant_is_guessed(refused, line, said):
    assert refused(line) == said


def test_near_misses_of_commands_are_suggested(refused):
    assert refused("ftt small.npz").startswith('Unknown command "ftt". Did you mean "fit"?')


def test_an_existing_store_is_overwritten_by_an_option(refused):
    app.meta(["convert", "small.npz", "x.store", "-q"])
    assert refused("convert small.npz x.store") == (
        "x.store exists. Choose another name, or pass --overwrite."
    )


@pytest.mark.parametrize("option", ["-k", "--k", "--clusters"])
def test_the_number_of_clusters_has_short_names(folder, capfd, option):
    app.meta(["fit", "small.npz", option, "4", "--json"])
    assert json.loads(capfd.readouterr().out)["clusters"] == 4


def test_help_of_a_command_by_word_and_by_option():
    """In processes of their own, because consoles of other tests have widths of theirs."""

    def shown(*line):
        command = [sys.executable, "-m", "sparsecluster", *line]
        environment = {**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
        return done.stdout.decode()

    assert shown("help", "fit") == shown("fit", "--help")
    assert "Commands" in shown("help")


@pytest.mark.parametrize("number", [*SYSTEM_ERRORS, errno.ETXTBSY])
def test_what_the_system_refuses_names_the_file_and_no_number(number):
    said = system_error(OSError(number, os.strerror(number), "a/.x.st.0123456789ab.partial"))
    assert said.startswith("a/x.st ")
    assert "Errno" not in said
    assert said.endswith(".")


def test_errors_inside_messages_lose_their_numbers_too():
    error = OSError(errno.EEXIST, os.strerror(errno.EEXIST), "x")
    assert in_options(f"x: cannot be read ({error}).") == "x: cannot be read (File exists: 'x')."


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("n_samples=1 should be >= n_clusters=2.", "--clusters 2 is too many for 1 row."),
        ("pass zero_rows='first' to put", "pass --zero-rows first to put"),
        (
            "Choose another name, or pass overwrite=True.",
            "Choose another name, or pass --overwrite.",
        ),
        ("Give one that `save` wrote.", "Give one that fit --model wrote."),
        ("1 rows are kept, (1 such rows), 1 entries.", "1 row is kept, (1 row), 1 entry."),
        (
            "in max_iter=1 iterations: 11 rows are, 0.1 rows",
            "in --max-iter 1 iteration: 11 rows are, 0.1 rows",
        ),
        ("at most 2**31 - 1 are supported", "at most 2**31 - 1 are supported"),
    ],
)
def test_advice_is_about_options(message, words):
    assert in_options(message) == words


@pytest.mark.parametrize(
    ("hidden", "start", "name", "arguments"),
    [
        ("pyarrow", b"PAR1", "x.parquet", "inspect"),
        ("pyarrow", b"ARROW1", "x.feather", "fit -k 2"),
        ("h5py", b"\x89HDF\r\n\x1a\n", "x.h5ad", "predict s.model"),
        ("zstandard,compression", b"\x28\xb5\x2f\xfd", "x.svm.zst", "seed -k 2"),
        ("jinja2", None, "s.model", "report"),
    ],
)
def test_a_missing_extra_is_named_in_one_line(folder, hidden, start, name, arguments):
    extra = {"pyarrow": "parquet", "h5py": "h5ad", "jinja2": "report"}.get(hidden, "zstd")
    if start is not None:
        (folder / name).write_bytes(start + bytes(50))
    done = run_lines(hidden, f"{arguments} {name}")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout, said.count("\n")) == (2, b"", 1), said
    assert f"pip install 'sparsecluster[{extra}]'" in said


def test_the_rest_works_without_any_extra(folder):
    hidden = "pyarrow,h5py,zstandard,compression,jinja2,pandas,safetensors"
    lines = ("fit small.npz -k 3 --model m.st", "predict m.st small.npz", "inspect m.st")
    done = process(hidden, *lines)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_without_unicode_gets_all_results(folder):
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "TERM": "dumb"}
    (folder / "menu.txt").write_text("café thé\ncrème brûlée\ncafé crème\n" * 5, encoding="utf-8")
    lines = (
        "fit menu.txt -k 2 --seed 0 --model menu.st -v",
        "inspect menu.txt",
        "inspect menu.st",
        "inspect menu.st --json",
        "convert menu.txt menu.store",
        "seed menu.store -k 2",
        "predict menu.st menu.txt",
        "report menu.st menu.txt",
        "help fit",
    )
    done = process("", *lines, **ascii_only)
    assert done.returncode == 0, done.stderr
    assert (done.stdout + done.stderr).isascii()
    assert b"caf?" in done.stdout
    assert b"| " in done.stdout
