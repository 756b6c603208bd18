"""Mini-batches: time to a good clustering, and rows per second of a stream, against scikit-learn.

*Within*: the time until the centers cost no more than 1% above what a full batch converges to (the
mean over the seeds), by the cost on all rows, which is computed outside the clock. scikit-learn's
MiniBatchKMeans goes through shuffled batches by partial_fit, for several sizes of batches; ours are
timed by their callback, and what they have by then comes from a second run that stops there.

*Stream*: a million made-up rows through partial_fit, both with the same batches.

Every measurement runs in a process of its own, which this module is too: a job comes as JSON on
stdin, and the answer is the last line of stdout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, memory
from .harness import THREAD_VARIABLES, Harness
from .options import Options
from .plots import Panel
from .report import Report
from .summary import Ratio

NEAR = 1.01
PATIENCE = 90.0  # seconds of learning that scikit-learn gets
BATCH_SIZES = (1024, 4096, 16384)
STREAM = {"rows": 1_000_000, "batch": 1000, "features": 50_000, "words": 40, "k": 100}
Curve = list[tuple[float, float]]  # seconds, cost


def run(options: Options, harness: Harness, report: Report) -> None:
    del harness  # whose workers measure one call, not a curve
    within(options, report)
    stream(options, report)


def within(options: Options, report: Report) -> None:
    """Seconds until the cost is near, one panel of curves and a row of ratios a set."""
    ratios = []
    for name in options.data_sets(("20news-tfidf", "debian-tfidf")):
        for k in options.clusters((100,), data.load(name)):
            found: dict[str, list[dict[str, Any]]] = {}
            for seed in options.seeds(3):
                for system in ("full batch", "nested", "sculley", "sklearn"):
                    job = {"what": "curves", "data": name, "k": k, "seed": seed, "system": system}
                    for label, one in answer(job, options.threads).items():
                        found.setdefault(label, []).append(one)
            ratios += summarise(name, k, found, report)
    report.ratios(
        f"seconds to within {NEAR - 1:.0%} of the converged cost, theirs over nested's",
        ratios,
        "5x, or never",
    )


def summarise(
    name: str, k: int, found: dict[str, list[dict[str, Any]]], report: Report
) -> list[Ratio]:
    converged = float(np.mean([one["final"] for one in found["full batch"]]))
    seconds: dict[str, float] = {}
    for label, runs in found.items():
        times = [reached(one["curve"], NEAR * converged) for one in runs]
        seconds[label] = median(times)
        best = median(min(cost for _, cost in one["curve"]) for one in runs)
        whole = median(one["seconds"] for one in runs)
        final = float(np.mean([one["final"] for one in runs]))
        report.tell(
            f"{name}, K={k}, {label}: near after {seconds[label]:.3f} s (median of "
            f"{', '.join(f'{one:.3f}' for one in times)}), lowest {best / converged - 1:+.2%}; "
            f"its own fit {whole:.3f} s to {final / converged - 1:+.2%}"
        )
    report.record["runs"] += [
        {"kind": "curve", "data": name, "k": k, "system": label, **one}
        for label, runs in found.items()
        for one in runs
    ]
    curves: dict[str, dict[str | float, float]] = {
        label: {t: 100 * max(cost / converged - 1, 1e-4) for t, cost in runs[0]["curve"]}
        for label, runs in found.items()
    }
    report.panels.append(
        Panel(f"{name}, K={k}: cost above the converged one", curves, lines=True,
              x_label="seconds", y_label="percent")
    )  # fmt: skip
    peers = {label: t for label, t in seconds.items() if label.startswith("sklearn")}
    best_peer = min(peers, key=lambda label: peers[label])
    ours = seconds["nested"]
    never = peers[best_peer] == np.inf
    given = min(max(t for t, _ in one["curve"]) for one in found[best_peer])
    return [
        Ratio("within", name, k, ours, given if never else peers[best_peer],
              (given if never else peers[best_peer]) / ours, best_peer, bound=never),
        Ratio("within", name, k, ours, seconds["full batch"], seconds["full batch"] / ours,
              "our full batch"),
    ]  # fmt: skip


def reached(curve: Curve, goal: float) -> float:
    return next((seconds for seconds, cost in curve if cost <= goal), np.inf)


def stream(options: Options, report: Report) -> None:
    """Rows per second over a million rows, and memory along the way."""
    found = {
        system: answer({"what": "stream", "system": system, **STREAM}, options.threads)
        for system in ("sparsecluster", "sklearn")
    }
    for system, one in found.items():
        marks = ", ".join(f"{share:.0%} {mb:.0f} MB" for share, mb in one["memory"])
        report.tell(
            f"stream, {system}: {one['rows_per_second']:,.0f} rows/s, cost a row of the last batch "
            f"{one['cost']:.4f}, resident memory after {marks}"
        )
        report.record["runs"].append({"kind": "stream", "system": system, **one})
    ours, theirs = found["sparsecluster"], found["sklearn"]
    ratio = Ratio(
        "stream", f"{STREAM['rows']:,} rows", STREAM["k"], ours["rows_per_second"] / 1e3,
        theirs["rows_per_second"] / 1e3, ours["rows_per_second"] / theirs["rows_per_second"],
        "sklearn", cost=ours["cost"] / theirs["cost"], unit="k rows/s",
    )  # fmt: skip
    report.ratios("partial_fit, rows per second", [ratio], "5x")


def answer(job: dict[str, Any], threads: int) -> Any:
    """What a process of its own finds."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.batches"],
        input=json.dumps(job | {"threads": threads}), text=True, capture_output=True,
        cwd=data.ROOT, env=os.environ | {name: str(threads) for name in THREAD_VARIABLES},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


# --- in the process that measures ---------------------------------------------------------------


def measure_curves(job: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A curve a label; scikit-learn has one for each size of batches."""
    X = data.load(job["data"]).X
    if job["system"] == "sklearn":
        return {
            f"sklearn b={size}": sklearn_curve(X, job["k"], job["seed"], size)
            for size in BATCH_SIZES
            if 3 * size <= X.shape[0]
        }
    return {job["system"]: our_curve(X, job)}


def our_curve(X: sp.csr_matrix, job: dict[str, Any]) -> dict[str, Any]:
    """Costs of the centers after each iteration, by runs that stop there."""
    from sparsecluster import KMeans, MiniBatchKMeans

    options = {"n_clusters": job["k"], "random_state": job["seed"], "n_threads": job["threads"]}
    batch = {} if job["system"] == "full batch" else {"schedule": job["system"]}

    def fitted(stop: int | None) -> tuple[float, Any]:
        clock = 0.0

        def watch(record: Any) -> bool:
            nonlocal clock
            clock = time.perf_counter()
            return record.iteration == stop

        make = MiniBatchKMeans if batch else KMeans
        started = time.perf_counter()
        model = make(**options, **batch, callback=watch).fit(X)
        return (time.perf_counter() if stop is None else clock) - started, model

    fitted(1)  # loads what is loaded late
    seconds, whole = fitted(None)
    curve: Curve = []
    for stop in range(1, whole.n_iter_ + 1):
        clock, model = fitted(stop)
        curve.append((clock, cost_of(X, model.cluster_centers_, job["threads"])))
        if curve[-1][1] <= 1.003 * whole.inertia_:
            break
    return {"curve": curve, "seconds": seconds, "final": whole.inertia_}


def sklearn_curve(X: sp.csr_matrix, k: int, seed: int, size: int) -> dict[str, Any]:
    """partial_fit on shuffled batches, and its own fit."""
    from sklearn.cluster import MiniBatchKMeans

    def make() -> MiniBatchKMeans:
        return MiniBatchKMeans(k, batch_size=size, random_state=seed, n_init=1)

    started = time.perf_counter()
    whole = make().fit(X)
    seconds = time.perf_counter() - started
    rng, model, spent = np.random.default_rng(seed), make(), 0.0
    curve: Curve = []
    batches = 0
    while spent < PATIENCE:
        order = rng.permutation(X.shape[0])
        for begin in range(0, X.shape[0] - size + 1, size):
            batch = X[order[begin : begin + size]]
            started = time.perf_counter()
            model.partial_fit(batch)
            spent += time.perf_counter() - started
            batches += 1
            # Often at first, then less often: the cost takes longer than a batch.
            if batches & (batches - 1) == 0 or batches % 16 == 0:
                curve.append((spent, cost_of(X, model.cluster_centers_, 2)))
        if settled(curve):
            break
    return {"curve": curve, "seconds": seconds, "final": cost_of(X, whole.cluster_centers_, 2)}


def settled(curve: Curve) -> bool:
    """Whether the last half of the time brought less than a tenth of a percent."""
    half = [cost for seconds, cost in curve if seconds <= curve[-1][0] / 2]
    return len(half) > 20 and curve[-1][1] > 0.999 * min(half)


def cost_of(X: sp.csr_matrix, centers: Any, threads: int) -> float:
    """Squared distances of all rows to the nearest of these centers."""
    from sparsecluster.kmeans.seeding.shared import nearest_of
    from sparsecluster.kmeans.setting import Setting
    from sparsecluster.rows.rows import as_rows

    rows = as_rows(X, n_threads=threads)
    return float(nearest_of(rows, sp.csr_array(centers), Setting(n_threads=threads))[1].sum())


def measure_stream(job: dict[str, Any]) -> dict[str, Any]:
    """Only partial_fit is on the clock, not the making of the rows."""
    if job["system"] == "sklearn":
        from sklearn.cluster import MiniBatchKMeans

        model: Any = MiniBatchKMeans(job["k"], random_state=0)
    else:
        from sparsecluster import MiniBatchKMeans as Ours

        model = Ours(job["k"], random_state=0, n_threads=job["threads"])
    n_batches = job["rows"] // job["batch"]
    marks = {n_batches * share // 100: share / 100 for share in (5, 10, 25, 50, 75, 100)}
    spent, used = 0.0, []
    for number, batch in enumerate(made_up(job, n_batches), start=1):
        started = time.perf_counter()
        model.partial_fit(batch)
        spent += time.perf_counter() - started
        if number in marks:
            used.append((marks[number], memory.current() or 0.0))
    last = -model.score(batch) / batch.shape[0]
    return {"rows_per_second": job["rows"] / spent, "memory": used, "cost": last}


def made_up(job: dict[str, Any], n_batches: int) -> Iterator[sp.csr_matrix]:
    """Unit rows; half of their words by a common Zipf law, half by that of a topic."""
    rng = np.random.default_rng(0)
    n, d, words = job["batch"], job["features"], job["words"]
    frequency = np.cumsum(1 / np.arange(1, d + 1) ** 1.05)
    topics = rng.integers(0, d, 200)
    for _ in range(n_batches):
        lengths = rng.poisson(words, n) + 1
        rows = np.repeat(np.arange(n), lengths)
        ranks = np.searchsorted(frequency, rng.random(rows.size) * frequency[-1])
        first = topics[rng.integers(0, len(topics), n)][rows]
        columns = np.where(rng.random(rows.size) < 0.5, ranks + first, ranks) % d
        X = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, columns)), shape=(n, d))
        yield data.canonical(data.unit_rows(X))


def main() -> None:
    job = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    measure = {"curves": measure_curves, "stream": measure_stream}[job["what"]]
    sys.stdout.write(json.dumps(measure(job)) + "\n")


if __name__ == "__main__":
    main()
