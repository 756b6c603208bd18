"""Random starts against k-means++ (Arthur and Vassilvitskii 2007, tables 1-4 of the course).

Average and minimum of the final loss, and the average time, over the seeds. Norm-25 is made as the
paper says: 25 centers in a cube of side 500, Gaussian rows of variance one around them. Its other
sets are not at hand; text takes their place, without a figure of the paper's.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from .. import data
from . import output

CLUSTERS = (10, 25, 50)
TEXT = ("classic3", "bbc", "20news-tfidf")
# (average, minimum) loss and average seconds, of random starts and of k-means++.
PAPER = {
    ("norm-25", 10): ((135512, 119201, 0.14), (126433, 111611, 0.13)),
    ("norm-25", 25): ((48050.5, 25734.6, 1.69), (15.8313, 15.8313, 0.26)),
    ("norm-25", 50): ((5466.02, 14.79, 3.79), (14.76, 14.73, 4.21)),
}
WAYS = {"random": "random", "k-means++": "plain-k-means++", "greedy": "k-means++"}


def norm25(n: int = 10_000, d: int = 15) -> np.ndarray:
    rng = np.random.default_rng(25)
    centers = rng.uniform(0, 500, size=(25, d))
    return centers[rng.integers(0, 25, size=n)] + rng.normal(size=(n, d))


def measure(X: Any, k: int, seeds: int, threads: int) -> dict[str, dict[str, float]]:
    """Average and least loss a row, and average seconds, of each way to start."""
    from sparsecluster import KMeans

    found = {}
    for way, init in WAYS.items():
        losses, seconds = [], []
        for seed in range(seeds):
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = KMeans(k, init=init, random_state=seed, n_threads=threads).fit(X)
            seconds.append(time.perf_counter() - started)
            losses.append(model.inertia_ / X.shape[0])
        found[way] = {
            "average": float(np.mean(losses)),
            "minimum": float(np.min(losses)),
            "seconds": float(np.mean(seconds)),
        }
    return found


def main() -> None:
    parsed = output.parser("initialisation", __doc__ or "", seeds=20).parse_args()
    names = parsed.data or ["norm-25", *(name for name in TEXT if name in data.available())]
    found: dict[str, Any] = {}
    for name in names:
        X = norm25() if name == "norm-25" else data.load(name).X
        lines = []
        for k in CLUSTERS:
            ways = measure(X, k, parsed.seeds, parsed.threads)
            found[f"{name} K={k}"] = ways
            paper = dict(zip(("random", "k-means++"), PAPER.get((name, k), ()), strict=False))
            for way, figures in ways.items():
                theirs = paper.get(way)
                beside = [f"{value:g}" for value in theirs] if theirs else ["-"] * 3
                ours = [f"{value:.5g}" for value in figures.values()]
                pairs = zip(ours, beside, strict=True)
                lines.append([f"K = {k}, {way}", *(text for pair in pairs for text in pair)])
        columns = ["", "average", "paper", "minimum", "paper", "seconds", "paper"]
        output.show(f"loss a row, {name}, {parsed.seeds} seeds", columns, lines)
    output.save(parsed.out, {"found": found})

    def relative(name: str, way: str) -> list[float]:
        by_k = [found[f"{name} K={k}"] for k in CLUSTERS]
        return [ways[way]["average"] / ways["random"]["average"] for ways in by_k]

    panels = {name: {way: relative(name, way) for way in WAYS} for name in names}
    output.bars(parsed.out, panels, [f"K={k}" for k in CLUSTERS], "average loss, random = 1")


if __name__ == "__main__":
    main()
