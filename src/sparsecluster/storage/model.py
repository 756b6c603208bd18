"""Fitted models in files: safetensors that hold arrays and JSON, and nothing that could run."""

from __future__ import annotations

import dataclasses
import os
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

import sparsecluster
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.estimator import CenterEstimator
from sparsecluster.kmeans.lookup import CentersByFeature
from sparsecluster.kmeans.stream import Kept, Stream, Waiting
from sparsecluster.rows.checks import check_number
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads
from sparsecluster.rows.rows import LARGEST_NORM2, MAX_INDEX
from sparsecluster.run.history import IterationRecord
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.tensors import (
    SMALL_FILE,
    ForeignFile,
    Names,
    Packer,
    TensorFile,
    unpack,
    write_tensors,
)

FORMAT, VERSION = "sparsecluster model", 1
ESTIMATORS = ("KMeans", "SphericalKMeans", "MiniBatchKMeans")
# Attributes of a fit that are single values; others have functions of their own below.
SINGLE = {"inertia_": float, "objective_": float, "n_iter_": int, "algorithm_": str}
NAMES = ("feature_names_", "feature_names_in_")
ADDED_COLUMNS = {"skipped", "center_distances"}  # of a history; older files are without
RECORD_DTYPES = {"int": np.int64, "float": np.float64, "str": object}
# What a description can be wrong by in ways that are not foreseen one by one.
NONSENSE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


class ModelFileError(ValueError):
    """A file that is not a model, is broken, or comes from a newer version."""


# --- saving -----------------------------------------------------------------------------------


def save_model(
    estimator: CenterEstimator, path: str | os.PathLike[str], *, labels: bool = True
) -> None:
    """Write a fitted estimator to a file; see :meth:`KMeans.save`."""
    name = type(estimator).__name__
    if name not in ESTIMATORS or type(estimator) is not getattr(sparsecluster, name):
        raise TypeError(f"Only {', '.join(ESTIMATORS)} can be saved, not {type(estimator)}.")
    _check_parameters(estimator)
    packer = Packer()
    parameters, left_out = _pack_parameters(estimator, packer)
    fitted = _pack_fitted(estimator, packer)
    if labels and "labels_" in vars(estimator):
        fitted["labels_"] = packer.pack(estimator.labels_, "labels_")
    document = {
        "format": FORMAT,
        "version": VERSION,
        "library": library_version(),
        "estimator": name,
        "parameters": parameters,
        "left_out": left_out,
        "fitted": fitted,
    }
    with atomic_file(path) as partial:
        write_tensors(partial, document, packer.tensors)


def library_version() -> str:
    """The version of the installed package."""
    try:
        return version("sparsecluster")
    except PackageNotFoundError:
        return "unknown"


def _pack_parameters(
    estimator: CenterEstimator, packer: Packer
) -> tuple[dict[str, Any], list[str]]:
    """The parameters, and the names of those that a file cannot hold, such as functions."""
    packed, left_out = {}, []
    for name, value in estimator.get_params(deep=False).items():
        try:
            packed[name] = packer.pack(value, name)
        except TypeError:
            left_out.append(name)
    return packed, left_out


def _pack_fitted(estimator: Any, packer: Packer) -> dict[str, Any]:
    fitted: dict[str, Any] = {}
    has = vars(estimator)
    for name in SINGLE:
        if name in has:
            fitted[name] = packer.pack(SINGLE[name](has[name]), name)
    for name in NAMES:
        if name in has:
            names = has[name]
            if isinstance(names, np.ndarray):
                names = np.array([str(one) for one in names], dtype=object)
            fitted[name] = packer.pack(names, name)
    if "history_" in has:
        columns = {
            name: np.array([getattr(record, name) for record in has["history_"]], dtype=dtype)
            for name, dtype in _record_dtypes().items()
        }
        fitted["history_"] = packer.pack(columns, "history_")
    if "recipe_" in has:
        fitted["recipe_"] = packer.pack(has["recipe_"], "recipe_")
    if isinstance(estimator, sparsecluster.MiniBatchKMeans):
        return fitted | _pack_stream(estimator, packer)
    check_is_fitted(estimator, "cluster_centers_")
    centers = estimator.cluster_centers_
    fitted["cluster_centers_"] = packer.pack(centers, "cluster_centers_")
    fitted["by_feature"] = packer.pack(CentersByFeature.arrays(centers), "by_feature")
    return fitted


def _pack_stream(estimator: Any, packer: Packer) -> dict[str, Any]:
    stream, waiting = estimator._stream, estimator._waiting
    fitted = {"sparse": bool(estimator._sparse)}
    if stream is not None:
        kept, centers = stream.state
        state = vars(kept) | {
            "centers": centers,
            "random_state": _state_of(stream.random_state),
            "made_with": stream.made_with,
            "reassignment_ratio": stream._ratio,
        }
        fitted["stream"] = packer.pack(state, "stream")
        by_feature = CentersByFeature.arrays(centers) if fitted["sparse"] else None
        fitted["by_feature"] = packer.pack(by_feature, "by_feature")
    elif waiting is not None:
        state = {
            "rows": waiting._matrix,
            "weights": waiting._weights,
            "random_state": _state_of(waiting.random_state),
        }
        fitted["waiting"] = packer.pack(state, "waiting")
    else:
        raise NotFittedError("There is nothing to save before fit or partial_fit.")
    return fitted


def _state_of(random_state: np.random.RandomState) -> dict[str, Any]:
    state: dict[str, Any] = random_state.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise ValueError(
            f"A stream that draws by {state['bit_generator']} cannot be saved. Use a random_state "
            f"that is a number, or RandomState(seed)."
        )
    return {
        "key": state["state"]["key"],
        "position": state["state"]["pos"],
        "has_gauss": state["has_gauss"],
        "gauss": state["gauss"],
    }


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
    name = document["estimator"]
    if name not in ESTIMATORS:
        raise ValueError(f"holds an estimator {name!r}, which is not one of {ESTIMATORS}")
    parameters = unpack(document["parameters"], tensors)
    estimator = getattr(sparsecluster, name)(**parameters)
    _check_parameters(estimator)
    check_random_state(estimator.random_state)
    fitted = unpack(document["fitted"], tensors)
    by_feature = fitted.pop("by_feature", None)
    if name == "MiniBatchKMeans":
        n_features = _restore_stream(estimator, fitted, verify)
    else:
        n_features = _restore_centers(estimator, fitted, verify)
    if by_feature is not None:
        estimator._by_feature = _by_feature(by_feature, estimator.cluster_centers_)
    estimator.n_features_in_ = n_features
    if "feature_names_" not in fitted:
        raise ValueError("does not say whether its features have names")
    for key, value in fitted.items():
        setattr(estimator, key, _attribute(key, value, n_features))
    return estimator


def _check_parameters(estimator: CenterEstimator) -> None:
    estimator._check_parameters()
    effective_n_threads(estimator.n_threads)
    effective_memory_limit(estimator.memory_limit)


def _attribute(name: str, value: Any, n_features: int) -> Any:
    """An attribute of a fit, if it is what it should be."""
    if name in SINGLE:
        if isinstance(value, bool) or not isinstance(value, SINGLE[name]):
            raise ValueError(f"has {value!r} as {name}")
        return value
    if name in NAMES:
        if value is not None and not (isinstance(value, Names) and len(value) <= n_features):
            raise ValueError(f"has something else than names as {name}")
        # scikit-learn compares these with the columns of data frames in ways of its own.
        return np.array(value) if name == "feature_names_in_" else value
    if name == "labels_":
        return _array(value, np.int32, 1, name)
    if name == "history_":
        return _history(value)
    if name == "recipe_":
        if not isinstance(value, dict):
            raise ValueError("has something else than a dict as recipe_")
        return value
    raise ValueError(f"has an unknown attribute {name!r}")


def _history(columns: dict[str, Any]) -> list[IterationRecord]:
    dtypes = _record_dtypes()
    for name in ADDED_COLUMNS - columns.keys():
        del dtypes[name]
    if columns.keys() != dtypes.keys():
        raise ValueError(f"has a history of other columns than {', '.join(dtypes)}")
    values = []
    for name, dtype in dtypes.items():
        column = columns[name]
        if dtype is object and isinstance(column, Names):
            column = np.asarray(column)
        values.append(_array(column, dtype, 1, name).tolist())
    return [
        IterationRecord(**dict(zip(dtypes, record, strict=True)))
        for record in zip(*values, strict=True)
    ]


def _record_dtypes() -> dict[str, Any]:
    """The columns of a history, in the order in which a record takes them."""
    fields = dataclasses.fields(IterationRecord)
    return {field.name: RECORD_DTYPES[str(field.type)] for field in fields}


def _array(value: Any, dtype: Any, ndim: int, name: str) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.ndim != ndim:
        raise ValueError(f"has something else than an array of {np.dtype(dtype)} as {name}")
    return value


def _check_centers(centers: Any, verify: bool) -> Any:
    """Centers whose type and shape fit; their values are read with `verify` alone."""
    if sp.issparse(centers):
        _array(centers.data, np.float64, 1, "centers")
    else:
        _array(centers, np.float64, 2, "centers")
    if not 0 < min(centers.shape) <= max(centers.shape) <= MAX_INDEX:
        raise ValueError(f"has centers of the shape {centers.shape}")
    if verify:
        values = centers.data if sp.issparse(centers) else centers
        largest = float(max(-values.min(initial=0.0), values.max(initial=0.0)))
        # The norms themselves take longer, and are rarely in doubt.
        if not largest * (largest / LARGEST_NORM2) * centers.shape[1] <= 1:
            norm2 = centers_.to_core(centers).norm2
            if not np.all(norm2 <= LARGEST_NORM2):
                raise ValueError("has centers that are not finite, or too large to square")
    return centers


def _restore_centers(estimator: Any, fitted: dict[str, Any], verify: bool) -> int:
    centers = _check_centers(fitted.pop("cluster_centers_"), verify)
    estimator.cluster_centers_ = centers
    estimator.n_clusters_ = estimator._n_features_out = centers.shape[0]
    return int(centers.shape[1])


def _by_feature(arrays: dict[str, Any], centers: Any) -> CentersByFeature:
    """The centers by feature, if their lengths fit; lists are checked where they are used."""
    if not sp.issparse(centers):
        raise ValueError("has dense centers by feature")
    lists = CentersByFeature(
        _array(arrays["indptr"], np.int64, 1, "by_feature"),
        _array(arrays["clusters"], np.int32, 1, "by_feature"),
        _array(arrays["values"], np.float64, 1, "by_feature"),
        _array(arrays["norm2"], np.float64, 1, "by_feature"),
        centers,
    )
    lengths = tuple(len(one) for one in (lists.norm2, lists.indptr, lists.clusters, lists.values))
    if lengths != (centers.shape[0], centers.shape[1] + 1, centers.nnz, centers.nnz):
        raise ValueError("has centers by feature of another length")
    return lists


def _restore_stream(estimator: Any, fitted: dict[str, Any], verify: bool) -> int:
    estimator._sparse = bool(fitted.pop("sparse"))
    if "waiting" in fitted:
        estimator._waiting = waiting = _waiting(**fitted.pop("waiting"))
        return int(waiting._matrix.shape[1])
    estimator._stream = stream = _stream(fitted.pop("stream"), estimator, verify)
    return int(stream.centers.shape[1])


def _stream(state: dict[str, Any], estimator: Any, verify: bool) -> Stream:
    centers, sums = _check_centers(state["centers"], verify), _check_centers(state["sums"], False)
    if not sp.issparse(centers) or not sp.issparse(sums) or centers.shape != sums.shape:
        raise ValueError("has centers that do not fit to their sums")
    counts = _array(state["counts"], np.float64, 1, "counts")
    squares = _array(state["squares"], np.float64, 1, "squares")
    if len(counts) != centers.shape[0]:
        raise ValueError("has another number of counts than of centers")
    for name in ("n_batches", "rows_since_check"):
        check_number(name, state[name], int, 0)
    kept = Kept(sums, counts, squares, state["n_batches"], state["rows_since_check"])
    # The class that checks its parameters checks those that the stream began with, too.
    made_with = state["made_with"]
    began = type(estimator)(**made_with, reassignment_ratio=state["reassignment_ratio"])
    began._check_parameters()
    if made_with.keys() != began._frozen.keys():
        raise ValueError("has a stream that does not say how it began")
    if verify:
        kept.checked(began.metric)
    return Stream.restored(
        kept,
        centers,
        _random_state(**state["random_state"]),
        metric=began.metric,
        limit=began._limit,
        memory_limit=effective_memory_limit(estimator.memory_limit),
        reassignment_ratio=began.reassignment_ratio,
        made_with=made_with,
    )


def _waiting(rows: Any, weights: Any, random_state: dict[str, Any]) -> Waiting:
    waiting = Waiting(_random_state(**random_state))
    values = rows.data if sp.issparse(rows) else rows
    if values.dtype not in (np.float32, np.float64) or rows.ndim != 2 or min(rows.shape) < 1:
        raise ValueError("has something else than rows that wait")
    if weights is not None:
        _array(weights, np.float64, 1, "weights")
        if weights.shape != rows.shape[:1] or not np.all((weights >= 0) & (weights < np.inf)):
            raise ValueError("has weights that do not fit to the rows that wait")
    waiting._matrix, waiting._weights = rows, weights
    return waiting


def _random_state(key: Any, position: Any, has_gauss: Any, gauss: Any) -> np.random.RandomState:
    _array(key, np.uint32, 1, "the state of its random numbers")
    # numpy believes the position, and would read what lies behind the key.
    inside = type(position) is int and 0 <= position <= 624 and has_gauss in (0, 1)
    if len(key) != 624 or not inside or not isinstance(gauss, float):
        raise ValueError("has a state of its random numbers that cannot be")
    random_state = np.random.RandomState()
    random_state.set_state(("MT19937", key, position, has_gauss, gauss))
    return random_state
