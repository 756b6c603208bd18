"""Size bounds: how many rows a cluster must and may have, and the assignment that keeps them.

An assignment step solves a transportation problem exactly (cpp/sizes): of all ways to share the
rows out within the bounds, one of the lowest cost.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.errors import counted
from sparsecluster.rows.rows import Rows

#: What `algorithm_` and the history name it.
ALGORITHM = "bounded"
NAMES = "size_min or size_max"


@dataclass(frozen=True)
class SizeBounds:
    """The fewest and the most rows of a cluster."""

    least: int
    most: int

    def assigner(
        self, rows: Rows, setting: Setting, basis: np.ndarray | None
    ) -> _core.BoundedAssigner:
        """What assigns rows within the bounds; the basis is that of an earlier assignment.

        Costs of rows in clusters may take a quarter of the memory limit, as SIMD rows of centers
        may.
        """
        return _core.BoundedAssigner(
            rows.core,
            setting.weights,
            self.least,
            self.most,
            setting.n_threads,
            setting.memory_limit // 4,
            setting.memory_limit // 4,
            setting.metric.space,
            np.zeros(0, dtype=np.int64) if basis is None else basis,
        )


def check_parameters(
    size_min: int | None, size_max: int | None, *, algorithm: str, refine: str | None
) -> None:
    """Refuse bounds that cannot be, and what cannot be combined with any."""
    if size_min is None and size_max is None:
        return
    if size_min is not None and size_max is not None and size_min > size_max:
        raise ValueError(f"size_min={size_min} is larger than size_max={size_max}.")
    if algorithm != "auto":
        raise ValueError(
            f"algorithm={algorithm!r} cannot be combined with {NAMES}, which need an assignment of "
            f"their own."
        )
    if refine is not None:
        raise ValueError(
            f"refine={refine!r} cannot be combined with {NAMES}: single moves would break the "
            f"bounds."
        )


def bounds_of(
    size_min: int | None, size_max: int | None, n_rows: int, n_clusters: int
) -> SizeBounds | None:
    """The bounds for this many rows, None without any; a ValueError where none can be kept."""
    if size_min is None and size_max is None:
        return None
    if size_min is not None and size_min * n_clusters > n_rows:
        raise ValueError(
            f"size_min={size_min} is too large: {n_clusters} clusters would need "
            f"{size_min * n_clusters} rows, and X has {n_rows}. It can be at most "
            f"{n_rows // n_clusters}."
        )
    if size_max is not None and size_max * n_clusters < n_rows:
        raise ValueError(
            f"size_max={size_max} is too small: {n_clusters} clusters would hold "
            f"{size_max * n_clusters} rows, and X has {n_rows}. It must be at least "
            f"{-(-n_rows // n_clusters)}."
        )
    return SizeBounds(
        1 if size_min is None else int(size_min),
        n_rows if size_max is None else min(int(size_max), n_rows),
    )


def with_all_clusters(centers: _core.Centers, n_clusters: int) -> _core.Centers:
    """As many centers as asked for: those that there are, in turn, where distinct rows are fewer.

    Without these clusters the bounds could not be kept.
    """
    found = centers.n_clusters
    if found == n_clusters:
        return centers
    warnings.warn(
        f"Found only {counted(found, 'center')} for {n_clusters} clusters: X has too few distinct "
        f"rows. With {NAMES} all {n_clusters} are kept, and several begin at the same center.",
        ConvergenceWarning,
        stacklevel=2,
    )
    return centers_.to_core(centers_.from_core(centers)[np.arange(n_clusters) % found])
