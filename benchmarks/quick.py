"""The default command: a whole fit on one set against scikit-learn, in a few minutes."""

from __future__ import annotations

from . import data, plots
from .harness import Harness
from .options import Options
from .report import Report
from .summary import against_best
from .task import FIT, Task

SYSTEMS = ("sparsecluster", "sklearn-elkan", "sklearn-lloyd")


def run(options: Options, harness: Harness, report: Report) -> None:
    ratios = []
    for name in options.data_sets(("20news-tfidf",)):
        dataset = data.load(name)
        for k in options.clusters((100,), dataset):
            task = Task(FIT, k, threads=options.threads)
            summaries = harness.compare(dataset, task, options.systems(SYSTEMS), options.seeds(3))
            title = f"whole fit, {name}, K={k}, {options.threads} threads"
            report.systems(title, summaries)
            report.panels.append(plots.panel_of(title, summaries))
            ratios.append(against_best("fit", summaries))
    report.ratios("whole fit against the best peer", ratios, "8x at cost 1.002")
