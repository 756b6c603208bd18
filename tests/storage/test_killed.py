"""Commands that are killed at any moment: what they leave is whole, and the next one goes on."""

import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from support.marks import slow_except

from sparsecluster import convert, load_model, open_store
from sparsecluster.cli import main
from sparsecluster.kmeans import runs
from sparsecluster.kmeans.loop import Loop
from sparsecluster.kmeans.work import LocalWork
from sparsecluster.storage.atomic import PARTIAL
from sparsecluster.storage.tensors import TensorFile, unpack


@pytest.fixture(params=slow_except([4], [4, 20]))
def n_kills(request):
    """How many times a command is killed."""
    return request.param


# --- processes -----------------------------------------------------------------------------------


def send_at(owner, name, count, number):
    """Have this process send itself a signal as a function is called for the n-th time."""
    calls, function = itertools.count(1), getattr(owner, name)

    def called(*arguments, **options):
        if next(calls) == count:
            os.kill(os.getpid(), number)
        return function(*arguments, **options)

    setattr(owner, name, called)


def run_main(arguments, said, signals):
    """The command line, with all that it says in a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # even where the parent ignores it
    for one in signals:
        send_at(*one)
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.stdout = sys.stderr = os.fdopen(output, "w")
    sys.argv = ["sparsecluster", *map(str, arguments)]
    main()


class Command:
    """A command of the command line as a process of its own, which need not import anything."""

    def __init__(self, said, *arguments, signals=()):
        self.said = said
        self.process = multiprocessing.get_context("fork").Process(
            target=run_main, args=(arguments, said, signals)
        )
        self.process.start()

    def end(self):
        """Wait for its end: exit status and output."""
        self.process.join()
        return self.process.exitcode, self.said.read_text()

    def kill_after(self, seconds):
        self.process.join(seconds)
        self.kill()

    def kill_when(self, happens, times=1, wait=0.0):
        """Kill it when something came to be so for the n-th time, at once or after a moment."""
        before = False
        while times and self.process.is_alive():
            now = happens()
            times -= now and not before
            before = now
            time.sleep(1e-4)
        self.kill_after(wait)

    def kill(self):
        self.process.kill()
        self.process.join()


@pytest.fixture
def command(tmp_path):
    """Start a command; its output is kept outside of the folder that the test looks at."""
    said = tmp_path / "said"
    started = []

    def start(*arguments, **options):
        started.append(Command(said, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def finish(command):
    status, said = command.end()
    assert status == 0, said


def moments(rng, seconds, n_kills):
    """Random moments all over the length of a command, none of them twice in the same part."""
    return (np.arange(n_kills) + rng.random(n_kills)) / n_kills * seconds


def writing(folder, ending=PARTIAL):
    """A function that tells whether something is about to be published in a folder."""

    def happens():
        return folder.exists() and any(name.endswith(ending) for name in os.listdir(folder))

    return happens


# --- fits ----------------------------------------------------------------------------------------


def made_up(n_rows, seed=0):
    """Rows with few entries in columns as frequent as words are."""
    rng = np.random.default_rng(seed)
    columns = (rng.random((n_rows, 15)) ** 3 * 3000).astype(np.int32)
    values = rng.integers(1, 100, size=columns.size) / np.float32(8)
    X = sp.csr_array((values, columns.ravel(), np.arange(0, columns.size + 1, 15)))
    X.sum_duplicates()
    return X


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Rows in stores, by name: for fits of about a second, and others of the same shape."""
    folder = tmp_path_factory.mktemp("stores")
    few = made_up(800)
    # As categories are kept: every row has the same length, in any order.
    categories = 10 * np.arange(6) + np.random.default_rng(0).integers(0, 10, size=(512, 6))
    ones = (np.ones(categories.size), categories.ravel(), np.arange(0, categories.size + 1, 6))
    coded = sp.csr_array(ones)
    for name, X in {
        "many": made_up(5000), "few": few, "others": made_up(800, seed=1),
        "coded": coded, "turned": coded[::-1],
    }.items():  # fmt: skip
        sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(X))
        convert(folder / f"{name}.npz", folder / name)
    return folder


FITS = {
    "several runs": ("many", "-k", 60, "--n-init", 2, "--tol", 0),
    "cosine": ("many", "-k", 60, "--metric", "cosine", "--tol", 0),
    "single moves": ("few", "-k", 20, "--refine", "first-variation"),
}


def fit_arguments(stores, out, data, *options):
    """A fit whose results and checkpoint are in a folder; every iteration is kept."""
    seed = () if "--seed" in options else ("--seed", 3)
    return (
        "fit", stores / data, *options, *seed, "--quiet", "--checkpoint", out / "kept",
        "--every", "0s", "--model", out / "model", "--labels", out / "labels.npy",
    )  # fmt: skip


def result(out):
    """All that a fit found, to the bit; only times may differ, and who computed which distances."""
    km = load_model(out / "model", verify=True)
    labels = np.load(out / "labels.npy")
    np.testing.assert_array_equal(labels, km.labels_)
    costs = [(one.iteration, one.cost, one.shift, one.moved) for one in km.history_]
    centers = km.cluster_centers_
    arrays = (labels, centers.data, centers.indices, centers.indptr, np.array(costs))
    return [km.inertia_, km.n_iter_, *(array.tobytes() for array in arrays)]


def unbroken(command, stores, out, fit):
    """What a fit finds undisturbed, and how long that takes."""
    out.mkdir()
    started = time.monotonic()
    finish(command(*fit_arguments(stores, out, *fit)))
    return result(out), time.monotonic() - started


@pytest.mark.parametrize("fit", slow_except(["single moves"], FITS))
def test_fit_that_was_killed_ends_as_if_it_had_not_been(fit, command, stores, tmp_path, n_kills):
    expected, seconds = unbroken(command, stores, tmp_path / "unbroken", fit)
    rng = np.random.default_rng(len(fit))
    for number, moment in enumerate(moments(rng, seconds, n_kills)):
        out = tmp_path / str(number)
        out.mkdir()
        arguments = fit_arguments(stores, out, *fit)
        command(*arguments).kill_after(moment)
        if number % 3 == 0:
            command(*arguments).kill_after(rng.uniform(0, seconds))
        finish(command(*arguments))
        assert result(out) == expected
        left = sorted(os.listdir(out)), sorted(os.listdir(out / "kept"))
        runs = [f"run-{run}.safetensors" for run in range(2 if "--n-init" in fit else 1)]
        assert left == (["kept", "labels.npy", "model"], ["fit.safetensors", *runs])


@pytest.mark.parametrize("fit", slow_except(["cosine"], FITS))
def test_fit_that_was_killed_while_it_wrote_its_state_goes_on(fit, command, stores, tmp_path):
    expected, _ = unbroken(command, stores, tmp_path / "unbroken", fit)
    out = tmp_path / "out"
    out.mkdir()
    arguments = fit_arguments(stores, out, *fit)
    for times in (1, 2, 3, 5, 8):
        command(*arguments).kill_when(writing(out / "kept"), times)
    finish(command(*arguments))
    assert result(out) == expected


def test_fit_that_was_killed_does_not_begin_anew(command, stores, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    arguments = fit_arguments(stores, out, *FITS["cosine"])
    kept = out / "kept" / "run-0.safetensors"
    command(*arguments, signals=[(os, "replace", 7, signal.SIGKILL)]).end()
    before = history_of(kept)
    assert before
    finish(command(*arguments))
    times = [one.seconds for one in load_model(out / "model").history_]
    assert times[: len(before)] == [one["seconds"] for one in before]
    assert len(times) > len(before)


def history_of(path):
    """The records of the iterations in the checkpoint of a run."""
    file = TensorFile(path, mmap=False)
    return unpack(file.document["state"], file.tensors(verify=True))["history"]


# --- fits that are told to end -------------------------------------------------------------------

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
ENDED = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def quiet_checkpoint(stores, out, *fit):
    """A fit that would save its state after an hour only, and says what it does."""
    arguments = list(fit_arguments(stores, out, *fit))
    arguments[arguments.index("--every") + 1] = "1h"
    arguments.remove("--quiet")
    return arguments


def saved_iterations(out):
    """Iterations in the checkpoint, by run."""
    files = sorted((out / "kept").glob("run-*.safetensors"))
    return {int(file.stem[4:]): len(history_of(file)) for file in files}


# Before the rows are assigned, and when they are but the centers are not updated.
MOMENTS = {"between iterations": (Loop, "step"), "within an iteration": (LocalWork, "refill")}


@pytest.mark.parametrize("number", STATUS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("moment", slow_except(["within an iteration"], MOMENTS))
@pytest.mark.parametrize("fit", slow_except(["several runs", "single moves"], FITS))
def test_fit_that_is_told_to_end_saves_its_last_iteration(
    fit, moment, number, command, stores, tmp_path
):
    expected, _ = unbroken(command, stores, tmp_path / "unbroken", fit)
    out = tmp_path / "out"
    out.mkdir()
    arguments = quiet_checkpoint(stores, out, *fit)
    steps = int(np.random.default_rng(number).integers(3, 9))
    signals = [(*moment, steps, number)]
    status, said = command(*arguments, signals=signals).end()
    assert status == STATUS[number], said
    assert said.endswith(f"sparsecluster: {ENDED[number]}\n")
    kept, line = saved_iterations(out), " ".join(said.split())
    assert f"Saved in {out / 'kept'}: " in line
    assert "The same fit continues from there." in line
    if fit == FITS["cosine"]:
        assert kept == {0: steps - 1}
    status, again = command(*arguments).end()
    assert status == 0, again
    for run, iterations in kept.items():
        name = f"run {run + 1} " if "--n-init" in fit else ""
        assert f"{name}iteration {iterations}" in line or f"{name}(finished)" in line
        if f"{name}(finished)" not in line:
            assert f"Continuing {name}at iteration {iterations + 1}." in again
    assert result(out) == expected


def test_fit_that_is_told_to_end_while_seeding_has_nothing_to_save(command, stores, tmp_path):
    arguments = quiet_checkpoint(stores, tmp_path, *FITS["cosine"])
    signals = [(runs, "starting_centers", 1, signal.SIGINT)]
    status, said = command(*arguments, signals=signals).end()
    assert status == 130
    assert "Interrupted while seeding: there is nothing to save yet." in said
    assert saved_iterations(tmp_path) == {}


def test_second_interrupt_leaves_the_checkpoint_of_before(command, stores, tmp_path):
    expected, _ = unbroken(command, stores, tmp_path / "unbroken", FITS["cosine"])
    out = tmp_path / "out"
    out.mkdir()
    arguments = quiet_checkpoint(stores, out, *FITS["cosine"])
    # The seeds and the start are saved first; then what the first interrupt leaves.
    signals = [(Loop, "step", 5, signal.SIGINT), (os, "replace", 3, signal.SIGINT)]
    status, said = command(*arguments, signals=signals).end()
    assert status == 130
    assert "Interrupted while saving: " in said
    assert saved_iterations(out) == {0: 0}
    assert sorted(os.listdir(out / "kept")) == ["fit.safetensors", "run-0.safetensors"]
    finish(command(*arguments))
    assert result(out) == expected


OTHERS = {
    "clusters": ("few", "-k", 21),
    "seed": ("few", "-k", 20, "--seed", 4),
    "metric": ("few", "-k", 20, "--metric", "cosine"),
    "way to start": ("few", "-k", 20, "--init", "random"),
    "number of runs": ("few", "-k", 20, "--n-init", 2),
    "rows": ("others", "-k", 20),
    "order of the rows": ("turned", "-k", 20),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_checkpoint_of_another_fit_is_refused_in_one_line(other, command, stores, tmp_path):
    data = "coded" if other[0] == "turned" else "few"
    command(*fit_arguments(stores, tmp_path, data, "-k", 20)).end()
    before = [path.read_bytes() for path in sorted((tmp_path / "kept").iterdir())]
    status, said = command(*fit_arguments(stores, tmp_path, *other)).end()
    assert status == 2
    assert said.count("\n") == 1
    assert "holds the checkpoint of another fit" in said
    assert [path.read_bytes() for path in sorted((tmp_path / "kept").iterdir())] == before


# --- conversions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A text and a svmlight file, and the stores of both as an undisturbed conversion makes them"""
    folder = tmp_path_factory.mktemp("files")
    X = made_up(20_000)
    rows = [X.indices[begin:end] for begin, end in itertools.pairwise(X.indptr)]
    with (folder / "rows.txt").open("w") as text, (folder / "rows.svm").open("w") as svmlight:
        for number, columns in enumerate(rows * 3):
            if number < len(rows) // 4:
                text.write(" ".join(f"word{column}" for column in columns) + "\n")
            svmlight.write(" ".join(["1", *(f"{column + 1}:0.5" for column in columns)]) + "\n")
    for kind in ("txt", "svm"):
        convert(folder / f"rows.{kind}", folder / f"{kind}.store")
    return folder


def contents(store):
    """All files of a store, where there is one."""
    if not store.exists():
        return None
    open_store(store, verify=True)
    return {file.name: file.read_bytes() for file in store.iterdir()}


def duration(command, *arguments):
    """How long a command takes; what it made is removed."""
    started = time.monotonic()
    finish(command(*arguments))
    seconds = time.monotonic() - started
    shutil.rmtree(arguments[2])
    return seconds


@pytest.mark.parametrize("kind", slow_except(["txt"], ["txt", "svm"]))
def test_killed_conversion_leaves_a_whole_store_or_none(kind, command, files, tmp_path, n_kills):
    out = tmp_path / "out" / "rows.store"
    out.parent.mkdir()
    whole = contents(files / f"{kind}.store")
    arguments = ("convert", files / f"rows.{kind}", out)
    seconds = duration(command, *arguments)
    for moment in moments(np.random.default_rng(0), seconds, n_kills):
        command(*arguments).kill_after(moment)
        assert contents(out) in (None, whole)
        shutil.rmtree(out, ignore_errors=True)
    finish(command(*arguments))
    assert contents(out) == whole
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("kind", slow_except(["svm"], ["txt", "svm"]))
def test_conversion_killed_as_it_publishes_leaves_a_whole_store_or_none(
    kind, command, files, tmp_path, n_kills
):
    out = tmp_path / "out" / "rows.store"
    out.parent.mkdir()
    whole = contents(files / f"{kind}.store")
    arguments = ("convert", files / f"rows.{kind}", out)
    rng = np.random.default_rng(1)

    def all_written():
        return any((out.parent / name / "meta.json").exists() for name in os.listdir(out.parent))

    for _ in range(n_kills):
        process = command(*arguments)
        process.kill_when(all_written, wait=rng.choice([0, rng.uniform(0, 0.02)]))
        assert contents(out) in (None, whole)
        shutil.rmtree(out, ignore_errors=True)
    finish(command(*arguments))
    assert contents(out) == whole
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("ending", slow_except([PARTIAL], [None, PARTIAL]))
def test_killed_overwrite_leaves_the_old_store_or_the_new_one(
    ending, command, files, tmp_path, n_kills
):
    out = tmp_path / "out" / "rows.store"
    out.parent.mkdir()
    old, new = (contents(files / f"{kind}.store") for kind in ("txt", "svm"))
    arguments = ("convert", files / "rows.svm", out, "--overwrite")
    seconds = duration(command, *arguments)
    for moment in moments(np.random.default_rng(2), seconds, n_kills):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(files / "txt.store", out)
        if ending is None:
            command(*arguments).kill_after(moment)
        else:
            command(*arguments).kill_when(writing(out.parent, ending))
        found = contents(out)
        assert found in (old, new)
        status, said = command("convert", files / "rows.txt", out).end()
        assert status == 2, said
        assert contents(out) == found
    finish(command(*arguments))
    assert contents(out) == new
    assert os.listdir(out.parent) == [out.name]
