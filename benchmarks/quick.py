"""The default command, a few minutes: fits and predict against peers, and the roofline."""

from __future__ import annotations

from . import data, plots, roofline
from .harness import Harness
from .options import Options
from .report import Report
from .summary import against_best
from .systems import SYSTEMS
from .task import FIT, PREDICT, SPHERE, Task

COMPARED = ("sparsecluster", "sklearn-elkan", "sklearn-lloyd")


def run(options: Options, harness: Harness, report: Report) -> None:
    ratios, spherical, predicted = [], [], []
    names = options.data_sets(("20news-tfidf",))
    for name in names:
        dataset = data.load(name)
        for k in options.clusters((100,), dataset):
            task = Task(FIT, k, threads=options.threads)
            summaries = harness.compare(dataset, task, options.systems(COMPARED), options.seeds(3))
            title = f"whole fit, {name}, K={k}, {options.threads} threads"
            report.systems(title, summaries)
            report.panels.append(plots.panel_of(title, summaries))
            ratios.append(against_best("fit", summaries))
            task = Task(SPHERE, k, threads=options.threads)
            systems = options.systems((*COMPARED, "soyclustering", "faiss"))
            summaries = harness.compare(dataset, task, systems, options.seeds(1))
            report.systems(f"spherical k-means, {name}, K={k}", summaries)
            spherical.append(against_best("sphere", summaries))
        for k in options.clusters((1000,), dataset):
            task = Task(PREDICT, k, threads=options.threads)
            systems = [one for one in options.systems(COMPARED) if SYSTEMS[one].predict]
            summaries = harness.compare(dataset, task, systems, options.seeds(1))
            predicted.append(against_best("predict", summaries))
    report.ratios("whole fit against the best peer", ratios, "12x at cost 1.002", "30x")
    report.ratios("spherical k-means against the best peer", spherical, "10x at equal cost")
    report.ratios("predict against the best peer", predicted, "10x", "30x")
    roofline.run(options, report, names)
