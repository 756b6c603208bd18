"""`sparsecluster report`: a page about a model, to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from sparsecluster.cli.models import has_centers, open_model
from sparsecluster.cli.options import Reading, Running, Shown
from sparsecluster.cli.outputs import check_outputs
from sparsecluster.cli.screen import Screen
from sparsecluster.rows.errors import counted


def report(
    model: Path,
    data: Path | None = None,
    *,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    terms: Shown = 10,
    examples: Annotated[int, Parameter(validator=Number(gte=0))] = 3,
    reading: Reading = Reading(),
    running: Running = Running(),
) -> None:
    """Write a page about a model: how the fit went, and its clusters with sizes and top terms.

    With data it also shows how far their rows are from the centers, and which are nearest. They are
    read as the training data were, block by block, so they may be larger than memory. For a model
    of dbscan it shows how far the rows are from their neighbors; they are read into memory.

    Parameters
    ----------
    model
        A model that fit, tree, dbscan or hierarchy wrote.
    data
        A store, or a file as convert takes it; for text, the nearest documents are shown.
    out
        The page to write; by default the name of the model with .html.
    terms
        How many terms to show for each cluster.
    examples
        How many of the rows nearest to each center to show.
    """
    from sparsecluster import make_report, read, read_blocks
    from sparsecluster.prepare.read import read_documents

    out = model.with_suffix(".html") if out is None else out
    check_outputs(inputs=[model, data], files=[out])
    if data is None and reading != Reading():
        raise ValueError("Options for reading have no effect without data.")
    screen = Screen(running)
    estimator = open_model("report", model, data)
    estimator.n_threads = running.threads
    rows, texts, title, about = None, None, model.name, f"reporting on {model.name}"
    with screen.warnings_in_words(), screen.progress(about, data) as show:
        if data is not None:
            options = reading.given()
            reader = read_blocks if has_centers(estimator) else read
            rows = reader(data, like=estimator, n_threads=running.threads, progress=show, **options)
            if has_centers(estimator):
                texts = read_documents(data, like=estimator, **options)
            title += f" with {data.name}"
        made = make_report(
            estimator, rows, terms=terms, examples=examples, texts=texts, title=title
        )
        made.save(out)
    found = {"rows": made.rows, "cost": made.cost, "same_rows": made.same_rows}
    summary = {"report": str(out), "clusters": int(estimator.n_clusters_), **found}
    screen.result(summary, f"{out}: a page on {counted(estimator.n_clusters_, 'cluster')}")
