"""Fitted models in files: safetensors that hold arrays and JSON, and nothing that could run."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sparsecluster.rows.errors import SparseClusterError
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.tensors import (
    NONSENSE,
    SMALL_FILE,
    ForeignFile,
    Packer,
    TensorFile,
    unpack,
    write_tensors,
)
from sparsecluster.version import __version__

FORMAT, VERSION = "sparsecluster model", 2
_REGISTERED: dict[str, type] = {}


class ModelFileError(SparseClusterError, ValueError):
    """A file that is not a model, is broken, or comes from a newer version."""


def register(estimator: type) -> type:
    """Let files hold estimators of a class that is not a public name of the package."""
    _REGISTERED[estimator.__name__] = estimator
    return estimator


def _class_named(name: Any) -> type | None:
    """The class of a file's estimator, if it is a public name of the package or was registered."""
    import sparsecluster

    found: Any = _REGISTERED.get(name) if isinstance(name, str) else None
    if found is None and name in sparsecluster.__all__:
        found = getattr(sparsecluster, name)
    return found if isinstance(found, type) and hasattr(found, "set_state") else None


# --- saving -----------------------------------------------------------------------------------


def save_model(estimator: Any, state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write an estimator's parameters and its state to a file."""
    kind = type(estimator)
    if _class_named(kind.__name__) is not kind:
        raise TypeError(f"{kind} cannot be saved: only public estimators can.")
    packer = Packer()
    parameters, left_out = {}, []
    for key, value in estimator.get_params(deep=False).items():
        try:
            parameters[key] = _packed(packer, value, key)
        except TypeError:
            left_out.append(key)  # such as a function
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": __version__,
        "estimator": kind.__name__,
        "parameters": parameters,
        "left_out": left_out,
        "fitted": {key: packer.pack(value, key) for key, value in state.items()},
    }
    with atomic_file(path) as partial:
        write_tensors(partial, document, packer.tensors)


def _packed(packer: Packer, value: Any, name: str) -> Any:
    """A parameter; one that is an estimator of the package, as KMeans has it, by its own."""
    kind = type(value)
    if not hasattr(value, "get_params") or _class_named(kind.__name__) is not kind:
        return packer.pack(value, name)
    own = {
        key: packer.pack(one, f"{name}.{key}")
        for key, one in value.get_params(deep=False).items()
        if not isinstance(one, np.random.RandomState)
    }
    return {"$estimator": kind.__name__, "parameters": own}


# --- loading ----------------------------------------------------------------------------------


def load_model(
    path: str | os.PathLike[str], *, mmap: bool = True, verify: bool | None = None
) -> Any:
    """Load an estimator that was saved.

    Nothing in a file can run, and no content of it, however it was made, can have arrays read past
    their ends. What does not fit together is refused.

    Parameters
    ----------
    path : str or path
        The file.
    mmap : bool, default=True
        Whether arrays stay in the file, read-only, until they are used: a large model is loaded in
        milliseconds, and processes share its memory. The file may be replaced, as `save` does, but
        must not be changed in place. With False all is read, and arrays can be written to.
    verify : bool or None, default=None
        Whether to read all arrays and compare their checksums. By default where that takes
        milliseconds (up to 64 MB), and with ``mmap=False``. Without it what is always checked
        are the description and its checksum, types, shapes and sizes of all arrays, the parameters,
        and that the indices of sparse arrays lie within their shapes (for which these, a third of
        sparse centers, are read); the values of centers are checked when they are used.

    Returns
    -------
    estimator
        Of the class that was saved, fitted. Parameters that a file cannot hold (functions, a
        RandomState) have their defaults. Names of features are decoded when they are used.

    Raises
    ------
    ModelFileError
        The file is no model, is broken, was changed, or comes from a newer version.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sparsecluster import KMeans, load_model
    >>> X = np.array([[1.0, 0], [0.9, 0], [0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     KMeans(n_clusters=2, random_state=0).fit(X).save(path)
    ...     km = load_model(path)
    >>> np.array_equal(km.predict(X), km.labels_)
    True
    """
    try:
        file = TensorFile(path, mmap=mmap)
        _check_format(file.document)
        if verify is None:
            verify = not mmap or file.size <= SMALL_FILE
        return _restore(file.document, file.tensors(verify=verify), verify=verify)
    except IsADirectoryError:
        raise ModelFileError(f"{os.fspath(path)} is a folder; a model is a file.") from None
    except ForeignFile as error:
        raise ModelFileError(f"{os.fspath(path)} {error}. Give one that `save` wrote.") from None
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)} {error}") from None
    except NONSENSE as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise ModelFileError(
            f"{os.fspath(path)} cannot be loaded ({what}). Copy it again from where it was saved, "
            f"or save the model again."
        ) from None


def _check_format(document: dict[str, Any]) -> None:
    if document.get("format") != FORMAT:
        raise ModelFileError(f"holds no model, but a {document.get('format')!r}.")
    number = document.get("version")
    if type(number) is not int or number < 1:
        raise ModelFileError(f"has the format version {number!r}, which does not exist.")
    if number > VERSION:
        raise ModelFileError(
            f"has the format version {number}; this version of sparsecluster reads up to "
            f"{VERSION}. Upgrade sparsecluster: the file was saved by "
            f"{document.get('library')!r}."
        )


def _restore(document: dict[str, Any], tensors: dict[str, np.ndarray], *, verify: bool) -> Any:
    parameters = {
        name: _made(value["$estimator"], unpack(value["parameters"], tensors))
        if isinstance(value, dict) and "$estimator" in value
        else unpack(value, tensors)
        for name, value in document["parameters"].items()
    }
    estimator = _made(document["estimator"], parameters)
    estimator.check_parameters()
    estimator.set_state(dict(unpack(document["fitted"], tensors)), verify=verify)
    return estimator


def _made(name: Any, parameters: dict[str, Any]) -> Any:
    """An estimator of the package with these parameters."""
    kind: Any = _class_named(name)
    if kind is None:
        raise ValueError(f"holds an estimator {name!r}, which is not known")
    check_random_state(parameters.get("random_state"))
    return kind(**parameters)
