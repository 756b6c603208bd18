"""Fits of k-means-constrained: a program of its own, for a Python that has that package.

`python benchmarks/constrained.py FOLDER SIZE_MIN SIZE_MAX` reads X.npy and centers.npy in each
folder there and prints a line of JSON, with the lowest time of three fits of each. It imports
nothing else of the benchmarks: their environment may be another.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from k_means_constrained import KMeansConstrained


def main() -> None:
    folder, size_min, size_max = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    found = {one.name: fitted(one, size_min, size_max) for one in sorted(folder.iterdir())}
    sys.stdout.write(json.dumps(found))


def fitted(folder: Path, size_min: int, size_max: int) -> dict[str, float]:
    X, centers = np.load(folder / "X.npy"), np.load(folder / "centers.npy")
    model = KMeansConstrained(
        len(centers), size_min=size_min, size_max=size_max, init=centers, n_init=1, n_jobs=1
    )
    seconds = cpu = np.inf
    for _ in range(3):
        clock, used = time.perf_counter(), time.process_time()
        labels = model.fit(X).labels_
        seconds = min(seconds, time.perf_counter() - clock)
        cpu = min(cpu, time.process_time() - used)
    sizes = np.bincount(labels, minlength=len(centers))
    means = np.stack([X[labels == k].mean(axis=0) for k in range(len(centers))])
    return {
        "seconds": seconds,
        "cpu": cpu,
        "MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
        "cost": float(np.square(X - means[labels]).sum()),
        "broken": int(np.sum((sizes < size_min) | (sizes > size_max))),
        "iterations": int(model.n_iter_),
    }


if __name__ == "__main__":
    main()
