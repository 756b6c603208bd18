"""Exact and fast clustering of large, sparse, high-dimensional data."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparsecluster.formats.source import ReadError
    from sparsecluster.formats.text import TextOptions
    from sparsecluster.kmeans.kmeans import KMeans
    from sparsecluster.kmeans.minibatch import MiniBatchKMeans
    from sparsecluster.kmeans.projection import project_l1
    from sparsecluster.kmeans.seeding.seed_centers import kmeans_plusplus, seed_centers
    from sparsecluster.kmeans.spherical import SphericalKMeans
    from sparsecluster.prepare.convert import convert
    from sparsecluster.prepare.metalabels import metalabels
    from sparsecluster.prepare.prepare import Prepare
    from sparsecluster.prepare.read import read, read_blocks
    from sparsecluster.rows.rows import Rows
    from sparsecluster.storage.checkpoint import CheckpointError
    from sparsecluster.storage.model import ModelFileError, load_model
    from sparsecluster.storage.store import StoreError, open_store

# Public names and where they live; they are loaded when first used, so that importing is instant.
_HOMES = {
    "CheckpointError": "sparsecluster.storage.checkpoint",
    "KMeans": "sparsecluster.kmeans.kmeans",
    "MiniBatchKMeans": "sparsecluster.kmeans.minibatch",
    "ModelFileError": "sparsecluster.storage.model",
    "Prepare": "sparsecluster.prepare.prepare",
    "ReadError": "sparsecluster.formats.source",
    "Rows": "sparsecluster.rows.rows",
    "SphericalKMeans": "sparsecluster.kmeans.spherical",
    "StoreError": "sparsecluster.storage.store",
    "TextOptions": "sparsecluster.formats.text",
    "convert": "sparsecluster.prepare.convert",
    "kmeans_plusplus": "sparsecluster.kmeans.seeding.seed_centers",
    "load_model": "sparsecluster.storage.model",
    "metalabels": "sparsecluster.prepare.metalabels",
    "open_store": "sparsecluster.storage.store",
    "project_l1": "sparsecluster.kmeans.projection",
    "read": "sparsecluster.prepare.read",
    "read_blocks": "sparsecluster.prepare.read",
    "seed_centers": "sparsecluster.kmeans.seeding.seed_centers",
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
