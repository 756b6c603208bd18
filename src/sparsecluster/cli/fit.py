"""`sparsecluster fit`: cluster a file or a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sparsecluster.cli.clustering import Clustering, chosen
from sparsecluster.cli.clusters import (
    check_terms,
    clusters_table,
    fit_summary,
    phases_of,
    similar_lines,
)
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT, Joining
from sparsecluster.cli.labels import check_ending
from sparsecluster.cli.machines import Machines
from sparsecluster.cli.models import check_data
from sparsecluster.cli.options import (
    Clusters,
    Preparing,
    Reading,
    Running,
    Seed,
    Shown,
    given_options,
)
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.progress import Iterations
from sparsecluster.cli.results import write_results, written_fields, written_lines
from sparsecluster.cli.screen import Screen
from sparsecluster.cli.starting import STARTING, Starting
from sparsecluster.cli.words import option_name
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparsecluster.rows.rows import Rows

MOST_NAMES = 8  # of columns, in a line


def fit(
    data: Data,
    *,
    clusters: Clusters,
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    joining: Joining = Joining(),
    terms: Annotated[Shown, Parameter(group=OUTPUT)] = 8,
    terms_by: Annotated[
        Literal["weight", "c-tf-idf", "log-odds"], Parameter(group=OUTPUT)
    ] = "weight",
    minibatch: Annotated[bool, Parameter(negative=())] = False,
    seed: Seed = None,
    machines: Machines = Machines(),
    init: Annotated[str, Parameter(group=STARTING)] = "k-means++",
    starting: Starting = Starting(),
    clustering: Clustering = Clustering(),
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Cluster the rows of a file or a store, and show the clusters.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input. Files are read into memory.
    clusters
        How many clusters to make.
    model
        Write the model to this file, for predict and inspect.
    labels
        Write the cluster of each row: .npy, .csv, .txt, .parquet, or - for standard output.
    terms
        How many terms to show for each cluster, where the columns have names.
    terms_by
        Which: those of the largest weight in the center, or those that tell the cluster from the
        others, by class-based tf-idf or by log-odds.
    minibatch
        Work on batches of rows: less time, at nearly the same cost.
    seed
        The random state: the same seed gives the same clusters.
    init
        How to start: the name of a method, or a file (.npz, .npy) with one center per row.
    """
    from sparsecluster import read

    check_ending(labels)
    given = chosen(clustering, minibatch=minibatch)
    executor = machines.executor
    by_workers = executor is not None and labels is not None and labels.endswith(".npy")
    if minibatch:
        by_workers = False
        if given.get("schedule") == "sculley":
            machines.refuse_with("--schedule sculley")
    centers = init if Path(init).suffix in (".npz", ".npy") else None
    inputs = Inputs(data)
    check_outputs(
        inputs=[*inputs.paths, centers],
        files=[model, labels, joining.join],
        checkpoint=clustering.checkpoint,
    )
    if centers and (useless := given_options(starting)):
        raise ValueError(f"{option_name(next(iter(useless)))} has no effect with --init {init}.")
    join = joining.plan(inputs.given, reading, metalabels=preparing.metalabels)
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    given |= {
        "n_clusters": clusters,
        "init": None if centers else init,
        "init_options": given_options(starting) or None,
        "random_state": seed,
        "n_threads": running.threads,
    }
    if executor is not None:
        given["executor"] = executor
    estimator = _estimator(given, minibatch)
    preparing.transformer()
    if centers:
        estimator.init = read(centers).matrix
    with screen.warnings_in_words():
        begun = time.perf_counter()
        rows = read_rows(inputs, reading, preparing, running, screen)
        check_terms(rows, terms_by)
        machines.check_store(rows.in_file)
        started = time.perf_counter()
        with screen.progress("seeding") as show:
            n_runs = 1 if minibatch else estimator.n_starts
            shown = Iterations(show, rows.n_rows, n_runs, estimator.max_iter)
            estimator.callback = shown if screen.shows_progress else None
            estimator.fit(rows, **({"labels_file": labels} if by_workers else {}))
        estimator.callback = None
    seconds = time.perf_counter() - started
    here = None if by_workers else labels
    write_results(estimator, rows, model=model, labels=here, join=join)
    screen.result(
        {
            "rows": rows.n_rows,
            "columns": rows.n_features,
            "format": rows.recipe and rows.recipe.format,
            **fit_summary(estimator, terms, by=terms_by),
            "seconds": seconds,
            "seconds_by_phase": {"reading": started - begun, **phases_of(estimator)},
            **written_fields(model, labels, join),
            "checkpoint": clustering.checkpoint and str(clustering.checkpoint),
        },
        *clusters_table(estimator, terms, by=terms_by),
        *similar_lines(estimator),
        f"{counted(estimator.n_clusters_, 'cluster')} of {counted(rows.n_rows, 'row')}: "
        f"{counted(estimator.n_iter_, 'iteration')}, cost {estimator.inertia_:.6g}, "
        f"{seconds:.2f} s",
        *_read_as(inputs, rows),
        *written_lines(model, join),
    )


def _read_as(inputs: Inputs, rows: Rows) -> list[str]:
    """How a file was read, in a line; nothing for a store."""
    if rows.in_file or rows.recipe is None:
        return []
    taken = ""
    if rows.recipe.format == "table" and rows.feature_names is not None:
        names = rows.feature_names.tolist()
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        taken = f", columns {', '.join(names[:MOST_NAMES])}{more}"
    return [f"{inputs.name}: read as {rows.recipe.format}{taken}"]


def read_rows(
    data: Inputs, reading: Reading, preparing: Preparing, running: Running, screen: Screen
) -> Rows:
    """The rows of a file in memory, or those of a store."""
    from sparsecluster import read
    from sparsecluster.prepare.metalabels import label_rows

    for path in data.paths:
        check_data(path)
    options: dict[str, Any] = {"n_threads": running.threads, **reading.given()}
    with screen.progress(f"reading {data.name}", data.path) as show:
        rows = read(data.given, prepare=preparing.transformer(), progress=show, **options)
        return label_rows(rows, data.name) if preparing.metalabels else rows


def read_and_fit(
    estimator: Any,
    inputs: Inputs,
    reading: Reading,
    preparing: Preparing,
    running: Running,
    screen: Screen,
    *,
    doing: str,
    phase: Callable[[Any], str],
) -> tuple[Rows, dict[str, float]]:
    """Rows that were read and fitted, with progress; the seconds that both took.

    `phase` says what a record of the estimator's callback, which has `done` and `total`, is about.
    """
    with screen.warnings_in_words():
        begun = time.perf_counter()
        rows = read_rows(inputs, reading, preparing, running, screen)
        started = time.perf_counter()
        with screen.progress(doing) as show:
            estimator.callback = lambda record: show(
                record.done / max(record.total, 1), phase=phase(record)
            )
            estimator.fit(rows)
        estimator.callback = None
    return rows, {"reading": started - begun, "total": time.perf_counter() - started}


def _estimator(given: dict[str, Any], minibatch: bool) -> Any:
    """The estimator with these parameters, which are checked."""
    from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans

    full = SphericalKMeans if given.get("metric") == "cosine" else KMeans
    estimator = (MiniBatchKMeans if minibatch else full)(**given)
    estimator.check_parameters()
    return estimator
