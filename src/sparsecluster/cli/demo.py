"""`sparsecluster demo`: the main job on text that every Python installation has."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.words import counted

if TYPE_CHECKING:
    from rich.table import Table


def demo(*, clusters: int = 20, terms: int = 8, seed: int = 0, save: Path | None = None) -> None:
    """Cluster the docstrings of this Python installation and show the clusters.

    Parameters
    ----------
    clusters
        How many clusters to make.
    terms
        How many terms to show for each cluster.
    seed
        The random state of the clustering.
    save
        Write the docstrings to this file instead, one per line: text to try other commands on.
    """
    from sparsecluster import KMeans
    from sparsecluster.datasets.docstrings import load_docstrings, save_docstrings, vectorize

    for name, value in (("clusters", clusters), ("terms", terms)):
        if value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}.")
    if save is not None:
        check_outputs(inputs=[], files=[save])
        save_docstrings(save)
        return
    console, laps = Console(), [time.perf_counter()]
    with console.status("reading docstrings") as status:
        texts, modules = load_docstrings()
        laps.append(time.perf_counter())
        status.update("vectorizing")
        X, names = vectorize(texts)
        laps.append(time.perf_counter())
        status.update("clustering")
        model = KMeans(clusters, random_state=seed).fit(X, feature_names=names)
        laps.append(time.perf_counter())

    console.print(
        f"[bold]{X.shape[0]:,}[/] docstrings of [bold]{len(set(modules)):,}[/] modules, "
        f"[bold]{X.shape[1]:,}[/] terms, [bold]{X.nnz:,}[/] entries"
    )
    console.print(_table(model, modules, terms))
    console.print(
        f"{counted(clusters, 'cluster')} from seed {seed}: {counted(model.n_iter_, 'iteration')}, "
        f"cost {model.inertia_:,.1f}"
    )
    reading, vectorizing, clustering = (b - a for a, b in pairwise(laps))
    console.print(
        f"reading {reading:.2f} s, vectorizing {vectorizing:.2f} s, clustering {clustering:.2f} s"
    )


def _table(model: Any, modules: list[str], terms: int) -> Table:
    """Show the clusters, largest first: number, size, top terms, and where its texts come from."""
    import numpy as np
    from rich.table import Table

    packages = np.array([public_name(module) for module in modules])
    sizes = np.bincount(model.labels_)
    top_terms = model.top_terms(terms)

    table = Table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("size", justify="right")
    table.add_column("top terms", style="bold", ratio=3)
    table.add_column("mostly from", style="cyan", ratio=2)
    for label in np.argsort(-sizes, kind="stable"):
        sources = Counter(packages[model.labels_ == label].tolist()).most_common(3)
        table.add_row(
            str(label),
            f"{sizes[label]:,}",
            ", ".join(top_terms[label]),
            ", ".join(name for name, _ in sources),
        )
    return table


def public_name(module: str) -> str:
    """Shorten a module's name to its first two public parts.

    >>> public_name("sklearn.cluster._kmeans"), public_name("xml.dom.minidom"), public_name("_io")
    ('sklearn.cluster', 'xml.dom', '_io')
    """
    parts = module.split(".")
    public = [part for part in parts if not part.startswith("_")]
    return ".".join(public[:2] or parts[:1])
