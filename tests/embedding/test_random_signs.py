"""Dense random signs: the matrix that is never made, against one that is."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import RandomSigns, SparseEmbedding
from sparsecluster.embedding import random_signs
from sparsecluster.embedding.hashing import mixed_bits, stream_bits


def rows(n_rows=40, n_features=90, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(
        rng.random((n_rows, n_features)) < 0.2, rng.normal(size=(n_rows, n_features)), 0
    )


def sign(seed, column, component):
    """One sign, by SplitMix64 in plain integers."""

    def mix(z):
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    def stream(start, number):
        return mix((start + (number + 1) * 0x9E3779B97F4A7C15) % 2**64)

    word = stream(stream(mix(seed), column), component // 64)
    return -1 if word >> (component % 64) & 1 else 1


def test_projection_is_the_product_with_the_matrix_of_signs():
    X = rows()
    signs = np.array([[sign(3, j, c) for c in range(130)] for j in range(X.shape[1])])
    found = RandomSigns(130, random_state=3).fit_transform(X)
    np.testing.assert_allclose(found, X @ signs / np.sqrt(130), rtol=1e-12, atol=1e-12)


def test_hash_is_that_of_its_test_vectors():
    # The first numbers of SplitMix64 from the seed 1234567.
    vectors = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert stream_bits(1234567, np.arange(3)).tolist() == vectors
    assert mixed_bits(0).tolist() == [0]


def test_blocks_of_rows_and_components_change_no_bit(monkeypatch):
    X = sp.csr_array(rows())
    expected = RandomSigns(200, random_state=0).fit_transform(X)
    monkeypatch.setattr(random_signs, "BLOCK_BYTES", 1)
    monkeypatch.setattr(random_signs, "BLOCK_ENTRIES", 30)
    found = RandomSigns(200, random_state=0, n_threads=3).fit_transform(X)
    assert np.array_equal(found, expected)


def test_first_signs_are_the_same_for_more_components():
    X = rows()
    few, many = (RandomSigns(n, random_state=0).fit_transform(X) * np.sqrt(n) for n in (70, 700))
    np.testing.assert_allclose(few, many[:, :70], rtol=1e-12, atol=1e-12)


def test_squared_lengths_are_kept_in_expectation():
    X = rows(5)
    found = np.array(
        [
            np.square(RandomSigns(20, random_state=s).fit_transform(X)).sum(axis=1)
            for s in range(400)
        ]
    )
    expected = np.square(X).sum(axis=1)
    error = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * error)


def test_float32_is_float64_rounded_once():
    X = rows().astype(np.float32)
    found = RandomSigns(50, random_state=0).fit_transform(X)
    assert found.dtype == np.float32
    exact = RandomSigns(50, random_state=0).fit_transform(X.astype(np.float64))
    assert np.array_equal(found, exact.astype(np.float32))


def test_too_large_a_result_is_refused_before_the_work():
    X = sp.csr_array((100_000, 10), dtype=np.float32)
    with pytest.raises(ValueError, match=r"0\.4 GB, more than the memory limit of 0\.01 GB"):
        RandomSigns(1000, memory_limit="10MB").fit(X)


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", None, True])
def test_wrong_number_of_components_is_refused(value):
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
        RandomSigns(value).fit(rows())


def test_sums_beyond_float32_are_refused():
    X = np.full((2, 100), 3e38, dtype=np.float32)
    with pytest.raises(ValueError, match="too large for float32"):
        RandomSigns(3, random_state=0).fit_transform(X)


def test_signs_differ_from_those_of_the_sparse_embedding():
    X = np.eye(500)
    signs = np.sign(RandomSigns(1, random_state=0).fit_transform(X)).ravel()
    _, others = SparseEmbedding(1, random_state=0).fit(X).components(np.arange(500))
    assert 180 < np.count_nonzero(signs == others) < 320
