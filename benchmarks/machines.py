"""Fits on worker processes: what they cost over a fit here, what two of them gain on few rows and
on many, a worker killed half-way, bytes sent; Spark MLlib on the same rows from the same centers.

Every fit has a process of its own (`machines_worker.py`), and all take turns. Spark gets an
environment of its own in `build/`, and needs Java 17 or 21.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich import box
from rich.table import Table

from .data import ROOT, load
from .environment import python_with
from .harness import Harness
from .options import Options
from .report import Report
from .size import pubmed
from .summary import Ratio

PARTS = ("workers", "rows", "spark")
OVERHEAD_SET, OVERHEAD_K = "debian-tfidf", 1000
MORE_ROWS, MORE_K = 500_000, 1000  # of PubMed's shape
SPARK_SETS, SPARK_K, SPARK_ITERATIONS = ("rcv1", "debian-tfidf"), 100, 20
REPEATS = 3
PINNED = "pyspark==4.0.1"
JAVA_VERSIONS = (17, 21)  # of Spark 4
JAVA_HINT = (
    "Spark is left out: it needs Java 17 or 21, which is not here. On Debian: "
    "apt-get install openjdk-17-jre-headless; or set JAVA_HOME."
)
Found = dict[str, Any]


def run(options: Options, harness: Harness, report: Report) -> None:
    """The parts that were asked for, or all."""
    parts = options.parsed.parts or PARTS
    report.record["machines"] = {}
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), options, harness, report)
        if "workers" in parts:
            bench.workers()
        if "rows" in parts:
            bench.rows()
        if "spark" in parts:
            bench.spark()


class Bench:
    """The fits, and a folder for what goes in and out of them."""

    def __init__(self, folder: Path, options: Options, harness: Harness, report: Report) -> None:
        self.folder, self.options, self.report = folder, options, report
        self.timeout = harness.timeout
        self.record = report.record["machines"]

    # --- worker processes ------------------------------------------------------------------------

    def workers(self) -> None:
        """One fit here, and on 1, 2 and 4 workers, as there are cores."""
        name = self.options.data_sets((OVERHEAD_SET,))[0]
        k = (self.options.parsed.k or [OVERHEAD_K])[0]
        store = self.store(name)
        cores, threads = os.cpu_count() or 1, self.options.threads
        common = {"store": str(store), "k": k, "max_iter": 300, "tol": 1e-4, "init": "k-means++"}
        here = "here"
        systems: dict[str, Found] = {
            here: {"system": "local", "threads": threads},
            f"1 worker of {threads} threads": workers_of(1, threads),
            "here, 1 thread": {"system": "local", "threads": 1},
            **{f"{n} of 1 thread": workers_of(n, 1) for n in (1, 2, 4) if n <= cores},
        }
        found, labels = self.turns(name, systems, common, self.options.seeds(REPEATS))
        if len(found) < len(systems):
            return  # it was said why
        one = found[f"1 worker of {threads} threads"]
        note = f"{megabytes(one)} sent"
        # The time with a worker over the time without.
        overhead = ratio("overhead", name, k, found[here], one, "1 worker", note)
        self.report.ratios("the fit on one worker over the fit here", [overhead], "<= 1.3x")
        if "2 of 1 thread" in found:
            self.gain(name, k, found)
            self.killed(name, common, found["2 of 1 thread"], labels)
        self.record["workers"] = {"what": f"{name}, K={k}", "systems": found}
        self.report.save()

    def rows(self) -> None:
        """What a second worker gains where there are many rows for each of them."""
        if (os.cpu_count() or 1) < 2:
            return
        n_rows, k = self.options.parsed.rows or MORE_ROWS, (self.options.parsed.k or [MORE_K])[0]
        name = f"{n_rows} rows of PubMed's shape"
        store = self.store(name, lambda: pubmed(n_rows))
        common = {"store": str(store), "k": k, "max_iter": 300, "tol": 1e-4, "init": "k-means||"}
        systems: dict[str, Found] = {
            **{f"here, {n} threads": {"system": "local", "threads": n} for n in (1, 2)},
            **{f"{n} of 1 thread": workers_of(n, 1) for n in (1, 2)},
        }
        found, _ = self.turns(name, systems, common, self.options.seeds(REPEATS))
        if len(found) == len(systems):
            self.gain(name, k, found)
        self.record["rows"] = {"what": f"{name}, K={k}", "systems": found}
        self.report.save()

    def gain(self, name: str, k: int, found: dict[str, Found]) -> None:
        """Two workers against one."""
        one, two = found["1 of 1 thread"], found["2 of 1 thread"]
        gained = ratio("workers", name, k, two, one, "1 of 1 thread")
        self.report.ratios("two workers of one thread against one", [gained], ">= 1.6x")

    def killed(self, name: str, common: Found, undisturbed: Found, labels: np.ndarray) -> None:
        """The fit on two workers once more; one of them is killed half-way."""
        kill = max(1, undisturbed["iterations"] // 2)
        task = {**common, **workers_of(2, 1), "kill": kill}
        one = self.fit(task)
        equal = np.array_equal(one.pop("labels"), labels)
        ended = one["killed"] and equal and one["cost"] == undisturbed["cost"]
        self.report.tell(
            f"{name}, a worker killed after iteration {kill} of {one['iterations']}: "
            f"{one['seconds']:.2f} s, undisturbed {undisturbed['seconds']:.2f} s; labels and cost "
            f"{'are the same' if ended else 'ARE OTHERS'}"
        )
        self.record["killed"] = {**one, "same": ended}

    # --- Spark -----------------------------------------------------------------------------------

    def spark(self) -> None:
        """K-means of Spark and ours, from the same rows as centers, with as many iterations."""
        java, python = java_home(), None
        if java is None:
            self.report.console.print(JAVA_HINT, style="yellow")
        else:
            python = python_with(self.report, "spark", "pyspark", (PINNED, "numpy", "scipy"))
        threads, ratios, less = self.options.threads, [], []
        for name in self.options.data_sets(SPARK_SETS):
            k = (self.options.parsed.k or [SPARK_K])[0]
            X = load(name).X
            matrix, init = self.folder / f"{name}.npz", self.folder / f"{name}.npy"
            sp.save_npz(matrix, X, compressed=False)
            chosen = np.random.default_rng(0).choice(X.shape[0], k, replace=False)
            np.save(init, X[np.sort(chosen)].toarray().astype(np.float64))
            common = {
                "store": str(self.store(name)), "matrix": str(matrix), "init": str(init),
                "k": k, "max_iter": SPARK_ITERATIONS, "tol": 0.0,
            }  # fmt: skip
            systems: dict[str, Found] = {
                "here": {"system": "local", "threads": threads},
                f"{threads} workers of 1 thread": workers_of(threads, 1),
            }
            peer = f"Spark local[{threads}]"
            if python is not None:
                systems[peer] = {"system": "spark", "threads": threads, "python": python}
                systems[peer]["java"] = str(java)
            found, _ = self.turns(name, systems, common, self.options.seeds(REPEATS))
            self.record[f"spark {name}"] = found
            if peer in found:
                mine, theirs = found["here"], found[peer]
                note = f"{mine['MB']:.0f} MB against {theirs['MB']:.0f} MB"
                ratios.append(ratio("spark", name, k, mine, theirs, peer, note))
                less.append(mine["MB"] < theirs["MB"])
        self.report.ratios("k-means against Spark MLlib, same start and iterations", ratios, "10x")
        if less:
            self.report.tell(f"in less memory: {'all' if all(less) else 'NOT ALL'}")

    # --- what both do ----------------------------------------------------------------------------

    def store(self, name: str, make: Callable[[], Any] | None = None) -> Path:
        """The rows of a set, or those that are made, as a store."""
        from sparsecluster import convert

        store = self.folder / f"{name}.store"
        if not store.exists():
            file = self.folder / f"{name}-rows.npz"
            sp.save_npz(file, make() if make else load(name).X, compressed=False)
            convert(file, store)
            file.unlink()
        return store

    def turns(
        self, name: str, systems: dict[str, Found], common: Found, turns: range
    ) -> tuple[Found, np.ndarray]:
        """The fits of all systems, turn by turn: of each the medians, and our labels."""
        taken: dict[str, list[Found]] = {}
        labels: dict[str, np.ndarray] = {}
        for _ in turns:
            for system, task in systems.items():
                try:
                    one = self.fit({**common, "kill": None, **task})
                except (subprocess.SubprocessError, ValueError) as error:
                    said = getattr(error, "stderr", "") or str(error)
                    last = [line for line in said.splitlines() if line.strip()][-1:]
                    self.report.tell(f"{name}, {system} failed: {' '.join(last)}")
                    continue
                if "labels" in one:
                    labels[system] = one.pop("labels")
                taken.setdefault(system, []).append(one)
        found = {system: middle(some) for system, some in taken.items()}
        if len({array.tobytes() for array in labels.values()}) > 1:
            self.report.console.print(f"{name}: OUR LABELS DIFFER", style="bold red")
        table(self.report, f"{name}, K={common['k']}", found)
        self.record.setdefault("turns", []).append({name: taken})
        return found, next(iter(labels.values()), np.zeros(0, dtype=np.int32))

    def fit(self, task: Found) -> Found:
        """One fit, in a process of its own."""
        given, labels = self.folder / "task.json", self.folder / "labels.npy"
        labels.unlink(missing_ok=True)
        given.write_text(json.dumps({**task, "labels": str(labels)}))
        environment = {**os.environ, "JAVA_HOME": task["java"]} if "java" in task else None
        answer = subprocess.run(
            (task.get("python", sys.executable), "-m", "benchmarks.machines_worker", str(given)),
            cwd=ROOT, check=True, capture_output=True, text=True, timeout=self.timeout,
            env=environment,
        )  # fmt: skip
        found = json.loads(answer.stdout.splitlines()[-1])
        return found | ({"labels": np.load(labels)} if labels.exists() else {})


def workers_of(n_workers: int, threads: int) -> Found:
    """A task for so many workers."""
    return {"system": "dask", "workers": n_workers, "threads": threads, "kill": None}


def middle(some: list[Found]) -> Found:
    """The run of the median time."""
    return dict(sorted(some, key=lambda one: one["seconds"])[(len(some) - 1) // 2])


def ratio(
    what: str, name: str, k: int, mine: Found, theirs: Found, peer: str, note: str = ""
) -> Ratio:
    """Of two times, theirs over ours."""
    value = theirs["seconds"] / mine["seconds"]
    cost = mine["cost"] / theirs["cost"] if theirs.get("cost") else None
    return Ratio(
        what, name, k, mine["seconds"], theirs["seconds"], value, peer, cost=cost, note=note
    )


def megabytes(one: Found) -> str:
    """What was sent."""
    return f"{((one.get('sent_by_driver') or 0) + (one.get('sent_by_workers') or 0)) / 1e6:.0f} MB"


def java_home() -> Path | None:
    """Where a Java is that Spark takes."""
    named, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    homes = [Path(named)] if named else []
    homes += sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    homes += [Path(found).resolve().parent.parent] if found else []
    for home in homes:
        java = home / "bin" / "java"
        if not java.exists():
            continue
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True).stderr
        version = re.search(r'version "(\d+)', said)
        if version and int(version[1]) in JAVA_VERSIONS:
            return home
    return None


def table(report: Report, title: str, found: dict[str, Found]) -> None:
    """A line a system."""
    made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    made.add_column("system", no_wrap=True)
    for column in ("seconds", "seeding", "assign", "update", "other", "iter.", "cost", "MB",
                   "MB sent by driver", "by workers"):  # fmt: skip
        made.add_column(column, justify="right")
    for system, one in found.items():
        phases = one.get("phases", {})
        shown = [f"{phases[phase]:.2f}" if phase in phases else "-"
                 for phase in ("seeding", "assignment", "update", "other")]  # fmt: skip
        sent = [one.get("sent_by_driver"), one.get("sent_by_workers")]
        made.add_row(
            system, f"{one['seconds']:.2f}", *shown, str(one["iterations"]), f"{one['cost']:.6g}",
            f"{one['MB']:.0f}", *("-" if n is None else f"{n / 1e6:.1f}" for n in sent),
        )  # fmt: skip
    report.console.print(made)
