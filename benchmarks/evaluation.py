"""Silhouettes against scikit-learn's, choosing K against separate fits, known numbers of clusters.

`python -m benchmarks.evaluation TASK SYSTEM SET THREADS` is one measurement, in a process of its
own. `silhouettes`, `choosing`, `known` and `drawn` each give a table; other commands may call them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import data, known_clusters, memory
from .data import ROOT
from .harness import Harness
from .options import Options
from .processes import of_processes
from .report import Report
from .summary import Ratio

SETS = ("20news-tfidf",)
CLUSTERS = 20  # whose silhouette is measured
RANGE = range(2, 61)
KNOWN_RANGE = range(2, 41)
DRAWN = 80  # synthetic sets of drawn kinds
REPEATS = 3
OURS, SKLEARN, SEPARATE = "sparsecluster", "sklearn", "separate fits"


def run(options: Options, harness: Harness, report: Report) -> None:
    """All four."""
    silhouettes(options, harness, report)
    choosing(options, harness, report)
    known(options, harness, report)
    drawn(options, harness, report)


def silhouettes(options: Options, harness: Harness, report: Report) -> None:
    """The mean silhouette by cosine, of the same labels."""
    ratios = []
    for name in options.data_sets(SETS):
        found = {one: measure("silhouette", one, name, options, harness) for one in SILHOUETTES}
        _tell(report, "silhouette", name, found)
        ours, theirs = found[OURS], found[SKLEARN]
        if "seconds" in ours and "seconds" in theirs:
            apart = abs(ours["answer"] - theirs["answer"])
            less = theirs["MB"] / max(ours["MB"], 0.1)
            note = f"memory 1/{less:.0f} ({ours['MB']:.0f} MB), apart by {apart:.1e}"
            ratios.append(_ratio("silhouette", name, CLUSTERS, ours, theirs, SKLEARN, note))
    report.ratios("silhouette by cosine, against scikit-learn", ratios, "50x, memory 1/20")


def choosing(options: Options, harness: Harness, report: Report) -> None:
    """Clusterings for every K from 2 to 60: as a chain, with silhouettes and samples, and alone."""
    ratios = []
    for name in options.data_sets(SETS):
        found = {one: measure("choosing", one, name, options, harness) for one in CHOOSING}
        _tell(report, "choosing", name, found)
        ours, theirs = found[OURS], found[SEPARATE]
        if "seconds" in ours and "seconds" in theirs:
            costs, alone = np.array(ours["answer"]), np.array(theirs["answer"])
            falls = "falls" if np.all(np.diff(costs) < 0) else "DOES NOT FALL"
            note = f"cost {np.mean(costs / alone):.4f} of theirs on average, {falls} with K"
            ratios.append(_ratio("choose_k", name, RANGE[-1], ours, theirs, SEPARATE, note))
    title = f"choose_k from {RANGE[0]} to {RANGE[-1]} (silhouettes, stability) against fits alone"
    report.ratios(title, ratios, "3x", "6x")


def known(options: Options, harness: Harness, report: Report) -> None:
    """Whether the known number of clusters of five synthetic sets is found."""
    from sparsecluster import choose_k

    record = report.record["known clusters"] = []
    for make in known_clusters.SETS:
        one = make()
        begun = time.perf_counter()
        choice = choose_k(
            one.X, KNOWN_RANGE, metric=one.metric, random_state=0, n_threads=options.threads
        )
        taken = time.perf_counter() - begun
        found = {"set": one.name, "known": one.k, "chosen": choice.k, "seconds": taken}
        record.append(found | {"reason": choice.reason, "doubt": choice.doubt})
        report.tell(f"{one.name:32} known {one.k:3}   chosen {choice.k:3}   {taken:6.2f} s   "
                    f"doubt: {choice.doubt}")  # fmt: skip
    near = sum(abs(one["chosen"] - one["known"]) <= 1 for one in record)
    exact = sum(one["chosen"] == one["known"] for one in record)
    report.tell(f"within 1: {near} of {len(record)}; exact: {exact} of {len(record)}")
    report.save()


def drawn(options: Options, harness: Harness, report: Report) -> None:
    """The same of many sets with clusters of uneven sizes; those that are missed are told."""
    from sparsecluster import choose_k

    record = report.record["drawn clusters"] = []
    for number in range(known_clusters.UNSEEN, known_clusters.UNSEEN + DRAWN):
        one = known_clusters.drawn(number)
        choice = choose_k(
            one.X, KNOWN_RANGE, metric=one.metric, random_state=0, n_threads=options.threads
        )
        record.append({"set": one.name, "known": one.k, "chosen": choice.k})
        if abs(choice.k - one.k) > 1:
            report.tell(f"{one.name:40} known {one.k:3}   chosen {choice.k:3}   {choice.doubt}")
    for kind in known_clusters.KINDS:
        off = [abs(one["chosen"] - one["known"]) for one in record if kind in one["set"]]
        near, exact = sum(one <= 1 for one in off), sum(one == 0 for one in off)
        report.tell(f"{kind:10} of {len(off)} sets within 1: {near}; exact: {exact}")
    report.save()


def _tell(report: Report, task: str, name: str, found: dict[str, dict[str, Any]]) -> None:
    report.record.setdefault("evaluation", {})[f"{task} {name}"] = found
    for system, one in found.items():
        if "seconds" not in one:
            report.tell(f"{task:12}{name:16}{system:16}{one['message']}")
            continue
        answer = one["answer"] if isinstance(one["answer"], float) else one["answer"][-1]
        report.tell(f"{task:12}{name:16}{system:16}{one['seconds']:8.2f} s   peak "
                    f"{one['MB']:8.1f} MB   {answer:.10g}")  # fmt: skip


def _ratio(
    what: str, name: str, k: int, ours: dict[str, Any], theirs: dict[str, Any], peer: str, note: str
) -> Ratio:
    speed = theirs["seconds"] / ours["seconds"]
    return Ratio(what, name, k, ours["seconds"], theirs["seconds"], speed, peer, note=note)


def measure(
    task: str, system: str, name: str, options: Options, harness: Harness
) -> dict[str, Any]:
    """The median of some processes of ours, one of theirs."""
    return of_processes(
        "benchmarks.evaluation", task, system, name, options.threads,
        turns=REPEATS if system == OURS else 1, timeout=harness.timeout,
    )  # fmt: skip


# --- the systems ---------------------------------------------------------------------------------


def our_silhouette(X: sp.csr_matrix, labels: np.ndarray, threads: int) -> float:
    from sparsecluster import silhouette

    return silhouette(X, labels, metric="cosine", n_threads=threads)


def sklearn_silhouette(X: sp.csr_matrix, labels: np.ndarray, threads: int) -> float:
    from sklearn.metrics import silhouette_score

    return float(silhouette_score(X, labels, metric="cosine"))


def our_choice(X: sp.csr_matrix, _: np.ndarray, threads: int) -> list[float]:
    from sparsecluster import choose_k

    ks = [k for k in RANGE if k < X.shape[0]]
    return choose_k(X, ks, random_state=0, n_threads=threads).table["cost"].tolist()


def separate_fits(X: sp.csr_matrix, _: np.ndarray, threads: int) -> list[float]:
    from sparsecluster import KMeans

    ks = [k for k in RANGE if k < X.shape[0]]
    return [KMeans(k, random_state=0, n_threads=threads).fit(X).inertia_ for k in ks]


Work = Callable[[sp.csr_matrix, np.ndarray, int], Any]
SILHOUETTES: dict[str, Work] = {OURS: our_silhouette, SKLEARN: sklearn_silhouette}
CHOOSING: dict[str, Work] = {OURS: our_choice, SEPARATE: separate_fits}
TASKS = {"silhouette": SILHOUETTES, "choosing": CHOOSING}


def main() -> None:
    """Time one system, after a warm-up on a few rows for the imports."""
    from sparsecluster import KMeans

    task, system, name, threads = sys.argv[1:]
    X = data.load(name).X
    if task == "labels":
        labels = KMeans(CLUSTERS, random_state=0, n_threads=int(threads)).fit(X).labels_
        sys.stdout.write(json.dumps(labels.tolist()))
        return
    work, labels = TASKS[task][system], np.zeros(X.shape[0], dtype=int)
    if task == "silhouette":
        # In float64 for both, so that scikit-learn has all digits too; labels from another process,
        # whose memory is not there to be used again.
        X = X.astype(np.float64)
        command = (sys.executable, "-m", "benchmarks.evaluation", "labels", OURS, name, threads)
        made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        labels = np.array(json.loads(made.stdout))
    work(X[:200], np.arange(200) % 7, int(threads))
    memory.reset_peak()
    before = memory.current() or 0.0
    clock = time.perf_counter()
    answer = work(X, labels, int(threads))
    seconds = time.perf_counter() - clock
    highest = (memory.peak() or 0.0) - before
    sys.stdout.write(json.dumps({"seconds": seconds, "MB": highest, "answer": answer}))


if __name__ == "__main__":
    main()
