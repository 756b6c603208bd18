"""What a report tells: gathered from a fitted model and, block by block, from rows."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import as_rows

MOST_COMPARED = 2000  # clusters up to which each is compared with all others
COMPARED_AT_ONCE = 256


# --- of the model -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FittedSizes:
    """Rows of each cluster as the fit left them."""

    counts: np.ndarray
    labels: (
        np.ndarray | None
    )  #: of the rows of the fit; None: the counts are what centers have seen


def fitted_sizes(estimator: Any) -> FittedSizes | None:
    """The sizes that a model knows by itself; None where it keeps none."""
    n_clusters = estimator.n_clusters_
    labels = getattr(estimator, "labels_", None)
    if _is_stream(estimator):
        labels = None  # those of the last batch alone
    if labels is None:
        counts = getattr(estimator, "counts_", None)
        return None if counts is None else FittedSizes(counts=np.rint(counts), labels=None)
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_clusters:
        raise ValueError(
            f"labels_ of the model are not all clusters of it, 0 to {n_clusters - 1}. Fit or save "
            f"the model again."
        )
    return FittedSizes(counts=np.bincount(labels, minlength=n_clusters), labels=labels)


def _is_stream(estimator: Any) -> bool:
    """Whether batches came after, or without, a fit."""
    if not hasattr(estimator, "counts_"):
        return False
    return int(estimator.n_iter_) != len(getattr(estimator, "history_", []))


def top_columns(centers: Any, cluster: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and weights of the largest values of a center, as `top_terms` chooses them."""
    part = slice(int(centers.indptr[cluster]), int(centers.indptr[cluster + 1]))
    columns, weights = centers.indices[part], centers.data[part]
    order = np.argsort(-weights, kind="stable")[:most]
    order = order[weights[order] > 0]
    return columns[order], weights[order]


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """For each cluster the one whose center is nearest, and the one whose center is most alike.

    The likeness of two centers is 2ab / (aa + bb): 1 if they are equal, 0 if they have nothing in
    common, and for centers of unit length their cosine. A center near zero, as that of a large
    cluster of all sorts, is near to all others, but alike to none.
    """

    nearest: np.ndarray
    distance: np.ndarray  #: to the nearest
    alike: np.ndarray
    likeness: np.ndarray  #: to the one most alike

    def pairs(self, most: int) -> list[tuple[int, int, float]]:
        """Clusters that are most alike, with their likeness, the most alike ones first."""
        order = np.argsort(-self.likeness, kind="stable")
        found = {tuple(sorted((int(i), int(self.alike[i])))): self.likeness[i] for i in order}
        return [(one, other, float(found[one, other])) for one, other in islice(found, most)]


def neighbours(centers: sp.csr_array, n_threads: int | None) -> Neighbours | None:
    """The nearest other center of each; None for a single center and for very many."""
    n_clusters = centers.shape[0]
    if not 1 < n_clusters <= MOST_COMPARED:
        return None
    threads, core = effective_n_threads(n_threads), centers_.to_core(centers)
    norm2 = np.asarray(core.norm2)
    found: list[tuple[np.ndarray, ...]] = []
    for begin in range(0, n_clusters, COMPARED_AT_ONCE):
        rows = as_rows(centers[begin : begin + COMPARED_AT_ONCE], n_threads=threads)
        distances = np.empty((rows.n_rows, n_clusters))
        _core.all_distances(rows.core, core, distances, threads)
        here = np.arange(rows.n_rows)
        itself = (here, begin + here)
        both = norm2[begin : begin + rows.n_rows, None] + norm2
        # Two centers that are zero are equal.
        likeness = 1 - np.divide(distances**2, both, out=np.zeros_like(both), where=both > 0)
        distances[itself], likeness[itself] = np.inf, -np.inf
        nearest, alike = distances.argmin(axis=1), likeness.argmax(axis=1)
        found.append((nearest, distances[here, nearest], alike, likeness[here, alike]))
    nearest, distance, alike, best = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Neighbours(nearest=nearest, distance=distance, alike=alike, likeness=best)


# --- of the rows ------------------------------------------------------------------------------


class Survey:
    """Goes along with blocks of rows, and keeps of them what a report tells of each cluster."""

    def __init__(self, estimator: Any, labels: np.ndarray | None, examples: int) -> None:
        self._estimator, self._labels, self._examples = estimator, labels, examples
        self._different = 0
        self.n_rows = 0
        self.n_features = 0
        self.sizes = np.zeros(estimator.n_clusters_, dtype=np.int64)
        self.costs = np.zeros(estimator.n_clusters_)
        #: the rows nearest to their centers: (cluster, row, squared distance), sorted
        self.nearest = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def add(self, block: Any) -> None:
        """Count the rows of a block; they follow on those of the blocks before."""
        rows, centers, n_threads = self._estimator._prepare(block)
        labels = self._estimator._assign(rows, centers, n_threads)
        distance2 = _core.own_distances(rows.core, centers, labels, n_threads)
        self.sizes += np.bincount(labels, minlength=len(self.sizes))
        # One row after the other, so that the sums do not depend on where blocks end.
        np.add.at(self.costs, labels, distance2)
        numbers = np.arange(self.n_rows, self.n_rows + rows.n_rows)
        self._keep_nearest(labels, numbers, distance2)
        if self._labels is not None:
            known = self._labels[self.n_rows : self.n_rows + rows.n_rows]
            self._different += int(np.count_nonzero(known != labels[: len(known)]))
        self.n_rows += rows.n_rows
        self.n_features = rows.n_features

    def _keep_nearest(self, *found: np.ndarray) -> None:
        clusters, rows, distance2 = (
            np.concatenate(both) for both in zip(self.nearest, found, strict=True)
        )
        order = np.lexsort((rows, distance2, clusters))
        sorted_clusters = clusters[order]
        rank = np.arange(len(order)) - np.searchsorted(sorted_clusters, sorted_clusters)
        order = order[rank < self._examples]
        self.nearest = (clusters[order], rows[order], distance2[order])

    @property
    def same_rows(self) -> bool:
        """Whether these are as many rows as were fitted, each in the cluster that it had."""
        return (
            self._labels is not None and self.n_rows == len(self._labels) and self._different == 0
        )

    def nearest_rows(self, cluster: int) -> list[int]:
        """The rows nearest to the center of a cluster, nearest first."""
        begin, end = np.searchsorted(self.nearest[0], [cluster, cluster + 1])
        return [int(row) for row in self.nearest[1][begin:end]]


def survey(estimator: Any, rows: Any, labels: np.ndarray | None, examples: int) -> Survey:
    """Look through rows of any kind: a path, an iterator of blocks, or what `predict` takes."""
    found = Survey(estimator, labels, examples)
    for block in _blocks(estimator, rows):
        found.add(block)
    if found.n_rows == 0:
        raise ValueError("There are no rows to report on.")
    return found


def _blocks(estimator: Any, rows: Any) -> Iterator[Any]:
    if isinstance(rows, str | os.PathLike):
        from sparsecluster.prepare.read import read_blocks

        yield from read_blocks(rows, like=estimator)
    elif isinstance(rows, Iterator):
        yield from rows
    else:
        yield rows


# --- texts ------------------------------------------------------------------------------------


def texts_of(rows: list[int], texts: Iterable[str], n_rows: int) -> dict[int, str]:
    """The texts of some rows, from all texts in the order of the rows."""
    if isinstance(texts, Sequence | np.ndarray):
        if len(texts) != n_rows:
            raise ValueError(
                f"There are {len(texts)} texts for {n_rows} rows: one a row is needed."
            )
        return {row: str(texts[row]) for row in rows}
    wanted, last = set(rows), max(rows, default=-1)
    found = {i: text for i, text in enumerate(islice(texts, last + 1)) if i in wanted}
    if len(found) < len(wanted):
        raise ValueError(f"There are fewer texts than the {n_rows} rows: one a row is needed.")
    return found
