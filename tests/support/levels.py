"""The SIMD levels of the core, and those of them that run here."""

import os

import numpy as np

from sparsecluster import KMeans

LEVELS = ("base", "wide", "avx2", "avx512")  # wide: the width of avx512 on any processor


def has_level(level):
    """Whether a fit runs at this SIMD level: a RuntimeError says where it cannot."""
    before = os.environ.get("SPARSECLUSTER_SIMD")
    os.environ["SPARSECLUSTER_SIMD"] = level
    try:
        KMeans(1).fit(np.eye(2))
    except RuntimeError as error:
        if "does not have" not in str(error):
            raise
        return False
    finally:
        os.environ.pop("SPARSECLUSTER_SIMD")
        if before is not None:
            os.environ["SPARSECLUSTER_SIMD"] = before
    return True


AVAILABLE = {level: has_level(level) for level in LEVELS}
