"""Clusters of bounded sizes: against k-means-constrained on small sets, bounds kept, then at size.

`python -m benchmarks.sizes FOLDER SIZE_MIN SIZE_MAX` (a folder with one for each start) and `python
-m benchmarks.sizes SET K BOUND THREADS` are measured in a process of their own. The peer wants
other libraries: where it is not installed, it gets an environment of its own in `build/`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, memory
from .data import ROOT
from .environment import python_with
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio
from .trees import N_SETS, made_up

SMALL, LARGE = ("bbc", "classic3", "kos"), ("debian-tfidf", "retail")
# Of the small sets: rows, clusters, and bounds in parts of the mean size.
ROWS, K, LEAST, MOST = 1000, 10, 0.8, 1.2
# Dense sets: rows, columns, clusters, and the spread of the blobs, of which there are half as many.
DENSE = {
    "blobs-2d": (1000, 2, 10, 1.0),
    "blobs-20d": (1000, 20, 10, 4.0),
    "blobs-many-rows": (5000, 5, 10, 3.0),
    "blobs-20-clusters": (2000, 10, 20, 3.0),
    "blobs-48-clusters": (1000, 8, 48, 3.0),
}
# For the table of what is kept: the fewest and the most rows, in parts of the mean size.
KEPT = ((1, 1), (None, 1.2), (0.6, None), (0.8, 1.25), (0.1, 2.5))
REPEATS = 3
SEEDS = 10
LARGE_K = 1000
OURS, PEER = "sparsecluster", "k-means-constrained"
BOUNDS = {"unbounded": {}, "size_max 1.2 n/K": {"size_max": 1.2}}
PINNED = "k-means-constrained==0.9.1"


def run(options: Options, harness: Harness, report: Report) -> None:
    """Small sets from the same starting centers as the peer; large ones against no bounds."""
    record = report.record["sizes"] = {}
    python = python_with(report, "constrained", "k_means_constrained", (PINNED,))
    wanted = options.data_sets((*SMALL, *LARGE))
    sparse = [one for one in SMALL if one in wanted]
    titles = {
        f"bounded sizes, {ROWS:,} sparse rows, against {PEER} on a dense copy": sparse,
        f"bounded sizes, dense rows, against {PEER}": DENSE,
    }
    for title, names in titles.items():
        ratios = []
        for name in names:
            seeds = list(options.seeds(SEEDS))
            n_clusters, runs = small(name, seeds, python, harness.timeout)
            for seed, found in zip(seeds, runs, strict=True):
                record[f"{name} {seed}"] = found
                for system, one in found.items():
                    report.tell(f"{name:20}seed {seed}  {system:22}{told(one)}")
            ratios += ratio(name, n_clusters, runs)
        report.ratios(title, ratios, "20x", "100x")
        costs = [one.cost for one in ratios if one.cost]
        report.tell(f"cost ratio over all of them, geometric mean: {geometric_mean(costs):.4f}")
    fits, broken = count_broken()
    record["kept"] = {"sets": N_SETS, "bounds": len(KEPT), "fits": fits, "broken": broken}
    report.tell(
        f"size bounds: {N_SETS} sets x {len(KEPT)} bounds, {fits} fits, {broken} violations"
    )
    for name in (one for one in LARGE if one in wanted):
        for n_clusters in options.clusters((LARGE_K,), data.load(name)):
            for bound in BOUNDS:
                command = (name, str(n_clusters), bound, str(options.threads))
                one = measure((sys.executable, "-m", "benchmarks.sizes", *command), harness.timeout)
                record[f"{name} {n_clusters} {bound}"] = one
                report.tell(f"{name:16}K={n_clusters:<6}{bound:20}{told(one)}")


def told(one: dict[str, Any]) -> str:
    if "seconds" not in one:
        return str(one["message"])
    return (
        f"{one['seconds']:8.3f} s   peak {one['MB']:7.1f} MB   cost {one['cost']:.6g}   "
        f"{one['iterations']} iterations   {one['broken']} bounds broken"
    )


def geometric_mean(values: list[float]) -> float:
    return float(np.exp(np.mean(np.log(values or [1.0]))))


def count_broken() -> tuple[int, int]:
    """Fits on sets of many kinds within many bounds, and how many clusters are outside."""
    from sklearn.exceptions import ConvergenceWarning

    from sparsecluster import KMeans

    fits = broken = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for number in range(N_SETS):
            X = made_up(number)
            n_clusters = (8, 40, 100)[number % 3]
            mean = X.shape[0] / n_clusters
            for least, most in KEPT:
                for metric in ("euclidean", "cosine"):
                    fewest = 1 if least is None else max(1, int(least * mean))
                    largest = X.shape[0] if most is None else int(np.ceil(most * np.ceil(mean)))
                    model = KMeans(
                        n_clusters, metric=metric, zero_rows="first", random_state=number
                    )
                    model.set_params(size_min=fewest, size_max=largest).fit(X)
                    sizes = np.bincount(model.labels_, minlength=n_clusters)
                    broken += int(np.count_nonzero((sizes < fewest) | (sizes > largest)))
                    fits += 1
    return fits, broken


def small_set(name: str, seed: int) -> tuple[Any, int]:
    """The first rows of a set, sparse, or blobs, dense; and the number of clusters."""
    if name not in DENSE:
        return sp.csr_matrix(data.load(name).X[:ROWS], dtype=np.float64), K
    from sklearn.datasets import make_blobs

    n_rows, n_columns, n_clusters, spread = DENSE[name]
    X, _ = make_blobs(
        n_rows, n_columns, centers=n_clusters // 2, cluster_std=spread, random_state=seed
    )
    return np.ascontiguousarray(X), n_clusters


def ratio(name: str, n_clusters: int, runs: list[dict[str, dict[str, Any]]]) -> list[Ratio]:
    """Ours against the peer: medians over the seeds, and the mean ratio of the costs.

    Each run ends in an optimum of its own neighborhood, which for both may be the better one.
    """
    whole = [one for one in runs if all("seconds" in one.get(of, {}) for of in (OURS, PEER))]
    if not whole:
        return []
    mine, theirs = ({key: median(one[of][key] for one in whole) for key in ("seconds", "cpu")}
                    for of in (OURS, PEER))  # fmt: skip
    costs = [one[OURS]["cost"] / one[PEER]["cost"] for one in whole]
    # Fits of a few milliseconds: CPU time tells more where the machine is busy.
    note = f"CPU time {theirs['cpu'] / mine['cpu']:.1f}x, costs {min(costs):.4f} to "
    note += f"{max(costs):.4f}, {sum(one[OURS]['broken'] for one in whole)} bounds broken"
    speed = theirs["seconds"] / mine["seconds"]
    seconds = mine["seconds"], theirs["seconds"]
    cost = geometric_mean(costs)
    return [Ratio("sizes", name, n_clusters, *seconds, speed, PEER, cost=cost, note=note)]


def small(
    name: str, seeds: list[int], python: str | None, timeout: float
) -> tuple[int, list[dict[str, dict[str, Any]]]]:
    """The number of clusters, and for each start both systems on the same rows, from the same
    k-means++ centers.

    The peer takes dense arrays only; ours gets the rows as they are.
    """
    from sparsecluster import seed_centers

    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            X, n_clusters = small_set(name, seed)
            centers, _ = seed_centers(X, n_clusters, random_state=seed)
            start = Path(folder) / str(seed)
            start.mkdir()
            if sp.issparse(X):
                sp.save_npz(start / "X.npz", X)
            np.save(start / "X.npy", X.toarray() if sp.issparse(X) else X)
            np.save(start / "centers.npy", centers.toarray() if sp.issparse(centers) else centers)
        mean = X.shape[0] / n_clusters
        arguments = (folder, str(int(LEAST * mean)), str(int(MOST * mean)))
        commands = {OURS: (sys.executable, "-m", "benchmarks.sizes", *arguments)}
        if python is not None:
            commands[PEER] = (python, str(Path(__file__).with_name("constrained.py")), *arguments)
        found = {of: measure(one, timeout * len(seeds)) for of, one in commands.items()}
    return n_clusters, [
        {of: found[of].get(str(seed), found[of]) for of in commands} for seed in seeds
    ]


def measure(command: tuple[str, ...], timeout: float) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return {"message": f"stopped after {timeout:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {"message": error.stderr.strip().splitlines()[-1] if error.stderr else "failed"}
    return json.loads(done.stdout)


# --- one measurement -----------------------------------------------------------------------------


def main() -> None:
    """Time fits, after a warm-up on a few rows for the imports; small ones several times."""
    from sparsecluster import KMeans

    if len(sys.argv) == 4:
        bounds = {"size_min": int(sys.argv[2]), "size_max": int(sys.argv[3])}
        found = {}
        for folder in sorted(Path(sys.argv[1]).iterdir()):
            sparse = folder / "X.npz"
            X = sp.load_npz(sparse) if sparse.exists() else np.load(folder / "X.npy")
            centers = np.load(folder / "centers.npy")
            # One thread, as the peer.
            model = KMeans(len(centers), init=centers, n_threads=1, **bounds)
            found[folder.name] = timed(model, X, bounds, REPEATS)
    else:
        name, n_clusters, bound, threads = sys.argv[1:]
        X, k = data.load(name).X, int(n_clusters)
        parts = BOUNDS[bound].items()
        bounds = {which: int(part * X.shape[0] / k) for which, part in parts}
        metric = "cosine" if name.endswith("tfidf") else "euclidean"
        model = KMeans(k, metric=metric, random_state=0, n_threads=int(threads), **bounds)
        found = timed(model, X, bounds, 1)
    sys.stdout.write(json.dumps(found))


def timed(model: Any, X: Any, bounds: dict[str, int], repeats: int) -> dict[str, Any]:
    """The lowest time of some fits, their memory, and what came out."""
    from sparsecluster import KMeans

    KMeans(2, n_threads=1).fit(X[:50])
    memory.reset_peak()
    before = memory.current() or 0.0
    seconds = cpu = np.inf
    for _ in range(repeats):
        clock, used = time.perf_counter(), time.process_time()
        model.fit(X)
        seconds = min(seconds, time.perf_counter() - clock)
        cpu = min(cpu, time.process_time() - used)
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    least, most = bounds.get("size_min", 0), bounds.get("size_max", len(model.labels_))
    return {
        "seconds": seconds,
        "cpu": cpu,
        "MB": (memory.peak() or 0.0) - before,
        "cost": model.inertia_,
        "broken": int(np.sum((sizes < least) | (sizes > most))),
        "iterations": model.n_iter_,
        "sizes": [int(sizes.min()), int(sizes.max())],
    }


if __name__ == "__main__":
    main()
