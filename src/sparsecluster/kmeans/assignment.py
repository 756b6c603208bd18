"""Which assignment algorithm runs: by name, by what fits into memory, or by what is fastest."""

from __future__ import annotations

import warnings

import numpy as np

from sparsecluster import _core
from sparsecluster.kmeans.setting import Setting
from sparsecluster.rows.rows import Rows


def choose_algorithm(algorithm: str, rows: Rows, n_clusters: int, memory_limit: int) -> str:
    """The algorithm to run; 'auto' in place of Elkan where its bounds do not fit."""
    if algorithm == "auto" and rows.streamed:
        return "lloyd"  # the others spare distances, not the reading, and keep floats for each row
    if algorithm.startswith("elkan") and n_clusters == 1:
        warnings.warn(
            f"algorithm={algorithm!r} doesn't make sense for a single cluster. Using 'lloyd' "
            f"instead.",
            RuntimeWarning,
            stacklevel=3,
        )
        return "lloyd"
    if algorithm.startswith("elkan"):
        needed = _core.assigner_bytes(algorithm, rows.n_rows, n_clusters)
        if needed > memory_limit:
            warnings.warn(
                f"algorithm={algorithm!r} needs {needed / 1e9:.3g} GB for its bounds (rows x "
                f"clusters), more than the memory limit of {memory_limit / 1e9:.3g} GB; 'auto' is "
                f"used instead, with the same result. Raise memory_limit to keep {algorithm!r}.",
                UserWarning,
                stacklevel=2,
            )
            return "auto"
    return algorithm


def nearest_labels(rows: Rows, centers: _core.Centers, setting: Setting) -> np.ndarray:
    """For each row the nearest of the centers."""
    labels = np.full(rows.n_rows, -1, dtype=np.int32)
    make_assigner("lloyd", rows, setting).assign(centers, np.zeros(0), labels)
    return labels


def make_assigner(algorithm: str, rows: Rows, setting: Setting) -> _core.Assigner:
    """The assigner of a fit; its SIMD rows of centers may take a quarter of the memory limit."""
    return _core.Assigner(
        rows.core, algorithm, setting.n_threads, setting.memory_limit // 4, setting.metric.space
    )
