"""`sparsecluster choose-k`: how many clusters there are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.fit import read_rows
from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT
from sparsecluster.cli.options import Preparing, Reading, Running, Seed, checkpoint_folder
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from sparsecluster import Choice

K = Annotated[int, Parameter(validator=Number(gte=2))]
PICTURES = (".png", ".svg", ".pdf")


def choose_k(
    data: Data,
    *,
    least: K = 2,
    most: K = 20,
    step: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    zero_rows: Literal["error", "first"] = "error",
    resamples: Annotated[int, Parameter(validator=Number(gte=0))] = 1,
    seed: Seed = None,
    memory_limit: str | None = None,
    checkpoint: Annotated[Path | None, Parameter(converter=checkpoint_folder)] = None,
    every: str = "60s",
    model: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    table: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    plot: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    reading: Reading = Reading(),
    preparing: Preparing = Preparing(),
    running: Running = Running(),
) -> None:
    """Try every number of clusters in a range, and recommend one: why, and what speaks against it.

    Parameters
    ----------
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    least
        The smallest number of clusters to try.
    most
        The largest number of clusters to try.
    step
        Difference between one number and the next.
    metric
        How rows are compared; with cosine by their direction alone, which is better for text.
    zero_rows
        With cosine, what to do with rows of zeros: refuse them, or put them into cluster 0.
    resamples
        How many samples of the rows to cluster as well, to see whether the same clusters come back.
        0 for none.
    seed
        The random state: the same seed gives the same clusters.
    memory_limit
        Memory beyond the data, like 2GB; by default half of what is free.
    checkpoint
        A folder that keeps the state of the search, so that it can resume after it was killed.
    every
        Seconds (or 90s, 5m, 1h) between two checkpoints.
    model
        Write a model with the recommended number of clusters, as fit does.
    table
        Write the measures of every number that was tried to this .csv file.
    plot
        Draw cost, silhouette and stability against K: .png, .svg or .pdf. Needs matplotlib.
    """
    from sparsecluster import choose_k as choose
    from sparsecluster.rows.resources import effective_memory_limit
    from sparsecluster.storage.checkpoint import seconds as parsed_seconds

    if least > most:
        raise ValueError(f"--least {least} is above --most {most}.")
    if table is not None and table.suffix != ".csv":
        raise ValueError(f"{table}: the table is written as .csv.")
    if plot is not None:
        _check_plot(plot)
    if zero_rows != "error" and metric != "cosine":
        raise ValueError("--zero-rows needs --metric cosine.")
    effective_memory_limit(memory_limit)
    try:
        parsed_seconds(every)
    except ValueError as error:
        raise ValueError(str(error).replace("checkpoint_every", "--every")) from None
    inputs, screen = Inputs(data), Screen(running)
    check_outputs(inputs=inputs.paths, files=[model, table, plot], checkpoint=checkpoint)
    tried = range(least, most + 1, step)
    with screen.warnings_in_words():
        rows = read_rows(inputs, reading, preparing, running, screen)
        started = time.perf_counter()
        with _resumable(checkpoint), screen.progress("choosing K") as show:

            def told(record: Any) -> None:
                share = sum(range(least, record.k + 1, step)) / sum(tried)
                remarks = (f"K = {record.k}", f"cost {record.cost:.6g}",
                           f"silhouette {record.silhouette:.4f}")  # fmt: skip
                show(share, *remarks)

            choice = choose(
                rows,
                tried,
                metric=metric,
                zero_rows=zero_rows,
                n_resamples=resamples,
                random_state=seed,
                n_threads=running.threads,
                memory_limit=memory_limit,
                callback=told,
                checkpoint=checkpoint,
                checkpoint_every=every,
            )
        seconds = time.perf_counter() - started
        if model is not None:
            _fitted(choice, rows, zero_rows, running.threads).save(model)
    if table is not None:
        _write_table(choice, table)
    if plot is not None:
        _draw(choice, plot)
    columns = choice.table.dtype.names or ()
    screen.result(
        {
            "rows": rows.n_rows,
            "columns": rows.n_features,
            "metric": metric,
            "k": choice.k,
            "reason": choice.reason,
            "doubt": choice.doubt,
            "knee": choice.knee,
            "tried": [dict(zip(columns, row.item(), strict=True)) for row in choice.table],
            "seconds": seconds,
            "model": model and str(model),
            "table": table and str(table),
            "plot": plot and str(plot),
            "checkpoint": checkpoint and str(checkpoint),
        },
        _shown(choice),
        choice.reason,
        f"Doubt: {choice.doubt[0].lower()}{choice.doubt[1:]}",
        f"{counted(len(choice.table), 'clustering')} of {counted(rows.n_rows, 'row')}: "
        f"{seconds:.2f} s",
        *(f"{name}: {path}" for name, path in (("model", model), ("plot", plot)) if path),
    )


@contextmanager
def _resumable(checkpoint: Path | None) -> Iterator[None]:
    """Whoever interrupts the search is told whether it can resume."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise KeyboardInterrupt(
            f"interrupted. {checkpoint} holds the search up to the last K that was whole: run the "
            f"same command again to resume"
        ) from None


def _check_plot(plot: Path) -> None:
    from importlib.util import find_spec

    if plot.suffix not in PICTURES:
        raise ValueError(f"{plot}: pictures are written as {', '.join(PICTURES)}.")
    if find_spec("matplotlib") is None:
        raise ValueError(f"{plot} needs matplotlib: pip install 'sparsecluster[plot]'.")


def _shown(choice: Choice) -> Any:
    from rich.table import Table

    table = Table()
    for name in ("K", "cost", "silhouette", "simplified", "stability", ""):
        table.add_column(name, justify="right" if name else "left")
    for row in choice.table:
        marks = [name for name, k in (("choice", choice.k), ("knee", choice.knee)) if k == row["k"]]
        stable = "" if row["stability"] != row["stability"] else f"{row['stability']:.3f}"
        means = (f"{row[name]:.4f}" for name in ("silhouette", "simplified_silhouette"))
        cells = (f"{row['k']}", f"{row['cost']:.6g}", *means, stable)
        table.add_row(*cells, ", ".join(marks), style="bold" if row["k"] == choice.k else None)
    return table


def _fitted(choice: Choice, rows: Any, zero_rows: str, threads: int | None) -> Any:
    """The clustering that was chosen as a model; k-means settles from its centers."""
    from sparsecluster import KMeans, SphericalKMeans

    kind, options = KMeans, {"init": choice.centers, "n_threads": threads}
    if choice.metric == "cosine":
        kind, options = SphericalKMeans, {**options, "zero_rows": zero_rows}
    return kind(choice.k, **options).fit(rows)


def _write_table(choice: Choice, path: Path) -> None:
    from sparsecluster.storage.atomic import atomic_file

    lines = [",".join(choice.table.dtype.names or ())]
    lines += [",".join(repr(value) for value in row.item()) for row in choice.table]
    with atomic_file(path) as partial:
        partial.write_text("\n".join(lines) + "\n")


def _draw(choice: Choice, path: Path) -> None:
    import matplotlib

    from sparsecluster.storage.atomic import atomic_file

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    upper, _ = choice.plot()
    with atomic_file(path) as partial, partial.open("wb") as file:
        upper.figure.savefig(file, format=path.suffix[1:], dpi=144)
    plt.close(upper.figure)
