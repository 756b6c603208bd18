"""`sparsecluster predict`: the clusters of other rows, by a model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.joining import OUTPUT, Joining
from sparsecluster.cli.labels import check_ending, write_labels
from sparsecluster.cli.machines import Machines
from sparsecluster.cli.models import has_centers, open_model
from sparsecluster.cli.options import Reading, Running
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    from sparsecluster.prepare.join_text import Results


def predict(
    model: Path,
    data: Data,
    *,
    labels: Annotated[
        str | None,
        Parameter(group=OUTPUT, name=["--labels", "-o"], allow_leading_hyphen=True),
    ] = None,
    joining: Joining = Joining(),
    zero_rows: Literal["error", "first"] | None = None,
    missing_columns: Literal["error", "zero"] = "error",
    beam: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    reading: Reading = Reading(),
    machines: Machines = Machines(),
    running: Running = Running(),
) -> None:
    """Find the cluster of each row of a file, block by block.

    Parameters
    ----------
    model
        A model that fit, tree or dbscan wrote.
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    labels
        Where to write the clusters: .npy, .csv, .txt, .parquet, or - for standard output,
        which is the default without --join.
    zero_rows
        With cosine, what to do with rows that are zero (for text: without a known word): refuse
        them, or put them into cluster 0; by default as the model was fitted.
    missing_columns
        Whether a file that lacks some of the model's columns, by name, is refused, or these are
        zero.
    beam
        Of a model that tree wrote: how many nodes of a level to follow; 0 compares rows with all
        leaves. By default 1.
    """
    from sparsecluster import read_blocks
    from sparsecluster.prepare.join_text import Results

    if labels is None and joining.join is None:
        labels = STDOUT
    check_ending(labels)
    inputs = Inputs(data)
    check_outputs(inputs=[model, *inputs.paths], files=[labels, joining.join])
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    estimator = open_model("predict", model, inputs.path, predicts=True)
    estimator.n_threads = running.threads
    centers = has_centers(estimator)
    if zero_rows is not None and not centers:
        raise ValueError(f"--zero-rows needs a model with centers, and {model} has none.")
    if zero_rows is not None:
        estimator.zero_rows = zero_rows
    if beam is not None and not hasattr(estimator, "n_leaves_"):
        raise ValueError(f"--beam needs a model that tree wrote, and {model} is another.")
    how = {} if beam is None else {"beam": beam}
    if machines.executor is not None:
        n_rows = _predict_there(estimator, inputs, labels, joining, machines, screen)
        summary = f"{labels}: clusters of {counted(n_rows, 'row')}"
        screen.result({"rows": n_rows, "labels": labels, "join": None}, summary)
        return
    join = joining.plan(inputs.given, reading, like=estimator, distances=centers)
    options: dict[str, Any] = {
        "missing_columns": missing_columns,
        "n_threads": running.threads,
        **reading.given(),
    }

    def parts(write: Callable[[Results], None] | None) -> Iterator[Results]:
        for rows in read_blocks(inputs.given, like=estimator, progress=show, **options):
            found = Results(estimator.predict(rows, **how), ids=rows.ids)
            if write is not None:
                distances = estimator.label_distances(rows, found.labels) if centers else None
                write(found._replace(distances=distances))
            yield found

    with (
        screen.warnings_in_words(),
        screen.progress(f"predicting {inputs.name}", inputs.path) as show,
        nullcontext() if join is None else join.writing() as write,
    ):
        if labels is None:
            n_rows = sum(len(part.labels) for part in parts(write))
        else:
            n_rows = write_labels(labels, parts(write))
    sys.stdout.flush()
    written = [labels, *([str(join.out)] if join else [])]
    screen.result(
        {"rows": n_rows, "labels": labels, "join": join and str(join.out)},
        *(
            f"{file}: clusters of {counted(n_rows, 'row')}"
            for file in written
            if file not in (None, STDOUT)
        ),
    )


def _predict_there(
    estimator: Any,
    inputs: Inputs,
    labels: str | None,
    joining: Joining,
    machines: Machines,
    screen: Screen,
) -> int:
    """Have workers write the labels of a store; how many there are."""
    from sparsecluster.storage.store_files import is_store

    if joining.join is not None:
        machines.refuse_with("--join")
    if labels is None or not labels.endswith(".npy"):
        raise ValueError(f"{machines.option} needs --labels FILE.npy, which the workers write.")
    machines.check_store(inputs.path is not None and is_store(inputs.path))
    if not hasattr(estimator, "write_labels"):
        raise ValueError(
            f"{machines.option} needs a model of KMeans, SphericalKMeans or MiniBatchKMeans."
        )
    estimator.executor = machines.executor
    with screen.warnings_in_words():
        return estimator.write_labels(inputs.given, labels)
