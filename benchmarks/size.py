"""Speed at size: made-up text of PubMed's shape, where neither rows nor centers fit the caches.

All systems start from the same random rows and make the same iterations (tol 0), each in a process
of its own; iterations 2 to 6 count, because the first one starts from sparse rows. Then how the
time per row grows with four times the rows (`growth`), ten thousand clusters by cosine (`many`),
what part of whole fits seeding takes (`seeding`), and whole fits of a hundred clusters against the
peers (`few`). `--profile` tells where the time of a plain pass goes instead.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.table import Table

from . import data, memory
from .data import ROOT
from .full import Full
from .harness import Harness
from .options import Options
from .report import Report
from .summary import against_best
from .task import FIT

ROWS = 250_000
CLUSTERS = 1000
ITERATIONS = 6
COLUMNS = 141_043  # of UCI's PubMed
DRAWS = 59  # words of a row, about 54 of them different
TOPICS = 2000
WORDS = 200  # of a topic
OF_TOPIC = 25  # words of a row that are of its topic
SYSTEMS = ("sparsekmeans-lloyd", "lloyd", "auto")
PARTS = ("iterations", "growth", "many", "seeding", "few")
MORE = 4  # times the rows, of `growth` and `many`
MANY = 10_000  # clusters
FEW = 100
FEW_DATA = ("20news-tfidf", "rcv1", "retail", "debian-tfidf")


def pubmed(n: int) -> sp.csr_matrix:
    """Rows of a few topic words over a skewed background, by tf-idf, of unit length; float32."""
    rng = np.random.default_rng(0)
    topics = (COLUMNS * rng.random((TOPICS, WORDS)) ** 3).astype(np.int32)
    words = (COLUMNS * rng.random((n, DRAWS)) ** 5).astype(np.int32)
    own = topics[rng.integers(0, TOPICS, n)]
    words[:, :OF_TOPIC] = np.take_along_axis(own, rng.integers(0, WORDS, (n, OF_TOPIC)), axis=1)
    ends = np.arange(0, n * DRAWS + 1, DRAWS, dtype=np.int64)
    ones = np.ones(n * DRAWS, dtype=np.float32)
    X = sp.csr_matrix((ones, words.ravel(), ends), shape=(n, COLUMNS))
    X.sum_duplicates()
    rows_with = np.bincount(X.indices, minlength=COLUMNS)
    X.data *= np.log(n / np.maximum(rows_with, 1)).astype(np.float32)[X.indices]
    norms = np.sqrt(np.add.reduceat(X.data.astype(np.float64) ** 2, X.indptr[:-1]))
    X.data /= np.repeat(norms, np.diff(X.indptr)).astype(np.float32)
    return X


def run(options: Options, harness: Harness, report: Report) -> None:
    """The parts that were asked for, or the phases of a pass."""
    n, k = options.parsed.rows or ROWS, (options.parsed.k or [CLUSTERS])[0]
    parts = options.parsed.parts or PARTS
    with tempfile.TemporaryDirectory() as name:
        path, larger = Path(name) / "X.npz", Path(name) / "larger.npz"
        sp.save_npz(path, pubmed(n), compressed=False)
        if options.parsed.profile:
            tell_phases(path, k, options.threads, report)
            return
        if "iterations" in parts:
            compare(path, n, k, options, harness, report)
        if "growth" in parts or "many" in parts:
            sp.save_npz(larger, pubmed(MORE * n), compressed=False)
        if "growth" in parts:
            growth(path, larger, k, options, harness, report)
        if "many" in parts:
            many(larger, min(MANY, n // 10), options, harness, report)
        if "seeding" in parts:
            seeding(path, n, k, options, harness, report)
    if "few" in parts:
        few(options, harness, report)


# --- the systems ---------------------------------------------------------------------------------


def compare(path: Path, n: int, k: int, options: Options, harness: Harness, report: Report) -> None:
    """Seconds per iteration and memory of each system, and ratios to ours."""
    found: dict[str, dict[str, Any]] = {}
    for name in SYSTEMS:
        job = {"path": str(path), "system": name, "k": k, "threads": options.threads}
        if (answer := asked(job, harness, report)) is None:
            continue
        found[name] = answer
        seconds = ", ".join(f"{one:.2f}" for one in answer["seconds"])
        report.tell(f"{name}: seconds of iterations {seconds}; {answer['memory']:.0f} MB")
    table(report, found, f"at size: {n} rows, K={k}, iterations 2-{ITERATIONS}, same start")
    report.record["size"] = {"rows": n, "k": k, "systems": found}
    report.save()


def asked(job: dict[str, Any], harness: Harness, report: Report) -> dict[str, Any] | None:
    """What a process of its own answers to a job; None where it fails, which is told."""
    called = subprocess.run(
        [sys.executable, "-m", "benchmarks.size"], input=json.dumps(job), text=True,
        capture_output=True, cwd=ROOT, timeout=max(harness.timeout, 3600), check=False,
    )  # fmt: skip
    if called.returncode:
        report.tell(f"{job['system']} failed: {called.stderr.strip().splitlines()[-1:]}")
        return None
    return json.loads(called.stdout.splitlines()[-1])


def table(report: Report, found: dict[str, dict[str, Any]], title: str) -> None:
    """One line per system."""
    shown = Table(
        "system", "s per iteration", "µs per row", "MB beyond the data", "auto is faster by"
    )
    shown.title = title
    ours = mean(found["auto"]["seconds"][1:]) if "auto" in found else None
    for name, one in found.items():
        seconds = mean(one["seconds"][1:])
        ratio = f"{seconds / ours:.1f}x" if ours else ""
        shown.add_row(
            name,
            f"{seconds:.2f}",
            f"{1e6 * seconds / one['rows']:.2f}",
            f"{one['memory']:.0f}",
            ratio,
        )
    report.console.print(shown)


def growth(
    path: Path, larger: Path, k: int, options: Options, harness: Harness, report: Report
) -> None:
    """The time per row of the same iterations on more rows, over that on fewer."""
    per_row = {}
    for rows in (path, larger):
        job = {"path": str(rows), "system": "auto", "k": k, "threads": options.threads}
        if (answer := asked(job, harness, report)) is None:
            return
        per_row[answer["rows"]] = 1e6 * mean(answer["seconds"][1:]) / answer["rows"]
    few, more = per_row.values()
    told = " and ".join(f"{one:.2f} µs on {n} rows" for n, one in per_row.items())
    report.tell(
        f"iterations 2-{ITERATIONS} per row, K={k}: {told}: {more / few:.2f}x (wanted 1.1x)"
    )
    report.record["growth"] = per_row
    report.save()


def many(path: Path, k: int, options: Options, harness: Harness, report: Report) -> None:
    """Thread time per row of the third to the fifth iteration, by cosine."""
    job = {
        "path": str(path), "system": "auto", "k": k, "threads": options.threads,
        "metric": "cosine", "iterations": 5,
    }  # fmt: skip
    if (answer := asked(job, harness, report)) is None:
        return
    later = answer["seconds"][2:] or answer["seconds"][-1:]
    spent = 1e3 * options.threads * mean(later) / answer["rows"]
    report.tell(
        f"K={k}, {answer['rows']} rows by cosine, iterations 3-5: {spent:.3f} ms of a thread per "
        f"row (wanted 0.10 ms); {answer['memory']:.0f} MB"
    )
    report.record["many"] = answer | {"k": k, "thread_ms_per_row": spent}
    report.save()


def seeding(path: Path, n: int, k: int, options: Options, harness: Harness, report: Report) -> None:
    """What part of whole fits the seeding takes."""
    jobs = [(f"{n} rows of PubMed's shape", path, k)]
    with tempfile.TemporaryDirectory() as name:
        try:
            X = data.load("debian-tfidf").X
        except FileNotFoundError as missing:
            report.tell(f"debian-tfidf: {missing}")
        else:
            debian = Path(name) / "X.npz"
            sp.save_npz(debian, sp.csr_matrix(X), compressed=False)
            jobs.append(("debian-tfidf", debian, min(MANY, X.shape[0] // 5)))
        for told, rows, clusters in jobs:
            job = {
                "path": str(rows), "system": "auto", "k": clusters, "threads": options.threads,
                "whole": True,
            }  # fmt: skip
            if (answer := asked(job, harness, report)) is None:
                continue
            share = 1 - sum(answer["seconds"]) / answer["whole"]
            report.tell(
                f"whole fit, {told}, K={clusters}: {answer['whole']:.2f} s, of which seeding "
                f"{share:.0%}; {len(answer['seconds'])} iterations, {answer['memory']:.0f} MB"
            )
            report.record.setdefault("whole fits", {})[told] = answer | {"k": clusters}
            report.save()


def few(options: Options, harness: Harness, report: Report) -> None:
    """Whole fits of few clusters on smaller sets, against the best peer on each."""
    full = Full(options, harness, report)
    full.names = options.data_sets(FEW_DATA)
    found = full.against_peers(FIT, FEW, "whole fit", "25x in the median", "35x")
    ratios = [against_best(FIT, summaries) for summaries in found]
    values = [one.value for one in ratios if one and one.value]
    if values:
        report.tell(f"K={FEW}, median of {len(values)} sets: {median(values):.1f}x the best peer")


def worker() -> None:
    """One system: a job as JSON on stdin, the answer as the last line of stdout."""
    job = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    X = sp.csr_matrix(sp.load_npz(job["path"]))
    chosen = np.sort(np.random.default_rng(0).choice(X.shape[0], job["k"], replace=False))
    start = sp.csr_matrix(X[chosen])
    peer = job["system"].startswith("sparsekmeans")
    fit = peer_seconds if peer else own_seconds
    # Loaded now: what modules take, and what they import in turn, is no matter of size.
    importlib.import_module("sparsekmeans" if peer else "sparsecluster.kmeans.kmeans")
    memory.reset_peak()
    before = memory.current() or 0.0
    started = time.perf_counter()
    seconds = fit(X, start, job)
    whole = time.perf_counter() - started
    peak = max(0.0, (memory.peak() or 0.0) - before)
    answer = {"seconds": seconds, "whole": whole, "memory": peak, "rows": X.shape[0]}
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def own_seconds(X: sp.csr_matrix, start: sp.csr_matrix, job: dict[str, Any]) -> list[float]:
    """Seconds of each iteration of ours."""
    from sparsecluster import KMeans

    given: dict[str, Any] = {"random_state": 0}
    if not job.get("whole"):
        given = {"init": start, "max_iter": job.get("iterations", ITERATIONS), "tol": 0.0}
    model = KMeans(
        job["k"], algorithm=job["system"], metric=job.get("metric", "euclidean"),
        n_threads=job["threads"], **given,
    )  # fmt: skip
    return [record.seconds for record in model.fit(X).history_]


def peer_seconds(X: sp.csr_matrix, start: sp.csr_matrix, job: dict[str, Any]) -> list[float]:
    """Seconds from one update of sparsekmeans to the next; its start is replaced by ours."""
    import graphblas
    import sparsekmeans

    graphblas.ss.config["nthreads"] = job["threads"]
    model = sparsekmeans.LloydKmeans(
        n_clusters=job["k"], n_threads=job["threads"], max_iter=ITERATIONS, tol=0.0
    )
    times = []
    centers = graphblas.io.from_scipy_sparse(start.astype(np.float64))

    def started(X: Any) -> Any:
        times.append(time.perf_counter())
        return centers

    update = model._update_centroids

    def updated(X: Any) -> Any:
        moved = update(X)
        times.append(time.perf_counter())
        return moved

    model._initialize_centroids, model._update_centroids = started, updated
    model.fit(X)
    return list(np.diff(times))


# --- where the time goes -------------------------------------------------------------------------


def tell_phases(path: Path, k: int, threads: int, report: Report) -> None:
    """Seconds of the phases of a plain pass and of the update, after three iterations."""
    from sparsecluster import KMeans, _core
    from sparsecluster.kmeans import centers
    from sparsecluster.rows.rows import as_rows

    X = sp.csr_matrix(sp.load_npz(path))
    start = X[np.sort(np.random.default_rng(0).choice(X.shape[0], k, replace=False))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(k, init=start, max_iter=3, tol=0.0, n_threads=threads).fit(X)
    rows, found = as_rows(X, n_threads=threads), centers.to_core(model.cluster_centers_)
    runs = [_core.scan_phases(rows.core, found, threads) for _ in range(3)]
    phases = {name: float(np.median([one[name] for one in runs])) for name in runs[0]}
    entries = phases["head_share"] * X.nnz
    report.tell(
        f"{phases['head_features']:.0f} features are SIMD rows and hold {phases['head_share']:.0%} "
        f"of the entries; the lists have {phases['tail_entries']:.0f} entries"
    )
    shown = Table("phase", "thread seconds", "µs per row", title=f"a plain pass: K={k}")
    for name in ("index", "pack", "lists", "tiles", "best"):
        shown.add_row(name, f"{phases[name]:.3f}", f"{1e6 * phases[name] / X.shape[0]:.3f}")
    update = model.history_[-1].update_seconds * threads
    shown.add_row("update", f"{update:.3f}", f"{1e6 * update / X.shape[0]:.3f}")
    report.console.print(shown)
    report.tell(
        f"the tiles run at {entries * k / phases['tiles'] / 1e9:.1f} G multiply-adds/s per thread"
    )
    report.record["phases"] = phases
    report.save()


if __name__ == "__main__":
    worker()
