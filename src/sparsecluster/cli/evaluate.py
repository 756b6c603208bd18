"""`sparsecluster evaluate`: how good a clustering is."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sparsecluster.cli.fit import read_rows
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.labels import read_array, read_labels
from sparsecluster.cli.models import open_model
from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from sparsecluster import Evaluation

MOST_SHOWN = 30  # clusters in the table


def evaluate(
    data: Data,
    *,
    labels: Path | None = None,
    model: Path | None = None,
    true: Path | None = None,
    metric: Literal["cosine", "sqeuclidean"] | None = None,
    weights: Annotated[Path | None, Parameter(name="--weights")] = None,
    memory_limit: str | None = None,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Judge a clustering by its rows, and by the true labels where they are known.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    labels
        The cluster of each row: a file that fit or predict wrote (.npy, .csv, .txt, .parquet). Rows
        labelled -1 are noise, and left out.
    model
        Judge the clusters that this model assigns the rows to, instead; the rows are read as its
        training data were.
    true
        A file with the true label of each row; by default the labels of the data, if they have one
        per row.
    metric
        How rows are compared: by cosine or by squared Euclidean distance; by default as the model
        was fitted, without a model by cosine.
    weights
        A .npy file with the weight of each row.
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    """
    from sparsecluster import evaluate as judge
    from sparsecluster import read

    if (labels is None) == (model is None):
        raise ValueError("Clusters are needed: give either --labels or --model.")
    inputs, screen = Inputs(data), Screen(running)
    clusters = None if labels is None else read_labels(labels)
    truth = None if true is None else read_labels(true)
    weight = None if weights is None else read_array(weights, "weights")
    with screen.warnings_in_words():
        if model is None:
            rows = read_rows(inputs, reading, preparing, running, screen)
        else:
            if preparing != Preparing():
                raise ValueError("Options for preparing have no effect with --model.")
            estimator = open_model("evaluate --model", model, None, predicts=True)
            estimator.n_threads = running.threads
            options: dict[str, Any] = {"n_threads": running.threads, **reading.given()}
            with screen.progress(f"reading {inputs.name}", inputs.path) as show:
                rows = read(inputs.given, like=estimator, progress=show, **options)
            clusters = estimator.predict(rows)
            fitted = getattr(estimator, "metric_", estimator.metric)
            metric = metric or ("sqeuclidean" if fitted == "euclidean" else "cosine")
        if truth is None and rows.labels is not None and getattr(rows.labels, "ndim", 2) == 1:
            truth = rows.labels
        started = time.perf_counter()
        with screen.progress("evaluating") as show:
            found = judge(
                rows,
                clusters,
                truth,
                metric=metric or "cosine",
                sample_weight=weight,
                n_threads=running.threads,
                memory_limit=memory_limit,
                progress=show,
            )
    seconds = time.perf_counter() - started
    summary = {**asdict(found), "seconds": seconds}
    noise = f", {counted(found.noise, 'row')} of noise" if found.noise else ""
    head = f"{counted(found.n_clusters, 'cluster')} of {counted(found.rows, 'row')}{noise}, "
    screen.result(
        summary,
        *_cluster_table(found),
        _score_table(found),
        f"{head}by {found.metric}; {seconds:.2f} s",
    )


def _score_table(found: Evaluation) -> Any:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column("measure")
    table.add_column("value", justify="right", style="bold")
    for name, value in found.scores().items():
        table.add_row(name.replace("_", " "), f"{value:.6g}")
    return table


def _cluster_table(found: Evaluation) -> list[Any]:
    """The clusters, the worst silhouettes first."""
    from rich.table import Table

    table = Table()
    for name in ("cluster", "rows", "silhouette", "cohesion", "separation", "nearest"):
        table.add_column(name, justify="right", style="dim" if name == "cluster" else None)
    order = sorted(found.clusters, key=lambda one: one.silhouette)
    for one in order[:MOST_SHOWN]:
        table.add_row(
            str(one.cluster),
            f"{one.rows:,}",
            f"{one.silhouette:.4f}",
            f"{one.cohesion:.4g}",
            f"{one.separation:.4g}",
            str(one.nearest),
        )
    left = len(order) - MOST_SHOWN
    return [table] if left <= 0 else [table, f"and {left:,} with better silhouettes"]
