"""`sparsecluster predict`: the clusters of other rows, by a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from sparsecluster.cli.inputs import Data, Inputs
from sparsecluster.cli.labels import check_ending, write_labels
from sparsecluster.cli.models import open_model
from sparsecluster.cli.options import Reading, Running
from sparsecluster.cli.outputs import STDOUT, check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted

if TYPE_CHECKING:
    import numpy as np


def predict(
    model: Path,
    data: Data,
    *,
    labels: Annotated[str, Parameter(name=["--labels", "-o"], allow_leading_hyphen=True)] = STDOUT,
    zero_rows: Literal["error", "first"] | None = None,
    missing_columns: Literal["error", "zero"] = "error",
    reading: Reading = Reading(),
    running: Running = Running(),
) -> None:
    """Find the cluster of each row of a file, block by block.

    Parameters
    ----------
    model
        A model that fit wrote.
    data
        A store, a file as convert takes it, several files, a pattern in quotes ('part-*.csv'), a
        folder of files, or - for standard input.
    labels
        Where to write the clusters: .npy, .csv, .txt, or - for standard output.
    zero_rows
        With cosine, what to do with rows that are zero (for text: without a known word): refuse
        them, or put them into cluster 0; by default as the model was fitted.
    missing_columns
        Whether a file that lacks some of the model's columns, by name, is refused, or these are
        zero.
    """
    from sparsecluster import read_blocks

    check_ending(labels)
    inputs = Inputs(data)
    check_outputs(inputs=[model, *inputs.paths], files=[labels])
    screen = Screen(running, summary_to_stderr=labels == STDOUT)
    estimator = open_model("predict", model, inputs.path)
    estimator.n_threads = running.threads
    if zero_rows is not None:
        estimator.zero_rows = zero_rows
    options: dict[str, Any] = {
        "missing_columns": missing_columns,
        "n_threads": running.threads,
        **reading.given(),
    }

    with (
        screen.warnings_in_words(),
        screen.progress(f"predicting {inputs.name}", inputs.path) as show,
    ):

        def parts() -> Iterator[np.ndarray]:
            for rows in read_blocks(inputs.given, like=estimator, progress=show, **options):
                yield estimator.predict(rows)

        n_rows = write_labels(labels, parts())
    sys.stdout.flush()
    lines = [] if labels == STDOUT else [f"{labels}: clusters of {counted(n_rows, 'row')}"]
    screen.result({"rows": n_rows, "labels": labels}, *lines)
