"""Clusters of bounded sizes: against k-means-constrained on small sets, then at size.

`python -m benchmarks.sizes FOLDER SIZE_MIN SIZE_MAX` and `python -m benchmarks.sizes SET K BOUND
THREADS` are one measurement each, in a process of its own. The peer runs under the Python that
SPARSECLUSTER_CONSTRAINED names (of an environment with k-means-constrained), or under this one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, memory
from .data import ROOT
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio

SMALL, LARGE = ("bbc", "classic3", "kos"), ("debian-tfidf", "retail")
# Of the small sets: rows, clusters, and bounds in parts of the mean size.
ROWS, K, LEAST, MOST = 1000, 10, 0.8, 1.2
LARGE_K = 1000
OURS, PEER = "sparsecluster", "k-means-constrained"
BOUNDS = {"unbounded": {}, "size_max 1.2 n/K": {"size_max": 1.2}}
PEER_PYTHON = "SPARSECLUSTER_CONSTRAINED"


def run(options: Options, harness: Harness, report: Report) -> None:
    """Small sets from the same starting centers as the peer; large ones against no bounds."""
    record = report.record["sizes"] = {}
    title = f"bounded sizes, {ROWS:,} rows, K={K}, against {PEER} on a dense copy"
    wanted = options.data_sets((*SMALL, *LARGE))
    ratios = []
    for name in (one for one in SMALL if one in wanted):
        for seed in options.seeds(2):
            found = small(name, seed, harness.timeout)
            record[f"{name} {seed}"] = found
            for system, one in found.items():
                report.tell(f"{name:16}seed {seed}  {system:22}{told(one)}")
            ratios += ratio(name, found)
    report.ratios(title, ratios, "20x", "100x")
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


def ratio(name: str, found: dict[str, dict[str, Any]]) -> list[Ratio]:
    """Ours against the peer, with the ratio of the costs beside."""
    if not all("seconds" in found.get(system, {}) for system in (OURS, PEER)):
        return []
    mine, theirs = found[OURS], found[PEER]
    note = f"cost {mine['cost'] / theirs['cost']:.4f}x, {mine['broken']} bounds broken"
    speed = theirs["seconds"] / mine["seconds"]
    return [Ratio("sizes", name, K, mine["seconds"], theirs["seconds"], speed, PEER, note=note)]


def small(name: str, seed: int, timeout: float) -> dict[str, dict[str, Any]]:
    """Both systems on the first rows of a set, from the same k-means++ centers.

    The peer takes dense arrays only; ours gets the rows as they are.
    """
    from sparsecluster import seed_centers

    X = sp.csr_matrix(data.load(name).X[:ROWS], dtype=np.float64)
    centers, _ = seed_centers(X, K, random_state=seed)
    mean = X.shape[0] / K
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(Path(folder) / "X.npz", X)
        np.save(Path(folder) / "X.npy", X.toarray())
        np.save(Path(folder) / "centers.npy", centers.toarray())
        arguments = (folder, str(int(LEAST * mean)), str(int(MOST * mean)))
        found = {OURS: measure((sys.executable, "-m", "benchmarks.sizes", *arguments), timeout)}
        python = os.environ.get(PEER_PYTHON, sys.executable)
        if python == sys.executable and not find_spec("k_means_constrained"):
            missing = f"not installed; {PEER_PYTHON} may name the Python of another environment"
            return found | {PEER: {"message": missing}}
        peer = str(Path(__file__).with_name("constrained.py"))
        return found | {PEER: measure((python, peer, *arguments), timeout)}


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
    """Time one fit, after a warm-up on a few rows for the imports."""
    from sparsecluster import KMeans

    if len(sys.argv) == 4:
        folder, bounds = Path(sys.argv[1]), {"size_min": int(sys.argv[2])}
        bounds["size_max"] = int(sys.argv[3])
        X, centers = sp.load_npz(folder / "X.npz"), np.load(folder / "centers.npy")
        # One thread, as the peer.
        model = KMeans(len(centers), init=centers, n_threads=1, **bounds)
    else:
        name, n_clusters, bound, threads = sys.argv[1:]
        X, k = data.load(name).X, int(n_clusters)
        parts = BOUNDS[bound].items()
        bounds = {which: int(part * X.shape[0] / k) for which, part in parts}
        metric = "cosine" if name.endswith("tfidf") else "euclidean"
        model = KMeans(k, metric=metric, random_state=0, n_threads=int(threads), **bounds)
    KMeans(2, n_threads=1).fit(X[:50])
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - clock
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    least, most = bounds.get("size_min", 0), bounds.get("size_max", len(model.labels_))
    found = {
        "seconds": seconds,
        "MB": (memory.peak() or 0.0) - before,
        "cost": model.inertia_,
        "broken": int(np.sum((sizes < least) | (sizes > most))),
        "iterations": model.n_iter_,
        "sizes": [int(sizes.min()), int(sizes.max())],
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
