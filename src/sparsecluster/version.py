"""The version of the installed package, whose one source is pyproject.toml."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("sparsecluster")
except PackageNotFoundError:
    __version__ = "unknown"
