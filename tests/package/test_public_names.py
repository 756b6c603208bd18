"""The names of the package: all there, loaded when used, and known to type checkers."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import sparsecluster


@pytest.mark.parametrize("name", sparsecluster.__all__)
def test_public_name_is_there(name):
    assert getattr(sparsecluster, name) is not None
    assert name in dir(sparsecluster)


@pytest.mark.parametrize("name", [name for name in sparsecluster.__all__ if "Error" in name])
def test_one_error_is_above_the_others(name):
    error = getattr(sparsecluster, name)
    assert issubclass(error, sparsecluster.SparseClusterError)
    assert error is sparsecluster.SparseClusterError or issubclass(error, ValueError)


def test_version_is_that_of_the_installed_package():
    assert sparsecluster.__version__ == version("sparsecluster")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="KMean"):
        _ = sparsecluster.KMean


def test_importing_the_package_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "sklearn", "joblib", "rich", "cyclopts", "jinja2")
    code = f"import sys, sparsecluster; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
