"""Fits on real Dask workers, in processes: the same bits, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from support.machines import assert_same_fit, sparse_rows, stored

from sparsecluster import KMeans, SphericalKMeans
from sparsecluster.run import dask as run_dask
from sparsecluster.run import dask_session
from sparsecluster.run.dask import DaskExecutor, dask_executor
from sparsecluster.run.worker import n_held

distributed = pytest.importorskip("distributed")
X = sparse_rows()
FAR = np.vstack([X[:5].toarray(), 50.0 + np.arange(15 * 300).reshape(15, 300) % 97])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("rows"), X)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=True,
        memory_limit=None,
        dashboard_address=":0",
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=60)
        yield client


def process_ids(client):
    return sorted(client.run(os.getpid).values())


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans])
@pytest.mark.parametrize("init", ["k-means++", FAR], ids=["k-means++", "empty clusters"])
def test_workers_change_nothing(client, store, estimator, init):
    parameters = {"init": init, "random_state": 0}
    remote = estimator(20, executor=client, **parameters).fit(store)
    assert_same_fit(estimator(20, **parameters).fit(store), remote)
    assert set(client.run(n_held).values()) == {0}


def test_single_worker_of_its_own_changes_nothing(store):
    remote = KMeans(20, random_state=0, executor=1).fit(store)
    assert_same_fit(KMeans(20, random_state=0).fit(store), remote)


@pytest.mark.parametrize("fan_in", [2])
def test_answers_merged_on_workers_change_nothing(client, store, monkeypatch, fan_in):
    monkeypatch.setattr(dask_session, "FAN_IN", fan_in)
    monkeypatch.setattr(dask_session, "INLINE_BYTES", 0)
    remote = KMeans(20, random_state=0, executor=client).fit(store)
    assert_same_fit(KMeans(20, random_state=0).fit(store), remote)


def test_killed_workers_change_nothing(client, store):
    def kill(record):
        if record.iteration in (2, 5):
            os.kill(process_ids(client)[0], signal.SIGKILL)

    remote = KMeans(20, init=FAR, executor=client, callback=kill).fit(store)
    assert_same_fit(KMeans(20, init=FAR).fit(store), remote)
    client.wait_for_workers(3, timeout=60)
    assert set(client.run(n_held).values()) == {0}


def test_two_fits_at_once_change_nothing(client, store):
    fits = {seed: KMeans(15, init="random", random_state=seed, executor=client) for seed in (1, 2)}
    threads = [threading.Thread(target=fit.fit, args=(store,)) for fit in fits.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, fit in fits.items():
        assert_same_fit(KMeans(15, init="random", random_state=seed).fit(store), fit)


def test_interrupted_fit_leaves_nothing_behind(client, store):
    def stop(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        KMeans(20, random_state=0, executor=client, callback=stop).fit(store)
    assert set(client.run(n_held).values()) == {0}


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
    def run(function, *arguments, **options):
        return {"tcp://10.0.0.1:1": None}

    monkeypatch.setattr(client, "run", run)
    with pytest.raises(ValueError, match=r"10\.0\.0\.1:1 does not have sparsecluster"):
        DaskExecutor(client)


def test_store_that_workers_cannot_see_is_named(client, tmp_path):
    with pytest.raises(ValueError, match=r"cannot read .*gone.* under the same path"):
        DaskExecutor(client).check_file(str(tmp_path / "gone" / "meta.json"), 0)
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(ValueError, match="has another one there"):
        DaskExecutor(client).check_file(str(tmp_path / "meta.json"), 0)


def test_scheduler_without_workers_is_said(store, monkeypatch):
    monkeypatch.setattr(run_dask, "WORKER_SECONDS", 0.5)
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty,
        pytest.raises(RuntimeError, match="has no workers"),
    ):
        dask_executor(empty.scheduler_address)


def test_package_is_imported_without_dask():
    code = (
        "import sparsecluster, sys; sparsecluster.KMeans; assert 'distributed' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
