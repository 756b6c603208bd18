"""How near the assignment tile is to what this machine's caches and memory allow.

Measured on the real rows and on the centers after a few iterations. The limit is the slower of two:
the same reads in the same order with nothing done to what is read, and the tile kernel where
everything it reads is in the first-level cache.
"""

from __future__ import annotations

import warnings
from statistics import median

from . import data
from .options import Options
from .report import Report
from .summary import Ratio

REPEATS = 7
NAMES = ("tile", "reads", "cached", "whole")


def measure(name: str, k: int, threads: int) -> dict[str, float]:
    """Multiply-adds per second, and the share of the entries that go through tiles."""
    from sparsecluster import KMeans, _core
    from sparsecluster.kmeans import centers
    from sparsecluster.rows.rows import as_rows

    X = data.load(name).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = KMeans(k, max_iter=3, random_state=0, n_threads=threads).fit(X)
    rows, found = as_rows(X, n_threads=threads), centers.to_core(model.cluster_centers_)
    runs = [_core.tile_rates(rows.core, found, threads) for _ in range(REPEATS)]
    return {key: median(run[key] for run in runs) for key in runs[0]}


def run(options: Options, report: Report, names: list[str]) -> None:
    """One line a set and K, and the share of the limit as a table of ratios."""
    ratios = []
    for name in names:
        for k in options.clusters((100, 1000), data.load(name)):
            rates = measure(name, k, options.threads)
            limit = min(rates["reads"], rates["cached"])
            figures = ", ".join(f"{key} {rates[key] / 1e9:.1f}" for key in NAMES)
            report.tell(
                f"roofline {name} K={k}, {options.threads} threads, 10^9 multiply-adds/s: "
                f"{figures}; {rates['entries']:.0%} of the entries are in tiles"
            )
            which = "the same reads alone" if limit == rates["reads"] else "all in cache"
            share = rates["tile"] / limit
            ratios.append(
                Ratio(
                    "roofline", name, k, rates["tile"] / 1e9, limit / 1e9, share, which, unit="G/s"
                )
            )
    title = "assignment tile, share of this machine's limit for the same reads"
    report.ratios(title, ratios, "0.60x", "0.85x")
