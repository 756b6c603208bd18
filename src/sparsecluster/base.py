"""SparseEstimator: what every estimator shares, whatever it finds in the rows."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sparsecluster.prepare.annotated import is_annotated
from sparsecluster.prepare.entrance import enter, names_of_frame
from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.metric import Metric
from sparsecluster.rows.parameters import (
    By,
    Constraint,
    Function,
    check_number,
    integer,
)
from sparsecluster.rows.recipe import Recipe
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import Rows
from sparsecluster.run.history import (
    AssignmentRecord,
    Callback,
    IterationRecord,
    Reporter,
    SeedingRecord,
    describe,
)
from sparsecluster.storage.fields import NAMES, Field

SET_BY_CHECKS = ("n_features_in_", "feature_names_in_")


class SparseEstimator(BaseEstimator):
    """The base of every estimator: parameters, rows, names, progress, saving.

    A subclass declares what its parameters may be in `_parameters`, and what a model file keeps of
    its fit in `_fitted`: names of attributes, and how each is stored and checked. It calls `_enter`
    for its rows, and `_remember` when it has fitted them: only then the estimator changes.
    """

    _parameters: ClassVar[dict[str, Constraint]] = {
        "n_threads": By(effective_n_threads),
        "memory_limit": By(effective_memory_limit).optional,
        "verbose": integer(0),
        "callback": Function().optional,
    }
    _fitted: ClassVar[dict[str, Field]] = {"feature_names_": NAMES, "feature_names_in_": NAMES}

    n_threads: int | None
    memory_limit: int | str | None
    verbose: int
    callback: Callback | None
    feature_names_: np.ndarray | None
    recipe_: dict[str, Any]
    _entered: dict[str, Any]

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        for name, constraint in self._parameters.items():
            constraint.check(name, getattr(self, name))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- rows ---------------------------------------------------------------------------------

    def _enter(self, X: Any, *, reset: bool) -> Rows:
        """The checked rows of X; of a fit with `reset`, else like those that were fitted."""
        before = self._take_columns()
        try:
            self.__dict__.update(before)
            if not reset and names_of_frame(X) is not None:
                known = self._names_of_columns(self.recipe)
                if known is not None:
                    # scikit-learn compares the names of a frame with those of a file, too.
                    self.feature_names_in_ = np.array(known, dtype=object)
            rows = enter(
                X,
                n_threads=effective_n_threads(self.n_threads),
                like=None if reset else self,
                validate=partial(self._validated, reset=reset),
            )
            if isinstance(X, Rows | str | os.PathLike) or is_annotated(X):
                self._check_columns(rows, reset=reset)
        finally:
            # Until a fit has succeeded the estimator is what it was.
            found = self._take_columns()
            self.__dict__.update(before)
        if reset:
            self._entered = found
        return rows

    def _enter_points(self, X: Any, measure: Metric, zero_rows: str, *, reset: bool) -> Rows:
        """The same as points of a metric; those of a fit are refused where all squares vanish."""
        rows = self._enter(X, reset=reset)
        points_of = measure.rows_to_fit if reset else measure.rows
        return points_of(
            rows,
            n_threads=effective_n_threads(self.n_threads),
            zero_rows=zero_rows,
            # To ask how much memory is free takes longer than a small fit: only where it matters.
            memory_limit=effective_memory_limit(self.memory_limit) if rows.in_file else 2**62,
        )

    def _enter_unread(self, rows: Rows) -> None:
        """Take the columns of rows that are fitted elsewhere."""
        before = self._take_columns()
        self._check_columns(rows, reset=True)
        self._entered = self._take_columns()
        self.__dict__.update(before)

    def _take_columns(self) -> dict[str, Any]:
        """What scikit-learn's checks know of the columns, taken away."""
        return {name: self.__dict__.pop(name) for name in SET_BY_CHECKS if name in self.__dict__}

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if self._needs_no_conversion(X, reset=reset):
            if reset:
                self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = X.shape[1]
            return X
        return validate_data(self, X, reset=reset, **INPUT)

    def _needs_no_conversion(self, X: Any, *, reset: bool) -> bool:
        """Whether scikit-learn's checks, which take longer than a small batch, would pass X on."""
        if sp.issparse(X):
            as_wanted = X.format == "csr"
        else:
            as_wanted = type(X) is np.ndarray and X.ndim == 2 and X.flags.c_contiguous
        return (
            as_wanted
            and X.dtype in (np.float32, np.float64)
            and min(X.shape) > 0
            and (reset or X.shape[1] == self.n_features_in_)
            and (reset or not hasattr(self, "feature_names_in_"))
        )

    def _check_columns(self, rows: Rows, *, reset: bool) -> None:
        """What scikit-learn's checks do about columns, for rows that need no other check."""
        if reset:
            self.__dict__.pop("feature_names_in_", None)
            self.n_features_in_ = rows.n_features
            return
        advice = "Pass the path, so that the file is read as the training data were, or call "
        advice += "read(path, like=model)."
        if rows.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {rows.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input. {advice}"
            )
        recipe = self.recipe
        if recipe is not None and rows.recipe is not None and not recipe.same_values(rows.recipe):
            raise ValueError(f"X was not prepared in the same way as the training data. {advice}")
        names, known = rows.feature_names, self._names_of_columns(recipe)
        if names is None or known is None or names is known:
            return
        if not np.array_equal(names, known):
            raise ValueError(
                f"The columns of X have other names than the training data, or another order. "
                f"{advice}"
            )

    def _names_of_columns(self, recipe: Recipe | None) -> Any:
        """The names by which columns are matched: those of the file, or the frame, of the fit."""
        return getattr(self, "feature_names_in_", None) if recipe is None else recipe.column_names

    def _remember(self, rows: Rows, feature_names: np.ndarray | None) -> None:
        """Keep what the rows of a fit know about their columns, now that it has succeeded."""
        self._take_columns()
        self.__dict__.update(self.__dict__.pop("_entered"))
        self.feature_names_ = rows.feature_names if feature_names is None else feature_names
        self.__dict__.pop("recipe_", None)
        if rows.recipe is not None:
            # The names are kept once, unless others are to be shown, or none.
            shared = feature_names is None and not rows.recipe.embedded
            names = None if shared else rows.recipe.names
            self.recipe_ = rows.recipe.get_state() | {"names": names}

    @property
    def recipe(self) -> Recipe | None:
        """How the file that was fitted became rows; None where it was a matrix."""
        state = self.__dict__.get("recipe_")
        if state is None:
            return None
        names = self.feature_names_ if state["names"] is None else state["names"]
        return Recipe.from_state(state | {"names": names})

    # --- progress -----------------------------------------------------------------------------

    def _reporter(self) -> Reporter:
        """What to call after each iteration: shows it, if asked to, then calls the callback.

        While there are no iterations yet, `on_seeding` of the callback is called, if it has that,
        and within an iteration that takes long `on_assignment`.
        """

        def report(record: IterationRecord | SeedingRecord | AssignmentRecord) -> Any:
            if not isinstance(record, IterationRecord):
                name = "on_seeding" if isinstance(record, SeedingRecord) else "on_assignment"
                if (hear := getattr(self.callback, name, None)) is not None:
                    hear(record)
                return None
            self._show(describe(record))
            return self.callback(record) if self.callback else None

        return report

    def _show(self, line: str) -> None:
        """Print a line of progress, if asked to."""
        if not self.verbose:
            return
        from rich.console import Console

        # A terminal that went away must not end the fit.
        with contextlib.suppress(OSError, ValueError):
            Console().print(line, highlight=False, soft_wrap=True)

    # --- files --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, labels: bool = True) -> None:
        """Save the fitted estimator to a file that :func:`~sparsecluster.load_model` reads.

        It is a safetensors file: arrays and JSON, no code. `predict` gives the same labels after
        loading, and `partial_fit` of MiniBatchKMeans continues from there. The file appears whole
        or not at all; an existing one is replaced.

        Parameters
        ----------
        path : str or path
            The file, by custom ``*.safetensors``.
        labels : bool, default=True
            Whether `labels_` are saved too.

        Notes
        -----
        A file cannot hold functions (`callback`, `init`) and a `random_state` that is a
        RandomState: these parameters are left out and have their defaults after loading. An
        attribute `recipe_`, a dict of what JSON can say and of arrays, is saved if it is there.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from sparsecluster import KMeans, load_model
        >>> km = KMeans(n_clusters=2, random_state=0).fit(np.array([[1.0], [2.0], [9.0]]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     km.save(path)
        ...     load_model(path).inertia_ == km.inertia_
        True
        """
        from sparsecluster.storage.model import save_model

        self.check_parameters()
        state = self.get_state()
        if not labels:
            state.pop("labels_", None)
        save_model(self, state, path)

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        has = self.__dict__
        state = {name: field.pack(has[name]) for name, field in self._fitted.items() if name in has}
        if "recipe_" in has:
            state["recipe_"] = has["recipe_"]
        return state | {"n_features_in_": self.n_features_in_}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave; refuses what no fit leaves.

        With `verify` values are looked at, too, which takes reading all arrays.
        """
        if "feature_names_" not in state:
            raise ValueError("does not say whether its features have names")
        n_features = state.pop("n_features_in_", None)
        if n_features is not None:  # files of version 1 leave it to their centers
            check_number("n_features_in_", n_features, int, 1)
            if n_features != self.__dict__.setdefault("n_features_in_", n_features):
                raise ValueError(f"is not of {n_features} features")
        recipe = state.pop("recipe_", None)
        if recipe is not None:
            if not isinstance(recipe, dict):
                raise ValueError("has something else than a dict as recipe_")
            self.recipe_ = recipe
        for name, value in state.items():
            if name not in self._fitted:
                raise ValueError(f"has an unknown attribute {name!r}")
            setattr(self, name, self._fitted[name].unpack(name, value, self.n_features_in_))
