"""Preconditioned data sparsification: rows are mixed by a random rotation, and sampled.

Pourkamali-Anaraki and Becker, "Preconditioned Data Sparsification for Big Data with Applications to
PCA and K-means" (IEEE Transactions on Information Theory, 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_array, check_is_fitted

from sparsecluster.embedding.mixing import Mixer, sampled
from sparsecluster.embedding.reducing import SeededReducer, refuse_beyond, rounded
from sparsecluster.rows.resources import effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.rows.sharing import share_out


class Sparsification(ClassNamePrefixFeaturesOutMixin, SeededReducer):
    """Preconditioned data sparsification: a random rotation, then some entries of each row.

    Rows are padded with zeros to the next power of two columns, p; their signs are flipped at
    random, and they are multiplied by the orthonormal Hadamard matrix. That spreads what a row
    holds evenly over its p entries, of which `n_components` are kept, drawn anew for each row.
    Cluster the result with :class:`SparsifiedKMeans`, which knows that what is missing is not zero.

    Parameters
    ----------
    n_components : int, default=100
        Entries that are kept of each row.
    random_state : int, RandomState or None, default=None
        Seed of the signs and of the draws.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that the result may take; more is refused before any work. By default half
        of the memory that is free.

    Attributes
    ----------
    seed_ : int
        Of signs and draws.
    n_mixed_ : int
        Columns of the result: the power of two, p.

    Notes
    -----
    Sparse rows become dense when they are mixed: the work is n p log p, whatever they hold. Only a
    few rows are mixed at a time. The draws of a row depend on its entries and the seed: equal rows
    have equal draws, and a row has the same ones wherever it stands.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import Sparsification
    >>> X = np.array([[3.0, 0, 0, 0, 4], [0, 0, 2, 0, 0]])
    >>> rows = Sparsification(4, random_state=0).fit_transform(X)
    >>> rows.shape, np.diff(rows.indptr).tolist()
    ((2, 8), [4, 4])
    >>> all_entries = Sparsification(8, random_state=0).fit(X)
    >>> all_entries.inverse_transform(all_entries.transform(X).toarray()).round(9) + 0.0
    array([[3., 0., 0., 0., 4.],
           [0., 0., 2., 0., 0.]])
    """

    def _check_memory(self, rows: Rows) -> None:
        check_room(rows, self.n_components, self.memory_limit)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows in terms of the mixed columns, such as means, in terms of those that were fitted."""
        check_is_fitted(self, "seed_")
        mixed = check_array(X, dtype=np.float64)
        if mixed.shape[1] != self.n_mixed_:
            raise ValueError(f"X has {mixed.shape[1]} columns, and {self.n_mixed_} are needed.")
        return self._mixer.unmix(mixed)

    @property
    def n_mixed_(self) -> int:
        check_is_fitted(self, "seed_")
        return self._mixer.length

    @property
    def _n_features_out(self) -> int:
        return self.n_mixed_

    @property
    def _mixer(self) -> Mixer:
        return Mixer(self.seed_, self.n_features_in_)

    def _reduced(self, rows: Rows) -> sp.csr_array:
        check_room(rows, self.n_components, self.memory_limit)
        n_threads = effective_n_threads(self.n_threads)
        return sparsified(rows, self._mixer, self.n_components, n_threads)


def check_room(rows: Rows, n_drawn: int, memory_limit: Any) -> None:
    """Refuse more entries than a mixed row has, and what does not fit into memory."""
    length = 1 << (rows.n_features - 1).bit_length()
    if n_drawn > length:
        raise ValueError(
            f"n_components={n_drawn} entries are to be kept of each row, which has {length} after "
            f"mixing (X has {rows.n_features} columns)."
        )
    needed = rows.n_rows * n_drawn * (rows.matrix.dtype.itemsize + 4) + 4 * 8 * length
    advice = "Keep fewer n_components, or transform X in blocks of rows"
    refuse_beyond(needed, memory_limit, "The sparsified X", advice)


def sparsified(rows: Rows, mixer: Mixer, n_drawn: int, n_threads: int) -> sp.csr_array:
    """Mixed rows, of which some entries are kept, in the type of the rows."""
    drawn = np.empty((rows.n_rows, n_drawn), dtype=np.int32)
    values = np.empty((rows.n_rows, n_drawn), dtype=rows.matrix.dtype)
    at_once = mixer.rows_at_once

    def sample(number: int) -> None:
        begin = number * at_once
        end = min(begin + at_once, rows.n_rows)
        block = rows.take(np.arange(begin, end))
        drawn[begin:end] = mixer.draw(block, n_drawn)
        mixed = np.take_along_axis(mixer.mix(block), drawn[begin:end].astype(np.intp), axis=1)
        values[begin:end] = rounded(mixed, values.dtype)

    n_blocks = -(-rows.n_rows // at_once)
    work = rows.n_rows * mixer.length * max(1, mixer.bits)
    share_out(sample, n_blocks, threads_for(work, n_threads))
    return sampled(drawn, values, mixer.length)
