"""`sparsecluster neighbors`: the graph of near rows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.densities import distance_lines, distance_summary
from sparsecluster.cli.fit import read_rows
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.options import Preparing, Reading, Running
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def neighbors(
    data: Data,
    *,
    k: Annotated[int | None, Parameter(name=["--k", "-k"], validator=Number(gte=1))] = None,
    radius: float | None = None,
    metric: Literal["cosine", "euclidean"] = "cosine",
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    memory_limit: str | None = None,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Find the nearest rows of each row, or all within a radius, and write their distances.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    k
        How many neighbors of each row to find; 10 by default, unless --radius is given.
    radius
        Find all rows within this distance instead.
    metric
        How rows are compared; with cosine only their direction counts.
    out
        Write the graph to this .npz file: a sparse matrix of distances, each row sorted and
        beginning with itself, as scikit-learn takes it for metric="precomputed".
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    """
    import numpy as np

    from sparsecluster import knn_graph, radius_graph

    if k is not None and radius is not None:
        raise ValueError("--k cannot be combined with --radius.")
    if out is not None and out.suffix != ".npz":
        raise ValueError(f"{out}: graphs are written as .npz.")
    inputs = Inputs(data)
    check_outputs(inputs=inputs.paths, files=[out])
    screen = Screen(running)
    options: dict[str, Any] = {"metric": metric, "memory_limit": memory_limit}
    near = None
    with screen.warnings_in_words():
        rows = read_rows(inputs, reading, preparing, running, screen)
        started = time.perf_counter()
        with screen.progress("searching") as show:
            options |= {"n_threads": running.threads, "progress": show}
            if radius is not None:
                graph = radius_graph(rows, radius, **options)
            else:
                k = 10 if k is None else k
                graph = knn_graph(rows, k, **options)
                near = distance_summary(graph.data[k :: k + 1], k)
    seconds = time.perf_counter() - started
    if out is not None:
        _write(out, graph)
    degrees = np.diff(graph.indptr) - 1
    n_alone = int(np.count_nonzero(degrees == 0))
    summary = {
        "rows": rows.n_rows,
        "columns": rows.n_features,
        "metric": metric,
        "k": k,
        "radius": radius,
        "entries": int(graph.nnz),
        "neighbors_per_row": {"mean": float(degrees.mean()), "most": int(degrees.max())},
        "rows_without_neighbors": n_alone,
        "k_distances": near,
        "seconds": seconds,
        "graph": out and str(out),
    }
    screen.result(
        summary,
        f"{counted(rows.n_rows, 'row')}: {degrees.mean():,.3g} neighbors each on average, "
        f"{degrees.max():,} at most; {counted(n_alone, 'row')} without; "
        f"{seconds:.2f} s",
        *([] if near is None else distance_lines(near)),
        *([f"graph: {out}"] if out else []),
    )


def _write(out: Path, graph: csr_array) -> None:
    import scipy.sparse as sp

    from sparsecluster.storage.atomic import atomic_file

    with atomic_file(out) as partial, partial.open("wb") as file:
        sp.save_npz(file, graph)
