"""Stores that are larger than the memory a process may use, and limits that are too small."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from support.processes import HANGS

from sparsecluster import convert

MEGABYTE = 1 << 20
GROUPS = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
LIMITS = "memory.limit_in_bytes", "memory.max"
PEAKS = "memory.max_usage_in_bytes", "memory.peak"


class Group:
    """A control group of this machine whose processes share so much memory, files included."""

    def __init__(self, limit):
        for root, self.limit, self.peak in zip(GROUPS, LIMITS, PEAKS, strict=True):
            self.folder = root / f"sparsecluster-test-{os.getpid()}"
            try:
                self.folder.mkdir()
            except OSError:
                continue
            try:
                (self.folder / self.limit).write_text(str(limit))
                assert self.run("true").returncode == 0
                return
            except (OSError, AssertionError):
                self.remove()
        pytest.skip("no control group for memory can be made here (it takes root)")

    def run(self, *command):
        enter = ("sh", "-c", 'echo $$ > "$0" && exec "$@"', self.folder / "cgroup.procs")
        return subprocess.run((*enter, *command), capture_output=True, text=True, timeout=HANGS)

    def highest(self):
        return int((self.folder / self.peak).read_text())

    def remove(self):
        for _ in range(50):  # the kernel lets go of the last process a little later
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)


def command(*arguments):
    return (sys.executable, "-m", "sparsecluster", *map(str, arguments))


def fit(data, labels):
    options = ("--seed", 0, "--max-iter", 2, "--json")
    return command("fit", data, "-k", 5, *options, "--labels", labels)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of 100 MB: few long rows of few columns, so that a fit adds little to its data."""
    folder = tmp_path_factory.mktemp("limits")
    n_rows, n_columns = 25_000, 1000
    rng = np.random.default_rng(0)
    values = rng.random((n_rows, 500), dtype=np.float32)
    offsets = rng.integers(0, 2, size=values.shape, dtype=np.int32)
    columns = 2 * np.arange(500, dtype=np.int32) + offsets
    indptr = np.arange(0, values.size + 1, 500)
    X = sp.csr_array((values.ravel(), columns.ravel(), indptr), shape=(n_rows, n_columns))
    np.savez(
        folder / "rows.npz", format=b"csr", shape=X.shape, data=X.data, indices=X.indices,
        indptr=X.indptr,
    )  # fmt: skip
    convert(folder / "rows.npz", folder / "rows.store")
    return folder / "rows.store"


def forget_pages(store):
    """Have the kernel drop what it holds of a store, else nobody is charged for it."""
    for file in store.iterdir():
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def interpreter():
    """Bytes that a process holds once everything is imported, files not counted."""
    program = """
import sys, sparsecluster.cli, sparsecluster.prepare.read
from sparsecluster import KMeans
status = open("/proc/self/status").read()
sys.stdout.write(status.split("RssAnon:")[1].split()[0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    return int(done.stdout) * 1024


@pytest.mark.slow
def test_fit_from_a_store_three_times_larger_than_memory_gives_the_same_labels(store, tmp_path):
    size = sum(file.stat().st_size for file in store.iterdir())
    limit = interpreter() + size // 3
    group = Group(limit)
    try:
        forget_pages(store)
        limited = group.run(*fit(store, tmp_path / "limited.npy"))
        highest = group.highest()
    finally:
        group.remove()
    assert limited.returncode == 0, limited.stderr
    assert highest <= limit + MEGABYTE
    free = subprocess.run(fit(store, tmp_path / "free.npy"), capture_output=True, text=True)
    assert json.loads(limited.stdout)["cost"] == json.loads(free.stdout)["cost"]
    np.testing.assert_array_equal(np.load(tmp_path / "limited.npy"), np.load(tmp_path / "free.npy"))


def test_store_that_cannot_be_mapped_is_an_error_in_one_line(store, tmp_path):
    program = """
import sys, sparsecluster.cli, sparsecluster.prepare.read
from sparsecluster import KMeans
status = open("/proc/self/status").read()
sys.stdout.write(status.split("VmSize:")[1].split()[0])
"""
    imported = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    most = int(imported.stdout) * 1024 + 30 * MEGABYTE

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    done = subprocess.run(
        fit(store, tmp_path / "labels.npy"), capture_output=True, text=True, preexec_fn=limit
    )
    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "memory" in done.stderr
