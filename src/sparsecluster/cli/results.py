"""What a fit leaves behind: a model, labels, and a copy of the data with the clusters in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecluster.cli.labels import write_labels
from sparsecluster.cli.models import has_centers

if TYPE_CHECKING:
    from sparsecluster.prepare.join import Join
    from sparsecluster.rows.rows import Rows


def write_results(
    estimator: Any, rows: Rows, *, model: Path | None, labels: str | None, join: Join | None
) -> None:
    """Write what was asked for about a fitted estimator and its rows."""
    from sparsecluster.prepare.join_text import Results

    if model is not None:
        estimator.save(model)
    if labels is not None:
        write_labels(labels, Results(estimator.labels_, ids=rows.ids).pieces())
    if join is not None:
        distances = None
        if has_centers(estimator):
            distances = estimator.label_distances(rows, estimator.labels_)
        with join.writing() as write:
            for piece in Results(estimator.labels_, distances, rows.ids).pieces():
                write(piece)


def written_fields(model: Path | None, labels: str | None, join: Join | None) -> dict[str, Any]:
    """Where that is, for machines."""
    return {"model": model and str(model), "labels": labels, "join": join and str(join.out)}


def written_lines(model: Path | None, join: Join | None) -> list[str]:
    """The same for people."""
    return [
        *([f"model: {model}"] if model else []),
        *([f"joined: {join.out}"] if join else []),
    ]
