"""Models, told from data where one is given for the other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any


def is_model(path: Path) -> bool:
    """Whether a file begins as safetensors do: the length of a header, then the header."""
    if not path.is_file():
        return False
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") < size


def command(*words: Any) -> str:
    """A command line, as it would be typed."""
    return f"`sparsecluster {shlex.join(map(str, words))}`"


def has_centers(estimator: Any) -> bool:
    """Whether the clusters of a model are centers."""
    return hasattr(type(estimator), "transform")


def only_transforms(estimator: Any) -> bool:
    """Whether a model makes other columns, and no clusters."""
    from sklearn.base import is_clusterer

    return not is_clusterer(estimator)


def open_model(name: str, model: Path, data: Path | None, *, predicts: bool = False) -> Any:
    """Load the model of a command `name MODEL DATA`; refuses the two in the wrong order, and a
    model without what the command needs."""
    from sparsecluster import load_model

    if data is not None and is_model(data) and not is_model(model):
        raise ValueError(
            f"{model} is not a model, and {data} is one. Did you mean {command(name, data, model)}?"
        )
    estimator = load_model(model)
    if predicts and only_transforms(estimator):
        raise ValueError(f"{model} is a {type(estimator).__name__}, which has no clusters.")
    if predicts and not hasattr(estimator, "predict"):
        raise ValueError(
            f"{model} is a {type(estimator).__name__} model: it has labels for the rows that it "
            f"was fitted to, and knows no cluster of others."
        )
    return estimator


def check_data(path: Path | None) -> None:
    """Refuse a model where data are read."""
    if path is not None and is_model(path):
        raise ValueError(
            f"{path} is a model, and data are needed. Did you mean {command('inspect', path)} or "
            f"`sparsecluster predict {shlex.quote(str(path))} DATA`?"
        )
