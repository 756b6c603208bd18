"""One fit, here, on Dask workers or by Spark, in a process of its own.

`python -m benchmarks.machines_worker TASK.json` prints what it took as JSON. Spark needs pyspark,
numpy and scipy alone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import memory

Task = dict[str, Any]
PARTS_OF_SPARK = 2  # partitions per thread
HEAP = "4g"  # of Spark's process


def main() -> None:
    """Do what a task says."""
    task = json.loads(Path(sys.argv[1]).read_text())
    found = {"local": fit_here, "dask": fit_on_workers, "spark": fit_by_spark}[task["system"]](task)
    sys.stdout.write("\n" + json.dumps(found))


def estimator(task: Task, **more: Any) -> Any:
    """The estimator of a task."""
    from sparsecluster import KMeans

    given = {
        "init": np.load(task["init"]) if task["init"].endswith(".npy") else task["init"],
        "max_iter": task["max_iter"],
        "tol": task["tol"],
        "random_state": 0,
        "n_threads": task["threads"],
    }
    return KMeans(task["k"], **{**given, **more})


def told(task: Task, km: Any, seconds: float, cpu: float) -> Task:
    """What a fit of ours took; its labels go to a file."""
    np.save(task["labels"], km.labels_)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "phases": km.seconds_,
        "iterations": km.n_iter_,
        "cost": km.inertia_,
    }


def fit_here(task: Task) -> Task:
    """In this process, from the store."""
    from sparsecluster import open_store

    estimator(task, max_iter=1, init="random").fit(open_store(task["store"]))
    clock, busy = time.perf_counter(), time.process_time()
    km = estimator(task).fit(task["store"])
    seconds, cpu = time.perf_counter() - clock, time.process_time() - busy
    return told(task, km, seconds, cpu) | {"MB": memory.peak_of_tree(os.getpid())}


# --- on Dask workers -----------------------------------------------------------------------------

sent = [0]  # bytes that this process wrote into connections, in all


def count_bytes() -> None:
    """Have this process count what it sends, by Dask and by lines."""
    from distributed.comm.tcp import TCP

    from sparsecluster.run import line

    write, send_frames = TCP.write, line._send_frames

    def counted_frames(to: Any, frames: list[memoryview]) -> None:
        sent[0] += sum(frame.nbytes for frame in frames)
        send_frames(to, frames)

    async def counted(self: Any, *given: Any, **named: Any) -> Any:
        n_bytes = await write(self, *given, **named)
        sent[0] += n_bytes or 0
        return n_bytes

    TCP.write = counted
    line._send_frames = counted_frames


def bytes_sent() -> int:
    """By this process, so far."""
    return sent[0]


def fit_on_workers(task: Task) -> Task:
    """On worker processes that were started and used before."""
    import distributed

    # What workers are told to call is looked up by its name there.
    from benchmarks import machines_worker as module
    from sparsecluster.run.dask import start_cluster

    module.count_bytes()
    with (
        start_cluster(task["workers"], task["threads"]) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        client.wait_for_workers(task["workers"], timeout=60)
        client.run(module.count_bytes)
        estimator(task, max_iter=1, init="random", executor=client).fit(task["store"])
        before = module.bytes_sent(), client.run(module.bytes_sent)
        killed: list[float] = []

        def kill(record: Any) -> None:
            if record.iteration == task["kill"] and not killed:
                os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
                killed.append(time.perf_counter())

        watch = {"callback": kill} if task["kill"] else {}
        # The driver has the threads of all, for the start that it finds.
        threads = task["threads"] * task["workers"]
        km = estimator(task, executor=client, n_threads=threads, **watch)
        clock, busy = time.perf_counter(), time.process_time()
        km.fit(task["store"])
        seconds, cpu = time.perf_counter() - clock, time.process_time() - busy
        after = module.bytes_sent(), client.run(module.bytes_sent)
        by_workers = sum(after[1].values()) - sum(before[1].values())
        return told(task, km, seconds, cpu) | {
            "MB": memory.peak_of_tree(os.getpid()),
            "sent_by_driver": after[0] - before[0],
            "sent_by_workers": None if killed else by_workers,
            "killed": bool(killed),
        }


# --- by Spark ------------------------------------------------------------------------------------


def fit_by_spark(task: Task) -> Task:
    """MLlib's k-means from the same centers, on rows that its process holds already."""
    warnings.simplefilter("ignore")
    from pyspark.mllib.common import _py2java, _to_java_object_rdd
    from pyspark.mllib.linalg import DenseVector, SparseVector
    from pyspark.sql import SparkSession

    threads = task["threads"]
    session = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.driver.memory", HEAP)
        .config("spark.driver.maxResultSize", "0")
        .config("spark.rpc.message.maxSize", "1024")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    context = session.sparkContext
    X = sp.csr_matrix(sp.load_npz(task["matrix"]))
    start = np.load(task["init"])
    rows = [
        SparseVector(X.shape[1], X.indices[a:b].tolist(), X.data[a:b].tolist())
        for a, b in pairwise(X.indptr)
    ]
    held = _to_java_object_rdd(context.parallelize(rows, threads * PARTS_OF_SPARK))
    api = context._jvm.org.apache.spark.mllib.api.python.PythonMLLibAPI

    def hold() -> None:  # at the level that its training asks for, which lets go of them at the end
        held.persist(context._jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK())
        held.count()

    def train(iterations: int) -> Any:
        centers = _py2java(context, [DenseVector(center) for center in start])
        return api().trainKMeansModel(
            held, task["k"], iterations, "random", None, 2, float(task["tol"]), centers,
            "euclidean",
        )  # fmt: skip

    hold()
    train(1)
    hold()
    clock = time.perf_counter()
    model = train(task["max_iter"])
    seconds = time.perf_counter() - clock
    return {
        "seconds": seconds,
        "cost": model.trainingCost(),
        "iterations": model.numIter(),
        "MB": memory.peak_of_tree(os.getpid()),
        "version": session.version,
    }


if __name__ == "__main__":
    main()
