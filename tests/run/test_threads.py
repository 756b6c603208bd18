"""Threads: calls that run while something else happens (signal handlers, forks, the end of the
process), and what is done where there are none."""

import io
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from rich.console import Console
from support.data import csr, problem
from support.marks import slow_except
from support.processes import HANGS

from sparsecluster import KMeans, convert, open_store
from sparsecluster.cli import app
from sparsecluster.cli.options import Running
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.sharing import share_out

PROGRAM = """
import os, pickle, signal, sys, threading, time, traceback
import numpy as np
from sparsecluster import KMeans, MiniBatchKMeans, kmeans_plusplus, load_model, read
rng = np.random.default_rng(0)
X = rng.random((12_000, 300), dtype=np.float32)
"""


def run(program, *arguments):
    """Standard output and error; a program that hangs fails the test."""
    command = [sys.executable, "-c", PROGRAM + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, done.stderr


LOOK = """
km = MiniBatchKMeans(2000, init=X[:2000], n_threads=2).partial_fit(X[:3000])
def seen():
    km.save(sys.argv[1])
    saved, pickled = load_model(sys.argv[1]), pickle.loads(pickle.dumps(km))
    return [(one.n_steps_, one.counts_.sum(), one.cluster_centers_.sum(), one.predict(X[:9]).sum())
            for one in (km, saved, pickled)]
before, during = seen(), []
"""

HANDLER = (
    LOOK
    + """
def look(number, frame):
    during.append(seen())
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.02)
km.partial_fit(X)
assert during == [before], (before, during)
assert seen() != before
assert [one[0] for one in seen()] == [2, 2, 2]
"""
)


def test_signal_handler_sees_a_stream_as_before_the_batch(tmp_path):
    run(HANDLER, tmp_path / "model")


# The alarm rings again until it is heard within the batch: the first time may be before it.
WRITER = """
km = MiniBatchKMeans(2000, init=X[:2000]).partial_fit(X[:3000])
said, learned = [], []
def change(number, frame):
    try:
        km.partial_fit(X[:10])
        learned.append(10)
        signal.setitimer(signal.ITIMER_REAL, 0.02)
    except RuntimeError as error:
        said.append(str(error))
signal.signal(signal.SIGALRM, change)
signal.setitimer(signal.ITIMER_REAL, 0.02)
km.partial_fit(X)
signal.setitimer(signal.ITIMER_REAL, 0)
assert said == ["A signal handler cannot change what the call that it interrupted changes."]
assert km.counts_.sum() == 15_000 + sum(learned)
"""


def test_signal_handler_that_changes_the_stream_is_refused():
    run(WRITER)


FORK = (
    LOOK
    + """
fed = pickle.loads(pickle.dumps(km)).partial_fit(X)
thread = threading.Thread(target=km.partial_fit, args=(X,))
thread.start()
time.sleep(0.05)
child = os.fork()
if child == 0:
    signal.alarm(600)
    try:
        now = seen()
        whole = now != before  # the thread may have been faster
        assert now == before or now[0][:3] == (2, fed.counts_.sum(), fed.cluster_centers_.sum())
        km.partial_fit(X[:100])
        assert km.counts_.sum() == (15_100 if whole else 3100)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
thread.join()
assert km.counts_.sum() == 15_000
"""
)


def test_child_of_a_fork_uses_a_stream_that_another_thread_fed(tmp_path):
    run(FORK, tmp_path / "model")


def test_threads_take_turns_to_feed_a_stream():
    run("""
km = MiniBatchKMeans(50, init=X[:50], n_threads=2).partial_fit(X[:100])
stop = False
def look():
    while not stop:
        kept, centers = km._stream.state
        assert kept.counts.sum() == 100 * kept.n_batches
        means = kept.sums.toarray() / np.where(kept.counts > 0, kept.counts, 1)[:, None]
        np.testing.assert_array_equal(centers.toarray(), means)
faults = []
threading.excepthook = lambda fault: faults.append(fault)
reader = threading.Thread(target=look)
feeders = [
    threading.Thread(target=lambda: [km.partial_fit(X[:100]) for _ in range(50)]) for _ in range(3)
]
for thread in [reader, *feeders]:
    thread.start()
for thread in feeders:
    thread.join()
stop = True
reader.join()
assert not faults, faults
assert km.n_steps_ == 151
""")


# A daemon thread is inside the call when the main thread ends.
EXIT = """
km = MiniBatchKMeans(1000, init=X[:1000]).partial_fit(X[:1000])
fitted = KMeans(1000, init=X[:1000], max_iter=1, tol=10).fit(X[:1000])
calls = {
    "fit": lambda: KMeans(4000, init=X[:4000], algorithm="lloyd", tol=0).fit(X),
    "predict": lambda: fitted.predict(X),
    "partial_fit": lambda: km.partial_fit(X),
    "seeding": lambda: kmeans_plusplus(X, 1000, random_state=0),
    "read": lambda: read(sys.argv[2]),
}
started = threading.Event()
def call_again_and_again():
    while True:
        started.set()
        calls[sys.argv[1]]()
threading.Thread(target=call_again_and_again, daemon=True).start()
started.wait()
time.sleep(0.1)
"""


CALLS = ("fit", "predict", "partial_fit", "seeding", "read")


@pytest.mark.parametrize("call", slow_except(["partial_fit", "read"], CALLS))
def test_process_ends_while_a_daemon_thread_is_in_a_call(call, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 3:0.5 7:1.25 90:2\n" * 200_000)
    assert run(EXIT, call, path) == ("", "")


# --- no more threads ----------------------------------------------------------------------------


@pytest.fixture(params=[0, 1], ids=["no thread", "one thread"])
def few_threads(request, monkeypatch):
    """The system has so many threads beside this one."""
    started = []
    start = threading.Thread.start

    def start_or_fail(thread):
        if sum(one.is_alive() for one in started) >= request.param:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_fail)


def test_restarts_go_on_with_fewer_threads(few_threads):
    X, _ = problem("text")
    km = KMeans(8, n_init=5, n_threads=4, random_state=0).fit(csr(X))
    one = KMeans(8, n_init=5, n_threads=1, random_state=0).fit(csr(X))
    np.testing.assert_array_equal(km.labels_, one.labels_)
    assert km.inertia_ == one.inertia_


def test_store_is_checked_with_fewer_threads(few_threads, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    (tmp_path / "rows.svm").write_text("0 1:1 2:3\n1 2:2\n")
    convert(tmp_path / "rows.svm", tmp_path / "rows.store")
    assert open_store(tmp_path / "rows.store", verify=True).shape == (2, 2)


def test_progress_is_shown_without_threads(few_threads):
    screen = Screen(Running())
    screen.errors = Console(file=io.StringIO(), force_terminal=True)
    with screen.progress("Reading") as show:
        show(0.5)
    assert "50%" in screen.errors.file.getvalue()


def test_command_without_threads_ends_in_one_line(monkeypatch, capsys):
    def fail(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("sparsecluster.datasets.docstrings.load_docstrings", fail)
    with pytest.raises(SystemExit) as ended:
        app.meta(["demo"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_failure_of_a_piece_ends_the_others():
    begun, called_off = [], []

    def work(piece):
        begun.append(piece)
        if piece == 1:
            raise KeyError("as it should be")
        time.sleep(0.01)

    with pytest.raises(KeyError, match="as it should be"):
        share_out(work, 1000, 3, call_off=lambda: called_off.append(True))
    assert called_off == [True]
    assert len(begun) < 1000
