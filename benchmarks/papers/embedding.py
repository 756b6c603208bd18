"""Sparse embedded k-means (Liu, Shen and Tsang 2017): figures 1-3.

Clustering accuracy, reduction time and clustering time against the number of dimensions, of every
way to shrink the rows and of plain k-means; the cost in the original space beside. The paper's sets
are COIL20, SECTOR, RCV1 and ILSVRC2012; of SECTOR and RCV1 parts are at hand, 20News and
scikit-learn's digits stand in for the others, and `--path NAME=FILE` adds any file with labels. A
method runs in a process of its own, set by set, until it is done or its time is up; what it left
out is said.

`python -m benchmarks.papers.embedding --worker SET METHOD ...` is one such process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import data, measure, memory
from ..data import ROOT
from . import embedding_figures, output

SETS = ("digits", "sector", "rcv1", "20news-tfidf")
DIMENSIONS = (10, 50, 100, 200, 500, 1000)
QUICK = {"sets": ("digits", "sector"), "dimensions": (20, 100, 500), "seeds": 2, "budget": 8.0}
# As the paper abbreviates them; FS (its reference [12]) and SRP are not in its figures.
METHODS = {
    "k-means": "", "SE": "sparse-embedding", "RP": "random-signs", "SRP": "sparse-projection",
    "SVD": "svd", "FS": "svd-selection", "LS": "laplacian-score", "LLE": "lle", "PD": "sparsified",
}  # fmt: skip


@dataclass(frozen=True)
class Labelled:
    """Rows and their classes, numbered from 0."""

    X: Any
    classes: np.ndarray

    @property
    def k(self) -> int:
        return int(self.classes.max()) + 1


def load(name: str, paths: dict[str, str]) -> Labelled:
    """A set by its name: text has unit rows, images and files are as they are."""
    if name in paths:
        from sparsecluster import read

        rows = read(paths[name])
        if rows.labels is None or sp.issparse(rows.labels):
            raise SystemExit(f"{paths[name]} has no labels, or several per row: one is needed.")
        return Labelled(rows.matrix, np.unique(rows.labels, return_inverse=True)[1])
    if name == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        return Labelled(np.float32(digits.data), digits.target)
    X, folder = data.load(name).X, data.folder() / name
    if (folder / "y.npy").exists():
        return Labelled(X, np.unique(np.load(folder / "y.npy"), return_inverse=True)[1])
    kept, classes = second_level(sp.csr_array(sp.load_npz(folder / "Y.npz")))
    return Labelled(X[kept], np.unique(classes, return_inverse=True)[1])


def second_level(Y: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one second-level topic and which, as LIBSVM makes rcv1.multiclass.

    The hierarchy follows from the labels: a topic is above another if it has 99% of its rows.
    """
    Y = Y.astype(np.float64)
    shared = (Y.T @ Y).toarray()
    sizes = shared.diagonal()
    above = (shared >= 0.99 * sizes) & (sizes[:, None] > sizes) & (sizes > 0)
    topics = sp.csr_array(Y[:, np.flatnonzero(above.sum(axis=0) == 1)])
    kept = np.flatnonzero(np.diff(topics.indptr) == 1)
    return kept, topics[kept].indices


def dimensions_of(n_features: int, asked: tuple[int, ...]) -> list[int]:
    """Those asked for, or parts of the columns where these are fewer than most of them."""
    if n_features > max(asked):
        return list(asked)
    return sorted({max(1, round(n_features * part)) for part in (0.06, 0.125, 0.25, 0.5, 0.75)})


# --- one process ---------------------------------------------------------------------------------


def worker(arguments: list[str]) -> None:
    """A line of JSON for each measurement of one method on one set; the first seed first."""
    given = json.loads(arguments[0])
    warnings.simplefilter("ignore")
    named = load(given["set"], given["paths"])
    dimensions = dimensions_of(named.X.shape[1], tuple(given["dimensions"]))
    warm_up()
    for seed in range(given["seeds"]):
        for d in dimensions if given["method"] != "k-means" else [0]:
            try:
                found = one(named, given["method"], d, seed, given["threads"], given["memory"])
            except ValueError as error:
                found = {"skipped": str(error)}
            sys.stdout.write(json.dumps({"d": d, "seed": seed, **found}) + "\n")
            sys.stdout.flush()


def warm_up() -> None:
    """Imports and thread pools."""
    from sparsecluster import KMeans, SparsifiedKMeans, reduce

    X = sp.random_array((60, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
    for method in filter(None, METHODS.values()):
        reduce(X, method, 4, random_state=0)
    KMeans(2, random_state=0).fit(X)
    SparsifiedKMeans(2, n_components=4, random_state=0).fit(X)


def one(
    named: Labelled, method: str, d: int, seed: int, threads: int, limit: float
) -> dict[str, float]:
    """Times, accuracy and cost of one clustering."""
    from sparsecluster import KMeans, SparsifiedKMeans, clustering_accuracy, reduce

    shared = {"random_state": seed, "n_threads": threads, "memory_limit": int(limit)}
    X, k = named.X, named.k
    memory.reset_peak()
    before = memory.current() or 0.0
    clock, processor = time.perf_counter(), time.process_time()
    if method == "PD":
        model = SparsifiedKMeans(k, n_components=d, **shared).fit(X)
        seconds = (model.seconds_["sparsification"], model.seconds_["clustering"])
        columns = d
    else:
        small = X
        if method != "k-means":
            options = {"n_clusters": min(k, *X.shape)} if method == "FS" else {}
            small = reduce(X, METHODS[method], d, **shared, **options)
        middle = time.perf_counter()
        model = KMeans(k, **shared).fit(small)
        seconds = (middle - clock, time.perf_counter() - middle)
        columns = small.shape[1]
    processor = time.process_time() - processor
    peak = (memory.peak() or 0.0) - before
    return {
        "columns": columns, "reduction": seconds[0] if method != "k-means" else 0.0,
        "clustering": seconds[1], "processor": processor, "MB": peak,
        "accuracy": clustering_accuracy(named.classes, model.labels_),
        "cost": measure.cost_of_labels(sp.csr_matrix(X), model.labels_),
    }  # fmt: skip


# --- all of them ---------------------------------------------------------------------------------


def run(name: str, method: str, given: dict[str, Any], budget: float) -> dict[str, Any]:
    """What one method did on one set within its time, and what it left out and why."""
    command = [sys.executable, "-m", "benchmarks.papers.embedding", "--worker"]
    command.append(json.dumps(given | {"set": name, "method": method}))
    why = ""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=complaints)
        try:
            if process.wait(timeout=budget):
                complaints.seek(0)
                lines = complaints.read().strip().splitlines()
                why = lines[-1] if lines else f"ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            why = f"more than {budget:.0f} s"
        finally:
            process.kill()
            process.wait()
        told.seek(0)
        lines = told.read().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    runs = [one for one in found if "skipped" not in one]
    reasons = {one["d"]: one["skipped"] for one in found if "skipped" in one}
    return {"runs": runs, "skipped": reasons, "stopped": why}


def parser() -> argparse.ArgumentParser:
    made = output.parser("embedding", __doc__ or "", seeds=5)
    made.set_defaults(seeds=None)
    made.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    made.add_argument("--dimensions", nargs="+", type=int, metavar="D")
    made.add_argument("--budget", type=float, metavar="SECONDS",
                      help="time of a method on a set (300)")  # fmt: skip
    made.add_argument("--memory", type=float, metavar="GB", help="what a method may use (60%%)")
    made.add_argument("--path", action="append", default=[], metavar="NAME=FILE",
                      help="another set: a file with labels that `read` takes")  # fmt: skip
    made.add_argument("--quick", action="store_true", help="two sets, few dimensions: two minutes")
    return made


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        return worker(sys.argv[2:])
    made = parser()
    parsed = made.parse_args()
    paths = dict(one.split("=", 1) for one in parsed.path if "=" in one)
    if len(paths) < len(parsed.path):
        made.error("--path takes NAME=FILE, each name once")
    paths = {name: str(Path(path).resolve()) for name, path in paths.items()}
    present = {"digits", *data.available(), *paths}
    usual = (*(QUICK["sets"] if parsed.quick else SETS), *paths)
    names = [name for name in parsed.data or usual if name in present]
    for name in set(parsed.data or usual) - set(names):
        output.tell(f"{name}: not in {data.folder()} (set SPARSECLUSTER_DATA, or use --path)")
    if not names:
        raise SystemExit("No set is left to measure.")
    budget = parsed.budget or (QUICK["budget"] if parsed.quick else 300.0)
    given = {
        "dimensions": parsed.dimensions or (QUICK["dimensions"] if parsed.quick else DIMENSIONS),
        "seeds": parsed.seeds or (QUICK["seeds"] if parsed.quick else 5), "threads": parsed.threads,
        "memory": 1e9 * parsed.memory if parsed.memory else 0.6e6 * memory.total(), "paths": paths,
    }  # fmt: skip
    found: dict[str, Any] = {}
    for name in names:
        named = load(name, paths)
        found[name] = {
            "rows": named.X.shape[0], "columns": named.X.shape[1], "classes": named.k,
            "nnz": int(np.count_nonzero(sp.csr_matrix(named.X).data)), "methods": {},
            "largest": float(np.bincount(named.classes).max() / len(named.classes)),
        }  # fmt: skip
        for method in parsed.methods:
            found[name]["methods"][method] = result = run(name, method, given, budget)
            output.tell(f"{name}: {method}: {embedding_figures.in_short(result)}")
            embedding_figures.keep(parsed.out, found, given, budget)
        embedding_figures.show(name, found[name])
    for paragraph in embedding_figures.verdict(found):
        output.tell(paragraph)
    output.save(parsed.out, embedding_figures.record(found, given, budget))
    embedding_figures.draw(parsed.out, found)


if __name__ == "__main__":
    main()
