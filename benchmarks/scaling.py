"""Growth of the time with rows, clusters, stored entries and threads.

Seeding and ten iterations of each, without a tolerance, so that the amount of work is comparable.
"""

from __future__ import annotations

import os

import numpy as np

from . import data
from .data import Dataset
from .harness import Harness
from .options import Options
from .plots import Panel
from .report import Report
from .task import FIT, Task

SYSTEMS = ("sparsecluster", "sparsecluster-lloyd", "sklearn-lloyd")
FRACTIONS = (0.125, 0.25, 0.5, 1.0)
CLUSTERS = (50, 100, 200, 400, 800)
ITERATIONS = 10


def run(options: Options, harness: Harness, report: Report) -> None:
    systems, seeds = options.systems(SYSTEMS), options.seeds(1)

    def grow(title: str, steps: list[tuple[float, Dataset, Task]], x_label: str) -> None:
        """One panel: the same systems at growing sizes, with the exponent of the growth."""
        points: dict[str, dict[str | float, float]] = {}
        found = [
            (size, harness.compare(dataset, task, systems, seeds)) for size, dataset, task in steps
        ]
        for size, summaries in found:
            for one in summaries:
                if one.seconds is not None and not one.limited:
                    points.setdefault(one.system, {})[size] = one.seconds
        report.growth(title, found, x_label)
        for name, values in points.items():
            report.tell(f"{name}: time grows as {x_label} ^ {exponent(values):.2f}")
        report.panels.append(Panel(title, points, lines=True, x_label=x_label))

    def task(k: int, threads: int = options.threads) -> Task:
        return Task(FIT, k, threads=threads, tol=0.0, max_iter=ITERATIONS)

    for name in options.data_sets(("20news-tfidf",)):
        whole = data.load(name)
        clusters = options.clusters(CLUSTERS, whole)
        k = 100 if 100 in clusters or not clusters else clusters[0]
        by_rows = [(float(part.X.shape[0]), part, task(k)) for part in map(whole.rows, FRACTIONS)]
        by_nnz = [(float(part.X.nnz), part, task(k)) for part in map(whole.entries, FRACTIONS)]
        grow(f"growth in rows, {name}, K={k}", by_rows, "rows")
        grow(f"growth in entries, {name}, K={k}", by_nnz, "entries")
        grow(f"growth in clusters, {name}", [(float(c), whole, task(c)) for c in clusters], "K")
        cores = [t for t in (1, 2, 4, 8, 16, 32) if t <= (os.cpu_count() or 1)]
        most = max(clusters, default=k)
        by_threads = [(float(t), whole, task(most, t)) for t in cores]
        grow(f"threads, {name}, K={most}", by_threads, "threads")


def exponent(points: dict[str | float, float]) -> float:
    """Slope of log time over log size."""
    if len(points) < 2:
        return float("nan")
    sizes = np.log([float(size) for size in points])
    return float(np.polyfit(sizes, np.log(list(points.values())), 1)[0])
