"""Representations of the labels of a multi-label set, to be clustered in place of its instances.

They follow equations F.1 and F.2 of the SparseKmeans paper: a label is the direction of the sum of
its instances. There is no transformer of this kind: a transformer gives a row for each row of Z,
this gives a row for each label, and nothing is learnt that other instances could be put through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.formats.labels import label_columns
from sparsecluster.formats.limits import refuse_empty_rows
from sparsecluster.formats.source import ReadError
from sparsecluster.prepare.entrance import enter
from sparsecluster.prepare.pieces import row_lengths
from sparsecluster.rows.parameters import check_number
from sparsecluster.rows.recipe import check_norm
from sparsecluster.rows.resources import effective_n_threads
from sparsecluster.rows.rows import MAX_INDEX, Rows, as_rows, check_input

BLOCK = 1 << 18  # entries of the result that are computed at a time, in float64


def metalabels(
    Z: Any, Y: Any, *, n_labels: int | None = None, norm: str | None = "l2"
) -> sp.csr_array:
    """One row for each label: the sum of its instances, scaled to unit length.

    In matrices this is ``Y.T @ Z`` with normalised rows. Sums are computed in float64, in the order
    of the instances, and rounded once. Nothing dense is made, and Z is not copied: memory follows
    the result.

    Parameters
    ----------
    Z : sparse matrix or array of shape (n_instances, n_features), or Rows
        The instances, for example their tf-idf.
    Y : sparse matrix, array, or sequence of sequences of int
        The labels of each instance: a matrix of shape (n_instances, n_labels) of zeros and ones (or
        False and True), or for each instance the numbers of its labels, from 0. A label that is
        listed twice for an instance counts once.
    n_labels : int, optional
        Number of labels where Y lists them; by default as many as the largest number needs.
    norm : {"l2"} or None, default="l2"
        None leaves the sums as they are, so that those of parts of the instances can be added up.

    Returns
    -------
    X : csr_array of shape (n_labels, n_features)
        Row i is label i, in the float type of Z (float64 for integers), with sorted columns and
        without stored zeros. A label without instances is a zero row, as is one whose instances add
        up to zero: ``np.flatnonzero(np.diff(X.indptr))`` are the others. KMeans takes zero rows as
        they are, SphericalKMeans with ``zero_rows="first"``.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import metalabels
    >>> Z = csr_array([[3.0, 0, 0], [0, 4.0, 0], [0, 0, 1.0]])
    >>> metalabels(Z, [[0], [0, 2], [2]], n_labels=4).toarray().round(2)
    array([[0.6 , 0.8 , 0.  ],
           [0.  , 0.  , 0.  ],
           [0.  , 0.97, 0.24],
           [0.  , 0.  , 0.  ]])
    """
    check_norm(norm)
    instances = sp.csr_array(enter(Z, name="Z").matrix)
    labels = _members(Y, instances.shape[0], n_labels)
    found = sp.csr_array(sp.vstack(list(_label_blocks(instances, labels, norm)), format="csr"))
    if found.nnz <= MAX_INDEX:
        found.indptr, found.indices = (
            array.astype(np.int32, copy=False) for array in (found.indptr, found.indices)
        )
    return found


def label_rows(rows: Rows, path: Any) -> Rows:
    """The labels of a file as rows, with the columns of its rows."""
    return as_rows(
        metalabels(rows.checked().matrix, _labels_of(rows, path)),
        n_threads=effective_n_threads(None),
        provenance=replace(rows.provenance, labels=None, ids=None),
    )


def label_row_blocks(rows: Rows, path: Any) -> Iterator[sp.csr_array]:
    """The same block by block. Rows that are mapped from a file need not fit into memory: those of
    some labels are read at a time. Of the labels there is one copy, by label."""
    by_label = _labels_of(rows, path).astype(np.int8).tocsc()
    members = sp.csr_array(by_label.T)
    return _label_blocks(sp.csr_array(rows.checked().matrix), members, "l2")


def _labels_of(rows: Rows, path: Any) -> sp.csr_array:
    """The labels of a file, as an indicator matrix."""
    if rows.labels is None:
        raise ReadError(
            f"{path} has no labels, which metalabels=True takes for rows. Labels come first on a "
            f"line of an svmlight file."
        )
    labels: Any = rows.labels
    if not sp.issparse(labels):
        columns = label_columns(labels, None)
        entries = (np.ones(len(columns), np.float32), columns, np.arange(len(columns) + 1))
        labels = sp.csr_array(entries)
    refuse_empty_rows(path, labels.shape[1], labels.nnz)
    return labels


def _label_blocks(
    instances: sp.csr_array, labels: sp.csr_array, norm: str | None
) -> Iterator[sp.csr_array]:
    """The rows of some labels at a time, in the type of the instances."""
    for begin, end in _blocks_of_labels(labels, instances):
        sums = _sums(labels[begin:end], instances)
        sums.sort_indices()
        sums.eliminate_zeros()
        if norm is not None:
            entries = np.diff(sums.indptr)
            sums.data /= np.repeat(row_lengths(entries, sums.data), entries)
        yield _rounded(sums, instances.dtype, begin)


def _sums(members: sp.csr_array, instances: sp.csr_array) -> sp.csr_array:
    """For each label the sum of its instances, in their order, of which about BLOCK entries are
    looked at together."""
    used = np.unique(members.indices)
    chosen = sp.csr_array(
        (members.data, np.searchsorted(used, members.indices), members.indptr),
        shape=(members.shape[0], len(used)),
    )
    ends = np.cumsum(np.diff(instances.indptr)[used], dtype=np.int64)
    cuts = np.searchsorted(
        ends, np.arange(BLOCK, ends[-1] if len(ends) else 0, BLOCK), side="right"
    )
    sums: sp.csr_array | None = None
    for begin, end in pairwise(np.unique([0, *cuts, len(used)])):
        part = sp.csr_array(Rows(instances).picked(used[begin:end]), dtype=np.float64)
        some = chosen[:, begin:end]
        if sums is not None:
            # A sum so far counts as one more instance before the others: the order stays.
            before = sp.eye_array(members.shape[0], dtype=np.int8, format="csr")
            some = sp.hstack([before, some], format="csr")
            part = sp.vstack([sums, part], format="csr")
        sums = sp.csr_array(some @ part)
    if sums is None:
        return sp.csr_array((members.shape[0], instances.shape[1]), dtype=np.float64)
    return sums


def _rounded(sums: sp.csr_array, dtype: Any, first_label: int) -> sp.csr_array:
    """The same in this type; what rounds to zero is left out."""
    with np.errstate(over="ignore", under="ignore"):
        block = sums.astype(dtype, copy=False)
    block.eliminate_zeros()
    wrong = ~np.isfinite(block.data)
    if wrong.any():
        at = int(np.argmax(wrong))
        label = first_label + int(np.searchsorted(block.indptr, at, side="right")) - 1
        raise ValueError(
            f"The instances of label {label} add up to more than {dtype} can hold in column "
            f"{block.indices[at]}. Scale Z first, or pass it in float64."
        )
    return block


def _blocks_of_labels(labels: sp.csr_array, instances: sp.csr_array) -> Iterator[tuple[int, int]]:
    """Bounds of groups of labels with about BLOCK entries in the result."""
    entries = np.diff(instances.indptr).astype(np.int64)
    most = np.minimum(labels @ entries, instances.shape[1])
    ends = np.cumsum(most)
    cuts = np.searchsorted(ends, np.arange(BLOCK, ends[-1], BLOCK), side="right")
    bounds = np.unique([0, *cuts, labels.shape[0]])
    return ((int(begin), int(end)) for begin, end in pairwise(bounds))


def _members(Y: Any, n_instances: int, n_labels: int | None) -> sp.csr_array:
    """The instances of each label: a matrix of labels x instances, of ones."""
    if n_labels is not None:
        check_number("n_labels", n_labels, Integral, 1)
    if hasattr(Y, "to_numpy"):
        Y = Y.to_numpy()
    if sp.issparse(Y) or (isinstance(Y, np.ndarray) and Y.ndim == 2):
        row, label, n_rows = _from_matrix(Y)
        width = Y.shape[1]
        if n_labels not in (None, width):
            raise ValueError(f"Y has {width} columns, one for each label, but n_labels={n_labels}.")
    else:
        row, label, n_rows = _from_lists(Y, n_labels)
        width = n_labels or int(label.max(initial=-1)) + 1
    if n_rows != n_instances:
        raise ValueError(
            f"Z has {n_instances} rows and Y has {n_rows}; each row of Z needs its labels in Y."
        )
    if not 0 < width <= MAX_INDEX:
        raise ValueError(f"Y has {width} labels; from 1 to 2**31 - 1 are supported.")
    ones = np.ones(len(row), dtype=np.int8)
    members = sp.coo_array((ones, (label, row)), shape=(width, n_instances)).tocsr()
    members.data[:] = 1
    return members


def _from_matrix(Y: Any) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows and labels of the ones of a matrix, and its number of rows."""
    Y = check_input(Y, "Y")
    if sp.issparse(Y):
        entries = Y.tocoo()
        row, label, values = entries.row, entries.col, entries.data
    else:
        row, label = np.nonzero(Y)
        values = Y[row, label]
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise ValueError(
            f"Y must hold zeros and ones: row {row[at]}, label {label[at]} has {values[at]!r}. "
            f"Where any value means that the label is there, pass Y != 0."
        )
    there = values != 0
    return row[there], label[there], Y.shape[0]


def _from_lists(Y: Any, n_labels: int | None) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows and labels of lists of labels, and the number of lists."""
    lists = list(Y) if isinstance(Y, Iterable) and not isinstance(Y, (str, dict)) else None
    if lists is None or any(not isinstance(row, Collection) for row in lists):
        raise ValueError(
            "Y must be a sparse matrix or an array of zeros and ones, of instances x labels, or a "
            "list of the labels of each instance, as in [[0], [0, 2], []]."
        )
    row = np.repeat(np.arange(len(lists)), [len(labels) for labels in lists])
    label = np.array(list(chain.from_iterable(lists)))
    if not len(label):
        label = label.astype(np.int64)
    if label.ndim != 1 or label.dtype.kind not in "iu":
        found = (
            f"{label!r} in row {row}"
            for row, labels in enumerate(lists)
            for label in labels
            if isinstance(label, bool) or not isinstance(label, Integral)
        )
        raise ValueError(
            f"The labels of Y must be integers, found "
            f"{next(found, 'integers that do not fit into 64 bits')}. For names, use "
            f"scikit-learn's MultiLabelBinarizer(sparse_output=True) first."
        )
    wrong = (label < 0) | (label >= (MAX_INDEX if n_labels is None else n_labels))
    if wrong.any():
        at = int(np.argmax(wrong))
        limit = "" if n_labels is None else f" up to n_labels={n_labels}"
        raise ValueError(
            f"Y has the label {label[at]} in row {row[at]}; labels count from 0{limit}."
        )
    return row, label.astype(np.int64), len(lists)
