"""The data sets: real ones from a folder, or a synthetic one with Zipf-distributed words.

The folder is named by the environment variable SPARSECLUSTER_DATA and holds one sub-folder a set,
with a scipy CSR matrix in `X.npz`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parent.parent
SYNTHETIC = "zipf"
LOG_COUNTS = {"scrna"}  # expression counts; every other set is made of unit rows


@dataclass(frozen=True)
class Dataset:
    """A named CSR matrix, float32 with int32 indices."""

    name: str
    X: sp.csr_matrix

    def rows(self, fraction: float) -> Dataset:
        """Keep that fraction of the rows, chosen at random."""
        n = self.X.shape[0]
        chosen = np.random.default_rng(0).permutation(n)[: max(1, round(n * fraction))]
        return Dataset(f"{self.name}/rows={fraction:g}", canonical(self.X[np.sort(chosen)]))

    def entries(self, fraction: float) -> Dataset:
        """Keep that fraction of the stored entries, chosen at random, and normalise the rows."""
        X = self.X.tocoo()
        kept = np.random.default_rng(0).random(X.nnz) < fraction
        thin = sp.csr_matrix((X.data[kept], (X.row[kept], X.col[kept])), shape=X.shape)
        return Dataset(f"{self.name}/entries={fraction:g}", canonical(unit_rows(thin)))


def folder() -> Path:
    """Where the real data sets are looked for."""
    named = os.environ.get("SPARSECLUSTER_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def available() -> list[str]:
    """Names of the real data sets that are present."""
    if not folder().is_dir():
        return []
    return sorted(entry.parent.name for entry in folder().glob("*/X.npz"))


def load(name: str) -> Dataset:
    """Read a set and prepare its rows: log(1 + count) for expression counts, unit length else."""
    if name == SYNTHETIC:
        return Dataset(name, canonical(unit_rows(zipf())))
    X = sp.csr_matrix(sp.load_npz(folder() / name / "X.npz"))
    return Dataset(name, canonical(X.log1p() if name in LOG_COUNTS else unit_rows(X)))


def unit_rows(X: sp.csr_matrix) -> sp.csr_matrix:
    """Scale each row to length one; empty rows stay empty."""
    lengths = np.sqrt(np.asarray(X.astype(np.float64).multiply(X).sum(axis=1)).ravel())
    lengths[lengths == 0] = 1
    return sp.csr_matrix(sp.diags(1 / lengths) @ X)


def canonical(X: sp.csr_matrix) -> sp.csr_matrix:
    """float32 values, int32 indices, sorted and without duplicates: what every peer accepts."""
    X = sp.csr_matrix(X, dtype=np.float32)
    X.sum_duplicates()
    X.eliminate_zeros()
    X.indices = X.indices.astype(np.int32, copy=False)
    X.indptr = X.indptr.astype(np.int32, copy=False)
    return X


def zipf(n: int = 12_000, d: int = 30_000, words: int = 80, topics: int = 60) -> sp.csr_matrix:
    """Tf-idf of made-up documents: half of the words by a common Zipf law, half by a topic's."""
    rng = np.random.default_rng(0)
    frequency = 1 / np.arange(1, d + 1) ** 1.05
    lengths = rng.poisson(words, n) + 1
    rows = np.repeat(np.arange(n), lengths)
    ranks = np.searchsorted(np.cumsum(frequency / frequency.sum()), rng.random(rows.size))
    first_word = rng.integers(0, d, topics)[rng.integers(0, topics, n)]
    of_topic = rng.random(rows.size) < 0.5
    columns = np.where(of_topic, ranks + first_word[rows], ranks) % d
    X = sp.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(n, d))
    document_frequency = np.bincount(X.indices, minlength=d)
    X.data = (1 + np.log(X.data)) * np.log((1 + n) / (1 + document_frequency))[X.indices]
    return X
