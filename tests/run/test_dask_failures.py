"""Workers that die, stop or are not as they should be: time is lost, and nothing else; or a line
says what is wrong."""

import os
import signal
import threading
import time
from contextlib import closing

import numpy as np
import pytest
from support.machines import (
    assert_nothing_left,
    assert_same_fit,
    local_cluster,
    process_ids,
    sparse_rows,
)

from sparsecluster import KMeans
from sparsecluster.kmeans import remote
from sparsecluster.rows.errors import WorkersLost
from sparsecluster.run import dask as run_dask
from sparsecluster.run import dask_session
from sparsecluster.run.dask import DaskExecutor, dask_executor
from sparsecluster.run.dask_session import DaskSession

distributed = pytest.importorskip("distributed")
X = sparse_rows()
FAR = np.vstack([X[:5].toarray(), 50.0 + np.arange(15 * 300).reshape(15, 300) % 97])


def some_process(client):
    return min(process_ids(client).values())


def test_interrupted_fit_leaves_nothing_behind(client, store):
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KMeans(20, random_state=0, executor=client, callback=stop).fit(store)
    assert_nothing_left(client)


# --- what is said before any work ---------------------------------------------------------------


def test_no_scheduler_is_said_at_once(store, monkeypatch):
    monkeypatch.setattr(run_dask, "CONNECT_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:1"):
        KMeans(5, executor="tcp://127.0.0.1:1").fit(store)
    assert time.monotonic() - began < 30


def test_other_version_is_named(client, monkeypatch):
    monkeypatch.setattr(run_dask, "__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"has sparsecluster .*, this process 0\.0\.1"):
        DaskExecutor(client)


def test_worker_without_the_package_is_named(client, monkeypatch):
    def everywhere(client, function, *arguments):
        return {"tcp://10.0.0.1:1": None}

    monkeypatch.setattr(run_dask, "everywhere", everywhere)
    with pytest.raises(ValueError, match=r"10\.0\.0\.1:1 does not have sparsecluster"):
        DaskExecutor(client)


@pytest.mark.slow
def test_real_worker_without_the_package_is_named(store):
    hidden = "import sys; sys.modules['sparsecluster'] = None"
    with (
        local_cluster(1, preload=hidden) as cluster,
        pytest.raises(ValueError, match="does not have sparsecluster: install version"),
    ):
        KMeans(5, executor=cluster.scheduler_address).fit(store)


def test_store_that_workers_cannot_see_is_named(client, tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*gone.* under the same path"):
        DaskExecutor(client).check_file(str(tmp_path / "gone" / "meta.json"), 0)
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(ValueError, match="has another one there"):
        DaskExecutor(client).check_file(str(tmp_path / "meta.json"), 0)


def test_scheduler_without_workers_is_said(monkeypatch):
    monkeypatch.setattr(run_dask, "WORKER_SECONDS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(RuntimeError, match="has no workers"),
    ):
        dask_executor(empty.scheduler_address)


# --- workers that are lost: last, because others have to be started for them ---------------------


@pytest.fixture(params=[remote.FEW_SUMS, -1], ids=["sent", "traded"])
def few_sums(request, monkeypatch):
    """Changes of the sums that are merged by the driver: all of them here, or none."""
    monkeypatch.setattr(remote, "FEW_SUMS", request.param)


@pytest.mark.usefixtures("few_sums")
def test_killed_workers_change_nothing(client, store):
    machines = []

    def kill(record):
        machines.append(record.machines)
        if record.iteration in (2, 5):
            os.kill(some_process(client), signal.SIGKILL)

    found = KMeans(20, init=FAR, executor=client, callback=kill).fit(store)
    assert_same_fit(KMeans(20, init=FAR).fit(store), found)
    assert machines[0] == (3, 0)
    assert machines[-1].rebuilt >= 2
    assert found.history_[0].machines is None
    client.wait_for_workers(3, timeout=60)
    assert_nothing_left(client)


def test_worker_killed_while_seeding_changes_nothing(client, store):
    class Killer:
        killed = 0

        def __call__(self, record):
            """Iterations go on."""

        def on_seeding(self, record):
            if not self.killed:
                os.kill(some_process(client), signal.SIGKILL)
                self.killed += 1

    parameters = {"init": "k-means||", "random_state": 0}
    killer = Killer()
    found = KMeans(20, executor=client, callback=killer, **parameters).fit(store)
    assert killer.killed
    assert_same_fit(KMeans(20, **parameters).fit(store), found)


@pytest.mark.usefixtures("few_sums")
def test_stopped_worker_changes_nothing(client, store, monkeypatch):
    monkeypatch.setattr(dask_session, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(dask_session, "ANSWER_SECONDS", 2.0)
    stopped = []

    def stop(record):
        if record.iteration == 3:
            stopped.append(some_process(client))
            os.kill(stopped[0], signal.SIGSTOP)

    try:
        found = KMeans(20, init=FAR, executor=client, callback=stop).fit(store)
        labels = found.set_params(callback=None).predict(store)
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert stopped
    assert_same_fit(KMeans(20, init=FAR).fit(store), found)
    assert np.array_equal(labels, found.labels_)


class Stopped:
    """Stops the only worker of a cluster after the third iteration, for some time or for good."""

    def __init__(self, client, seconds=None):
        self._process, self._seconds = some_process(client), seconds

    def __call__(self, record):
        if record.iteration == 3:
            os.kill(self._process, signal.SIGSTOP)
            if self._seconds is not None:
                threading.Timer(self._seconds, self.wake).start()

    def wake(self):
        os.kill(self._process, signal.SIGCONT)


@pytest.fixture
def single(monkeypatch):
    """A client of a single worker, which is silent for 2 seconds at most."""
    import distributed

    monkeypatch.setattr(dask_session, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(dask_session, "ANSWER_SECONDS", 2.0)
    with local_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        yield client


def test_single_worker_that_is_stopped_for_a_while_changes_nothing(single, store):
    stopped = Stopped(single, seconds=6)
    found = KMeans(20, init=FAR, executor=single, callback=stopped).fit(store)
    assert_same_fit(KMeans(20, init=FAR).fit(store), found)


def test_single_worker_that_is_stopped_for_good_is_noticed(single, store, monkeypatch):
    monkeypatch.setattr(dask_session, "WORKER_SECONDS", 2.0)
    stopped, began = Stopped(single), time.monotonic()
    try:
        with pytest.raises(WorkersLost, match="No Dask worker is left"):
            KMeans(20, init=FAR, executor=single, callback=stopped).fit(store)
        assert time.monotonic() - began < 20
    finally:
        stopped.wake()


@pytest.mark.slow
def test_worker_killed_while_predicting_changes_nothing(client, store):
    estimator = KMeans(20, init=FAR).fit(store).set_params(executor=client)
    kill = threading.Timer(0.05, os.kill, (some_process(client), signal.SIGKILL))
    kill.start()
    labels = estimator.predict(store)
    kill.join()
    assert np.array_equal(labels, estimator.labels_)


def test_killed_worker_with_blocks_changes_nothing(client):
    import dask

    def kill(record):
        if record.iteration == 2:
            os.kill(some_process(client), signal.SIGKILL)

    given = {"init": X[:20]}
    blocks = [dask.delayed(X[begin : begin + 500]) for begin in range(0, 1500, 500)]
    found = KMeans(20, executor=client, callback=kill, **given).fit(blocks)
    assert_same_fit(KMeans(20, **given).fit(X), found)


def test_blocks_that_are_gone_with_their_worker_are_said(client):
    holder = min(client.run(os.getpid))
    process = client.run(os.getpid, workers=[holder])[holder]
    blocks = [client.scatter(X[begin : begin + 500], workers=[holder]) for begin in (0, 500, 1000)]

    def kill(record):
        if record.iteration == 2:
            os.kill(process, signal.SIGKILL)

    with pytest.raises(WorkersLost, match="what is scattered is gone"):
        KMeans(20, init=X[:20], executor=client, callback=kill).fit(blocks)
    client.wait_for_workers(3, timeout=60)


def test_rows_that_kill_every_worker_are_named(monkeypatch):
    class Deadly:  # by value: workers do not have this file
        def __init__(self, spec, n_threads):
            self._deadly = spec["begin"] == 10

        def restore(self, recipe):
            """There is nothing to restore."""

        def work(self):
            if self._deadly:
                import os
                import time

                time.sleep(0.2)  # others are lost with it
                os._exit(1)

    monkeypatch.setattr(dask_session, "MOST_LOSSES", 4)
    specs = [{"begin": 10 * part, "end": 10 * part + 10} for part in range(4)]
    # Workers of its own: a nanny gives up where they die too fast.
    with (
        local_cluster(3) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(3, timeout=60)
        with (
            closing(DaskSession(client, Deadly, specs)) as session,
            pytest.raises(WorkersLost, match="Rows 10 to 19 lost their worker 4 times"),
        ):
            session.turn("work")
