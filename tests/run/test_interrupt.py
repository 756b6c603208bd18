"""Ctrl-C: a fit ends at once, wherever it is, and the process goes on."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.marks import slow_except
from support.processes import HANGS

from sparsecluster import KMeans, MiniBatchKMeans

PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # even where the parent ignores it
import numpy as np, scipy.sparse as sp
from sparsecluster import AgglomerativeClustering, KMeans, MiniBatchKMeans, kmeans_plusplus
from sparsecluster import pairwise
rng = np.random.default_rng(0)
X = rng.random((20_000, 400), dtype=np.float32)
columns = np.sort(rng.integers(0, 2000, size=(200_000, 20), dtype=np.int32))
S = sp.csr_array((rng.random(4_000_000), columns.ravel(), np.arange(0, 4_000_001, 20)))
def started(record=None):
    sys.stdout.write("started\\n")
    sys.stdout.flush()
try:
    {before}
    {call}
    sys.stdout.write("finished\\n")
except KeyboardInterrupt:
    sys.stdout.write("interrupted\\n")
    sys.stdout.flush()
    assert KMeans(3, random_state=0).fit(X[:100]).n_clusters_ == 3
"""

# What is done before the interrupt is due, and the call that would take many seconds, at least.
# Where the callback says that the call has started, the first iteration is over.
CALLS = {
    "in the first assignment": ("started()", "KMeans(20_000, init=X, algorithm='lloyd').fit(X)"),
    "in one thread": ("started()", "KMeans(20_000, init=X, algorithm='lloyd', n_threads=1).fit(X)"),
    "in Lloyd's iterations": (
        "km = KMeans(2000, init='random', algorithm='lloyd', tol=0, callback=started)",
        "km.fit(X)",
    ),
    "in Elkan's iterations": (
        "km = KMeans(2000, init='random', algorithm='elkan', tol=0, callback=started)",
        "km.fit(X)",
    ),
    "in Hamerly's iterations": (
        "km = KMeans(2000, init='random', algorithm='hamerly', tol=0, callback=started)",
        "km.fit(X)",
    ),
    "in an assignment within bounds": (
        "started()",
        "KMeans(1000, init=S[:1000], size_max=201, max_iter=1).fit(S)",
    ),
    "in dense seeding": ("started()", "kmeans_plusplus(X, 10_000, random_state=0)"),
    "in sparse seeding": ("started()", "kmeans_plusplus(S, 20_000, random_state=0)"),
    "in the first neighbors of a tree": ("started()", "AgglomerativeClustering().fit(S)"),
    "in the merges of a tree": (
        "model = AgglomerativeClustering(linkage='centroid', callback=started)",
        "model.fit(X)",
    ),
    "in a spanning tree": ("started()", "AgglomerativeClustering(linkage='single').fit(S)"),
    "in distances of all pairs": (
        "started()",
        "AgglomerativeClustering(linkage='complete', metric='minkowski').fit(X)",
    ),
    "in pairwise": ("started()", "pairwise(X, metric='manhattan', memory_limit='9GB')"),
    "in a chain": (
        "started()",
        "KMeans(2, init='mcmc', init_options={'chain_length': 10**9}).fit(X[:200])",
    ),
    "in runs side by side": (
        "started()",
        "KMeans(20_000, n_init=2, n_threads=2, random_state=0).fit(S)",
    ),
    "in a batch of a stream": (
        "km = MiniBatchKMeans(10_000, init=X[:10_000], n_threads=1); started()",
        "km.partial_fit(X)",
    ),
    "in nested batches": (
        "km = MiniBatchKMeans(3000, init='random', batch_size=5000, tol=0, callback=started)",
        "km.fit(X)",
    ),
    "in transform": (
        "km = KMeans(3000, init=X[:3000]).fit(X[:3000]); started()",
        "km.transform(X)",
    ),
}


QUICK = ("in Lloyd's iterations", "in sparse seeding", "in a batch of a stream", "in a chain")
QUICK += ("in an assignment within bounds",)


@pytest.mark.parametrize("moment", slow_except(QUICK, CALLS))
def test_interrupt_ends_the_call(moment):
    before, call = moment
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(before=before, call=call)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "started\n", process.stderr.read()[-2000:]
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        lines = [process.stdout.readline()]
        while lines[-1] == "started\n":
            lines.append(process.stdout.readline())
        # A call that does not listen goes on to its end, which takes far longer.
        assert lines[-1] == "interrupted\n"
        assert process.wait(timeout=HANGS) == 0, process.stderr.read()[-2000:]
    finally:
        process.kill()
        process.communicate()


def test_interrupted_batch_changes_nothing():
    """The centers of a stream move all or not at all."""
    rng = np.random.default_rng(0)
    X = rng.random((20_000, 300), dtype=np.float32)

    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    def stream():
        km = MiniBatchKMeans(2000, init=X[:2000], random_state=0, n_threads=1)
        return km.partial_fit(X[:5000])

    km, expected = stream(), stream()
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            km.partial_fit(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for one in (km, expected):
        one.partial_fit(X[5000:6000])
    np.testing.assert_array_equal(km.labels_, expected.labels_)
    np.testing.assert_array_equal(km.cluster_centers_, expected.cluster_centers_)
    assert km.counts_.sum() == 6000


def test_handler_of_the_user_is_called():
    class Alarm(Exception):
        pass

    def ring(number, frame):
        raise Alarm

    X = np.random.default_rng(0).random((6000, 300), dtype=np.float32)
    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            KMeans(6000, init=X, algorithm="lloyd", n_threads=1).fit(X)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
