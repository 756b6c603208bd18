"""The one way in for data: whatever a user passes as X becomes checked rows here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import scipy.sparse as sp
from sklearn.utils.validation import check_array

from sparsecluster.prepare.annotated import annotated_rows, in_memory, is_annotated
from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.rows import Rows, as_rows, check_input

LOOKED_AT = 100  # values, for whether they are text


def names_of_frame(X: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else, and where some are none."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return list(names)


def _holds_texts(values: Any) -> bool:
    """Whether there are strings among the first values of a sequence, also one of pyarrow."""
    first = islice(iter(values), LOOKED_AT)
    return any(isinstance(one.as_py() if hasattr(one, "as_py") else one, str) for one in first)


def _refuse_texts(X: Any, name: str, *, fitted: bool) -> None:
    """Refuse a sequence of strings, with the lines that make a matrix of it."""
    one_axis = len(getattr(X, "shape", ())) == 1 and not sp.issparse(X)
    if not (isinstance(X, list | tuple) or one_axis or hasattr(X, "to_pylist")):
        return
    if not _holds_texts(X):
        return
    texts = "texts.to_pylist()" if hasattr(X, "to_pylist") else "texts"
    lines = "from sklearn.feature_extraction.text import TfidfVectorizer\n"
    lines += f"    {name} = TfidfVectorizer().fit_transform({texts})"
    if fitted:
        lines = f"{name} = vectorizer.transform({texts})  # the vectorizer of the fit"
    raise ValueError(
        f"{name} holds texts, and numbers are needed. Count their words first:\n    {lines}\n"
        f"A file of texts can be given by its path."
    )


def _text_columns(X: Any) -> list[str]:
    """The columns of a frame that hold strings."""
    return [name for name in names_of_frame(X) or () if _holds_texts(X[name])]


def _whole_table(X: Any, name: str) -> Any:
    """A table with the names of its columns, also of a batch of pyarrow; others are refused."""
    if hasattr(X, "collect") and not hasattr(X, "shape"):
        raise ValueError(f"{name} is a {type(X).__name__}, which has no rows yet: call .collect().")
    # A sparse matrix of keys is a dict, too.
    if isinstance(X, set | frozenset | dict | bytes | Iterator) and not sp.issparse(X):
        raise ValueError(
            f"{name} must be a matrix, an array or a data frame, got {type(X).__name__}."
        )
    if hasattr(X, "schema") and hasattr(X, "to_struct_array") and hasattr(X, "num_rows"):
        import pyarrow

        return pyarrow.table(X)
    return X


def enter(
    X: Any,
    *,
    n_threads: int = 1,
    name: str = "X",
    like: Any = None,
    validate: Callable[[Any], Any] | None = None,
) -> Rows:
    """A matrix, a data frame (pandas, polars, pyarrow), an AnnData, Rows, a store or a path as rows
    that passed every check.

    A path is read, in the way of the fitted `like` where there is one. `validate` brings a matrix
    or frame to CSR or a C-ordered array of floats; by default scikit-learn's check_array does.
    """
    if isinstance(X, str | os.PathLike):
        from sparsecluster.prepare.read import read

        X = read(X, like=like)
    elif is_annotated(X):
        from sparsecluster.prepare.passes import recipe_of

        fitted = None if like is None else recipe_of(like)
        X = annotated_rows(X, like=fitted, n_threads=n_threads)
    if isinstance(X, Rows):
        return X.checked()
    _refuse_texts(X, name, fitted=like is not None)
    X = check_input(_whole_table(in_memory(X), name), name)
    validate = validate or partial(check_array, input_name=name, **INPUT)
    try:
        matrix = validate(X)
    except (ValueError, TypeError):
        texts = _text_columns(X)
        if not texts:
            raise
        raise ValueError(
            f"{name} has columns of text: {', '.join(texts)}. Drop them, or make numbers of them "
            f"first."
        ) from None
    return as_rows(matrix, n_threads=n_threads, name=name)
