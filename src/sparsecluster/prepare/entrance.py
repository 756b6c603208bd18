"""The one way in for data: whatever a user passes as X becomes checked rows here."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.utils.validation import check_array

from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.rows import Rows, as_rows, check_input


def names_of_frame(X: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else, and where some are none."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def enter(
    X: Any,
    *,
    n_threads: int = 1,
    name: str = "X",
    like: Any = None,
    validate: Callable[[Any], Any] | None = None,
) -> Rows:
    """A matrix, a data frame, Rows, a store or a path as rows that passed every check.

    A path is read, in the way of the fitted `like` where there is one. `validate` brings a matrix
    or frame to CSR or a C-ordered array of floats; by default scikit-learn's check_array does.
    """
    if isinstance(X, str | os.PathLike):
        from sparsecluster.prepare.read import read

        X = read(X, like=like)
    if isinstance(X, Rows):
        return X.checked()
    X = check_input(X, name)
    validate = validate or partial(check_array, input_name=name, **INPUT)
    return as_rows(validate(X), n_threads=n_threads, name=name)
