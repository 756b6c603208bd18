"""Workers that are killed or stopped at random moments, again and again: every fit ends with the
same bits. And a soak, in which Dask itself kills workers for as long as SOAK_SECONDS says."""

import logging
import os
import random
import signal
import threading
import time
from contextlib import ExitStack, closing, suppress

import numpy as np
import pytest
from support.machines import (
    assert_nothing_left,
    assert_same_fit,
    local_cluster,
    process_ids,
    sparse_rows,
    stored,
)

from sparsecluster import KMeans, SphericalKMeans
from sparsecluster.kmeans import remote
from sparsecluster.run import dask_session
from sparsecluster.run.dask_session import everywhere
from sparsecluster.run.worker import n_held

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.slow
N_FITS = 20
START = {"init": "k-means||", "random_state": 3}


class Disturbance:
    """Kills a worker, or stops it for good, after a random time, once."""

    def __init__(self, client, longest, seed):
        chance = random.Random(seed)
        self._process = chance.choice(sorted(process_ids(client).values()))
        self._signal = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP])
        self._timer = threading.Timer(chance.random() * longest, self._disturb)

    def _disturb(self):
        os.kill(self._process, self._signal)

    def __enter__(self):
        self._timer.start()
        return self

    def __exit__(self, *error):
        self._timer.join()
        if self._signal == signal.SIGSTOP:
            os.kill(self._process, signal.SIGCONT)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("rows"), sparse_rows(6000, 800))


@pytest.fixture(scope="module")
def undisturbed(rows):
    estimators = (KMeans, SphericalKMeans)
    return [estimator(50, **START).fit(rows) for estimator in estimators]


def fit_and_predict(expected, client, rows):
    found = type(expected)(50, executor=client, **START).fit(rows)
    assert_same_fit(expected, found)
    assert np.array_equal(found.predict(rows), expected.labels_)


class Workers:
    """Three worker processes. A nanny replaces what is killed; where it does not, others begin."""

    def __init__(self):
        self._opened = None

    def client(self, *plugins):
        """A client of all three."""
        if self._opened is not None:
            with suppress(TimeoutError):
                self._client.wait_for_workers(3, timeout=30)
                return self._client
            self.close()
        self._opened = ExitStack()
        cluster = self._opened.enter_context(local_cluster(3))
        # A nanny gives up where its worker dies before it has begun: then another one is started.
        cluster.adapt(minimum=3, maximum=3)
        self._client = self._opened.enter_context(distributed.Client(cluster, set_as_default=False))
        for plugin in plugins:
            self._client.register_plugin(plugin)
        return self._client

    def close(self):
        self._opened.close()


def test_twenty_fits_with_a_worker_lost_in_each(rows, undisturbed, monkeypatch):
    monkeypatch.setattr(dask_session, "SILENT_SECONDS", 3.0)
    monkeypatch.setattr(dask_session, "ANSWER_SECONDS", 3.0)
    most = remote.FEW_SUMS
    with closing(Workers()) as workers:
        fit_and_predict(undisturbed[0], workers.client(), rows)  # which loads the package
        began = time.monotonic()
        fit_and_predict(undisturbed[0], workers.client(), rows)
        longest = time.monotonic() - began
        for number in range(N_FITS):
            # Half of the fits of each metric merge all sums by the workers.
            monkeypatch.setattr(remote, "FEW_SUMS", most if number % 4 < 2 else -1)
            client = workers.client()
            with Disturbance(client, longest, number):
                fit_and_predict(undisturbed[number % 2], client, rows)
        client = workers.client()
        # A worker that was stopped hears later that a fit is over.
        until = time.monotonic() + 60
        while set(everywhere(client, n_held).values()) != {0} and time.monotonic() < until:
            time.sleep(1)
        assert_nothing_left(client)


def test_worker_out_of_memory_changes_nothing(rows, undisturbed):
    def fill_memory():
        return len(bytearray(1 << 30))

    done = []

    def fill(record):
        if record.iteration == 3:
            worker = min(process_ids(client))
            done.extend(client.run(fill_memory, workers=[worker], on_error="return"))

    with (
        local_cluster(2, memory_limit="900MB") as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        found = KMeans(50, executor=client, callback=fill, **START).fit(rows)
        assert done
        assert_same_fit(undisturbed[0], found)


@pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="make soak runs it")
def test_soak(rows, undisturbed, monkeypatch):
    from distributed.chaos import KillWorker

    most = remote.FEW_SUMS

    until, number = time.monotonic() + float(os.environ["SOAK_SECONDS"]), 0
    with closing(Workers()) as workers:
        while time.monotonic() < until:
            monkeypatch.setattr(remote, "FEW_SUMS", most if number % 4 < 2 else -1)
            client = workers.client(KillWorker(delay="60 s", mode="segfault"))
            fit_and_predict(undisturbed[number % 2], client, rows)
            number += 1
    logging.getLogger("sparsecluster").warning("%d fits, all of them equal.", number)
