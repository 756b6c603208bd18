"""`sparsecluster dbscan`: clusters by density."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.clusters import terms_column, terms_of_labels
from sparsecluster.cli.densities import (
    density_lines,
    density_summary,
    distance_lines,
    distance_summary,
)
from sparsecluster.cli.fit import read_rows
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT, Joining
from sparsecluster.cli.labels import check_ending
from sparsecluster.cli.options import Preparing, Reading, Running, Shown
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.results import write_results, written_fields, written_lines
from sparsecluster.cli.screen import Screen


def dbscan(
    data: Data,
    *,
    eps: float = 0.5,
    min_samples: Annotated[int, Parameter(validator=Number(gte=1))] = 5,
    metric: Literal["cosine", "euclidean"] = "cosine",
    k_distances: Annotated[bool, Parameter(negative=())] = False,
    memory_limit: str | None = None,
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    joining: Joining = Joining(),
    terms: Annotated[Shown, Parameter(group=OUTPUT)] = 8,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Find clusters of rows that have many others nearby; the rest is noise, -1.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    eps
        The largest distance of neighbors.
    min_samples
        Rows within that distance, itself included, that make a row the core of a cluster.
    metric
        How rows are compared; with cosine only their direction counts.
    k_distances
        Also show how far neighbors are, and the radius that this suggests.
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    model
        Write the model to this file, for predict, report and inspect.
    labels
        Write the cluster of each row: .npy, .csv, .txt, .parquet, or - for standard output.
    terms
        How many terms to show for each cluster, where the columns have names.
    """
    from sparsecluster import DBSCAN

    check_ending(labels)
    inputs = Inputs(data)
    check_outputs(inputs=inputs.paths, files=[model, labels, joining.join])
    join = joining.plan(inputs.given, reading, distances=False, metalabels=preparing.metalabels)
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    estimator = DBSCAN(
        eps,
        min_samples=min_samples,
        metric=metric,
        n_threads=running.threads,
        memory_limit=memory_limit,
    )
    estimator.check_parameters()
    preparing.transformer()
    with screen.warnings_in_words():
        rows = read_rows(inputs, reading, preparing, running, screen)
        started = time.perf_counter()
        with screen.progress("clustering") as show:
            estimator.callback = show if screen.shows_progress else None
            estimator.fit(rows)
        seconds = time.perf_counter() - started
        near = None
        if k_distances and rows.n_rows > 1:
            k = min(max(min_samples - 1, 1), rows.n_rows - 1)
            with screen.progress("measuring neighbors") as show:
                estimator.callback = show
                near = distance_summary(estimator.k_distances(rows, k), k)
        estimator.callback = None
    write_results(estimator, rows, model=model, labels=labels, join=join)
    summary = density_summary(estimator)
    top_terms = terms_of_labels(estimator, rows, terms)
    screen.result(
        {
            "rows": rows.n_rows,
            "columns": rows.n_features,
            **summary,
            "top_terms": top_terms,
            "eps": eps,
            "min_samples": min_samples,
            "metric": metric,
            "k_distances": near,
            "seconds": seconds,
            **written_fields(model, labels, join),
        },
        *density_lines(estimator, summary, *terms_column(top_terms)),
        *([] if near is None else distance_lines(near)),
        f"{seconds:.2f} s",
        *written_lines(model, join),
    )
