"""One measurement in a process of its own: a job comes as JSON on stdin, the answer goes to files.

The answer does not use stdout because some systems print. `ready.json` is written just before the
clock starts; `result.json` and `answer.npy` (labels, or the rows chosen as seeds) at the end.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import machine, memory
from .systems import SYSTEMS, Fitted, System
from .task import FIT, PREDICT, SEED, SPHERE, Task


def main() -> None:
    """Warm up, load, measure, answer."""
    job = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    system, task, folder = SYSTEMS[job["system"]], Task(**job["task"]), Path(job["folder"])
    warm_up(system, task)
    X = load_matrix(Path(job["data"]))
    result, answer = measure(system, X, task, folder)
    np.save(folder / "answer.npy", answer)
    (folder / "result.json").write_text(json.dumps(result))


def warm_up(system: System, task: Task) -> None:
    """Import the libraries and start their threads on a few rows, outside the measurement."""
    X = sp.random(64, 16, density=0.3, format="csr", dtype=np.float32, random_state=0)
    small = Task(task.kind, k=2, threads=task.threads, max_iter=2)
    prepare(system, sp.csr_matrix(X), small)()


def load_matrix(folder: Path) -> sp.csr_matrix:
    """Read the three arrays whole (not memory-mapped), so that they count as data, not as work."""
    data, indices, indptr, shape = (
        np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr", "shape")
    )
    X = sp.csr_matrix((data, indices, indptr), shape=tuple(shape), copy=False)
    X.has_canonical_format = True
    return X


def prepare(system: System, X: sp.csr_matrix, task: Task) -> Any:
    """The call to be timed, with everything it needs but that is not timed done."""
    if task.kind == FIT:
        return lambda: system.fit(X, task)
    if task.kind == SPHERE and system.sphere:
        sphere = system.sphere
        return lambda: sphere(X, task)
    if task.kind == SEED and system.seed:
        seed = system.seed
        return lambda: seed(X, task)
    if task.kind == PREDICT and system.predict:
        chosen = np.random.default_rng(task.seed).choice(X.shape[0], task.k, replace=False)
        return system.predict(X, sp.csr_matrix(X[np.sort(chosen)]), task)
    raise ValueError(f"{system.name} has no adapter for {task.kind}")


def measure(
    system: System, X: sp.csr_matrix, task: Task, folder: Path
) -> tuple[dict[str, Any], np.ndarray]:
    """Seconds, processor seconds and peak memory of the call, and its answer."""
    call = prepare(system, X, task)
    gc.collect()
    memory.reset_peak()
    before = memory.current() or 0.0
    (folder / "ready.json").write_text(json.dumps({"memory": before}))
    busy = machine.busy_seconds()
    processor, clock = time.process_time(), time.perf_counter()
    outcome = call()
    seconds, cpu_seconds = time.perf_counter() - clock, time.process_time() - processor
    others = None if busy is None else (machine.busy_seconds() or busy) - busy - cpu_seconds
    result: dict[str, Any] = {
        "seconds": repeat(call, seconds) if task.kind == PREDICT else seconds,
        "cores": cpu_seconds / seconds,
        "others": None if others is None else max(0.0, others) / seconds,
        "memory": max(0.0, (memory.peak() or 0.0) - before),
    }
    if isinstance(outcome, Fitted):
        result |= {"stated_cost": outcome.cost, "iterations": outcome.iterations}
        outcome = outcome.labels
    return result, np.asarray(outcome)


def repeat(call: Any, first: float, budget: float = 1.0, most: int = 7) -> float:
    """Median of the first time and of as many repetitions as fit the budget: predict is short."""
    times = [first]
    while sum(times) + first < budget and len(times) < most:
        clock = time.perf_counter()
        call()
        times.append(time.perf_counter() - clock)
    return float(np.median(times))


if __name__ == "__main__":
    main()
