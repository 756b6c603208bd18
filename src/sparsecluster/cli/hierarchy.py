"""`sparsecluster hierarchy`: merge the rows of a file into a tree, and cut it into clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from sparsecluster.cli.clusters import (
    clusters_table,
    terms_column,
    terms_of_labels,
    tree_summary,
)
from sparsecluster.cli.fit import read_and_fit
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT, Joining
from sparsecluster.cli.labels import check_ending
from sparsecluster.cli.options import Preparing, Reading, Running, Seed, Shown
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.results import write_results, written_fields, written_lines
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from sparsecluster.rows.rows import Rows

TREE = Group("Tree", sort_key=2)
Linkage = Literal["ward", "average", "complete", "single", "centroid"]
Metric = Literal[
    "euclidean", "sqeuclidean", "manhattan", "cosine", "jaccard", "weighted_jaccard", "hamming"
]


def hierarchy(
    data: Data,
    *,
    clusters: Annotated[
        int | None, Parameter(name=["--clusters", "--k", "-k"], validator=Number(gte=1), group=TREE)
    ] = None,
    height: Annotated[float | None, Parameter(validator=Number(gte=0), group=TREE)] = None,
    linkage: Annotated[Linkage, Parameter(group=TREE)] = "ward",
    metric: Annotated[Metric, Parameter(group=TREE)] = "euclidean",
    first: Annotated[Literal["kmeans"] | None, Parameter(group=TREE)] = None,
    first_clusters: Annotated[int, Parameter(validator=Number(gte=1), group=TREE)] = 1000,
    seed: Seed = None,
    memory_limit: str | None = None,
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    joining: Joining = Joining(),
    newick: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    terms: Annotated[Shown, Parameter(group=OUTPUT)] = 8,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Merge the rows of a file or a store into a tree, and show the clusters where it is cut.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input. Files are read into memory.
    clusters
        Cut the tree into so many clusters; by default at the widest gap between two merges.
    height
        Cut the tree at this height.
    linkage
        The distance of two clusters: growth of the sum of squares, or mean, largest or smallest
        distance of their rows, or that of their means.
    metric
        The distance of two rows.
    first
        Merge the centers of k-means in place of the rows: for any number of rows.
    first_clusters
        How many centers that are.
    seed
        The random state of k-means.
    memory_limit
        Most memory for distances of all pairs, like 2GB; ward with euclidean, average with cosine,
        and single need none. By default half of what is free.
    model
        Write the model to this file, for report and inspect.
    labels
        Write the cluster of each row: .npy, .csv, .txt, .parquet, or - for standard output.
    newick
        Write the tree as Newick text to this file, with the names of the rows if they have any.
    terms
        How many terms to show for each cluster, where the columns have names.
    """
    from sparsecluster import AgglomerativeClustering

    check_ending(labels)
    inputs = Inputs(data)
    check_outputs(inputs=inputs.paths, files=[model, labels, joining.join, newick])
    join = joining.plan(inputs.given, reading, distances=False, metalabels=preparing.metalabels)
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    estimator = AgglomerativeClustering(
        clusters,
        linkage=linkage,
        metric=metric,
        height=height,
        first=first,
        first_clusters=first_clusters,
        random_state=seed,
        n_threads=running.threads,
        memory_limit=memory_limit,
    )
    estimator.check_parameters()
    preparing.transformer()
    rows, taken = read_and_fit(
        estimator,
        inputs,
        reading,
        preparing,
        running,
        screen,
        doing="merging",
        phase=lambda record: record.phase,
    )
    seconds = taken["total"]
    write_results(estimator, rows, model=model, labels=labels, join=join)
    if newick is not None:
        _write_tree(newick, estimator, rows)
    top_terms = terms_of_labels(estimator, rows, terms)
    screen.result(
        {
            "rows": rows.n_rows,
            "columns": rows.n_features,
            "format": rows.recipe and rows.recipe.format,
            **tree_summary(estimator),
            "top_terms": top_terms,
            "seconds": seconds,
            "seconds_by_phase": taken,
            **written_fields(model, labels, join),
            "newick": newick and str(newick),
        },
        *clusters_table(estimator, terms, *terms_column(top_terms)),
        f"{counted(estimator.n_clusters_, 'cluster')} of {counted(rows.n_rows, 'row')}: "
        f"{counted(len(estimator.linkage_), 'merge')}, cut above {estimator.height_:.6g}, "
        f"{seconds:.2f} s",
        *_inverted(estimator),
        *written_lines(model, join),
        *([f"tree: {newick}"] if newick else []),
    )


def _inverted(estimator: Any) -> list[str]:
    """That some merges are lower than those before, in a line."""
    n = estimator.n_inversions_
    return [f"{counted(n, 'merge')} lower than one below (inversions of the linkage)"] if n else []


def _write_tree(path: Path, estimator: Any, rows: Rows) -> None:
    from sparsecluster.storage.atomic import atomic_file

    names = None if estimator.first or rows.ids is None else rows.ids.tolist()
    with atomic_file(path) as partial:
        partial.write_text(estimator.newick(names) + "\n", encoding="utf-8")
