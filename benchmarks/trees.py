"""Balanced trees against libpecos's hierarchical k-means; and whether all bounds of sizes are kept.

libpecos asks for other versions of numpy and scipy, and for text encoders that its trees do not
use: where it is not installed, it gets an environment of its own in `build/`, without these.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import scipy.sparse as sp

from .data import ROOT, canonical, folder, load, unit_rows
from .environment import python_with
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio

SETS = ("debian-tfidf", "retail", "delicious")
LEAF, SEEDS, REPEATS = 100, 5, 2
OURS, PEER = "sparsecluster", "libpecos"
PINNED = "libpecos==1.2.8"
BOUNDS = ((2, 1), (16, 100), (3, 10), (64, 7), (5, 33))  # branching and largest leaf
N_SETS = 20


def run(options: Options, harness: Harness, report: Report) -> None:
    """Both systems in turn, seed by seed, then the bounds."""
    record = report.record["trees"] = {}
    python = pecos_python(report)
    ratios = []
    for name in options.data_sets(SETS):
        X = rows_of(name)
        found = compared(X, python, options.threads, harness.timeout)
        record[name] = found
        for system, one in found.items():
            report.tell(
                f"{name:14}{system:24}{one['seconds']:8.3f} s ({one['cpu']:.3f} s CPU)  "
                f"{one['leaves']:6} leaves of "
                f"{one['smallest']} to {one['largest']}   cost {one['cost']:.2f}   "
                f"peak {one['MB']:.0f} MB"
            )
        if PEER in found:
            mine, theirs = found[OURS], found[PEER]
            note = f"cost {mine['cost'] / theirs['cost']:.4f}x, {mine['MB']:.0f} MB against "
            note += f"{theirs['MB']:.0f} MB"
            speed = theirs["seconds"] / mine["seconds"]
            ratios.append(
                Ratio("tree", name, mine["leaves"], mine["seconds"], theirs["seconds"], speed, PEER,
                      note=note)
            )  # fmt: skip
    report.ratios("balanced trees against libpecos, leaf cost no higher", ratios, "4x", "10x")
    kept, violations = count_violations()
    record["bounds"] = {"trees": kept, "violations": violations}
    report.tell(f"bounds of sizes: {kept} trees of {N_SETS} sets, {violations} violations")


def rows_of(name: str) -> sp.csr_matrix:
    """The unit rows of a set; of a multi-label set the meta-labels."""
    if (folder() / name / "Y.npz").exists():
        from sparsecluster import metalabels

        Y = sp.csr_matrix(sp.load_npz(folder() / name / "Y.npz"))
        return canonical(unit_rows(sp.csr_matrix(metalabels(load(name).X, Y))))
    return load(name).X


def compared(
    X: sp.csr_matrix, python: str | None, threads: int, timeout: float
) -> dict[str, dict[str, Any]]:
    """Medians of the times and means of the costs. Ours may have as many leaves as the peer, whose
    number is a power of two, and no more; and beside that as few as its own plan needs."""
    n_rows = X.shape[0]
    of_peer = 2 ** max(1, math.ceil(math.log2(n_rows / LEAF)))
    systems = {OURS: (sys.executable, math.ceil(n_rows / of_peer))}
    systems["ours, leaves <= 100"] = (sys.executable, LEAF)
    if python is not None:
        systems[PEER] = (python, LEAF)
    turns: dict[str, list[dict[str, Any]]] = {system: [] for system in systems}
    with tempfile.TemporaryDirectory() as place:
        path, out = Path(place) / "X.npz", Path(place) / "labels.npy"
        sp.save_npz(path, X, compressed=False)
        for turn in range(SEEDS * REPEATS):
            for system, (interpreter, leaf) in systems.items():
                kind = PEER if system == PEER else OURS
                command = (interpreter, "-m", "benchmarks.tree_worker", kind, str(path), str(leaf))
                command += (str(turn % SEEDS), str(threads), str(out))
                answer = subprocess.run(
                    command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=timeout
                )
                labels = np.load(out)
                sizes = np.bincount(labels)
                turns[system].append(
                    json.loads(answer.stdout)
                    | {"cost": leaf_cost(X, labels), "leaves": len(sizes)}
                    | {"smallest": int(sizes.min()), "largest": int(sizes.max())}
                )
    return {
        system: {
            "seconds": median(one["seconds"] for one in taken),
            "cpu": median(one["cpu"] for one in taken),
            "MB": median(one["MB"] for one in taken),
            "cost": fmean(one["cost"] for one in taken),
            "leaves": taken[0]["leaves"],
            "smallest": min(one["smallest"] for one in taken),
            "largest": max(one["largest"] for one in taken),
        }
        for system, taken in turns.items()
    }


def leaf_cost(X: sp.csr_matrix, labels: np.ndarray) -> float:
    """The sum of 1 - cos of the rows with the directions of their leaves, in float64."""
    n_rows = X.shape[0]
    members = sp.csr_matrix((np.ones(n_rows), (labels, np.arange(n_rows))))
    sums = sp.csr_matrix(members @ X.astype(np.float64))
    return float(n_rows - np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1))).sum())


def pecos_python(report: Report) -> str | None:
    """An interpreter that has libpecos; None where it cannot be had."""
    libraries = ("numpy<2", "scipy<1.14", "scikit-learn")
    return python_with(report, "pecos", "pecos.xmc.base", ("--no-deps", PINNED), libraries)


# --- bounds --------------------------------------------------------------------------------------


def count_violations() -> tuple[int, int]:
    """Trees grown on sets of many kinds within many bounds, and how many leaves are outside."""
    from sparsecluster import ClusterTree

    trees = violations = 0
    for number in range(N_SETS):
        X = made_up(number)
        for branching, most in BOUNDS:
            for balanced in (True, False):
                fewest = (most + 1) // 2
                model = ClusterTree(branching=branching, max_leaf_size=most, random_state=number)
                model.set_params(min_leaf_size=fewest, balanced=balanced)
                model.set_params(metric=("cosine", "euclidean")[number % 2]).fit(X)
                sizes = np.bincount(model.labels_, minlength=model.n_leaves_)
                violations += int(np.count_nonzero((sizes < fewest) | (sizes > most)))
                for node in np.flatnonzero(model.tree_.n_children):
                    of_children = model.tree_.sizes[model.tree_.children(node)]
                    uneven = balanced and np.ptp(of_children) > 1
                    violations += int(uneven or len(of_children) > branching)
                trees += 1
    return trees, violations


def made_up(number: int) -> sp.csr_matrix:
    """Rows as text has them, with many equal ones, all equal, zero, or with values far away."""
    rng = np.random.default_rng(number)
    n, d = int(rng.integers(300, 3000)), int(rng.integers(3, 300))
    X = sp.random(n, d, density=min(1.0, 8 / d), random_state=rng, format="csr")
    kind = number % 5
    if kind == 1:
        X = X[rng.integers(0, 20, size=n)]
    elif kind == 2:
        X = sp.csr_matrix(np.ones((n, 3)))
    elif kind == 3:
        X.data = np.ceil(2 * X.data)
        X[: n // 2] *= 0
    elif kind == 4:
        X[0] *= 1e6
    return sp.csr_matrix(X)
