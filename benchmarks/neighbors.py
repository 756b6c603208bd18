"""Graphs of near rows and DBSCAN by cosine, against scikit-learn and sparse_dot_topn.

`python -m benchmarks.neighbors TASK SYSTEM SET THREADS` is one measurement, in a process of its
own. Every system gets unit rows in float32; a digest of the answer shows whether they agree.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, memory
from .harness import Harness
from .options import Options
from .processes import of_processes
from .report import Report
from .summary import Ratio

SETS = ("debian-tfidf", "20news-tfidf")
RADIUS, K, MIN_SAMPLES = 0.5, 10, 5
REPEATS = 3
OURS, SKLEARN, TOPN = "sparsecluster", "sklearn", "sparse_dot_topn"


def run(options: Options, harness: Harness, report: Report) -> None:
    """Each task on each set: ours some times, a peer once where it is slow."""
    record = report.record["neighbors"] = {}
    for task, (title, wanted, aim) in TITLES.items():
        ratios = []
        for name in options.data_sets(SETS):
            found = {
                system: measure(task, system, name, options.threads, harness.timeout)
                for system in SYSTEMS[task]
                if system != TOPN or find_spec(TOPN)
            }
            record[f"{task} {name}"] = found
            for system, one in found.items():
                report.tell(f"{task:8}{name:16}{system:18}{told(one)}")
            ratios += ratio(task, name, found)
        report.ratios(title, ratios, wanted, aim)


def told(one: dict[str, Any]) -> str:
    if "seconds" not in one:
        return str(one["message"])
    return f"{one['seconds']:8.2f} s   peak {one['MB']:8.1f} MB   {one['answer']}"


def ratio(task: str, name: str, found: dict[str, dict[str, Any]]) -> list[Ratio]:
    """Ours against the fastest peer, with the ratio of the memory beside."""
    peers = {system: one for system, one in found.items() if system != OURS and "seconds" in one}
    if not peers or "seconds" not in found[OURS]:
        return []
    best = min(peers, key=lambda system: peers[system]["seconds"])
    mine, theirs = found[OURS], peers[best]
    note = f"memory 1/{theirs['MB'] / max(mine['MB'], 0.1):.0f} ({mine['MB']:.0f} MB)"
    speed = theirs["seconds"] / mine["seconds"]
    return [Ratio(task, name, K, mine["seconds"], theirs["seconds"], speed, best, note=note)]


def measure(task: str, system: str, name: str, threads: int, timeout: float) -> dict[str, Any]:
    turns = REPEATS if system == OURS else 1
    return of_processes(
        "benchmarks.neighbors", task, system, name, threads, turns=turns, timeout=timeout
    )


# --- the systems ---------------------------------------------------------------------------------


def our_radius(X: sp.csr_matrix, threads: int) -> str:
    from sparsecluster import radius_graph

    return f"{radius_graph(X, RADIUS, n_threads=threads).nnz} entries"


def sklearn_radius(X: sp.csr_matrix, threads: int) -> str:
    from sklearn.neighbors import radius_neighbors_graph

    graph = radius_neighbors_graph(
        X, RADIUS, mode="distance", metric="cosine", include_self=True, n_jobs=threads
    )
    return f"{graph.nnz} entries"


def our_knn(X: sp.csr_matrix, threads: int) -> str:
    from sparsecluster import knn_graph

    return f"sum {knn_graph(X, K, n_threads=threads).sum():.4f}"


def sklearn_knn(X: sp.csr_matrix, threads: int) -> str:
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=K, metric="cosine", algorithm="brute", n_jobs=threads)
    return f"sum {search.fit(X).kneighbors_graph(mode='distance').sum():.4f}"


def topn_knn(X: sp.csr_matrix, threads: int) -> str:
    from sparse_dot_topn import sp_matmul_topn

    cosines = sp_matmul_topn(X, X.T.tocsr(), top_n=K + 1, sort=True, n_threads=threads)
    return f"sum {X.shape[0] * (K + 1) - cosines.sum(dtype=np.float64):.4f}"


def our_dbscan(X: sp.csr_matrix, threads: int) -> str:
    from sparsecluster import DBSCAN

    return clusters(DBSCAN(RADIUS, min_samples=MIN_SAMPLES, n_threads=threads).fit(X).labels_)


def sklearn_dbscan(X: sp.csr_matrix, threads: int) -> str:
    from sklearn.cluster import DBSCAN

    model = DBSCAN(eps=RADIUS, min_samples=MIN_SAMPLES, metric="cosine", n_jobs=threads)
    return clusters(model.fit(X).labels_)


def clusters(labels: np.ndarray) -> str:
    return f"{labels.max() + 1} clusters, {np.count_nonzero(labels < 0)} noise"


SYSTEMS: dict[str, dict[str, Callable[[sp.csr_matrix, int], str]]] = {
    "radius": {OURS: our_radius, SKLEARN: sklearn_radius},
    "knn": {OURS: our_knn, SKLEARN: sklearn_knn, TOPN: topn_knn},
    "dbscan": {OURS: our_dbscan, SKLEARN: sklearn_dbscan},
}
TITLES = {
    "radius": (f"radius graph, cosine {RADIUS}, against scikit-learn", "8x", "50x"),
    "knn": (f"knn graph, k={K}, cosine, against the best peer", "4x", "15x"),
    "dbscan": (f"DBSCAN, cosine {RADIUS}, against scikit-learn", "8x", "50x"),
}


def main() -> None:
    """Time one system, after a warm-up on a few rows for the imports."""
    task, system, name, threads = sys.argv[1:]
    work, X = SYSTEMS[task][system], data.load(name).X
    work(X[:50], int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    answer = work(X, int(threads))
    seconds = time.perf_counter() - clock
    highest = (memory.peak() or 0.0) - before
    sys.stdout.write(json.dumps({"seconds": seconds, "MB": highest, "answer": answer}))


if __name__ == "__main__":
    main()
