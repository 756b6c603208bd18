"""`sparsecluster fit`: cluster a file or a store."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from sparsecluster.cli.labels import check_ending, write_labels
from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.screen import Iterations, Screen

if TYPE_CHECKING:
    from sparsecluster.rows.rows import Rows

OUTPUT = Group("Output", sort_key=1)
MOST_SHOWN = 50  # clusters in a table
DEFAULTS: tuple[Any, ...] = (Reading(), Preparing(), Running())


def fit(
    data: Path,
    *,
    clusters: Annotated[int, Parameter(name=["--clusters", "-k"])],
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    terms: Annotated[int, Parameter(group=OUTPUT)] = 8,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    minibatch: Annotated[bool, Parameter(negative=())] = False,
    init: str = "k-means++",
    n_init: int = 1,
    algorithm: Literal["auto", "lloyd", "elkan", "elkan-rows", "hamerly"] = "auto",
    refine: Literal["first-variation"] | None = None,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int | None = None,
    zero_rows: Literal["error", "first"] = "error",
    memory_limit: str | None = None,
    checkpoint: Path | None = None,
    every: str | None = None,
    reading: Reading = DEFAULTS[0],
    preparing: Preparing = DEFAULTS[1],
    running: Running = DEFAULTS[2],
) -> None:
    """Cluster the rows of a file or a store, and show the clusters.

    Parameters
    ----------
    data
        A store, or a file as convert takes it (which is read into memory).
    clusters
        How many clusters to make.
    model
        Write the model to this file, for predict and inspect.
    labels
        Write the cluster of each row: .npy, .csv, .txt, or - for standard output.
    terms
        How many terms to show for each cluster, where the columns have names.
    metric
        By cosine, rows count by their direction alone.
    minibatch
        Work on growing parts of the rows: sooner there, at nearly the same cost.
    init
        How to start: a method's name, or a file (.npz, .npy) with a center a row.
    n_init
        How many runs, from different starts; the best is kept.
    algorithm
        How rows are assigned; all give the same clusters.
    refine
        What to do when a run has settled: moving single rows, for a lower cost and more time.
    max_iter
        Most iterations of a run.
    tol
        Stop when the centers shift by less than this share of the variance.
    seed
        The random state: the same seed gives the same clusters.
    zero_rows
        By cosine, what to do with rows that are zero: refuse them, or put them into cluster 0.
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    checkpoint
        A folder to keep the state of the fit in: the same command goes on from there if killed.
    every
        How often the state is kept: 90s, 5m, 1h; by default 60s.
    """
    check_ending(labels)
    centers = init if _is_file(init) else None
    check_outputs(inputs=[data, centers], files=[model, labels], checkpoint=checkpoint)
    if terms < 1:
        raise ValueError(f"--terms must be at least 1, got {terms}.")
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    chosen = _Chosen(
        clusters=clusters,
        metric=metric,
        minibatch=minibatch,
        init=init,
        n_init=n_init,
        algorithm=algorithm,
        refine=refine,
        max_iter=max_iter,
        tol=tol,
        seed=seed,
        zero_rows=zero_rows,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        every=every,
        threads=running.threads,
    )
    estimator = chosen.estimator()
    with screen.warnings_in_words():
        rows = read_rows(data, reading, preparing, running, screen)
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
        write_labels(labels, [estimator.labels_])
    screen.result(
        _summary(estimator, rows, terms, seconds)
        | {"model": model and str(model), "labels": labels},
        clusters_table(estimator, terms),
        f"{estimator.n_clusters_} clusters of {rows.n_rows:,} rows: {estimator.n_iter_} "
        f"iterations, cost {estimator.inertia_:.6g}, {seconds:.2f} s",
        *([f"model: {model}"] if model else []),
    )


def read_rows(
    data: Path, reading: Reading, preparing: Preparing, running: Running, screen: Screen
) -> Rows:
    """The rows of a file in memory, or those of a store."""
    from sparsecluster import read
    from sparsecluster.prepare.metalabels import label_rows

    options: dict[str, Any] = {"n_threads": running.threads, **reading.given()}
    with screen.progress(f"reading {data.name}", data) as show:
        rows = read(data, prepare=preparing.transformer(), progress=show, **options)
        return label_rows(rows, data) if preparing.metalabels else rows


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """The options that make the estimator."""

    clusters: int
    metric: str
    minibatch: bool
    init: str
    n_init: int
    algorithm: str
    refine: str | None
    max_iter: int
    tol: float
    seed: int | None
    zero_rows: str
    memory_limit: str | None
    checkpoint: Path | None
    every: str | None
    threads: int | None

    def estimator(self) -> Any:
        """The estimator, with parameters that can be."""
        from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads

        estimator = self._made()
        estimator.check_parameters()
        effective_memory_limit(self.memory_limit)
        effective_n_threads(self.threads)
        return estimator

    def _made(self) -> Any:
        from sparsecluster import KMeans, MiniBatchKMeans, SphericalKMeans

        common = {
            "n_clusters": self.clusters,
            "init": _init(self.init),
            "n_init": self.n_init,
            "max_iter": self.max_iter,
            "tol": self.tol,
            "random_state": self.seed,
            "n_threads": self.threads,
            "memory_limit": self.memory_limit,
        }
        cosine = self.metric == "cosine"
        if self.zero_rows != "error" and not cosine:
            raise ValueError("--zero-rows is for --metric cosine.")
        if self.every is not None and self.checkpoint is None:
            raise ValueError("--every is for --checkpoint.")
        if self.minibatch:
            for name, default in (("algorithm", "auto"), ("refine", None), ("checkpoint", None)):
                if getattr(self, name) != default:
                    raise ValueError(f"--{name} is of no use with --minibatch.")
            return MiniBatchKMeans(metric=self.metric, zero_rows=self.zero_rows, **common)
        common |= {
            "algorithm": self.algorithm,
            "refine": self.refine,
            "checkpoint": self.checkpoint,
            "checkpoint_every": self.every or 60,
        }
        if cosine:
            return SphericalKMeans(zero_rows=self.zero_rows, **common)
        return KMeans(**common)


def _init(init: str) -> Any:
    """A method's name as it is; the centers of a file."""
    if not _is_file(init):
        return init
    from sparsecluster.prepare.read import read

    return read(init).matrix


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
        table.caption = f"and {len(order) - MOST_SHOWN:,} smaller ones, which --json tells too"
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
