"""Dense random projection by signs: every column is added to every component, or taken from it.

Achlioptas (2003); for k-means Boutsidis, Zouzias, Mahoney and Drineas (2015)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from sparsecluster.embedding.hashing import mixed_bits, stream_bits
from sparsecluster.embedding.reducing import SeededReducer, refuse_beyond, rounded
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import Rows
from sparsecluster.rows.sharing import share_out

WORD = 64  # signs in a word of random bits
BLOCK_BYTES = 64 << 20  # of signs that are made at once, at most
BLOCK_ENTRIES = 1 << 22  # of rows that are copied at once, about


class RandomSigns(ClassNamePrefixFeaturesOutMixin, SeededReducer):
    """Random projection by a dense matrix of +-1 / sqrt(n_components).

    Squared distances are kept in expectation. The matrix is never stored: its signs are a hash of
    the seed, the column and the component, and are made for some components at a time.

    Parameters
    ----------
    n_components : int, default=100
        Columns of the result.
    random_state : int, RandomState or None, default=None
        Seed of the signs.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that the result and the signs may take; more is refused before any work. By
        default half of the memory that is free.

    Attributes
    ----------
    seed_ : int
        Of the hash.

    Notes
    -----
    The work is entries x components, where :class:`SparseEmbedding` takes one step per entry. Sums
    are made in float64, in the order of the columns, and rounded once to the type of X: the same to
    the bit for any number of threads. The signs of a component do not depend on how many there are.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import RandomSigns
    >>> X = np.eye(3)
    >>> Z = RandomSigns(400, random_state=0).fit_transform(X)
    >>> Z.shape, bool(np.all(np.abs(Z) == 0.05))
    ((3, 400), True)
    >>> abs(Z @ Z.T).round(1)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def _check_memory(self, rows: Rows) -> None:
        cells = rows.n_rows * self.n_components
        needed = cells * rows.matrix.dtype.itemsize + 2 * 8 * WORD * rows.n_features
        advice = "Take fewer components or SparseEmbedding, transform X in blocks of rows"
        refuse_beyond(needed, self.memory_limit, "The projection of X", advice)

    def _reduced(self, rows: Rows) -> np.ndarray:
        self._check_memory(rows)
        out = np.empty((rows.n_rows, self.n_components), dtype=rows.matrix.dtype)
        room = min(BLOCK_BYTES, effective_memory_limit(self.memory_limit) // 4)
        words = max(1, room // (8 * WORD * max(1, rows.n_features)))
        width = WORD * words
        n_blocks = -(-self.n_components // width)
        per_row = max(1, rows.core.nnz // rows.n_rows)
        n_rows = max(1, BLOCK_ENTRIES // per_row)
        n_threads = effective_n_threads(self.n_threads)
        for begin, block in rows.in_blocks(n_rows):
            end = begin + block.shape[0]

            def project(
                number: int, block: Any = block, place: Any = out[begin:end], width: int = width
            ) -> None:
                first = number * width
                last = min(first + width, self.n_components)
                signs = self._signs(rows.n_features, first, last)
                sums = (block @ signs) / np.sqrt(self.n_components)
                place[:, first:last] = rounded(sums, place.dtype)

            work = block.nnz * self.n_components
            share_out(project, n_blocks, threads_for(work, n_threads))
        return out

    def _signs(self, n_features: int, first: int, last: int) -> np.ndarray:
        """The signs of some components, the first at the beginning of a word, for all columns."""
        return signs_of(self.seed_, n_features, first // WORD, last - first)


def signs_of(seed: int, n_features: int, first_word: int, n_components: int) -> np.ndarray:
    """Signs in float64, columns x components, from a word of components on."""
    streams = stream_bits(mixed_bits(seed)[0], np.arange(n_features))
    words = first_word + np.arange(-(-n_components // WORD))
    bits = stream_bits(streams[:, None], words[None, :])
    shape = (n_features, len(words) * WORD)
    octets = np.ascontiguousarray(bits.astype("<u8")).view(np.uint8).reshape(n_features, -1)
    flags = np.unpackbits(octets, axis=1, bitorder="little").reshape(shape)[:, :n_components]
    return 1.0 - 2.0 * flags
