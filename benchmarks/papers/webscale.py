"""Web-scale k-means (Sculley 2010): figure 1, and the table of sparse centers.

Objectives are those of held-out rows, as a fraction above what the full batch converges to from the
same random rows. The paper has 781,265 rows of RCV1 to learn from and 23,149 to test on; the sets
here are smaller, so a full batch costs less, and of all rows a fifth is held out.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import data
from . import output

SETS = ("rcv1", "debian-tfidf", "linux-tfidf")
K, BATCH, STEPS = 10, 1000, 16
# method and lambda: non-zeros, objective (mean, low, high), processor seconds.
PAPER: dict[tuple[str, float | None], tuple[int, tuple[float, ...], float]] = {
    ("full batch", None): (200_319, (0.0, 0.0, 0.0), 133.96),
    ("exact", 5.0): (46_446, (0.004, 0.002, 0.006), 0.51),
    ("epsilon", 5.0): (44_060, (0.007, 0.005, 0.008), 0.27),
    ("exact", 1.0): (3_181, (0.018, 0.016, 0.019), 0.48),
    ("epsilon", 1.0): (2_547, (0.028, 0.027, 0.029), 0.19),
}
Curve = list[tuple[float, float]]


class Trial:
    """One split into rows to learn from and rows to test on, and one random start."""

    def __init__(self, X: sp.csr_matrix, seed: int, threads: int) -> None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(X.shape[0])
        self.test = X[order[: X.shape[0] // 5]]
        self.train = X[order[X.shape[0] // 5 :]]
        self.start = self.train[np.sort(rng.choice(self.train.shape[0], K, replace=False))]
        self.rng, self.threads = rng, threads

    def full_batch(self, stop: int | None = None) -> tuple[float, float, Any]:
        """Seconds (of the clock and of the processor) up to an iteration, and the model."""
        from sparsecluster import KMeans

        def watch(record: Any) -> bool:
            return record.iteration == stop

        options = {"init": self.start, "n_threads": self.threads, "callback": watch}
        clock, processor = time.perf_counter(), time.process_time()
        model = KMeans(K, **options).fit(self.train)
        return time.perf_counter() - clock, time.process_time() - processor, model

    def stream(self, **options: Any) -> Any:
        from sparsecluster import MiniBatchKMeans

        return MiniBatchKMeans(
            K, init=self.start, n_threads=self.threads, reassignment_ratio=0, **options
        )

    def batch(self, size: int) -> sp.csr_matrix:
        return self.train[np.sort(self.rng.choice(self.train.shape[0], size, replace=False))]

    def objective(self, model: Any) -> float:
        return -float(model.score(self.test))


def batch_curve(trial: Trial, iterations: int) -> Curve:
    curve = []
    for stop in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        if stop <= iterations:
            seconds, _, model = trial.full_batch(stop)
            curve.append((seconds, trial.objective(model)))
    return curve


def stream_curve(trial: Trial, size: int, most: int) -> Curve:
    """Objectives after 1, 2, 4, ... batches; only partial_fit is on the clock."""
    model, spent, curve = trial.stream(), 0.0, []
    for step in range(1, most + 1):
        batch = trial.batch(size)
        started = time.perf_counter()
        model.partial_fit(batch)
        spent += time.perf_counter() - started
        if step & (step - 1) == 0:
            curve.append((spent, trial.objective(model)))
    return curve


def sparse_centers(trial: Trial, method: str, radius: float) -> dict[str, float]:
    """STEPS mini-batches with projected centers."""
    model = trial.stream(center_l1=radius, projection=method)
    batches = [trial.batch(BATCH) for _ in range(STEPS)]
    started = time.process_time()
    for batch in batches:
        model.partial_fit(batch)
    seconds = time.process_time() - started
    return {
        "nnz": model.cluster_centers_.nnz,
        "objective": trial.objective(model),
        "seconds": seconds,
    }


def projection_seconds(centers: sp.csr_array, radius: float) -> dict[str, float]:
    """Time to project the centers of a full batch, either way."""
    from sparsecluster import project_l1

    def least(method: str) -> float:
        times = []
        for _ in range(20):
            started = time.perf_counter()
            project_l1(centers, radius, method=method)
            times.append(time.perf_counter() - started)
        return min(times)

    return {method: least(method) for method in ("exact", "epsilon")}


def measure(name: str, seeds: int, threads: int) -> dict[str, Any]:
    X = data.load(name).X
    table: dict[str, list[dict[str, float]]] = {}
    figure: dict[str, Curve] = {}
    projections: dict[str, dict[str, float]] = {}
    for seed in range(seeds):
        trial = Trial(X, seed, threads)
        _, processor, best = trial.full_batch()
        base = trial.objective(best)

        def above(curve: Curve, base: float = base) -> Curve:
            return [(seconds, objective / base - 1) for seconds, objective in curve]

        full = {"nnz": best.cluster_centers_.nnz, "objective": 0.0, "seconds": processor}
        table.setdefault("full batch", []).append(full)
        for method, radius in PAPER:
            if radius is not None:
                one = sparse_centers(trial, method, radius)
                one["objective"] = one["objective"] / base - 1
                table.setdefault(f"{method} {radius:g}", []).append(one)
        if seed == 0:
            ways: dict[str, Callable[[], Curve]] = {
                "full batch": lambda trial=trial, n=best.n_iter_: batch_curve(trial, n),
                "mini-batch, b=1000": lambda trial=trial: stream_curve(trial, BATCH, 256),
                "online, b=1": lambda trial=trial: stream_curve(trial, 1, 16384),
            }
            figure = {way: above(make()) for way, make in ways.items()}
            for radius in (5.0, 1.0):
                projections[f"{radius:g}"] = projection_seconds(best.cluster_centers_, radius)
    return {"table": table, "figure": figure, "projections": projections}


def line(method: str, radius: float | None, runs: list[dict[str, float]]) -> list[str]:
    nnz, objectives, seconds = (
        [run[key] for run in runs] for key in ("nnz", "objective", "seconds")
    )
    paper_nnz, paper_objective, paper_seconds = PAPER[method, radius]
    spread = f"{np.mean(objectives):.4f} ({min(objectives):.4f} .. {max(objectives):.4f})"
    low, high = paper_objective[1:]
    return [
        method if radius is None else f"{method}, lambda {radius:g}",
        f"{np.mean(nnz):,.0f}", f"{paper_nnz:,}",
        "0 (baseline)" if radius is None else spread,
        "0 (baseline)" if radius is None else f"{paper_objective[0]:.3f} ({low:.3f} .. {high:.3f})",
        f"{np.median(seconds):.3f}", f"{paper_seconds:.2f}",
    ]  # fmt: skip


def main() -> None:
    parsed = output.parser("webscale", __doc__ or "", seeds=5).parse_args()
    present = [name for name in parsed.data or SETS if name in data.available()]
    if not present:
        raise SystemExit(f"None of {', '.join(SETS)} in {data.folder()}: set SPARSECLUSTER_DATA.")
    warnings.simplefilter("ignore")
    found = {}
    for name in present:
        found[name] = one = measure(name, parsed.seeds, parsed.threads)
        lines = [
            line(method, radius, one["table"][method if radius is None else f"{method} {radius:g}"])
            for method, radius in PAPER
        ]
        columns = ["", "non-zeros", "paper", "test objective", "paper", "CPU s", "paper"]
        output.show(
            f"{name}: K={K}, b={BATCH}, t={STEPS}, {parsed.seeds} seeds; paper: RCV1",
            columns,
            lines,
        )
        for radius, seconds in one["projections"].items():
            output.tell(
                f"{name}: projecting the full batch's centers, lambda {radius}: exact "
                f"{seconds['exact'] * 1e3:.2f} ms, epsilon {seconds['epsilon'] * 1e3:.2f} ms, "
                f"{seconds['exact'] / seconds['epsilon']:.1f}x"
            )
        for way, curve in one["figure"].items():
            at = ", ".join(f"{seconds:.3g} s {above:+.2%}" for seconds, above in curve[::3])
            output.tell(f"{name}: {way}: {at}")
    output.save(parsed.out, {"found": found})
    output.lines(
        parsed.out,
        {name: one["figure"] for name, one in found.items()},
        ("seconds", "test objective above full batch's"),
        top=0.1,
    )


if __name__ == "__main__":
    main()
