"""Memory: what does not fit is replaced, and nothing of the size of K x d or of a copy of X."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from support.data import csr, problem
from support.marks import slow_except
from support.processes import HANGS

from sparsecluster import KMeans

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc"
)

MEASURE = """
import contextlib, sys
import warnings; warnings.simplefilter("ignore")
import numpy as np, scipy.sparse as sp
from sparsecluster import KMeans, MiniBatchKMeans

def kilobytes(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field))

def forget_peak():
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as request:
        request.write("5")

KMeans(2).fit(sp.csr_array(np.eye(4)))  # loads what is loaded late
rng = np.random.default_rng(0)
def random_rows(n, d, per_row, dtype=np.float32):
    columns = np.sort(rng.integers(0, d, size=(n, per_row), dtype=np.int32), axis=1)
    columns += np.arange(per_row, dtype=np.int32)
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = rng.random(n * per_row, dtype=np.float32).astype(dtype, copy=False)
    return sp.csr_array((values, columns.ravel(), indptr), shape=(n, d + per_row))
"""


def megabytes_of(setup, call):
    """By how much the peak of a process exceeds what it held before the call, in megabytes."""
    program = (
        f"{MEASURE}\n{setup}\nforget_peak()\nbefore = kilobytes('VmRSS')\n{call}\n"
        "sys.stdout.write(str((kilobytes('VmHWM') - before) / 1e3))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


# --- Elkan's bounds ------------------------------------------------------------------------------


def test_elkan_that_does_not_fit_gives_a_warning_with_both_sizes():
    X = csr(problem("text")[0])
    with pytest.warns(UserWarning, match=r"elkan.*GB.*memory limit.*'auto' is used instead"):
        KMeans(5, algorithm="elkan", memory_limit=1000, random_state=0).fit(X)


def test_elkan_that_does_not_fit_gives_the_same_result():
    X = csr(problem("text")[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        small = KMeans(9, algorithm="elkan", memory_limit=1000, random_state=0).fit(X)
    large = KMeans(9, algorithm="elkan", random_state=0).fit(X)
    assert small.algorithm_ != "elkan" == large.algorithm_
    np.testing.assert_array_equal(small.labels_, large.labels_)
    assert small.inertia_ == large.inertia_


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly", "auto"])
@pytest.mark.parametrize("name", ["unit", "many", "blobs"])
def test_tiny_limit_changes_no_label(name, algorithm):
    X = csr(problem(name)[0])
    tight, wide = (
        KMeans(40, algorithm=algorithm, memory_limit=limit, random_state=0).fit(X).labels_
        for limit in (1, None)
    )
    np.testing.assert_array_equal(tight, wide)


def test_predict_under_a_tiny_limit_gives_the_same_labels():
    X = csr(problem("many")[0])
    km = KMeans(40, random_state=0).fit(X)
    np.testing.assert_array_equal(km.set_params(memory_limit=1).predict(X), km.labels_)


# --- peaks ---------------------------------------------------------------------------------------


@needs_proc
def test_many_clusters_of_many_features_take_no_dense_centers():
    # K x d in float32 would be 1,000 MB; rows and their columns are 5 MB each.
    grown = megabytes_of(
        "X = random_rows(20_000, 500_000, 20)",
        "KMeans(500, max_iter=3, random_state=0, n_threads=2).fit(X)",
    )
    assert grown < 300


@needs_proc
def test_elkan_takes_little_more_than_its_bounds():
    # n x K floats are 80 MB.
    grown = megabytes_of(
        "X = random_rows(20_000, 20_000, 20)",
        "KMeans(1000, max_iter=3, random_state=0, n_threads=2, algorithm='elkan').fit(X)",
    )
    assert grown < 300


@needs_proc
@pytest.mark.parametrize("method", slow_except(["fit"], ["fit", "predict"]))
def test_sparse_float32_rows_are_not_copied(method):
    # The values alone are 40 MB, and would be 80 MB in float64.
    grown = megabytes_of(
        "X = random_rows(100_000, 3000, 100)\n"
        "km = KMeans(3, init=X[:3], max_iter=2)\n"
        f"{'km.fit(X[:1000])' if method == 'predict' else ''}",
        f"km.{method}(X)",
    )
    assert grown < 30


@needs_proc
@pytest.mark.parametrize("dtype", slow_except(["float64"], ["float32", "float64"]))
def test_dense_rows_are_not_copied(dtype):
    grown = megabytes_of(
        f"X = rng.random((100_000, 200), dtype='{dtype}')",
        "KMeans(3, init=X[:3].astype(float), max_iter=2).fit(X)",
    )
    assert grown < 30


@needs_proc
def test_seeding_takes_no_float64_copy_of_the_rows():
    # Rows by column in float32 are 80 MB; the values in float64 would add 40 MB at least.
    grown = megabytes_of(
        "X = random_rows(100_000, 3000, 100)",
        "from sparsecluster import kmeans_plusplus\nkmeans_plusplus(X, 3, random_state=0)",
    )
    assert grown < 110


@needs_proc
def test_lack_of_memory_is_an_error_and_no_crash():
    # Elkan's bounds would be 2 GB where only 1 GB more may be mapped.
    program = f"""{MEASURE}
import resource
X = random_rows(50_000, 1000, 5)
limit = kilobytes("VmSize") * 1024 + 10**9
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    KMeans(10_000, init="random", algorithm="elkan", memory_limit="100GB", n_threads=2).fit(X)
    raise SystemExit("it fitted")
except MemoryError:
    KMeans(3).fit(X)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANGS
    )
    assert done.returncode == 0, done.stderr[-2000:]


# --- mini-batches --------------------------------------------------------------------------------


@needs_proc
def test_stream_takes_no_more_memory_the_longer_it_is():
    setup = """
km = MiniBatchKMeans(30, random_state=0)
for _ in range(30):
    km.partial_fit(random_rows(1000, 2000, 20))
"""
    more = "for _ in range(300):\n    km.partial_fit(random_rows(1000, 2000, 20))"
    assert megabytes_of(setup, more) < 15


@needs_proc
@pytest.mark.parametrize("schedule", slow_except(["nested"], ["nested", "sculley"]))
def test_batches_are_not_copies(schedule):
    setup = "X = random_rows(200_000, 3000, 30)"  # 48 MB
    fit = f"MiniBatchKMeans(20, schedule={schedule!r}, max_iter=5, random_state=0).fit(X)"
    assert megabytes_of(setup, fit) < 30
