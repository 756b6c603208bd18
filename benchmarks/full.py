"""Everything against everybody: fit, seeding, predict, memory, large K, auto, threads, roofline.

Each part is a function that measures and reports one row of the table of goals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf

from . import data, plots, roofline
from .data import Dataset
from .harness import Harness
from .options import Options
from .report import Report
from .summary import Ratio, Summary, against_best, over
from .systems import OURS
from .task import FIT, PREDICT, SEED, SPHERE, Task

DATA = ("20news-tfidf", "debian-tfidf", "linux-tfidf", "rcv1", "retail", "scrna")
PEERS = (
    "sklearn-elkan", "sklearn-lloyd", "sparsekmeans-lloyd", "sparsekmeans-elkan",
    "sklearnex", "faiss", "soyclustering",
)  # fmt: skip
FIXED = ("sparsecluster-lloyd", "sparsecluster-elkan", "sparsecluster-hamerly")
GOALS = {100: ("12x", "30x"), 1000: ("30x", "80x")}
LARGE = "debian-tfidf"


class Full:
    """The parts of the full benchmark share the data, the harness and the report."""

    def __init__(self, options: Options, harness: Harness, report: Report) -> None:
        self.options, self.harness, self.report = options, harness, report
        self.names = options.data_sets(DATA)

    def compare(
        self, kind: str, dataset: Dataset, k: int, systems: Iterable[str], title: str
    ) -> list[Summary]:
        """Measure and print one table."""
        task = Task(kind, k, threads=self.options.threads)
        summaries = self.harness.compare(dataset, task, systems, self.options.seeds(3))
        self.report.systems(f"{title}, {dataset.name}, K={k}", summaries)
        return summaries

    def against_peers(
        self, kind: str, k: int, title: str, wanted: str = "", aim: str = ""
    ) -> list[list[Summary]]:
        """One kind of work at one K on all sets, with a table of ratios and a panel."""
        found, systems = [], self.options.systems((OURS, *PEERS))
        for name in self.names:
            dataset = data.load(name)
            if k in self.options.clusters((k,), dataset):
                found.append(self.compare(kind, dataset, k, systems, title))
        everything = [one for summaries in found for one in summaries]
        self.report.panels.append(plots.panel_of(f"{title}, K={k}", everything))
        ratios = [against_best(kind, summaries) for summaries in found]
        self.report.ratios(f"{title} against the best peer, K={k}", ratios, wanted, aim)
        return found

    def fit(self) -> None:
        """Whole fits, and from the same runs the peak memory."""
        for k in self.options.parsed.k or GOALS:
            found = self.against_peers(FIT, k, "whole fit", *GOALS.get(k, ("", "")))
            ratios = [against_best("memory", one, measure="memory") for one in found]
            title = f"peak memory beyond the data, lowest of the peers over ours, K={k}"
            self.report.ratios(title, ratios, *(("4x", "10x") if k == 1000 else ()))

    def seed(self) -> None:
        """Greedy k-means++ alone; the cost is the potential of the chosen rows."""
        for k in self.options.parsed.k or (1000,):
            self.against_peers(SEED, k, "greedy k-means++ alone", "30x at potential 1.01", "100x")

    def predict(self) -> None:
        for k in self.options.parsed.k or (1000,):
            self.against_peers(PREDICT, k, "predict", "10x", "30x")

    def sphere(self) -> None:
        """Whole fits by cosine, against all that can do it; scikit-learn on unit rows."""
        for k in self.options.parsed.k or (100,):
            self.against_peers(SPHERE, k, "spherical k-means", "10x", "30x")

    def large(self) -> None:
        """Ours at ten times the clusters."""
        name = LARGE if LARGE in self.names else self.names[0]
        dataset = data.load(name)
        low, high = (1000, 10_000) if dataset.X.shape[0] > 20_000 else (100, 1000)
        few, many = (self.compare(FIT, dataset, k, (OURS,), "large K") for k in (low, high))
        ratios = [own_ratio("large", many[0], few[0], f"K={low:,}")] if few and many else []
        self.report.ratios("time at ten times the clusters", ratios, "6x or less", "3x")

    def auto(self) -> None:
        """`auto` over the best fixed algorithm; all must give the same labels."""
        ratios = []
        for name in self.names:
            dataset = data.load(name)
            for k in self.options.clusters((100, 1000), dataset):
                found = self.compare(FIT, dataset, k, (OURS, *FIXED), "auto and fixed algorithms")
                fixed = [one for one in found if one.system != OURS and not one.limited]
                if found and found[0].system == OURS and fixed:
                    best = min(fixed, key=lambda one: one.seconds or inf)
                    ratios.append(own_ratio("auto", found[0], best, best.system))
        self.report.ratios("auto over the best fixed algorithm", ratios, "1.1x or less", "1.0x")

    def threads(self) -> None:
        """All threads against one; the labels must be the same."""
        ratios = []
        for name in self.names:
            dataset = data.load(name)
            for k in self.options.clusters((1000,), dataset):
                many = Task(FIT, k, threads=self.options.threads)
                seeds = self.options.seeds(3)
                several = self.harness.compare(dataset, many, (OURS,), seeds)
                alone = self.harness.compare(dataset, replace(many, threads=1), (OURS,), seeds)
                if several and alone:
                    ratio = own_ratio("threads", several[0], alone[0], "one thread")
                    if ratio:
                        value = over(ratio.theirs, ratio.ours)
                        ratios.append(replace(ratio, value=value, bound=alone[0].limited))
        title = f"{self.options.threads} threads against one"
        self.report.ratios(title, ratios, "1.7x", "1.9x")

    def roofline(self) -> None:
        """The assignment tile against what the machine allows for the same reads."""
        roofline.run(self.options, self.report, self.names)


def own_ratio(what: str, ours: Summary, other: Summary, label: str) -> Ratio | None:
    """Our time over another of our own runs; at the same K the labels must be equal."""
    if ours.limited or ours.seconds is None:
        return None
    same = "same labels" if ours.digests == other.digests else "LABELS DIFFER"
    return Ratio(
        what, ours.data, ours.k, ours.seconds, other.seconds, over(ours.seconds, other.seconds),
        label, cost=over(ours.cost, other.cost), note=same if ours.k == other.k else "",
    )  # fmt: skip


PARTS: dict[str, Callable[[Full], None]] = {
    "fit": Full.fit,
    "seed": Full.seed,
    "predict": Full.predict,
    "sphere": Full.sphere,
    "large": Full.large,
    "auto": Full.auto,
    "threads": Full.threads,
    "roofline": Full.roofline,
}


def run(options: Options, harness: Harness, report: Report) -> None:
    full = Full(options, harness, report)
    for name in options.parsed.parts or PARTS:
        PARTS[name](full)
