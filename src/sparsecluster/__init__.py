"""Exact and fast clustering of large, sparse, high-dimensional data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsecluster.data.convert import convert
    from sparsecluster.data.metalabels import metalabels
    from sparsecluster.data.prepare import Prepare
    from sparsecluster.data.read import read, read_blocks
    from sparsecluster.data.rows import Rows
    from sparsecluster.data.source import ReadError
    from sparsecluster.data.store import StoreError, open_store
    from sparsecluster.data.text import TextOptions
    from sparsecluster.engine.checkpoint import CheckpointError
    from sparsecluster.kmeans import KMeans
    from sparsecluster.minibatch import MiniBatchKMeans
    from sparsecluster.model import ModelFileError, load_model
    from sparsecluster.projection import project_l1
    from sparsecluster.seeds import kmeans_plusplus, seed_centers
    from sparsecluster.spherical import SphericalKMeans

# Public names and where they live; they are loaded when first used, so that importing is instant.
_HOMES = {
    "CheckpointError": "sparsecluster.engine.checkpoint",
    "KMeans": "sparsecluster.kmeans",
    "MiniBatchKMeans": "sparsecluster.minibatch",
    "ModelFileError": "sparsecluster.model",
    "Prepare": "sparsecluster.data.prepare",
    "ReadError": "sparsecluster.data.source",
    "Rows": "sparsecluster.data.rows",
    "SphericalKMeans": "sparsecluster.spherical",
    "StoreError": "sparsecluster.data.store",
    "TextOptions": "sparsecluster.data.text",
    "convert": "sparsecluster.data.convert",
    "kmeans_plusplus": "sparsecluster.seeds",
    "load_model": "sparsecluster.model",
    "metalabels": "sparsecluster.data.metalabels",
    "open_store": "sparsecluster.data.store",
    "project_l1": "sparsecluster.projection",
    "read": "sparsecluster.data.read",
    "read_blocks": "sparsecluster.data.read",
    "seed_centers": "sparsecluster.seeds",
}

__all__ = [
    "CheckpointError",
    "KMeans",
    "MiniBatchKMeans",
    "ModelFileError",
    "Prepare",
    "ReadError",
    "Rows",
    "SphericalKMeans",
    "StoreError",
    "TextOptions",
    "convert",
    "kmeans_plusplus",
    "load_model",
    "metalabels",
    "open_store",
    "project_l1",
    "read",
    "read_blocks",
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
