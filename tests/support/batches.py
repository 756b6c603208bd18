"""Streams of batches as tests make them."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from sparsecluster import MiniBatchKMeans
from support.data import csr, problem

X_OK = csr(problem("text")[0][:200])


def stream_of(centers, **options):
    """A stream that starts from these centers."""
    return MiniBatchKMeans(
        len(centers), **{"init": centers, "reassignment_ratio": 0, "n_threads": 1} | options
    )


def quietly(km, *args, **kwargs):
    """Fit without the warning of an early end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return km.fit(*args, **kwargs)
