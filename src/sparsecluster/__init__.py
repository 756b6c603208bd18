"""Exact and fast clustering of large, sparse, high-dimensional data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsecluster.data.metalabels import metalabels
    from sparsecluster.data.prepare import Prepare
    from sparsecluster.kmeans import KMeans
    from sparsecluster.minibatch import MiniBatchKMeans
    from sparsecluster.projection import project_l1
    from sparsecluster.seeds import kmeans_plusplus, seed_centers
    from sparsecluster.spherical import SphericalKMeans

# Public names and where they live; they are loaded when first used, so that importing is instant.
_HOMES = {
    "KMeans": "sparsecluster.kmeans",
    "MiniBatchKMeans": "sparsecluster.minibatch",
    "Prepare": "sparsecluster.data.prepare",
    "SphericalKMeans": "sparsecluster.spherical",
    "kmeans_plusplus": "sparsecluster.seeds",
    "metalabels": "sparsecluster.data.metalabels",
    "project_l1": "sparsecluster.projection",
    "seed_centers": "sparsecluster.seeds",
}

__all__ = [
    "KMeans",
    "MiniBatchKMeans",
    "Prepare",
    "SphericalKMeans",
    "kmeans_plusplus",
    "metalabels",
    "project_l1",
    "seed_centers",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("sparsecluster")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, "__version__"])
