"""Cluster chains in files, as PECOS reads them: a folder of sparse matrices and their number."""

from __future__ import annotations

import json
import os

import scipy.sparse as sp

from sparsecluster.storage.atomic import atomic_folder


def write_chain(chain: list[sp.csc_matrix], folder: str | os.PathLike[str]) -> None:
    """Write what `pecos.utils.cluster_util.ClusterChain.load` takes, whole or not at all."""
    with atomic_folder(folder) as partial:
        (partial / "config.json").write_text(json.dumps({"len": len(chain)}))
        for number, matrix in enumerate(chain):
            sp.save_npz(partial / f"C{number}.npz", matrix)
