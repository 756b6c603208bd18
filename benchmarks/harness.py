"""Runs a task on each system in its own process, with a time limit, and keeps the record."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import memory
from .data import ROOT, Dataset
from .measure import cost_of_labels, potential_of_rows, sphere_cost_of_labels
from .summary import Summary, summarise
from .systems import SYSTEMS, System
from .task import FIT, SEED, SPHERE, Task

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
SETUP_LIMIT = 600.0  # seconds for imports, reading and the untimed part
LEAST_CUT = 5.0  # seconds: below, stopping a peer saves nothing
POLL = 0.05


@dataclass
class Harness:
    """Measures, remembers every run, and says what it does through `tell`.

    timeout : seconds after which a run is stopped.
    memory_limit : MB that a process may use; also decides whether a dense matrix fits.
    cut : stop a peer at this many times the fastest peer's time so far; None: only by timeout.
    earlier : runs of an earlier record, to take the peers' results from.
    """

    timeout: float
    memory_limit: float
    cut: float | None = None
    earlier: list[dict[str, Any]] = field(default_factory=list)
    tell: Any = lambda text: None
    save: Any = lambda: None
    runs: list[dict[str, Any]] = field(default_factory=list)

    def compare(
        self, data: Dataset, task: Task, systems: Iterable[str], seeds: Iterable[int]
    ) -> list[Summary]:
        """Run all systems seed by seed (so that a noisy minute hits all), and summarise."""
        chosen = [SYSTEMS[name] for name in systems if self._can(SYSTEMS[name], task)]
        runs: dict[str, list[dict[str, Any]]] = {system.name: [] for system in chosen}
        for seed in seeds:
            for system in chosen:
                limit = self._limit(system, runs)
                if runs[system.name] and self._hopeless(runs[system.name], limit):
                    continue
                run = self.run(system, data, replace(task, seed=seed), limit)
                runs[system.name].append(run)
        return [summarise(taken) for taken in runs.values() if taken]

    def run(self, system: System, data: Dataset, task: Task, limit: float) -> dict[str, Any]:
        """One measurement, from an earlier record where that is allowed."""
        run = {"system": system.name, "data": data.name, **asdict(task)}
        found = None if system.ours else self._earlier(run, limit)
        if found:
            run = found | {"earlier": True}
        elif system.densifies and 2 * dense_size(data) > self.memory_limit:
            run |= {"status": "skipped", "message": "its dense copy does not fit the memory limit"}
        else:
            run |= self._measure(system, data, task, limit)
        self.runs.append(run)
        self.save()
        self.tell(one_line(run) + (" (earlier run)" if found else ""))
        return run

    def _can(self, system: System, task: Task) -> bool:
        if not system.installed():
            self.tell(f"{system.name}: not installed, left out")
            return False
        return getattr(system, task.kind) is not None

    def _limit(self, system: System, runs: dict[str, list[dict[str, Any]]]) -> float:
        if system.ours or self.cut is None:
            return self.timeout
        peers = [run for name, taken in runs.items() if not SYSTEMS[name].ours for run in taken]
        fastest = min((run["seconds"] for run in peers if run["status"] == "ok"), default=None)
        return (
            self.timeout
            if fastest is None
            else min(self.timeout, max(self.cut * fastest, LEAST_CUT))
        )

    def _hopeless(self, taken: list[dict[str, Any]], limit: float) -> bool:
        """No second try for what failed, or was slower than the limit, on the seed before."""
        last = taken[-1]
        return last["status"] != "ok" or last["seconds"] > limit

    def _earlier(self, run: dict[str, Any], limit: float) -> dict[str, Any] | None:
        for old in self.earlier:
            if run.items() <= old.items():
                enough = old["status"] == "ok" or old.get("limit", 0) >= limit
                return old if enough else None
        return None

    def _measure(self, system: System, data: Dataset, task: Task, limit: float) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            folder = Path(name)
            save_matrix(data, folder)
            job = {
                "system": system.name, "task": asdict(task), "data": name, "folder": name
            }  # fmt: skip
            result = self._watch(job, folder, task.threads, limit)
            if result["status"] == "ok":
                result |= judge(data, task, np.load(folder / "answer.npy"))
        return result

    def _watch(
        self, job: dict[str, Any], folder: Path, threads: int, limit: float
    ) -> dict[str, Any]:
        """Start the worker and wait, stopping it where it passes a limit."""
        environment = os.environ | {name: str(threads) for name in THREAD_VARIABLES}
        with (folder / "errors.txt").open("wb") as errors:
            worker = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.worker"],
                cwd=ROOT, env=environment, stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip
            assert worker.stdin
            worker.stdin.write(json.dumps(job).encode())
            worker.stdin.close()
            try:
                stopped = self._wait(worker, folder, limit)
            finally:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()
        if stopped:
            return stopped
        if worker.returncode == 0:
            return {"status": "ok", **json.loads((folder / "result.json").read_text())}
        said = (folder / "errors.txt").read_text(errors="replace").strip().splitlines()
        message = said[-1] if said else f"ended with code {worker.returncode}"
        return {"status": "error", "message": message}

    def _wait(
        self, worker: subprocess.Popen[bytes], folder: Path, limit: float
    ) -> dict[str, Any] | None:
        started, before = time.monotonic(), None
        while worker.poll() is None:
            time.sleep(POLL)
            now = time.monotonic()
            if before is None and (folder / "ready.json").exists():
                text = (folder / "ready.json").read_text()
                if text.endswith("}"):
                    before, started = json.loads(text)["memory"], now
            used = memory.current(worker.pid) or 0.0
            if used > self.memory_limit:
                return {"status": "memory", "message": f"used more than {used:.0f} MB"}
            if before is None and now - started > SETUP_LIMIT:
                return {"status": "error", "message": f"not ready after {SETUP_LIMIT:.0f} s"}
            if before is not None and now - started > limit:
                # The peak so far: the least that the whole run would take.
                highest = (memory.peak(worker.pid) or before) - before
                return {"status": "timeout", "seconds": limit, "limit": limit, "memory": highest}
        return None


def save_matrix(data: Dataset, folder: Path) -> None:
    X = data.X
    for name, array in (("data", X.data), ("indices", X.indices), ("indptr", X.indptr)):
        np.save(folder / f"{name}.npy", array)
    np.save(folder / "shape.npy", np.array(X.shape))


def dense_size(data: Dataset) -> float:
    """MB of the same matrix stored densely."""
    n, d = data.X.shape
    return n * d * data.X.dtype.itemsize / 1e6


def judge(data: Dataset, task: Task, answer: np.ndarray) -> dict[str, Any]:
    """The cost of an answer by our own reckoning, and a digest to tell equal answers."""
    answer = np.asarray(answer, dtype=np.int64)
    digest = hashlib.sha1(answer.tobytes(), usedforsecurity=False).hexdigest()[:12]
    if task.kind == SEED:
        return {"cost": potential_of_rows(data.X, answer), "digest": digest}
    if answer.shape != (data.X.shape[0],):
        return {"status": "error", "message": f"labels of shape {answer.shape}"}
    clusters = {} if task.kind not in (FIT, SPHERE) else {"clusters": int(np.unique(answer).size)}
    cost = sphere_cost_of_labels if task.kind == SPHERE else cost_of_labels
    return {"cost": cost(data.X, answer), "digest": digest, **clusters}


def disturbed(run: dict[str, Any]) -> bool:
    """Whether others took more than a fifth of a core (ticks are too coarse below 0.5 s)."""
    return run.get("seconds", 0) > 0.5 and (run.get("others") or 0) > 0.2


def one_line(run: dict[str, Any]) -> str:
    """A run for the progress lines."""
    work = f"{run['kind']:8}{run['data']}  K={run['k']}  {run['threads']} threads"
    head = f"{work}  seed {run['seed']}  {run['system']:22}"
    if run["status"] == "ok":
        text = f"{head}{run['seconds']:9.3f} s  cost {run['cost']:.6g}"
        return text + ("  DISTURBED by other processes" if disturbed(run) else "")
    if run["status"] == "timeout":
        return f"{head}> {run['seconds']:7.1f} s"
    return f"{head}{run['status']}: {run['message']}"
