"""Small data sets of all kinds that have troubled k-means programs, as dense float64 arrays."""

from functools import cache

import numpy as np
import scipy.sparse as sp


def text(rng, n_rows=600, n_features=150):
    """Rows with few entries in columns as frequent as words are (Zipf), values of any size."""
    frequency = np.minimum(0.5, 2 / (1 + np.arange(n_features)))
    X = np.where(rng.random((n_rows, n_features)) < frequency, rng.lognormal(size=(n_rows, 1)), 0)
    return X * rng.random((n_rows, n_features))


def directions(X):
    """Rows, or a row, at unit length; zero stays zero."""
    length = np.linalg.norm(X, axis=-1, keepdims=True)
    return np.divide(X, length, where=length > 0, out=np.zeros_like(X))


def unit(rng):
    return directions(text(rng))


def signed(rng):
    return text(rng) * rng.choice([-1.0, 1.0], size=(600, 150))


def counts(rng):
    return np.floor(3 * text(rng))


def binary(rng):
    """Zeros and ones in few columns: most rows have equals, and most distances are ties."""
    return (rng.random((600, 9)) < 0.4).astype(float)


def grid(rng):
    """Points of a small lattice, each several times: ties between centers at every iteration."""
    return rng.integers(0, 4, size=(500, 3)).astype(float)


def blobs(rng, offset=1e4):
    """Dense groups far from the origin, where expanded squared distances lose their digits."""
    means = rng.normal(size=(7, 5)) * 3 + offset
    return means[rng.integers(0, 7, size=600)] + rng.normal(size=(600, 5))


def gaps(rng):
    """Empty rows, empty columns at both ends and in the middle."""
    X = text(rng)
    X[rng.random(len(X)) < 0.2] = 0
    X[[0, -1]] = 0
    X[:, [0, 40, 41, -1]] = 0
    return X


def landmark(rng):
    """Sparse rows that share one column of a large value, as a year or a price would be."""
    X = text(rng)
    X[:, 3] = 2000 + rng.integers(0, 3, size=len(X))
    return X


def many(rng):
    """For more clusters than fit into one tile of any SIMD level."""
    return text(rng, n_rows=700, n_features=60)


# How many clusters, and how many of the starting centers lie where no row is.
KINDS = {
    text: (13, 0),
    unit: (12, 0),
    signed: (9, 0),
    counts: (16, 3),
    binary: (10, 2),
    grid: (8, 0),
    blobs: (7, 0),
    gaps: (17, 1),
    landmark: (11, 0),
    many: (150, 5),
}
NAMES = [kind.__name__ for kind in KINDS]


@cache
def problem(name, dtype="float64"):
    """A data set with values that `dtype` can hold, and starting centers, both in float64."""
    kind = next(kind for kind in KINDS if kind.__name__ == name)
    n_clusters, n_far = KINDS[kind]
    rng = np.random.default_rng(NAMES.index(name))
    X = kind(rng).astype(dtype).astype(np.float64)
    X.flags.writeable = False
    distinct = np.unique(X, axis=0, return_index=True)[1]
    centers = X[rng.choice(distinct, n_clusters, replace=False)]
    far = rng.choice(n_clusters, n_far, replace=False)
    centers[far] += 50 * np.abs(X).max()
    return X, centers


@cache
def weights_for(n_rows):
    """Weights of all sizes, some of them zero."""
    rng = np.random.default_rng(n_rows)
    weights = np.round(rng.lognormal(size=n_rows), 3)
    weights[rng.random(n_rows) < 0.1] = 0
    return weights


def csr(X, dtype=np.float64, index=np.int32):
    """A CSR array with these types; scipy alone would choose the narrowest indices."""
    matrix = sp.csr_array(np.asarray(X, dtype=dtype))
    matrix.indices = matrix.indices.astype(index)
    matrix.indptr = matrix.indptr.astype(index)
    return matrix


LAYOUTS = {
    "int32": lambda X, dtype: csr(X, dtype, np.int32),
    "int64": lambda X, dtype: csr(X, dtype, np.int64),
    "dense": lambda X, dtype: np.array(X, dtype=dtype),
}


def dense(matrix):
    """As an ndarray, whatever it was."""
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
