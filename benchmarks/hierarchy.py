"""Trees of sparse rows against fastcluster on the condensed distances, which are included.

`python -m benchmarks.hierarchy SYSTEM KIND SET THREADS FILE` is one measurement, in a process of
its own; it leaves the heights of the merges in FILE.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import memory
from .data import ROOT, load
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio

OURS, PEER = "sparsecluster", "fastcluster"
KINDS = {"ward": ("ward", "euclidean"), "average": ("average", "cosine")}
BLOCK = 512  # rows whose products the peer gets at a time


def run(options: Options, harness: Harness, report: Report) -> None:
    """Both systems in turn, for each linkage."""
    ratios = []
    for name in options.data_sets(["20news-tfidf"]):
        for kind, (linkage, metric) in KINDS.items():
            found = compared(name, kind, options.threads)
            for system, one in found.items():
                report.tell(
                    f"{name}, {linkage} by {metric}: {system:14}{one['seconds']:8.1f} s   "
                    f"{one['MB']:.0f} MB beyond the data"
                )
            report.tell(
                f"largest difference of heights, against their median: {found[OURS]['apart']:.1e}"
            )
            report.record.setdefault("hierarchy", {})[f"{name} {kind}"] = found
            mine, theirs = found[OURS]["seconds"], found[PEER]["seconds"]
            note = f"{found[OURS]['MB']:.0f} MB against {found[PEER]['MB']:.0f} MB"
            ratios.append(Ratio(kind, name, 0, mine, theirs, theirs / mine, PEER, note=note))
    report.ratios("trees against fastcluster, distances included", ratios, "0.5x", "2x")


def compared(name: str, kind: str, threads: int) -> dict[str, dict[str, float]]:
    """Seconds and memory of both, and how far apart their heights are."""
    found: dict[str, dict[str, float]] = {}
    heights = {}
    with tempfile.TemporaryDirectory() as folder:
        for system in (PEER, OURS):
            path = Path(folder) / f"{system}.npy"
            command = (sys.executable, "-m", "benchmarks.hierarchy", system, kind, name)
            answer = subprocess.run((*command, str(threads), str(path)), cwd=ROOT, check=True,
                                    capture_output=True, text=True)  # fmt: skip
            found[system] = json.loads(answer.stdout)
            heights[system] = np.sort(np.load(path))
    # Against the median: the peer's distances of duplicates are square roots of rounding errors.
    apart = np.abs(heights[OURS] - heights[PEER]) / np.median(heights[PEER])
    found[OURS]["apart"] = float(apart.max())
    return found


def filled_rows(name: str) -> sp.csr_array:
    """The rows of a set that are not empty."""
    X = sp.csr_array(load(name).X)
    return X[np.flatnonzero(np.diff(X.indptr))]


def our_tree(X: sp.csr_array, kind: str, threads: int) -> np.ndarray:
    from sparsecluster import AgglomerativeClustering

    linkage, metric = KINDS[kind]
    return (
        AgglomerativeClustering(linkage=linkage, metric=metric, n_threads=threads).fit(X).linkage_
    )


def peer_tree(X: sp.csr_array, kind: str, threads: int) -> np.ndarray:
    """Products by scipy, block by block into the condensed array, then fastcluster in place."""
    import fastcluster

    X = X.astype(np.float64)
    norm2 = np.asarray(X.power(2).sum(axis=1)).ravel()
    if kind == "average":
        X = sp.csr_array(sp.diags_array(1 / np.sqrt(norm2)) @ X)
    n, transposed, at = X.shape[0], X.T.tocsr(), 0
    distances = np.empty(n * (n - 1) // 2)
    for begin in range(0, n, BLOCK):
        products = (X[begin : begin + BLOCK] @ transposed).toarray()
        for row, found in enumerate(products, start=begin):
            after = found[row + 1 :]
            if kind == "average":
                after = np.maximum(1 - after, 0)
            else:
                after = np.sqrt(np.maximum(norm2[row] + norm2[row + 1 :] - 2 * after, 0))
            distances[at : at + len(after)] = after
            at += len(after)
    return fastcluster.linkage(distances, kind, preserve_input=False)


SYSTEMS: dict[str, Any] = {OURS: our_tree, PEER: peer_tree}


def main() -> None:
    """Time one system, after a warm-up on a few rows for the imports."""
    system, kind, name, threads, path = sys.argv[1:]
    X = filled_rows(name)
    SYSTEMS[system](X[:50], kind, int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    linkage = SYSTEMS[system](X, kind, int(threads))
    seconds = time.perf_counter() - clock
    highest = memory.peak() or 0.0
    np.save(path, linkage[:, 2])
    sys.stdout.write(json.dumps({"seconds": seconds, "MB": highest - before}))


if __name__ == "__main__":
    main()
