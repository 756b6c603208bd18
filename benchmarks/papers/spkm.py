"""SPKM-MCMC (Pratap, Deshmukh, Nair and Dutt): cost and seeding time against SPKM++, K = 10.

Cost: the objective 1.5 n - sum cos after convergence, median over the seeds, as a difference from
that of SPKM++. Time: a full-pass SPKM++ over that of the chains; medians again.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from .. import data
from . import output

K = 10
LENGTHS = (5, 30, 100, 500)
SETS = {"kos": "KOS", "bbc": "BBC", "nips": "NIPS", "20news-tfidf": "20News"}
PAPER_COST = {
    "kos": (-0.03, -0.07, -0.06, -0.43),
    "bbc": (0.07, -0.03, -0.03, 0.06),
    "nips": (0.08, 0.08, 0.09, -0.13),
    "20news-tfidf": (0.48, 0.03, -0.14, -0.08),
}
PAPER_SPEED = {
    "kos": (8.0, 7.6, 6.6, 4.0),
    "bbc": (7.5, 7.0, 5.7, 2.7),
    "nips": (5.4, 5.0, 4.2, 2.2),
    "20news-tfidf": (4.8, 3.3, 1.8, 0.5),
}


def measure(name: str, seeds: int, threads: int) -> dict[str, Any]:
    """Objectives and seeding seconds of SPKM++ and of the chains, seed by seed."""
    from sparsecluster import SphericalKMeans
    from sparsecluster.kmeans.seeding.registry import METHODS
    from sparsecluster.kmeans.setting import SeedSetting
    from sparsecluster.rows.metric import COSINE
    from sparsecluster.rows.rows import as_rows

    X = data.load(name).X
    rows = COSINE.rows(as_rows(X, n_threads=threads), n_threads=threads)
    ways: dict[str, tuple[str, dict[str, Any]]] = {"spkm++": ("spkm++", {})}
    ways |= {f"m={m}": ("mcmc", {"chain_length": m}) for m in LENGTHS}
    found: dict[str, Any] = {way: {"objective": [], "seconds": []} for way in ways}
    for seed in range(seeds):
        for way, (init, options) in ways.items():
            model = SphericalKMeans(
                K, init=init, init_options=options, random_state=seed, n_threads=threads
            ).fit(X)
            found[way]["objective"].append(model.objective_)
            # Without memory for columns every center costs a pass over all rows.
            setting = SeedSetting(
                random_state=np.random.RandomState(seed), memory_limit=0, n_threads=threads,
                metric=COSINE,
            )  # fmt: skip
            started = time.perf_counter()
            METHODS[init].load()(rows, K, setting, **options)
            found[way]["seconds"].append(time.perf_counter() - started)
    return found


def main() -> None:
    parsed = output.parser("spkm", __doc__ or "", seeds=20).parse_args()
    present = [name for name in parsed.data or SETS if name in data.available()]
    if not present:
        raise SystemExit(f"None of {', '.join(SETS)} in {data.folder()}: set SPARSECLUSTER_DATA.")
    found = {name: measure(name, parsed.seeds, parsed.threads) for name in present}
    cost: dict[str, list[float]] = {}
    speed: dict[str, list[float]] = {}
    for name, ways in found.items():
        base = {key: median(values) for key, values in ways["spkm++"].items()}
        cost[name] = [
            100 * (median(ways[f"m={m}"]["objective"]) / base["objective"] - 1) for m in LENGTHS
        ]
        speed[name] = [base["seconds"] / median(ways[f"m={m}"]["seconds"]) for m in LENGTHS]

    names = [SETS[name] for name in present]
    for title, ours, paper, form in (
        ("cost against SPKM++, ours (paper)", cost, PAPER_COST, "+.2f"),
        ("times faster than SPKM++ seeding, ours (paper)", speed, PAPER_SPEED, ".1f"),
    ):
        unit = "%" if ours is cost else "x"
        lines = []
        for j, m in enumerate(LENGTHS):
            pairs = [(ours[name][j], paper[name][j]) for name in present]
            texts = [f"{a:{form}}{unit} ({b:{form}}{unit})" for a, b in pairs]
            lines.append([f"m = {m}", *texts])
        output.show(f"{title}, K = {K}, {parsed.seeds} seeds", ["", *names], lines)
    output.save(parsed.out, {"cost": cost, "speed": speed, "runs": found})
    panels = {
        SETS[name]: {"ours": speed[name], "paper": list(PAPER_SPEED[name])} for name in present
    }
    output.bars(parsed.out, panels, [f"m={m}" for m in LENGTHS], "times faster than SPKM++")


if __name__ == "__main__":
    main()
