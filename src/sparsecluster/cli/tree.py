"""`sparsecluster tree`: divide the rows of a file from the root down, into bounded leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from sparsecluster.cli.clusters import cluster_tree_summary, clusters_table, terms_column
from sparsecluster.cli.fit import read_and_fit
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT, Joining
from sparsecluster.cli.labels import check_ending
from sparsecluster.cli.options import Preparing, Reading, Running, Seed, Shown
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.results import write_results, written_fields, written_lines
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

TREE = Group("Tree", sort_key=2)
Size = Annotated[int, Parameter(validator=Number(gte=1), group=TREE)]


def tree(
    data: Data,
    *,
    branching: Annotated[int, Parameter(validator=Number(gte=2), group=TREE)] = 16,
    max_leaf_size: Size = 100,
    min_leaf_size: Size = 1,
    balanced: Annotated[bool, Parameter(group=TREE, negative="--unbalanced")] = True,
    metric: Annotated[Literal["cosine", "euclidean"], Parameter(group=TREE)] = "cosine",
    zero_rows: Annotated[Literal["error", "first"], Parameter(group=TREE)] = "first",
    runs: Annotated[int, Parameter(validator=Number(gte=1), group=TREE)] = 1,
    max_iter: Annotated[int, Parameter(validator=Number(gte=1), group=TREE)] = 20,
    tol: Annotated[float, Parameter(validator=Number(gte=0), group=TREE)] = 1e-2,
    seed: Seed = None,
    memory_limit: str | None = None,
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    labels: Annotated[str | None, Parameter(group=OUTPUT, allow_leading_hyphen=True)] = None,
    joining: Joining = Joining(),
    chain: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    newick: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    nodes: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    terms: Annotated[Shown, Parameter(group=OUTPUT)] = 8,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Divide the rows of a file or a store from the root down, and show the leaves.

    With --metalabels this makes the label tree of a multi-label set.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input. Files are read into memory.
    branching
        Largest number of children per node.
    max_leaf_size
        Largest number of rows per leaf.
    min_leaf_size
        Smallest number of rows per leaf.
    balanced
        Keep the sizes of siblings within one row of each other, or leave each row with the nearest
        center.
    metric
        How rows are compared; with cosine by their direction alone.
    zero_rows
        With cosine, what to do with rows of zeros: refuse them, or put them anywhere.
    runs
        Runs per node; the one with the lowest cost is kept.
    max_iter
        Largest number of iterations per run.
    tol
        End a run when an iteration lowers its cost by no more than this fraction.
    seed
        The random state: the same seed gives the same tree.
    memory_limit
        Memory for the scores and tables of a node, like 2GB; by default half of what is free.
    model
        Write the model to this file, for predict, report and inspect.
    labels
        Write the leaf of each row: .npy, .csv, .txt, .parquet, or - for standard output.
    chain
        Write the tree as indicator matrices into this new folder, as PECOS reads them.
    newick
        Write the tree as Newick text to this file.
    nodes
        Write the tree as nested JSON to this file: sizes, costs and terms of all nodes.
    terms
        How many terms to show for each leaf, where the columns have names.
    """
    from sparsecluster import ClusterTree

    check_ending(labels)
    inputs = Inputs(data)
    files = [model, labels, joining.join, newick, nodes]
    check_outputs(inputs=inputs.paths, files=files, folder=chain)
    if chain is not None and chain.exists():
        raise ValueError(f"{chain} exists. Choose another name.")
    join = joining.plan(inputs.given, reading, distances=False, metalabels=preparing.metalabels)
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    estimator = ClusterTree(
        branching=branching,
        max_leaf_size=max_leaf_size,
        min_leaf_size=min_leaf_size,
        balanced=balanced,
        metric=metric,
        zero_rows=zero_rows,
        n_init=runs,
        max_iter=max_iter,
        tol=tol,
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
        doing="splitting",
        phase=lambda record: f"level {record.level}",
    )
    seconds = taken["total"]
    write_results(estimator, rows, model=model, labels=labels, join=join)
    if chain is not None:
        estimator.save_chain(chain)
    named = estimator.feature_names_ is not None
    if newick is not None:
        _write(newick, estimator.newick())
    if nodes is not None:
        _write(nodes, json.dumps(estimator.to_dict(n_terms=terms if named else 0), indent=1))
    leaf_terms = _leaf_terms(estimator, terms) if named else None
    found = estimator.tree_
    screen.result(
        {
            "rows": rows.n_rows,
            "columns": rows.n_features,
            "format": rows.recipe and rows.recipe.format,
            **cluster_tree_summary(estimator),
            "top_terms": leaf_terms,
            "seconds": seconds,
            "seconds_by_phase": taken,
            **written_fields(model, labels, join),
            "chain": chain and str(chain),
            "newick": newick and str(newick),
            "nodes_file": nodes and str(nodes),
        },
        *clusters_table(estimator, terms, *terms_column(leaf_terms)),
        f"{counted(found.n_leaves, 'leaf', 'leaves')} of {counted(rows.n_rows, 'row')}: "
        f"{counted(found.depth, 'level')}, cost {estimator.inertia_:.6g}, {seconds:.2f} s",
        *written_lines(model, join),
        *(f"tree: {path}" for path in (chain, newick, nodes) if path),
    )


def _leaf_terms(estimator: Any, most: int) -> list[list[str]]:
    """What tells each leaf from its siblings."""
    of_nodes = estimator.node_terms(most)
    return [of_nodes[node] for node in estimator.tree_.leaves]


def _write(path: Path, text: str) -> None:
    from sparsecluster.storage.atomic import atomic_file

    with atomic_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
