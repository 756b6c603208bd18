"""`sparsecluster fit`: cluster a file or a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsecluster.cli.clustering import Clustering, chosen
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import NOTHING, OUTPUT, Joining
from sparsecluster.cli.labels import check_ending, write_labels
from sparsecluster.cli.options import Clusters, Preparing, Reading, Running, Seed, Shown
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.screen import Iterations, Screen
from sparsecluster.cli.starting import STARTING, Starting, given_options
from sparsecluster.cli.words import counted, option_name

if TYPE_CHECKING:
    from sparsecluster.rows.rows import Rows

MOST_SHOWN = 50  # clusters in a table
DEFAULTS: tuple[Any, ...] = (Reading(), Preparing(), Running(), Starting(), Clustering())


def fit(
    data: Data,
    *,
    clusters: Clusters,
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    joining: Joining = NOTHING,
    terms: Annotated[Shown, Parameter(group=OUTPUT)] = 8,
    minibatch: Annotated[bool, Parameter(negative=())] = False,
    seed: Seed = None,
    init: Annotated[str, Parameter(group=STARTING)] = "k-means++",
    starting: Starting = DEFAULTS[3],
    clustering: Clustering = DEFAULTS[4],
    reading: Reading = DEFAULTS[0],
    preparing: Preparing = DEFAULTS[1],
    running: Running = DEFAULTS[2],
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
    minibatch
        Work on batches of rows: less time, at nearly the same cost.
    seed
        The random state: the same seed gives the same clusters.
    init
        How to start: the name of a method, or a file (.npz, .npy) with one center per row.
    """
    from sparsecluster.prepare.join_text import Results

    check_ending(labels)
    given = chosen(clustering, minibatch=minibatch)
    centers = init if _is_file(init) else None
    inputs = Inputs(data)
    check_outputs(
        inputs=[*inputs.paths, centers],
        files=[model, labels, joining.join],
        checkpoint=clustering.checkpoint,
    )
    if centers and (useless := given_options(starting)):
        raise ValueError(f"{option_name(next(iter(useless)))} has no effect with --init {init}.")
    if joining.join is not None and preparing.metalabels:
        raise ValueError("--join cannot be combined with --metalabels: rows are not those of data.")
    join = joining.plan(inputs.given, reading)
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    given |= {
        "n_clusters": clusters,
        "init": None if centers else init,
        "init_options": given_options(starting) or None,
        "random_state": seed,
        "n_threads": running.threads,
    }
    estimator = _estimator(given, minibatch)
    preparing.transformer()
    if centers:
        estimator.init = _centers(centers)
    with screen.warnings_in_words():
        rows = read_rows(inputs, reading, preparing, running, screen)
        started = time.perf_counter()
        with screen.progress("clustering") as show:
            show(0.0, "seeding")
            estimator.callback = Iterations(show, rows.n_rows) if screen.shows_progress else None
            estimator.fit(rows)
        estimator.callback = None
    seconds = time.perf_counter() - started
    if model is not None:
        estimator.save(model)
    if labels is not None:
        write_labels(labels, Results(estimator.labels_, ids=rows.ids).pieces())
    if join is not None:
        distances = estimator.label_distances(rows, estimator.labels_)
        with join.writing() as write:
            for piece in Results(estimator.labels_, distances, rows.ids).pieces():
                write(piece)
    screen.result(
        _summary(estimator, rows, terms, seconds)
        | {"model": model and str(model), "labels": labels, "join": join and str(join.out)},
        clusters_table(estimator, terms),
        f"{counted(estimator.n_clusters_, 'cluster')} of {counted(rows.n_rows, 'row')}: "
        f"{counted(estimator.n_iter_, 'iteration')}, cost {estimator.inertia_:.6g}, "
        f"{seconds:.2f} s",
        *_read_as(inputs, rows),
        *([f"model: {model}"] if model else []),
        *([f"joined: {join.out}"] if join else []),
    )


def _read_as(inputs: Inputs, rows: Rows) -> list[str]:
    """How a file was read, in a line; nothing for a store."""
    if rows.in_file or rows.recipe is None:
        return []
    return [f"{inputs.name}: read as {rows.recipe.format}"]


def read_rows(
    data: Inputs, reading: Reading, preparing: Preparing, running: Running, screen: Screen
) -> Rows:
    """The rows of a file in memory, or those of a store."""
    from sparsecluster import read
    from sparsecluster.prepare.metalabels import label_rows

    options: dict[str, Any] = {"n_threads": running.threads, **reading.given()}
    with screen.progress(f"reading {data.name}", data.path) as show:
        rows = read(data.given, prepare=preparing.transformer(), progress=show, **options)
        return label_rows(rows, data.name) if preparing.metalabels else rows


def _estimator(given: dict[str, Any], minibatch: bool) -> Any:
    """The estimator with these parameters, which are checked."""
    from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans

    full = SphericalKMeans if given.get("metric") == "cosine" else KMeans
    estimator = (MiniBatchKMeans if minibatch else full)(**given)
    estimator.check_parameters()
    return estimator


def _centers(path: str) -> Any:
    from sparsecluster import read

    return read(path).matrix


def _is_file(init: str) -> bool:
    return Path(init).suffix in (".npz", ".npy")


def clusters_table(estimator: Any, terms: int) -> Any:
    """The clusters, largest first: number, size, top terms."""
    from rich.table import Table
    from rich.text import Text

    sizes, named = _sizes(estimator), estimator.feature_names_ is not None
    table = Table()
    table.add_column("cluster", justify="right", style="dim")
    table.add_column("rows", justify="right")
    if named:
        table.add_column("top terms", style="bold")
        top_terms = estimator.top_terms(terms)
    order = sorted(range(len(sizes)), key=lambda one: (-sizes[one], one))
    for cluster in order[:MOST_SHOWN]:
        cells = [str(cluster), f"{sizes[cluster]:,}"]
        if named:
            cells.append(", ".join(top_terms[cluster]))
        table.add_row(*(Text(cell) for cell in cells))
    if len(order) > MOST_SHOWN:
        table.caption = f"and {len(order) - MOST_SHOWN:,} smaller ones (use --json to list all)"
    return table


def _sizes(estimator: Any) -> list[int]:
    import numpy as np

    if not hasattr(estimator, "history_"):  # a stream, whose labels are those of its last batch
        return [int(n) for n in estimator.counts_]
    return [int(n) for n in np.bincount(estimator.labels_, minlength=estimator.n_clusters_)]


def _summary(estimator: Any, rows: Rows, terms: int, seconds: float) -> dict[str, Any]:
    named = estimator.feature_names_ is not None
    return {
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "clusters": int(estimator.n_clusters_),
        "cost": float(estimator.inertia_),
        "iterations": int(estimator.n_iter_),
        "seconds": seconds,
        "sizes": _sizes(estimator),
        "top_terms": estimator.top_terms(terms) if named else None,
        "format": None if rows.recipe is None else rows.recipe.format,
    }
