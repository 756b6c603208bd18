"""How well two labellings of the same rows agree, such as clusters and known classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.evaluation.labelling import check_labels
from sparsecluster.rows.checks import as_numbers
from sparsecluster.rows.errors import counted
from sparsecluster.rows.resources import effective_memory_limit


def clustering_accuracy(labels_true: Any, labels_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of rows whose cluster is the one of their class, each class matched to one cluster.

    Classes and clusters are matched one to one so that the share is largest (the assignment
    problem, by scipy). Clusters beyond the number of classes, and rows labelled -1 (noise) in
    `labels_pred`, count as wrong.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        The classes: integers, or strings.
    labels_pred : array-like of shape (n_samples,)
        The clusters: integers, or strings.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from sparsecluster import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    from scipy.optimize import linear_sum_assignment

    table, total = contingency(labels_true, labels_pred, sample_weight, noise=False)
    needed = 8 * table.shape[0] * table.shape[1]
    if needed > effective_memory_limit(None):
        raise ValueError(
            f"Matching {counted(table.shape[0], 'class', 'classes')} to "
            f"{counted(table.shape[1], 'cluster')} takes {needed / 1e9:.3g} GB, more than there is."
        )
    dense = table.toarray()
    matched = linear_sum_assignment(dense, maximize=True)
    return float(dense[matched].sum() / total)


def purity(labels_true: Any, labels_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of rows whose class is the most frequent one of their cluster.

    It grows with the number of clusters: with one cluster per row it is 1. Rows labelled -1 (noise)
    in `labels_pred` count as wrong.

    Parameters
    ----------
    labels_true, labels_pred, sample_weight
        As for :func:`clustering_accuracy`.

    Returns
    -------
    float

    Examples
    --------
    >>> from sparsecluster import purity
    >>> purity(["a", "a", "b", "b"], [0, 1, 2, 2])
    1.0
    """
    table, total = contingency(labels_true, labels_pred, sample_weight, noise=False)
    if table.nnz == 0:
        return 0.0
    return float(table.max(axis=0).toarray().sum() / total)


def normalized_mutual_info(
    labels_true: Any, labels_pred: Any, *, sample_weight: Any = None
) -> float:
    """What two labellings tell about each other, from 0 to 1.

    The mutual information by the mean of the two entropies: scikit-learn's
    ``normalized_mutual_info_score``, also with weights. -1 is a label like any other here.

    Parameters
    ----------
    labels_true, labels_pred, sample_weight
        As for :func:`clustering_accuracy`.

    Returns
    -------
    float

    Examples
    --------
    >>> from sparsecluster import normalized_mutual_info
    >>> normalized_mutual_info(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    """
    table, total = contingency(labels_true, labels_pred, sample_weight)
    if min(table.shape) == max(table.shape) == 1:
        return 1.0
    rows, columns = _sums(table)
    # By ratios, so that independent labels come to zero as nearly as float64 allows.
    cells = table.tocoo()
    ratio = cells.data * total / (rows[cells.row] * columns[cells.col])
    mutual = max(float(np.sum(cells.data / total * np.log(ratio))), 0.0)
    mean = (_entropy(rows / total) + _entropy(columns / total)) / 2
    if mutual <= np.finfo(np.float64).eps or mean == 0:
        return 0.0
    return min(mutual / mean, 1.0)


def adjusted_rand(labels_true: Any, labels_pred: Any, *, sample_weight: Any = None) -> float:
    """The share of pairs of rows on which two labellings agree, adjusted for chance.

    1 for the same clusters, about 0 for independent ones (Hubert and Arabie 1985): scikit-learn's
    ``adjusted_rand_score``, also with weights: a weight of 2 is the row twice. -1 is a label like
    any other here.

    Parameters
    ----------
    labels_true, labels_pred, sample_weight
        As for :func:`clustering_accuracy`.

    Returns
    -------
    float

    Examples
    --------
    >>> from sparsecluster import adjusted_rand
    >>> round(adjusted_rand([0, 0, 1, 1], [0, 0, 1, 2]), 4)
    0.5714
    """
    table, total = contingency(labels_true, labels_pred, sample_weight)
    # A power of two, so that squares of large weights do not overflow and no digit changes.
    scale = math.ldexp(1.0, -max(math.frexp(total)[1], 0))
    table, total = table * scale, total * scale
    rows, columns = _sums(table)
    squares = float(np.sum(table.data**2))
    of_rows, of_columns = float(np.sum(rows**2)), float(np.sum(columns**2))
    # Ordered pairs that are together in both, in one only, and in none.
    both, first, second = squares - total * scale, of_rows - squares, of_columns - squares
    neither = total**2 - of_rows - of_columns + squares
    if first == 0 and second == 0:
        return 1.0
    below = (both + second) * (second + neither) + (both + first) * (first + neither)
    return 2.0 * (both * neither - first * second) / below


def contingency(
    labels_true: Any, labels_pred: Any, sample_weight: Any, *, noise: bool = True
) -> tuple[sp.csr_array, float]:
    """Weights of rows by class and cluster, and of all of them; noise as a cluster, or nowhere."""
    of_class, classes = _numbers(labels_true, "labels_true", noise=True)
    of_cluster, clusters = _numbers(labels_pred, "labels_pred", noise=noise)
    if len(of_class) != len(of_cluster):
        raise ValueError(
            f"labels_true has {counted(len(of_class), 'label')} and labels_pred "
            f"{len(of_cluster):,}: both are to be of the same rows."
        )
    if not len(of_class):
        raise ValueError("There are no labels to compare.")
    weights = _weights(sample_weight, len(of_class))
    inside = of_cluster >= 0
    entries = (weights[inside], (of_class[inside], of_cluster[inside]))
    table = sp.csr_array(sp.coo_array(entries, shape=(classes, max(clusters, 1))))
    table.eliminate_zeros()
    return table, float(weights.sum())


def _numbers(labels: Any, name: str, *, noise: bool) -> tuple[np.ndarray, int]:
    clusters, numbers = check_labels(labels, name)
    if noise and np.any(numbers < 0):
        return numbers + 1, len(clusters) + 1
    return numbers, len(clusters)


def _weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    if sample_weight is None:
        return np.ones(n_rows)
    weights = as_numbers(sample_weight, "sample_weight")
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weights.shape}; one weight for each of the {n_rows:,} "
            f"labels is needed."
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not weights.any():
        raise ValueError("sample_weight must be finite, not negative, and not zero for every row.")
    return weights


def _sums(table: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(table.sum(axis=1)).ravel(), np.asarray(table.sum(axis=0)).ravel()


def _entropy(shares: np.ndarray) -> float:
    shares = shares[shares > 0]
    return float(-np.sum(shares * np.log(shares)))
