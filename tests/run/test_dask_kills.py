"""Workers that are killed at random moments, again and again: every fit ends with the same bits."""

import os
import random
import signal
import threading
import time

import pytest
from support.machines import assert_same_fit, sparse_rows, stored

from sparsecluster import KMeans, SphericalKMeans

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
N_FITS = 20


class Killer:
    """Kills a worker that has work, after a random time, once."""

    def __init__(self, cluster, longest, seed):
        self._cluster, self._random, self._longest = cluster, random.Random(seed), longest
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.killed = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._thread.join()

    def _run(self):
        time.sleep(self._random.random() * self._longest)
        pids = [worker.process.pid for worker in self._cluster.workers.values() if worker.process]
        if pids:
            os.kill(self._random.choice(pids), signal.SIGKILL)
            self.killed += 1


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("rows"), sparse_rows(6000, 800))


def killed_fit(store, estimator, seed):
    """A fit on three workers of its own, one of which is killed; a nanny brings another."""
    with (
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            memory_limit=None,
            dashboard_address=":0",
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        Killer(cluster, 3.0, seed),
    ):
        return estimator(50, init="random", random_state=3, executor=client).fit(store)


def test_twenty_fits_with_a_kill_each(store):
    undisturbed = {
        estimator: estimator(50, init="random", random_state=3).fit(store)
        for estimator in (KMeans, SphericalKMeans)
    }
    until = time.monotonic() + float(os.environ.get("SOAK_SECONDS", 0))
    number = 0
    while number < N_FITS or time.monotonic() < until:
        estimator = (KMeans, SphericalKMeans)[number % 2]
        assert_same_fit(undisturbed[estimator], killed_fit(store, estimator, number))
        number += 1
