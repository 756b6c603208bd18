"""Sparse embedding: how its time grows, against scikit-learn's random projections, what it keeps of
the costs of partitions, and k-means by way of it.

`python -m benchmarks.embedding SYSTEM SET THREADS` is one projection, in a process of its own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, memory
from .data import Dataset
from .harness import Harness
from .options import Options
from .plots import Panel
from .processes import of_processes
from .report import Report
from .scaling import exponent
from .summary import Ratio
from .systems import COMPONENTS
from .task import FIT, Task

PARTS = ("growth", "projections", "partitions", "finish")
LARGE = "linux-tfidf"
OURS, SPARSE, GAUSSIAN = "SparseEmbedding", "SparseRandomProjection", "GaussianRandomProjection"
REPEATS = {OURS: 5, SPARSE: 3, GAUSSIAN: 1}
WANTED = {SPARSE: ("5x", "20x"), GAUSSIAN: ("20x", "")}
FRACTIONS = (0.0625, 0.125, 0.25, 0.5, 1.0)
WIDTHS = (500, 1000, 2000, 4000, 8000)  # d'
SPREADS = (1, 4, 16, 64, 256)  # times as many columns
KEPT = ("sector", "kos", "bbc", "classic3")
EPS, DELTA, CLUSTERS = 0.5, 0.1, 20
RANDOM_PARTITIONS, KMEANS_PARTITIONS, SKETCHES = 200, 20, 50
FINISHED = ("20news-tfidf", "rcv1", "debian-tfidf", "linux-tfidf")
FINISH_CLUSTERS = (20, 100)


def run(options: Options, harness: Harness, report: Report) -> None:
    parts = options.parsed.parts or PARTS
    if "growth" in parts:
        growth(options, report)
    if "projections" in parts:
        projections(options, harness, report)
    if "partitions" in parts:
        partitions(options, report)
    if "finish" in parts:
        finish(options, harness, report)


# --- growth --------------------------------------------------------------------------------------


def growth(options: Options, report: Report) -> None:
    """Processor seconds with entries, components and columns, each alone, at five sizes."""
    found: dict[str, dict[str, Any]] = {}
    series: dict[str, dict[str | float, float]] = {}
    name = options.data_sets((LARGE,))[0]
    whole = data.load(name)
    panels = {
        "entries": {float(part.X.nnz): part.X for part in map(whole.rows, FRACTIONS)},
        "components": {float(width): whole.X for width in WIDTHS},
        "columns": {float(times * whole.X.shape[1]): spread(whole, times) for times in SPREADS},
    }
    for what, sizes in panels.items():
        widths = {size: int(size) if what == "components" else COMPONENTS for size in sizes}
        times = in_turns(sizes, widths, options.threads)
        grows = exponent(dict(times))
        found[what] = {
            "seconds": {str(size): one for size, one in times.items()},
            "exponent": grows,
        }
        told = ", ".join(f"{size:,.0f}: {one * 1e3:.0f} ms" for size, one in times.items())
        report.tell(f"embedding {name}, time grows as {what} ^ {grows:.2f}   ({told})")
        first = min(times)
        series[f"{what} (^ {grows:.2f})"] = {size / first: one for size, one in times.items()}
    title = f"embedding {name} in {COMPONENTS} columns, processor seconds against"
    report.panels.append(Panel(title, series, lines=True, x_label="times the smallest"))
    report.record["growth"] = found
    report.save()


def spread(whole: Dataset, times: int) -> sp.csr_matrix:
    """The same entries in more columns, most of which are empty."""
    X = whole.X.copy()
    X.resize(X.shape[0], X.shape[1] * times)
    X.indices *= times
    return X


def in_turns(
    sizes: dict[float, sp.csr_matrix], widths: dict[float, int], threads: int, turns: int = 7
) -> dict[float, float]:
    """The least processor time of each size; they take turns, for the noise of the machine."""
    from sparsecluster import SparseEmbedding

    least = dict.fromkeys(sizes, np.inf)
    for _ in range(turns):
        for size, X in sizes.items():
            embedding = SparseEmbedding(
                widths[size], random_state=0, n_threads=threads, output="sparse"
            )
            before = time.process_time()
            embedding.fit_transform(X)
            least[size] = min(least[size], time.process_time() - before)
    return least


# --- against scikit-learn ------------------------------------------------------------------------


def projections(options: Options, harness: Harness, report: Report) -> None:
    """`fit_transform` to COMPONENTS columns, each in a process of its own."""
    record = report.record["projections"] = {}
    ratios: dict[str, list[Ratio]] = {SPARSE: [], GAUSSIAN: []}
    for name in options.data_sets((LARGE,)):
        found = {
            system: measure(system, name, options.threads, harness.timeout) for system in PROJECTED
        }
        record[name] = found
        for system, one in found.items():
            said = one.get("message") or f"{one['seconds']:8.3f} s   peak {one['MB']:8.1f} MB"
            report.tell(f"{name:16}{system:26}{said}   {one.get('answer', '')}")
        mine = found[OURS]
        for peer, ratio in ratios.items():
            theirs = found[peer]
            if "seconds" in theirs and "seconds" in mine:
                speed = theirs["seconds"] / mine["seconds"]
                note = f"memory 1/{theirs['MB'] / max(mine['MB'], 0.1):.1f} ({mine['MB']:.0f} MB)"
                ratio.append(
                    Ratio(FIT, name, 0, mine["seconds"], theirs["seconds"], speed, peer, note=note)
                )
    for peer, figures in ratios.items():
        title = f"embedding in {COMPONENTS} columns, against scikit-learn's {peer}"
        report.ratios(title, figures, *WANTED[peer])


def measure(system: str, name: str, threads: int, timeout: float) -> dict[str, Any]:
    turns = REPEATS[system]
    return of_processes("benchmarks.embedding", system, name, threads, turns=turns, timeout=timeout)


def ours(X: sp.csr_matrix, threads: int) -> Any:
    from sparsecluster import SparseEmbedding

    return SparseEmbedding(COMPONENTS, random_state=0, n_threads=threads).fit_transform(X)


def sparse_projection(X: sp.csr_matrix, threads: int) -> Any:
    from sklearn.random_projection import SparseRandomProjection

    return SparseRandomProjection(COMPONENTS, random_state=0).fit_transform(X)


def gaussian_projection(X: sp.csr_matrix, threads: int) -> Any:
    from sklearn.random_projection import GaussianRandomProjection

    return GaussianRandomProjection(COMPONENTS, random_state=0).fit_transform(X)


PROJECTED: dict[str, Callable[[sp.csr_matrix, int], Any]] = {
    OURS: ours,
    SPARSE: sparse_projection,
    GAUSSIAN: gaussian_projection,
}


def main() -> None:
    """Time one system, after a warm-up on a few rows and columns for the imports."""
    system, name, threads = sys.argv[1:]
    work, X = PROJECTED[system], data.load(name).X
    work(X[:50, :2000], int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    made = work(X, int(threads))
    seconds = time.perf_counter() - clock
    highest = (memory.peak() or 0.0) - before
    kept = (made.multiply(made) if sp.issparse(made) else made * made).sum(dtype=np.float64)
    answer = f"{type(made).__name__}, squared norm x {kept / X.multiply(X).sum():.4f}"
    sys.stdout.write(json.dumps({"seconds": seconds, "MB": highest, "answer": answer}))


# --- costs of partitions -------------------------------------------------------------------------


def partitions(options: Options, report: Report) -> None:
    """Definition 2 of the paper: costs of embedded partitions over the true ones."""
    from sparsecluster import SparseEmbedding
    from sparsecluster.embedding.rule import components_for, embedding_error

    record = report.record["partitions"] = {}
    allowed = embedding_error(EPS)
    for name in options.data_sets(KEPT):
        X = data.load(name).X.astype(np.float64)
        labels = partitions_of(X, options.threads)
        true = costs(X, labels)
        largest = []
        for seed in range(SKETCHES):
            rule = SparseEmbedding(n_clusters=CLUSTERS, eps=EPS, delta=DELTA, random_state=seed)
            largest.append(float(np.abs(costs(rule.fit_transform(X), labels) / true - 1).max()))
        kept = float(np.mean(np.array(largest) <= allowed))
        record[name] = {"components": components_for(CLUSTERS, EPS, DELTA), "largest": largest}
        record[name] |= {"allowed": allowed, "share": kept, "columns": X.shape[1]}
        report.tell(
            f"{name:16}{X.shape[1]:8,} -> {record[name]['components']:,} columns: all of "
            f"{len(labels)} partitions within 1 +- {allowed:.2f} in {kept:.0%} of {SKETCHES} "
            f"sketches (wanted {1 - DELTA:.0%}); largest error: median {median(largest):.4f}, "
            f"worst {max(largest):.4f}"
        )
        report.save()


def partitions_of(X: sp.csr_matrix, threads: int) -> list[np.ndarray]:
    """Random ones of even and uneven sizes, and those of k-means."""
    from sparsecluster import KMeans

    rng = np.random.default_rng(0)
    drawn = []
    for i in range(RANDOM_PARTITIONS):
        share = np.full(CLUSTERS, 1 / CLUSTERS) if i % 2 else rng.dirichlet(np.ones(CLUSTERS))
        drawn.append(rng.choice(CLUSTERS, size=X.shape[0], p=share))
    return drawn + [
        KMeans(CLUSTERS, random_state=seed, n_threads=threads).fit(X).labels_
        for seed in range(KMEANS_PARTITIONS)
    ]


def costs(X: Any, labels: list[np.ndarray], at_once: int = 20) -> np.ndarray:
    """Cost of each partition: sum |x|^2 - sum_k |s_k|^2 / n_k, some of them in one product."""
    n_rows = X.shape[0]
    total = float((X.multiply(X) if sp.issparse(X) else X * X).sum())
    found = []
    for begin in range(0, len(labels), at_once):
        part = labels[begin : begin + at_once]
        clusters = np.concatenate([one + i * CLUSTERS for i, one in enumerate(part)])
        rows = np.tile(np.arange(n_rows), len(part))
        shape = (len(part) * CLUSTERS, n_rows)
        members = sp.csr_matrix((np.ones(len(rows)), (clusters, rows)), shape=shape)
        sums = members @ X
        squares = (sums.multiply(sums) if sp.issparse(sums) else sums * sums).sum(axis=1)
        sizes = np.maximum(np.bincount(clusters, minlength=shape[0]), 1)
        found += list((np.asarray(squares).ravel() / sizes).reshape(len(part), -1).sum(axis=1))
    return total - np.array(found)


# --- k-means by way of an embedding --------------------------------------------------------------


def finish(options: Options, harness: Harness, report: Report) -> None:
    """Cost and time of both finishes beside plain k-means."""
    systems = ("sparsecluster", "sparsecluster-embedded-exact", "sparsecluster-embedded-none")
    ratios = []
    for name in options.data_sets(FINISHED):
        dataset = data.load(name)
        for k in options.clusters(FINISH_CLUSTERS, dataset):
            found = harness.compare(
                dataset, Task(FIT, k, threads=options.threads), systems, options.seeds(5)
            )
            report.systems(f"k-means in {COMPONENTS} columns first, {name}, K={k}", found)
            plain, exact, _ = found
            if plain.cost and exact.cost and plain.seconds and exact.seconds:
                ratios.append(
                    Ratio(
                        FIT,
                        name,
                        k,
                        exact.seconds,
                        plain.seconds,
                        plain.seconds / exact.seconds,
                        "plain k-means",
                        cost=exact.cost / plain.cost,
                    )
                )
    report.ratios("embedded, then exact, against plain k-means", ratios, "cost below 1.0020")


if __name__ == "__main__":
    main()
