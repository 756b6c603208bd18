"""Fixtures: SIMD levels of this machine, and the real data sets where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from support.levels import AVAILABLE, LEVELS

# Nothing depends on how fast the machine is, or on what else it does.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture(autouse=True)
def same_numbers_each_run():
    """Start NumPy's own generator, which random_state=None draws from, at the same place."""
    np.random.seed(0)  # noqa: NPY002 - it is that generator which scikit-learn takes


@pytest.fixture(params=LEVELS)
def simd(request, monkeypatch):
    """Each SIMD level in turn, forced by the environment variable."""
    if not AVAILABLE[request.param]:
        pytest.skip(f"this CPU or this build has no {request.param}")
    monkeypatch.setenv("SPARSECLUSTER_SIMD", request.param)
    return request.param


@pytest.fixture
def threads_for_little_work(monkeypatch):
    """As many threads as are asked for: those of small data would otherwise be one."""
    monkeypatch.setattr("sparsecluster.rows.resources.WORK_OF_A_THREAD", 1)


@pytest.fixture(scope="session")
def corpus():
    """The docstrings of the installation and their modules, which take long to read."""
    from sparsecluster.datasets.docstrings import load_docstrings

    return load_docstrings()


@pytest.fixture(scope="session")
def real_data():
    """A function that loads the matrix of a real data set by name, or skips."""
    root = Path(__file__).parents[1]
    folder = Path(os.environ.get("SPARSECLUSTER_DATA", root.parent / "shared" / "data"))

    def load(name):
        path = folder / name / "X.npz"
        if not path.exists():
            pytest.skip(f"no data set {name!r} in {folder}; SPARSECLUSTER_DATA names the folder")
        return sp.csr_array(sp.load_npz(path))

    return load
