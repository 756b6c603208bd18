"""One tree by one system, in a process of its own; needs nothing but numpy, scipy and the system.

`python -m benchmarks.tree_worker SYSTEM X.npz LEAF SEED THREADS LABELS.npy` writes the leaf of each
row and prints seconds, those of the processor, and megabytes. Small trees are grown several times:
the time is the median.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from . import memory

BRANCHING = 16
# Trees of a few milliseconds are grown so often, or for so long: one alone measures the machine.
MOST_REPEATS, SECONDS = 25, 0.5


def our_tree(X: sp.csr_matrix, leaf: int, seed: int, threads: int) -> np.ndarray:
    from sparsecluster import ClusterTree

    model = ClusterTree(
        branching=BRANCHING, max_leaf_size=leaf, random_state=seed, n_threads=threads
    )
    return model.fit(X).labels_


def pecos_tree(X: sp.csr_matrix, leaf: int, seed: int, threads: int) -> np.ndarray:
    """Its hierarchical k-means: balanced 2-means, level by level, put together to 16 children."""
    from pecos.xmc.base import HierarchicalKMeans

    chain = HierarchicalKMeans.gen(
        X, nr_splits=BRANCHING, max_leaf_size=leaf, seed=seed, threads=threads
    )
    return sp.csr_matrix(chain[-1]).indices.astype(np.int32)


SYSTEMS: dict[str, Callable[[sp.csr_matrix, int, int, int], np.ndarray]] = {
    "sparsecluster": our_tree,
    "libpecos": pecos_tree,
}


def main() -> None:
    """Time one system, after a warm-up on some rows for the imports."""
    system, path, leaf, seed, threads, out = sys.argv[1:]
    X = sp.csr_matrix(sp.load_npz(path))
    work = SYSTEMS[system]
    work(X[:300], 100, 0, int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    taken: list[tuple[float, float]] = []
    while not taken or (len(taken) < MOST_REPEATS and sum(one for one, _ in taken) < SECONDS):
        clock, busy = time.perf_counter(), time.process_time()
        labels = work(X, int(leaf), int(seed), int(threads))
        taken.append((time.perf_counter() - clock, time.process_time() - busy))
    seconds, cpu = np.median(taken, axis=0).tolist()
    highest = (memory.peak() or 0.0) - before
    np.save(out, labels)
    sys.stdout.write(json.dumps({"seconds": seconds, "cpu": cpu, "MB": highest}))


if __name__ == "__main__":
    main()
