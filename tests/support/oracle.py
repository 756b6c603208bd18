"""Lloyd's algorithm in float64 numpy: slow, dense, and simple enough to be believed."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

TIE = 1e-12


@dataclass(frozen=True)
class Step:
    """One iteration: the labels that its centers are the means of."""

    labels: np.ndarray
    centers: np.ndarray
    cost: float
    moved: int
    refilled: int


def nearest(X, centers):
    """The nearest center of each row; the lowest index among equal distances."""
    distance2 = cdist(X, centers, "sqeuclidean")
    return np.argmax(distance2 <= distance2.min(axis=1, keepdims=True) * (1 + TIE), axis=1)


def refill(X, centers, labels, weights, spherical=False):
    """Algorithm E.1: the farthest rows fill the empty clusters. Answers which stay empty.

    With `spherical` not by rows that are zero.
    """
    distance2 = np.square(X - centers[labels]).sum(axis=1)
    apart = distance2 > 1e-24 * np.square(X).sum(axis=1)
    if spherical:
        apart &= np.any(X, axis=1)
    farthest = np.lexsort((np.arange(len(X)), -significant(distance2)))
    size = np.bincount(labels[weights > 0], minlength=len(centers))
    empty = list(np.flatnonzero(size == 0))
    for row in farthest:
        if empty and weights[row] > 0 and apart[row] and size[labels[row]] > 1:
            size[labels[row]] -= 1
            labels[row] = empty.pop(0)
            size[labels[row]] = 1
    return empty


def significant(distance2, digits=12):
    """Rounded, so that distances that are equal on paper are equal."""
    with np.errstate(divide="ignore"):
        unit = np.exp2(np.ceil(np.log2(distance2)))
    return (
        np.round(np.divide(distance2, unit, where=unit > 0, out=np.zeros_like(unit)), digits) * unit
    )


def lloyd(X, centers, weights=None, max_iter=300, *, spherical=False):
    """All iterations from the given centers until no label changes, or no center.

    With `spherical` centers are directions: a mean is scaled to unit length, unless it is zero.
    """
    X, centers = np.asarray(X, dtype=np.float64), np.array(centers, dtype=np.float64)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=np.float64)
    steps, before = [], np.full(len(X), -1)
    while len(steps) < max_iter:
        assigned = nearest(X, centers)
        labels = assigned.copy()
        hopeless = refill(X, centers, labels, weights, spherical)
        old = centers
        centers = np.delete(centers, hopeless, axis=0)
        labels = np.where(np.isin(labels, hopeless), -1, labels - np.searchsorted(hopeless, labels))
        for k in np.unique(labels[weights > 0]):
            mean = np.average(X[labels == k], axis=0, weights=weights[labels == k])
            if not spherical:
                centers[k] = mean
            elif np.linalg.norm(mean) > 0:
                centers[k] = mean / np.linalg.norm(mean)
        moved = int((labels != before).sum())
        steps.append(
            Step(
                labels,
                centers.copy(),
                cost(X, centers, labels, weights),
                moved,
                int((labels != assigned).sum()),
            )
        )
        if moved == 0 or np.array_equal(centers, old):
            break
        before = labels
    return steps


def cost(X, centers, labels, weights=None):
    """The weighted sum of the squared distances of the rows to their centers."""
    distance2 = np.square(np.asarray(X, dtype=np.float64) - centers[labels]).sum(axis=1)
    return float(np.sum(distance2 if weights is None else weights * distance2))
