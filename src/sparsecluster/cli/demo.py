"""`sparsecluster demo`: the main job on text that every Python installation has."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sparsecluster.cli.clusters import clusters_table
from sparsecluster.cli.options import Clusters, Seed, Shown
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    import numpy as np


def demo(
    *, clusters: Clusters = 20, terms: Shown = 8, seed: Seed = 0, save: Path | None = None
) -> None:
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
    sources = ("mostly from", _mostly_from(model.labels_, modules))
    console.print(*clusters_table(model, terms, sources, most=clusters))
    console.print(
        f"{counted(clusters, 'cluster')} from seed {seed}: {counted(model.n_iter_, 'iteration')}, "
        f"cost {model.inertia_:,.1f}"
    )
    reading, vectorizing, clustering = (b - a for a, b in pairwise(laps))
    console.print(
        f"reading {reading:.2f} s, vectorizing {vectorizing:.2f} s, clustering {clustering:.2f} s"
    )


def _mostly_from(labels: np.ndarray, modules: list[str]) -> list[str]:
    """For each cluster the packages that most of its texts come from."""
    found = [Counter[str]() for _ in range(labels.max() + 1)]
    for label, module in zip(labels, modules, strict=True):
        found[label][public_name(module)] += 1
    return [", ".join(name for name, _ in packages.most_common(3)) for packages in found]


def public_name(module: str) -> str:
    """Shorten a module's name to its first two public parts.

    >>> public_name("sklearn.cluster._kmeans"), public_name("xml.dom.minidom"), public_name("_io")
    ('sklearn.cluster', 'xml.dom', '_io')
    """
    parts = module.split(".")
    public = [part for part in parts if not part.startswith("_")]
    return ".".join(public[:2] or parts[:1])
