"""Counts turned into what is clustered: columns dropped, logarithms, tf-idf, unit rows.

All of it follows from how many rows each column occurs in, so it works block by block."""

from __future__ import annotations

import copy
import os
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from sparsecluster.prepare import pieces as pieces_
from sparsecluster.prepare.entrance import enter
from sparsecluster.prepare.pieces import Piece, pieces_of, row_counts, row_lengths
from sparsecluster.rows.checks import INPUT
from sparsecluster.rows.recipe import FLAGS, check_preparation, check_preparation_state
from sparsecluster.rows.rows import MAX_INDEX, Rows


class Prepare(TransformerMixin, BaseEstimator):
    """Turn counts into what is clustered, in memory or block by block.

    The steps are taken in this order, each only where it is asked for: drop columns, logarithms,
    idf weights, rows at unit length, embedding in fewer columns. They are computed in float64 and
    rounded once. A row becomes the same, bit by bit, whatever block it comes in.

    Parameters
    ----------
    min_df : int or float, default=0
        Drop columns that occur in fewer rows; a float is a share of the rows. A column occurs where
        its entry is not zero; zeros that are stored do not count.
    max_df : int or float, default=1.0
        Drop columns that occur in more rows; a float is a share of the rows.
    drop_empty : bool, default=False
        Drop columns that occur in no row, as ``min_df=1`` does.
    log : bool, default=False
        Replace each value by ln(1 + value); values of -1 and below are refused. This is not the
        `sublinear_tf` of scikit-learn, 1 + ln(value), which jumps at zero and is negative for
        small values: of a count of 1 it leaves 1, ln(1 + value) leaves 0.69.
    tfidf : bool, default=False
        Multiply each column by ln((1 + rows) / (1 + rows it occurs in)) + 1, the smoothed idf of
        scikit-learn's TfidfTransformer. With `log` it multiplies the logarithms.
    norm : {"l2"} or None, default=None
        Scale rows to L2 norm 1. Zero rows stay zero.
    dtype : {"float32", "float64"} or None, default=None
        Type of the result. None: that of X (float64 for integers).
    embed : int or None, default=None
        Columns of the result, by a sparse embedding: each column that is kept is added to one of so
        many components, with a sign, both by the hash of :class:`~sparsecluster.SparseEmbedding`
        with ``random_state=0``. Rows are scaled before, not after that.

    Attributes
    ----------
    n_rows_ : int
        Rows counted.
    row_counts_ : ndarray of shape (n_features_in_,), int64
        How many rows each column occurs in.
    columns_ : ndarray of int32, or None
        The columns that are kept, ascending; None where all are.
    idf_ : ndarray of float64, or None
        Weights of the columns that are kept; None without `tfidf`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import Prepare
    >>> counts = csr_array([[1.0, 0, 2, 0], [1, 3, 0, 0], [4, 1, 0, 1]])
    >>> prepare = Prepare(min_df=2, max_df=0.9, norm="l2").fit(counts)
    >>> prepare.columns_
    array([1], dtype=int32)
    >>> prepare.transform(counts).toarray()
    array([[0.],
           [1.],
           [1.]])

    Block by block: first count, then transform.

    >>> prepare = Prepare(tfidf=True)
    >>> for block in (counts[:2], counts[2:]):
    ...     prepare = prepare.partial_fit(block)
    >>> prepare.row_counts_
    array([3, 2, 1, 1])
    >>> prepare.transform(counts[:1]).toarray().round(2)
    array([[1.  , 0.  , 3.39, 0.  ]])
    """

    n_rows_: int
    row_counts_: np.ndarray
    columns_: np.ndarray | None
    idf_: np.ndarray | None

    def __init__(
        self,
        *,
        min_df: float = 0,
        max_df: float = 1.0,
        drop_empty: bool = False,
        log: bool = False,
        tfidf: bool = False,
        norm: str | None = None,
        dtype: Any = None,
        embed: int | None = None,
    ) -> None:
        self.min_df = min_df
        self.max_df = max_df
        self.drop_empty = drop_empty
        self.log = log
        self.tfidf = tfidf
        self.norm = norm
        self.dtype = dtype
        self.embed = embed

    # --- counting -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Prepare:
        """Count the rows that each column of X occurs in; what was counted before is forgotten."""
        self._fit(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Prepare:
        """Add the rows of X to what was counted.

        X may have more columns than all that came before (where they count as zero), not fewer.
        """
        self.check_parameters()
        known = len(getattr(self, "row_counts_", ()))
        shape = np.shape(X) if not hasattr(X, "shape") else X.shape
        grows = not known or (len(shape) == 2 and shape[1] > known)
        rows = self._check_rows(X, reset=grows, keep_names=True)
        self._add(rows.n_rows, row_counts(rows))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Count X, then transform it."""
        return self._transform(self._fit(X))

    def count(
        self, indptr: Any, indices: Any, data: Any, *, n_features: int | None = None
    ) -> Prepare:
        """Add a block of rows, as the arrays of a CSR matrix, to what was counted.

        As :meth:`partial_fit` without its checks: within a row the columns must ascend strictly.
        Without `n_features` there are as many columns as the largest index needs.
        """
        self.check_parameters()
        width = int(np.max(indices, initial=-1)) + 1
        if n_features is not None and width > n_features:
            raise ValueError(f"The block has a column {width - 1}, but n_features={n_features}.")
        self._add(len(indptr) - 1, pieces_.occurrences(indices, data, n_features or width))
        return self

    def _fit(self, X: Any) -> Rows:
        """Count X alone; its checked rows."""
        self.check_parameters()
        rows = self._check_rows(X, reset=True)
        self._settle(rows.n_rows, row_counts(rows))
        self._refuse_no_columns()
        return rows

    def _add(self, n_rows: int, counts: np.ndarray) -> None:
        """Add the counts of some rows to those of all before."""
        before = getattr(self, "row_counts_", np.zeros(0, dtype=np.int64))
        total = np.zeros(max(len(before), len(counts)), dtype=np.int64)
        total[: len(before)] = before
        total[: len(counts)] += counts
        self._settle(getattr(self, "n_rows_", 0) + n_rows, total)

    def _settle(self, n_rows: int, row_counts: np.ndarray) -> None:
        """Keep the counts and what follows from them: columns and weights."""
        self.n_rows_, self.row_counts_ = n_rows, row_counts
        self.n_features_in_ = len(row_counts)
        if len(self.__dict__.get("feature_names_in_", row_counts)) != len(row_counts):
            del self.feature_names_in_  # blocks of plain arrays brought columns without names
        rare, frequent = self._dropped()
        kept = np.flatnonzero(~(rare | frequent)).astype(np.int32)
        self.columns_ = None if len(kept) == len(row_counts) else kept
        self.idf_ = None
        if self.tfidf:
            self.idf_ = np.log((1.0 + n_rows) / (1.0 + row_counts[kept])) + 1.0

    def _dropped(self) -> tuple[np.ndarray, np.ndarray]:
        """Which columns occur too rarely, and which too often."""
        rare = self._counts_or_shares(self.min_df) < self.min_df
        frequent = self._counts_or_shares(self.max_df) > self.max_df
        return rare | (self.row_counts_ < int(self.drop_empty)), frequent

    def _counts_or_shares(self, limit: Any) -> np.ndarray:
        """What is compared with a limit, an integer or a float."""
        if isinstance(limit, Integral):
            return self.row_counts_
        # Of 100 rows 29 are not more than a share of 0.29; by 0.29 * 100 they would be.
        return self.row_counts_ / max(self.n_rows_, 1)

    def _refuse_no_columns(self) -> None:
        if self.columns_ is None or len(self.columns_):
            return
        rare, frequent = (int(which.sum()) for which in self._dropped())
        raise ValueError(
            f"No column is left: of {len(self.row_counts_)} columns, {rare} occur in too few of "
            f"the {self.n_rows_} rows (min_df={self.min_df}, drop_empty={self.drop_empty}) and "
            f"{frequent} in too many (max_df={self.max_df}). Lower min_df or raise max_df."
        )

    # --- transforming -------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """The rows of X, prepared.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features_in_)

        Returns
        -------
        prepared : sparse CSR with sorted int32 indices, or ndarray
            Sparse for sparse X, dense for dense X. Where there is nothing to change, X itself.
        """
        check_is_fitted(self, "row_counts_")
        return self._transform(self._check_rows(X, reset=False))

    def apply(
        self, indptr: Any, indices: Any, data: Any, *, first_row: int = 0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Prepare a block of rows, given and returned as the arrays of a CSR matrix.

        As :meth:`transform` without its checks: within a row the columns must ascend strictly, and
        values must be finite. Arrays that do not change are returned as they are.

        Parameters
        ----------
        indptr, indices, data : ndarray
            Of integers, starting with 0; of integers; of float32 or float64.
        first_row : int, default=0
            Number of the block's first row, for messages.

        Returns
        -------
        indptr, indices, data : ndarray
            Of int64; of int32; of `dtype`, or of the type given.
        """
        check_is_fitted(self, "row_counts_")
        self._refuse_no_columns()
        indptr = np.asarray(indptr, dtype=np.int64)
        indices = np.asarray(indices)[: indptr[-1]]
        data = np.asarray(data)[: indptr[-1]]
        if data.dtype not in (np.float32, np.float64):
            raise ValueError(f"data must be of float32 or float64, got {data.dtype}.")
        if np.max(indices, initial=-1) >= len(self.row_counts_):
            raise ValueError(
                f"The block has a column {indices.max()}, but {len(self.row_counts_)} columns were "
                f"counted. Count all blocks before the first is transformed."
            )
        indices = indices.astype(np.int32, copy=False)
        dtype = data.dtype if self.dtype is None else np.dtype(self.dtype)
        if self._changes_nothing(data.dtype):
            return indptr, indices, data
        places = None
        if self.columns_ is not None:
            places = np.full(len(self.row_counts_), -1, dtype=np.int32)
            places[self.columns_] = np.arange(len(self.columns_), dtype=np.int32)
        values, columns = [np.zeros(0, dtype)], [np.zeros(0, np.int32)]
        counts = [np.zeros(1, np.int64)]
        for piece in pieces_of(indptr, indices, data, first_row):
            if places is not None:
                piece.move(places)
            self._change_values(piece, dtype)
            values.append(piece.values)
            columns.append(piece.columns)
            counts.append(np.diff(piece.indptr))
        if places is not None or self.embed is not None:
            indptr, indices = np.concatenate(counts).cumsum(), np.concatenate(columns)
        return indptr, indices, np.concatenate(values)

    def _change_values(self, piece: Piece, dtype: Any) -> None:
        values = piece.values.astype(np.float64)
        if self.log:
            advice = "Logarithms are for counts and other values that are not negative."
            piece.refuse(values <= -1, "log(1 + value) needs values above -1", advice)
            values = np.log1p(values)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.idf_ is not None:
                values *= self.idf_[piece.columns]
            if self.norm is not None:
                counts = np.diff(piece.indptr)
                values /= np.repeat(row_lengths(counts, values), counts)
            if self.embed is not None:
                values = piece.embed(values, int(self.embed))
            piece.round_to(values, dtype)

    def _changes_nothing(self, dtype: Any) -> bool:
        """Whether rows of this type are what is asked for."""
        same_type = self.dtype is None or np.dtype(self.dtype) == dtype
        computes = self.log or self.norm is not None or self.idf_ is not None
        return self.columns_ is None and same_type and not computes and self.embed is None

    def _transform(self, rows: Rows) -> Any:
        matrix = rows.matrix
        self._refuse_no_columns()
        if self._changes_nothing(matrix.dtype):
            return matrix
        sparse = matrix if rows.sparse else sp.csr_array(matrix)
        indptr, indices, data = self.apply(sparse.indptr, sparse.indices, sparse.data)
        shape = (rows.n_rows, self.n_features_out)
        if indptr[-1] <= MAX_INDEX:
            indptr = indptr.astype(np.int32)  # scipy would widen the indices to match
        prepared = type(sparse)((data, indices, indptr), shape=shape)
        return prepared if rows.sparse else prepared.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that are kept.

        Parameters
        ----------
        input_features : sequence of str, optional
            Names of all columns. By default those of the data frame that was fitted, or x0, x1, ...
        """
        check_is_fitted(self, "row_counts_")
        names = _check_feature_names_in(self, input_features)
        if self.embed is not None:
            return np.array([f"component{i}" for i in range(self.embed)], dtype=object)
        return names if self.columns_ is None else names[self.columns_]

    @property
    def n_features_out(self) -> int:
        """Number of columns that are kept, or made."""
        kept = len(self.row_counts_ if self.columns_ is None else self.columns_)
        return kept if self.embed is None else int(self.embed)

    def get_state(self) -> dict[str, Any]:
        """What a file has to keep: parameters and `n_rows` for JSON, `row_counts` as an array.

        Names of columns are not part of it.
        """
        check_is_fitted(self, "row_counts_")
        flags = {name: bool(getattr(self, name)) for name in FLAGS}
        dtype = None if self.dtype is None else np.dtype(self.dtype).name
        limits = {name: np.asarray(getattr(self, name)).item() for name in ("min_df", "max_df")}
        embed = {} if self.embed is None else {"embed": int(self.embed)}
        return {
            "parameters": {**limits, **flags, "norm": self.norm, "dtype": dtype, **embed},
            "n_rows": int(self.n_rows_),
            "row_counts": self.row_counts_.copy(),
        }

    @classmethod
    def from_state(cls, state: Any) -> Prepare:
        """The transformer that :meth:`get_state` was asked of; a state that is broken is refused.

        Examples
        --------
        >>> from sparsecluster import Prepare
        >>> state = Prepare(tfidf=True).fit([[1.0, 0.0], [2.0, 1.0]]).get_state()
        >>> state["n_rows"], state["row_counts"]
        (2, array([2, 1]))
        >>> Prepare.from_state(state)
        Prepare(tfidf=True)
        """
        check_preparation_state(state)
        prepare = cls(**state["parameters"])
        prepare._settle(state["n_rows"], state["row_counts"].astype(np.int64))
        return prepare

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, by name."""
        check_preparation(self.get_params())

    def _check_rows(self, X: Any, *, reset: bool, keep_names: bool = False) -> Rows:
        if isinstance(X, Rows | str | os.PathLike):
            X = enter(X).matrix
        # On a copy: what is refused must not change what is known of the columns.
        checked = copy.copy(self)
        rows = enter(X, validate=partial(validate_data, checked, reset=reset, **INPUT))
        if not reset:
            return rows
        before, names = (vars(of).get("feature_names_in_") for of in (self, checked))
        same = before is None or (
            names is not None and np.array_equal(names[: len(before)], before)
        )
        if keep_names and not same:
            raise ValueError(
                "The columns of X are more than before, but do not start with the same names. Put "
                "the new columns behind the known ones."
            )
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_: np.ndarray = names
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
