"""Starting centers: by a method's name, given, or from a user's function."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.seeding.registry import METHODS
from sparsecluster.kmeans.seeding.shared import SampledRows
from sparsecluster.kmeans.setting import SeedSetting
from sparsecluster.rows.parameters import check_name, check_number
from sparsecluster.rows.rows import MAX_INDEX, Rows


def starting_centers(
    init: Any,
    rows: Rows,
    n_clusters: int,
    setting: SeedSetting,
    options: dict[str, Any] | None = None,
) -> _core.Centers:
    """Centers to start from; fewer where there are fewer distinct rows."""
    if callable(init):
        matrix = rows.matrix if rows.selected is None else rows.picked(np.arange(rows.n_rows))
        init = init(matrix, n_clusters, random_state=setting.random_state)
        if isinstance(init, tuple):
            raise ValueError(
                "The init function returned a tuple; it must return the centers alone."
            )
    if not isinstance(init, str):
        given = centers_.check_centers(init, n_clusters, rows.n_features)
        return centers_.to_core(setting.metric.centers(given))
    centers, _ = seed_by_name(init, rows, n_clusters, setting, options)
    return centers_.to_core(centers)


def seed_by_name(
    method: str, rows: Rows, n_clusters: int, setting: SeedSetting, options: dict[str, Any] | None
) -> tuple[sp.csr_array, np.ndarray | None]:
    """Centers in float64, and the rows they are, or None where they are not rows."""
    check_method(method, setting.metric.name, options)
    eligible, useful = None, setting.metric.useful(rows.core.norm2)
    if not useful.all():
        eligible = np.flatnonzero(useful)
        setting = among(eligible, setting)
        rows = rows.select(eligible)
    centers, found = seed_among(method, rows, n_clusters, setting, options)
    return centers, (found if eligible is None or found is None else eligible[found])


def among(eligible: np.ndarray, setting: SeedSetting) -> SeedSetting:
    """The setting of those rows alone that can be centers: rows without direction cannot."""
    if not len(eligible):
        raise ValueError("All rows of X are zero: there is no direction to start from.")
    weights = None if setting.weights is None else setting.weights[eligible]
    if weights is not None and not weights.any():
        raise ValueError("All rows of X that have weight are zero: there is no direction.")
    return replace(setting, weights=weights)


def seed_among(
    method: str,
    rows: SampledRows,
    n_clusters: int,
    setting: SeedSetting,
    options: dict[str, Any] | None,
) -> tuple[sp.csr_array, np.ndarray | None]:
    """The same of rows each of which can be a center."""
    found = METHODS[method].load()(rows, n_clusters, setting, **(options or {}))
    if sp.issparse(found):
        centers = sp.csr_array(found, dtype=np.float64)
        return setting.metric.centers(centers), None
    return rows.take(found), found


def check_method(
    method: str, metric: str, options: dict[str, Any] | None = None, *, name: str = "init"
) -> None:
    """Refuse unknown names and options, before any work; `name` is what the caller calls it."""
    known = METHODS[check_name(name, method, METHODS)]
    if known.metric not in (None, metric):
        raise ValueError(f"{name}={method!r} needs metric={known.metric!r}.")
    declared = {option.name: option for option in known.options}
    for option, value in (options or {}).items():
        if option not in declared:
            takes = f"takes {', '.join(declared)}" if declared else "takes no options"
            raise ValueError(f"{option!r} is not an option of {name}={method!r}, which {takes}.")
        if declared[option].kind is float:
            check_number(option, value, Real, 0)
            if not 0 < value < np.inf:
                raise ValueError(f"{option} must be positive and finite, got {value!r}.")
        else:
            check_number(option, value, Integral, 1)
            if value > MAX_INDEX:
                raise ValueError(f"{option} must be at most {MAX_INDEX}, got {value!r}.")
