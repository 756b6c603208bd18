"""Progress: a line that fits the terminal whole, and lines of a log where there is none."""

import io
import os
import pty
import re
import struct
import subprocess
import sys
from fcntl import ioctl
from itertools import pairwise
from termios import TIOCSWINSZ
from types import SimpleNamespace

import pytest
import scipy.sparse as sp
from rich.console import Console
from support.processes import HANGS, command

from sparsecluster.cli.options import Running
from sparsecluster.cli.progress import Iterations, Pace, Progress
from sparsecluster.cli.screen import Screen

LONG = "reading " + "a-name-that-nobody-would-want-to-type-twice" * 2 + ".parquet"
REMARKS = ("iteration 12", "1,234 rows moved", "cost 123456", "1,234,567 rows/s")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def drawn(progress, width, encoding="utf-8"):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=file, width=width, force_terminal=True, color_system=None).print(progress)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def at(share, seconds, phase="clustering", **more):
    clock = Clock()
    progress = Progress(phase, clock=clock)
    clock.now = seconds
    progress.move(share, **more)
    return progress


@pytest.mark.parametrize("width", [24, 40, 80, 100, 200])
@pytest.mark.parametrize("phase", ["seeding", "clustering", LONG])
@pytest.mark.parametrize("part", ["", "run 12 of 100"])
@pytest.mark.parametrize(
    ("share", "seconds", "figures"),
    [
        (0.0, 5, "  0%  -:-- left"),
        (0.42, 42, " 42%  0:58 left"),
        (0.5, 12_345, " 50%  3:25:45 left"),
        (0.001, 1e6, "  0%  > 999 d left"),
        (1.0, 3, "100%  0:00 left"),
    ],
)
def test_share_and_time_left_are_whole_at_any_width(width, phase, part, share, seconds, figures):
    text = drawn(at(share, seconds, phase, part=part, remarks=REMARKS), width)
    assert text.count("\n") == 1
    line = text.rstrip("\n")
    assert len(line) <= width
    assert figures in line
    assert "…" not in line


@pytest.mark.parametrize("width", range(20, 140, 5))
def test_names_and_remarks_are_whole_or_absent(width):
    line = drawn(at(0.5, 10, part="run 2 of 5", remarks=REMARKS), width).rstrip("\n")
    name, rest = re.fullmatch(r"(.*?)[━─]*  ? *50%  0:10 left *(.*)", line).groups()
    assert name.strip() in ("clustering, run 2 of 5", "run 2 of 5", "")
    assert rest in [", ".join(REMARKS[:n]) for n in range(len(REMARKS) + 1)]


def test_80_columns_have_name_bar_share_time_and_iteration():
    line = drawn(at(0.5, 10, remarks=REMARKS), 80)
    assert line == "clustering  ━━━━━━━━━━──────────   50%  0:10 left     iteration 12\n"


def test_a_terminal_without_unicode_gets_a_bar_too():
    assert "#####-----" in drawn(at(0.5, 10), 80, "ascii")


def record(run=0, moved=50, iteration=1, space="original", machines=None):
    told = {"cost": 1.0, "rows": 100, "seconds": 0.1, "share": 0.5, "machines": machines}
    return SimpleNamespace(run=run, moved=moved, iteration=iteration, space=space, **told)


def shown(n_runs, records, max_iter=300):
    """What is shown for records of seeding and of iterations."""
    calls = []
    callback = Iterations(
        lambda *told, **named: calls.append((*told, named)), 100, n_runs, max_iter
    )
    for seeding, one in records:
        (callback.on_seeding if seeding else callback)(one)
    return calls


def test_one_run_is_not_numbered_and_seeding_is_a_phase_of_its_own():
    seeding, clustering = shown(1, [(True, record()), (False, record(moved=1))])
    assert seeding == (0.5, {"phase": "seeding"})
    assert clustering[:3] == (pytest.approx(0.85, abs=0.01), "iteration 1", "1 row moved")
    assert clustering[-1] == {"phase": "clustering"}


def test_workers_have_a_speed_each_and_lost_parts_are_told():
    here, there, lost = shown(1, [(False, record(machines=m)) for m in (None, (2, 0), (2, 3))])
    assert here[-2] == "1,000 rows/s"
    assert there[-3:-1] == ("2 workers", "500 rows/s each")
    assert lost[-2] == "3 parts rebuilt"


def test_an_assignment_is_told_beside_what_has_settled():
    calls = []
    callback = Iterations(lambda *told, **named: calls.append((*told, named)), 100, 1, 300)
    callback.on_assignment(record())
    callback(record(moved=1))
    callback.on_assignment(record(iteration=2))
    assert calls[0] == (0.0, "iteration 1: 50%", {"phase": "clustering"})
    assert calls[2] == (calls[1][0], "iteration 2: 50%", {"phase": "clustering"})


def test_the_last_iteration_that_is_allowed_is_the_end():
    (call,) = shown(1, [(False, record(moved=99, iteration=20))], max_iter=20)
    assert call[0] == 1.0


def test_several_runs_are_numbered_and_never_go_back():
    order = [(True, 0), (True, 1), (False, 1), (False, 0), (False, 1), (True, 2), (False, 2)]
    calls = shown(3, [(seeding, record(run, moved=9)) for seeding, run in order])
    parts = [call[-1]["part"] for call in calls]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == ("run 1 of 3", "run 3 of 3")
    shares = [call[0] for call in calls]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1


def test_a_log_gets_lines_less_and_less_often():
    clock = Clock()
    pace = Pace(verbose=False, clock=clock)
    written = []
    for clock.now in range(5000):
        if pace.due():
            written.append(clock.now)
    assert written[:6] == [10, 30, 70, 150, 310, 630]
    assert max(b - a for a, b in pairwise(written)) == 600


def test_a_log_has_share_time_left_and_remarks():
    assert at(0.5, 10, remarks=REMARKS[:2]).logged() == (
        "clustering: 50%, 0:10 left, iteration 12, 1,234 rows moved"
    )


def test_a_log_leaves_out_a_time_that_is_not_known():
    assert at(0.0, 10).logged() == "clustering: 0%"


def test_quiet_and_verbose_exclude_each_other():
    with pytest.raises(ValueError, match="--quiet cannot be combined with --verbose"):
        Screen(Running(quiet=True, verbose=True))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "x.npz"
    sp.save_npz(path, sp.random_array((4000, 300), density=0.05, format="csr", rng=1))
    return path


def test_without_a_terminal_verbose_tells_of_each_iteration(data):
    done = command("fit", data, "-k", "9", "--seed", "0", "-v", "--max-iter", "4")
    said = done.stderr.decode()
    lines = said.splitlines()
    assert [line for line in lines if "iteration 4, " in line and "rows moved, cost" in line]
    assert re.fullmatch(r"clustering: [\d.]+ s", lines[-1])
    assert "\x1b" not in said


def test_a_fit_in_a_terminal_of_80_columns_is_cut_nowhere(data):
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: os.environ[name] for name in os.environ if name != "COLUMNS"}
    process = subprocess.Popen(
        [sys.executable, "-m", "sparsecluster", "fit", str(data), "-k", "40", "--n-init", "2"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 1 << 16):
            seen += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.wait(HANGS) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode())
    lines = [line for line in re.split(r"[\r\n]+", plain) if line.strip()]
    assert any(re.search(r"run \d of 2", line) for line in lines)
    for line in lines:
        assert re.fullmatch(r"[\w,. ]+ +[━─]+ +\d+%  [\d:-]+ left.*", line.strip()), line
        assert len(line) <= 80


def test_embedded_rows_are_a_phase_of_their_own():
    records = [record(space="embedded"), record(moved=0, iteration=301)]
    calls = shown(1, [(False, one) for one in records])
    assert [call[-1]["phase"] for call in calls] == ["clustering embedded rows", "clustering"]
    assert all(call[0] <= 1 for call in calls)
