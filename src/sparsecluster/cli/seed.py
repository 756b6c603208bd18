"""`sparsecluster seed`: starting centers, on their own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from sparsecluster.cli.fit import read_rows
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.machines import Machines
from sparsecluster.cli.options import Clusters, Preparing, Reading, Running, Seed, given_options
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.cli.starting import Starting


def seed(
    data: Data,
    *,
    clusters: Clusters,
    method: str = "k-means++",
    metric: Literal["euclidean", "cosine"] = "euclidean",
    seed: Seed = None,
    memory_limit: str | None = None,
    centers: Path | None = None,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
    machines: Machines = Machines(),
    starting: Starting = Starting(),
) -> None:
    """Choose starting centers and list the rows that they are, one per line.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    clusters
        How many to choose.
    method
        How: k-means++, random, mcmc, furthest-first and others, as fit --init takes them.
    metric
        With cosine only the direction of a row counts.
    seed
        The random state: the same seed gives the same rows.
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    centers
        Write the centers to this .npz file, which fit --init takes.
    """
    import scipy.sparse as sp

    from sparsecluster import seed_centers
    from sparsecluster.kmeans.seeding.starting import check_method
    from sparsecluster.rows.resources import effective_memory_limit
    from sparsecluster.storage.atomic import atomic_file

    if centers is not None and centers.suffix != ".npz":
        raise ValueError(f"{centers}: centers are written as .npz.")
    inputs = Inputs(data)
    check_outputs(inputs=inputs.paths, files=[centers])
    check_method(method, metric, given_options(starting), name="method")
    effective_memory_limit(memory_limit)
    screen = Screen(running)
    with screen.warnings_in_words():
        rows = read_rows(inputs, reading, preparing, running, screen)
        machines.check_store(rows.in_file)
        with screen.progress("seeding") as show:
            found, indices = seed_centers(
                rows,
                clusters,
                method,
                metric=metric,
                random_state=seed,
                n_threads=running.threads,
                memory_limit=memory_limit,
                executor=machines.executor,
                progress=show,
                **given_options(starting),
            )
    if centers is not None:
        with atomic_file(centers) as partial, partial.open("wb") as file:
            sp.save_npz(file, sp.csr_array(found))
    listed = None if indices is None else [int(row) for row in indices]
    summary = {"clusters": int(found.shape[0]), "rows": listed}
    if listed is not None and not (running.json or running.quiet):
        sys.stdout.write("".join(f"{row}\n" for row in listed))
    note = "the centers are means, not rows; --centers FILE.npz saves them"
    screen.result(summary, *([note] if listed is None and centers is None else []))
