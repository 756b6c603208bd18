"""Rows mixed by a random rotation, of signs and a Hadamard matrix, and entries drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.embedding.hashing import mixed_bits, random_signs, stream_bits

BLOCK_BYTES = 1 << 20  # of rows that are mixed at once, so that they stay in the cache
FEW = 1024  # entries of a row that are drawn by sorting random numbers, at most
ROUNDS = 6  # of the permutation by which others are drawn


def hadamard(rows: np.ndarray) -> np.ndarray:
    """Each row times the orthonormal Hadamard matrix; their length is a power of two."""
    n_rows, length = rows.shape
    inner = 1 << (length.bit_length() // 2)
    outer = length // inner
    # Two halves of the stages, each along an axis that leaves long runs of memory to the others.
    found = np.array(rows, dtype=np.float64, order="C").reshape(n_rows, outer, inner)
    _butterflies(found)
    found = np.ascontiguousarray(found.swapaxes(1, 2))
    _butterflies(found)
    found = found.swapaxes(1, 2).reshape(n_rows, length)
    found /= np.sqrt(length)
    return found


def _butterflies(values: np.ndarray) -> None:
    """Sums and differences along the second axis, in place."""
    n_rows, length, inner = values.shape
    half = 1
    while half < length:
        pairs = values.reshape(n_rows, length // (2 * half), 2, half * inner)
        top, bottom = pairs[:, :, 0], pairs[:, :, 1]
        difference = top - bottom
        top += bottom
        bottom[...] = difference
        half *= 2


class Mixer:
    """The rotation H D of rows of `n_features`, padded to a power of two, and draws of entries.

    Which entries of a row are drawn depends on the seed and on the row's own entries alone: not on
    its place, its block, its type, or the other rows.
    """

    def __init__(self, seed: int, n_features: int) -> None:
        self.seed, self.n_features = seed, n_features
        self.bits = (n_features - 1).bit_length()
        self.length = 1 << self.bits
        self.signs = random_signs(seed, np.arange(n_features))

    @property
    def rows_at_once(self) -> int:
        return max(1, BLOCK_BYTES // (8 * self.length))

    def mix(self, block: Any) -> np.ndarray:
        """Rows (CSR in float64), mixed: an array of n_rows x length."""
        padded = np.zeros((block.shape[0], self.length))
        rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        padded[rows, block.indices] = block.data * self.signs[block.indices]
        return hadamard(padded)

    def unmix(self, mixed: np.ndarray) -> np.ndarray:
        """Mixed rows, such as centers, in the columns that they were mixed from."""
        return hadamard(mixed)[:, : self.n_features] * self.signs

    def draw(self, block: Any, n_drawn: int) -> np.ndarray:
        """Of each row (CSR in float64) the numbers of `n_drawn` mixed entries, ascending."""
        shape = (block.shape[0], n_drawn)
        if n_drawn == self.length:
            return np.broadcast_to(np.arange(self.length), shape)
        keys = self._keys(block)
        if self.length <= FEW:
            lots = stream_bits(keys[:, None], np.arange(self.length)[None, :])
            return np.sort(np.argsort(lots, axis=1)[:, :n_drawn], axis=1)
        numbers = np.broadcast_to(np.arange(n_drawn, dtype=np.uint64), shape).copy()
        # A permutation of 0 .. length - 1 for each row: its first places are its draws.
        mask, shift = np.uint64(self.length - 1), np.uint64(max(1, self.bits // 2))
        for step in range(ROUNDS):
            factor = stream_bits(keys, 2 * step)[:, None] | np.uint64(1)
            offset = stream_bits(keys, 2 * step + 1)[:, None]
            numbers *= factor
            numbers += offset
            numbers &= mask
            numbers ^= numbers >> shift
        numbers.sort(axis=1)
        return numbers.astype(np.int64)

    def _keys(self, block: Any) -> np.ndarray:
        """64 bits for each row, from its entries that are not zero."""
        values = np.asarray(block.data, dtype=np.float64)
        streams = stream_bits(mixed_bits(~np.uint64(self.seed))[0], block.indices)
        bits = mixed_bits(streams + values.view(np.uint64))
        bits[values == 0] = 0
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(bits, dtype=np.uint64)])
        return mixed_bits(sums[block.indptr[1:]] - sums[block.indptr[:-1]])


def sampled(drawn: np.ndarray, values: np.ndarray, length: int) -> sp.csr_array:
    """Rows of as many entries each, as a CSR array."""
    n_rows, per_row = drawn.shape
    kind = np.int32 if n_rows * per_row < 2**31 else np.int64
    indptr = np.arange(0, n_rows * per_row + 1, per_row, dtype=kind)
    indices = np.ascontiguousarray(drawn, dtype=kind).ravel()
    return sp.csr_array((values.ravel(), indices, indptr), shape=(n_rows, length))
