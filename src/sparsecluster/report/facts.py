"""What a report says: gathered from a fitted model and, block by block, from rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

MOST_COMPARED = 2000  # clusters up to which each is compared with all others
MOST_CLUSTERS = 200  # that have a line of the table


# --- of the model -----------------------------------------------------------------------------


def fitted_sizes(estimator: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Rows of each cluster as the fit left them, and their labels; None for what a model does not
    keep. Without labels the sizes are what centers have seen.
    """
    n_clusters = estimator.n_clusters_
    labels = getattr(estimator, "labels_", None)
    counts = getattr(estimator, "counts_", None)
    # Where batches came after, or without, a fit, labels are those of the last one alone.
    if counts is not None and int(estimator.n_iter_) != len(getattr(estimator, "history_", [])):
        labels = None
    if labels is None:
        return None if counts is None else np.rint(counts), None
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_clusters:
        raise ValueError(
            f"labels_ of the model has values outside 0 to {n_clusters - 1}. Fit or save the model "
            f"again."
        )
    return np.bincount(labels, minlength=n_clusters), labels


def top_columns(centers: Any, cluster: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and weights of the largest values of a center, as `top_terms` chooses them."""
    part = slice(int(centers.indptr[cluster]), int(centers.indptr[cluster + 1]))
    columns, weights = centers.indices[part], centers.data[part]
    order = np.argsort(-weights, kind="stable")[:most]
    order = order[weights[order] > 0]
    return columns[order], weights[order]


@dataclass(frozen=True, kw_only=True)
class Neighbors:
    """For each cluster the one whose center is nearest, and the one whose center is most similar.

    The similarity of two centers is 2ab / (aa + bb): 1 if they are equal, 0 if they have nothing in
    common, and for centers of unit length their cosine. A center near zero, such as that of a large
    mixed cluster, is near all others but similar to none.
    """

    nearest: np.ndarray
    distance: np.ndarray  #: to the nearest
    similar: np.ndarray
    similarity: np.ndarray  #: to the one most similar

    def pairs(self, most: int) -> list[tuple[int, int, float]]:
        """Clusters that are most similar, with their similarity, the most similar ones first."""
        order = np.argsort(-self.similarity, kind="stable")
        found = {tuple(sorted((int(i), int(self.similar[i])))): self.similarity[i] for i in order}
        return [(one, other, float(found[one, other])) for one, other in islice(found, most)]


def neighbors(estimator: Any, centers: sp.csr_array, cosine: bool) -> Neighbors | None:
    """The nearest other center of each; None for a single center and for very many."""
    n_clusters = centers.shape[0]
    if not 1 < n_clusters <= MOST_COMPARED:
        return None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        distances = estimator.transform(centers)
    norm2 = np.asarray(centers.power(2).sum(axis=1)).ravel()
    if cosine:
        # Half the squared distance of a unit row u from a center c is (1 + cc - 2 uc) / 2.
        similarity = (1 + norm2 - 2 * distances) / (2 * np.sqrt(norm2))
    else:
        both = norm2[:, None] + norm2
        # Two centers that are zero are equal.
        similarity = 1 - np.divide(distances**2, both, out=np.zeros_like(both), where=both > 0)
    np.fill_diagonal(distances, np.inf)
    np.fill_diagonal(similarity, -np.inf)
    nearest, similar = distances.argmin(axis=1), similarity.argmax(axis=1)
    each = np.arange(n_clusters)
    return Neighbors(
        nearest=nearest,
        distance=distances[each, nearest],
        similar=similar,
        similarity=similarity[each, similar],
    )


# --- of the rows ------------------------------------------------------------------------------


class Survey:
    """Goes through blocks of rows and keeps what a report says about each cluster."""

    def __init__(self, estimator: Any, labels: np.ndarray | None, examples: int) -> None:
        self._estimator, self._labels, self._examples = estimator, labels, examples
        self._different = 0
        self.n_rows = 0
        self.sizes = np.zeros(estimator.n_clusters_, dtype=np.int64)
        self.costs = np.zeros(estimator.n_clusters_)
        #: the rows nearest to their centers: (cluster, row, squared distance), sorted
        self.nearest = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def add(self, block: Any) -> None:
        """Count the rows of a block; they follow those of the blocks before."""
        labels, distance2 = self._estimator.nearest_center(block)
        self.sizes += np.bincount(labels, minlength=len(self.sizes))
        # One row after the other, so that the sums do not depend on where blocks end.
        np.add.at(self.costs, labels, distance2)
        numbers = np.arange(self.n_rows, self.n_rows + len(labels))
        self._keep_nearest(labels, numbers, distance2)
        if self._labels is not None:
            known = self._labels[self.n_rows : self.n_rows + len(labels)]
            self._different += int(np.count_nonzero(known != labels[: len(known)]))
        self.n_rows += len(labels)

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
        """Whether these are as many rows as were fitted, and every row kept its cluster."""
        return (
            self._labels is not None and self.n_rows == len(self._labels) and self._different == 0
        )

    def nearest_rows(self, cluster: int) -> list[int]:
        """The rows nearest to the center of a cluster, nearest first."""
        begin, end = np.searchsorted(self.nearest[0], [cluster, cluster + 1])
        return [int(row) for row in self.nearest[1][begin:end]]


def survey(estimator: Any, rows: Any, labels: np.ndarray | None, examples: int) -> Survey:
    """Look through rows of any kind: a path, an iterator of blocks, or what `predict` takes."""
    if isinstance(rows, str | os.PathLike):
        from sparsecluster import read_blocks

        rows = read_blocks(rows, like=estimator)
    found = Survey(estimator, labels, examples)
    for block in rows if isinstance(rows, Iterator) else [rows]:
        found.add(block)
    if found.n_rows == 0:
        raise ValueError("There are no rows to report on.")
    return found


# --- texts ------------------------------------------------------------------------------------


def texts_of(rows: list[int], texts: Iterable[str], n_rows: int) -> dict[int, str]:
    """The texts of some rows, from all texts in the order of the rows."""
    if isinstance(texts, Sequence | np.ndarray):
        if len(texts) != n_rows:
            raise ValueError(
                f"There are {len(texts)} texts for {n_rows} rows: one per row is needed."
            )
        return {row: str(texts[row]) for row in rows}
    wanted, last = set(rows), max(rows, default=-1)
    found = {i: text for i, text in enumerate(islice(texts, last + 1)) if i in wanted}
    if len(found) < len(wanted):
        raise ValueError(f"There are fewer texts than the {n_rows} rows: one per row is needed.")
    return found


# --- all of it -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Content:
    """All that the parts are made from."""

    estimator: Any
    cosine: bool
    centers: Any  #: as a CSR array
    names: Any  #: of the columns; may be shorter than they are many
    terms: int
    counts: np.ndarray | None  #: sizes that the fit left, and the labels of its rows
    labels: np.ndarray | None
    survey: Survey | None
    neighbors: Neighbors | None
    texts: dict[int, str]

    @property
    def n_clusters(self) -> int:
        return int(self.centers.shape[0])

    @property
    def rows_of_fit(self) -> int | None:
        """How many rows were fitted; None where the model does not say."""
        return None if self.labels is None else len(self.labels)

    @property
    def other_data(self) -> Survey | None:
        """The survey, where its rows are others than those that the known sizes count."""
        if self.counts is None or self.survey is None or self.survey.same_rows:
            return None
        return self.survey

    @property
    def sizes(self) -> np.ndarray | None:
        """Rows of the clusters: of the fit where it knows them, else of the data."""
        return self.counts if self.survey is None or self.counts is not None else self.survey.sizes

    @property
    def counts_seen(self) -> bool:
        """Whether the sizes are what the centers of a stream have seen."""
        return self.counts is not None and self.labels is None

    @cached_property
    def shown(self) -> list[int]:
        """The clusters that have a line of the table, largest first."""
        if self.sizes is None:
            return list(range(self.n_clusters))[:MOST_CLUSTERS]
        return largest_first(self.sizes)[:MOST_CLUSTERS]

    @cached_property
    def distinguishing(self) -> list[list[str]]:
        """Terms that tell each cluster from the others; none where the model cannot say."""
        can = hasattr(self.estimator, "distinguishing_terms") and self.n_clusters > 1
        if not can or not len(self.names) or (self.centers.nnz and self.centers.data.min() < 0):
            return [[] for _ in range(self.n_clusters)]
        try:
            found: list[list[str]] = self.estimator.distinguishing_terms(self.terms)
        except ValueError:  # a model of an older version, without sizes
            return [[] for _ in range(self.n_clusters)]
        return found

    def top_terms(self, cluster: int, most: int) -> tuple[list[Any], np.ndarray]:
        """Names and weights of the columns with the largest weights."""
        columns, weights = top_columns(self.centers, cluster, most)
        named = len(self.names)
        return [self.names[one] if one < named else int(one) for one in columns], weights


def largest_first(sizes: np.ndarray) -> list[int]:
    """The clusters by size; of equal ones the first."""
    return [int(cluster) for cluster in np.argsort(-sizes, kind="stable")]
