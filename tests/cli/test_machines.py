"""`fit --dask` and `fit --workers`: what is refused, in terms of the options."""

import asyncio
import os
import time

import numpy as np
import pytest
from support.machines import local_cluster

from sparsecluster import BisectingKMeans, KMeans, MiniBatchKMeans, convert, load_model
from sparsecluster.cli import app
from sparsecluster.kmeans.partition import Partition
from sparsecluster.run import dask as run_dask
from sparsecluster.run import dask_session


@pytest.fixture
def refused(tmp_path, monkeypatch, capfd):
    """Run a command that fails in a folder with data: what it says."""
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((30, 4)))
    convert("rows.npy", "rows.store")

    def command(*arguments):
        with pytest.raises(SystemExit) as ended:
            app.meta(list(arguments))
        assert ended.value.code
        return " ".join(capfd.readouterr().err.split())

    return command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rows.npy", "--workers", "2"), "--workers needs a store"),
        (("rows.npy", "--dask", "tcp://127.0.0.1:1"), "--dask needs a store"),
        (("rows.store", "--workers", "2", "--dask", "tcp://x:1"), "cannot be combined with"),
        (
            ("rows.store", "--workers", "2", "--minibatch", "--schedule", "sculley"),
            "--workers cannot be combined with --schedule sculley",
        ),
        (("rows.store", "--workers", "0"), "1"),
    ],
)
def test_what_cannot_be_is_refused(refused, arguments, message):
    assert message in refused("fit", *arguments, "-k", "2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", "rows.npy", "--workers", "2", "-o", "a.npy"), "--workers needs a store"),
        (("model", "rows.store", "--workers", "2"), "--workers needs --labels FILE.npy"),
        (("tree", "rows.store", "--workers", "2", "-o", "a.npy"), "needs a model of KMeans"),
    ],
)
def test_what_cannot_be_predicted_there_is_refused(refused, arguments, message):
    KMeans(2, random_state=0).fit("rows.store").save("model")
    BisectingKMeans(2, random_state=0).fit("rows.store").save("tree")
    assert message in refused("predict", *arguments)


def test_workers_seed_and_predict(tmp_path, monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((30, 4)))
    convert("rows.npy", "rows.store")
    fitted = KMeans(2, random_state=0).fit("rows.store")
    fitted.save("model")
    seed = ["seed", "rows.store", "-k", "5", "--method", "random", "--seed", "0"]
    app.meta(seed)
    here = capsys.readouterr().out
    with local_cluster(1, processes=False) as cluster:
        there = ["--dask", cluster.scheduler_address]
        app.meta(["predict", "model", "rows.store", "-o", "labels.npy", *there])
        fit = ["fit", "rows.store", "-k", "2", "--seed", "0", *there]
        app.meta([*fit, "--labels", "fitted.npy", "--model", "fitted"])
        capsys.readouterr()
        app.meta([*seed, *there])
    assert capsys.readouterr().out == here
    assert np.array_equal(np.load("labels.npy"), fitted.labels_)
    assert np.array_equal(np.load("fitted.npy"), fitted.labels_)
    assert np.array_equal(load_model("fitted").labels_, fitted.labels_)


def test_workers_take_nested_batches(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).random((300, 4)))
    convert("rows.npy", "rows.store")
    fitted = MiniBatchKMeans(2, batch_size=50, random_state=0).fit("rows.store")
    with local_cluster(1, processes=False) as cluster:
        fit = ["fit", "rows.store", "-k", "2", "--seed", "0", "--minibatch", "--batch-size", "50"]
        app.meta([*fit, "--dask", cluster.scheduler_address, "--labels", "labels.npy"])
    assert np.array_equal(np.load("labels.npy"), fitted.labels_)


def test_no_scheduler_is_a_line(refused, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(run_dask, "CONNECT_SECONDS", 1.0)
    said = refused("fit", "rows.store", "-k", "2", "--dask", "tcp://127.0.0.1:1")
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in said
    assert "Traceback" not in said


def test_scheduler_without_workers_is_a_line(refused, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(run_dask, "WORKER_SECONDS", 0.5)
    with local_cluster(0, processes=False) as cluster:
        said = refused("fit", "rows.store", "-k", "2", "--dask", cluster.scheduler_address)
    assert "has no workers. Start some with `dask worker`." in said
    assert "Traceback" not in said


def test_workers_that_are_lost_are_a_line_and_leave_nothing(refused, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(dask_session, "WORKER_SECONDS", 0.5)
    step = Partition.step

    def lose(part, **given):  # in a thread of the worker, which is one of this process
        asyncio.run_coroutine_threadsafe(worker.close(nanny=False), worker.loop.asyncio_loop)
        time.sleep(1.0)
        return step(part, **given)

    monkeypatch.setattr(Partition, "step", lose)
    before = set(os.listdir())
    with local_cluster(1, processes=False) as cluster:
        (worker,) = cluster.workers.values()
        assert isinstance(worker, distributed.Worker)
        fit = ["fit", "rows.store", "-k", "2", "--dask", cluster.scheduler_address]
        said = refused(*fit, "--labels", "labels.npy", "--model", "model")
    assert "No Dask worker is left" in said
    assert "Traceback" not in said
    assert set(os.listdir()) == before
