"""Silhouettes of rows by what is known about their clusters, and the mean of them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.evaluation.geometry import Geometry
from sparsecluster.evaluation.labelling import Labelling


def silhouettes(geometry: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """The silhouette of each row, NaN for noise, and the nearest cluster beside its own."""
    other, nearest = geometry.nearest_others(geometry.means, geometry.spreads)
    return silhouettes_beside(geometry, other), nearest


def silhouettes_beside(geometry: Geometry, other: np.ndarray) -> np.ndarray:
    """The silhouette of each row by its mean squared distance to the nearest other cluster."""
    labelling = geometry.labelling
    numbers, spreads = np.maximum(labelling.numbers, 0), geometry.spreads
    whole = geometry.weights[numbers]
    # One copy of the row is compared with the rest.
    rest = whole - np.minimum(labelling.weights, 1.0)
    alone = (rest <= 0) | ((geometry.n_rows[numbers] == 1) & (labelling.weights <= 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        own = (geometry.distances_to_means + spreads[numbers]) * (whole / rest)
    return _values(own, other, alone, geometry, geometry.noise)


def simplified_silhouettes(geometry: Geometry, *, root: bool) -> np.ndarray:
    """The same by distances to centers."""
    other, _ = geometry.nearest_others(*simplified_clusters(geometry))
    return simplified_beside(geometry, other, root=root)


def simplified_clusters(geometry: Geometry) -> tuple[sp.csr_array, np.ndarray]:
    """The centers that distances are taken to, and what is added to their squares."""
    spreads = np.where(geometry.weights > 0, 0.0, np.inf)
    if geometry.zero is None:
        return geometry.means, spreads
    centers = geometry.directions
    # Without a direction a center is at a cosine distance of 1 from all rows.
    spreads[(np.diff(centers.indptr) == 0) & (spreads == 0)] = 1.0
    return centers, spreads


def simplified_beside(geometry: Geometry, other: np.ndarray, *, root: bool) -> np.ndarray:
    """The simplified silhouette of each row by its squared distance to the nearest other center."""
    labelling, numbers = geometry.labelling, np.maximum(geometry.labelling.numbers, 0)
    centers, spreads = simplified_clusters(geometry)
    to_means = centers is geometry.means
    own = geometry.distances_to_means if to_means else geometry.own_distances(centers)
    own, noise = own + spreads[numbers], geometry.noise
    if root:
        own, other, noise = np.sqrt(own), np.sqrt(other), np.sqrt(noise)
    alone = (geometry.n_rows[numbers] == 1) & (labelling.weights <= 1)
    return _values(own, other, alone | ~np.isfinite(own), geometry, noise)


def _values(
    own: np.ndarray, other: np.ndarray, alone: np.ndarray, geometry: Geometry, noise: np.ndarray
) -> np.ndarray:
    """(b - a) / max(a, b) of each row; 0 where neither exceeds the noise of rounding."""
    with np.errstate(invalid="ignore"):
        larger = np.maximum(own, other)
        values = np.divide(
            other - own,
            larger,
            out=np.zeros(len(own)),
            where=(larger > noise) & np.isfinite(larger),
        )
    values[alone] = 0.0
    if geometry.zero is not None:
        values[geometry.zero] = 0.0  # as far from all rows
    values[~geometry.labelling.inside] = np.nan
    return values


def weighted_mean(values: np.ndarray, labelling: Labelling) -> float:
    """The mean over all rows that are in a cluster."""
    return mean_of_limbs(mean_terms(values, labelling))


def mean_terms(values: np.ndarray, labelling: Labelling) -> np.ndarray:
    """What the mean is made of, for some of the rows: two exact sums."""
    inside = labelling.inside
    weights = labelling.weights[inside]
    return np.stack([_core.exact_limbs(values[inside] * weights), _core.exact_limbs(weights)])


def mean_of_limbs(terms: np.ndarray) -> float:
    """The mean."""
    return _core.exact_value(terms[0]) / _core.exact_value(terms[1])
