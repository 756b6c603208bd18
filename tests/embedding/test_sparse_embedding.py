"""Sparse embedding: its hash, its sums, its rule, and what it keeps of distances and costs."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline
from support.compare import same
from support.data import csr, dense, text

from sparsecluster import KMeans, SparseEmbedding, convert, load_model, read_blocks
from sparsecluster.embedding.rule import components_for, embedding_error

ROWS = text(np.random.default_rng(0), 200, 150)
SPARSE = csr(ROWS)
MASK = 2**64 - 1

# --- the hash ------------------------------------------------------------------------------------


def mixed(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def hashed(seed, column):
    return mixed((mixed(seed) + (column + 1) * 0x9E3779B97F4A7C15) & MASK)


def test_hash_is_the_published_stream():
    # The first numbers of SplitMix64 from 0, as its authors' program prints them.
    assert hashed(0, 0) == 0xE220A8397B1DCDAF
    assert hashed(0, 1) == 0x6E789E6AA1B965F4
    assert hashed(0, 2) == 0x06C45D188009454F


@pytest.mark.parametrize("n_components", [1, 3, 1000, 2**31 - 1])
@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1])
def test_components_and_signs_are_those_of_the_hash(seed, n_components):
    columns = [0, 1, 2, 63, 1000, 10**6, 2**31 - 2, 2**40]
    embedding = SparseEmbedding(n_components, random_state=seed).fit(np.eye(3))
    components, signs = embedding.components(columns)
    hashes = [hashed(seed, column) for column in columns]
    assert components.tolist() == [((h >> 1) * n_components) >> 63 for h in hashes]
    assert signs.tolist() == [-1 if h & 1 else 1 for h in hashes]


def test_vectors_of_the_hash():
    # Stores and models depend on these: they must never change.
    components, signs = SparseEmbedding(1000, random_state=7).fit(np.eye(3)).components(range(8))
    assert components.tolist() == [524, 302, 940, 883, 663, 344, 398, 604]
    assert signs.tolist() == [-1, -1, 1, -1, -1, 1, 1, 1]


@pytest.mark.parametrize("hashed", [True, False])
def test_columns_spread_evenly_over_components_and_signs(hashed):
    embedding = SparseEmbedding(50, hashed=hashed, random_state=3)
    components, signs = embedding.fit(sp.csr_array((1, 50_000))).components(np.arange(50_000))
    counts = np.zeros(100)
    np.add.at(counts, components * 2 + (signs > 0), 1)
    chi2 = ((counts - 500) ** 2 / 500).sum()
    assert 50 < chi2 < 165  # of 99 degrees of freedom: one in 10,000 lies outside


# --- the sums ------------------------------------------------------------------------------------


def oracle(embedding, X):
    """Entry by entry in float64, in the order of the columns, rounded once."""
    components, signs = embedding.components(np.arange(X.shape[1]))
    out = np.zeros((X.shape[0], embedding.n_components_))
    for i, row in enumerate(np.asarray(X, dtype=np.float64)):
        for j in np.flatnonzero(row):
            out[i, components[j]] += signs[j] * row[j]
    return out.astype(X.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("hashed", [True, False], ids=["hashed", "tabled"])
@pytest.mark.parametrize("n_components", [1, 7, 64, 1000, 200_000])
def test_sums_are_those_of_the_oracle_to_the_bit(dtype, index, hashed, n_components):
    X = ROWS[:40].astype(dtype)
    embedding = SparseEmbedding(n_components, hashed=hashed, random_state=1, output="sparse")
    made = embedding.fit_transform(csr(X, dtype, index))
    assert made.dtype == dtype
    assert made.has_canonical_format
    assert made.indices.dtype == np.int32
    assert np.all(made.data != 0)
    expected = oracle(embedding, X)
    assert same(dense(made), expected)
    for rows in (csr(X, dtype, index), X):
        densely = embedding.set_params(output="dense").fit_transform(rows)
        assert isinstance(densely, np.ndarray)
        assert same(densely, expected)


def test_values_that_cancel_leave_no_entry():
    columns = np.arange(200)
    embedding = SparseEmbedding(3, random_state=0, output="sparse").fit(np.ones((1, 200)))
    components, signs = embedding.components(columns)
    plus = columns[(components == 1) & (signs > 0)][0]
    minus = columns[(components == 1) & (signs < 0)][0]
    X = sp.csr_array(([0.1, 0.1], ([0, 0], [plus, minus])), shape=(1, 200))
    assert embedding.transform(X).nnz == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 300), st.integers(1, 9), st.booleans())
def test_blocks_and_threads_change_no_bit(seed, n_components, block, hashed):
    whole = SparseEmbedding(n_components, hashed=hashed, random_state=seed, output="sparse")
    expected = whole.fit_transform(SPARSE)
    other = SparseEmbedding(n_components, hashed=hashed, random_state=seed, output="sparse")
    other.set_params(n_threads=1 + seed % 4).fit(SPARSE)
    parts = [other.transform(SPARSE[i : i + 23 * block]) for i in range(0, 200, 23 * block)]
    assert same(dense(sp.vstack(parts)), dense(expected))


def test_sums_are_linear_in_the_rows():
    embedding = SparseEmbedding(20, random_state=0).fit(ROWS)
    both = embedding.transform(2 * ROWS[:50] - ROWS[50:100])
    apart = 2 * embedding.transform(ROWS[:50]) - embedding.transform(ROWS[50:100])
    assert np.allclose(both, apart, rtol=0, atol=1e-12)


def test_sum_too_large_for_float32_is_refused_with_its_row():
    embedding = SparseEmbedding(1, random_state=0).fit(np.ones((1, 50)))
    signs = embedding.components(np.arange(50))[1]
    X = np.zeros((3, 50), dtype=np.float32)
    X[2] = np.where(signs > 0, 3e38, -3e38)
    for rows in (X, csr(X, np.float32)):
        with pytest.raises(ValueError, match=r"Row 2 .* too large for float32"):
            embedding.transform(rows)


# --- form ----------------------------------------------------------------------------------------


def test_form_follows_the_expected_density():
    rng = np.random.default_rng(0)
    X = sp.random_array((100, 2000), density=0.01, format="csr", rng=rng)  # 20 entries per row
    assert sp.issparse(SparseEmbedding(200, random_state=0).fit_transform(X))
    assert isinstance(SparseEmbedding(10, random_state=0).fit_transform(X), np.ndarray)
    assert isinstance(SparseEmbedding(200, random_state=0).fit_transform(dense(X)), np.ndarray)


def test_form_is_that_of_the_fit_for_every_block():
    X = sp.vstack([sp.csr_array(np.ones((1, 500))), sp.random_array((99, 500), density=0.01)])
    embedding = SparseEmbedding(100, random_state=0).fit(X)
    assert sp.issparse(embedding.transform(X.tocsr()[:1]))


def test_result_that_does_not_fit_the_memory_limit_is_refused():
    embedding = SparseEmbedding(1000, memory_limit="1MB", output="dense").fit(SPARSE)
    with pytest.raises(ValueError, match=r"take 0\.0016 GB, more than the memory limit"):
        embedding.transform(SPARSE)
    embedding.set_params(memory_limit="2MB").transform(SPARSE)


def test_blocks_of_a_stream_and_a_store_are_what_the_matrix_gives(tmp_path):
    path = tmp_path / "rows.npz"
    sp.save_npz(path, sp.csr_matrix(SPARSE))
    embedding = SparseEmbedding(30, random_state=0).fit(path)
    expected = dense(embedding.transform(SPARSE))
    blocks = [dense(embedding.transform(block)) for block in read_blocks(path, like=embedding)]
    assert same(np.vstack(blocks), expected)
    store = convert(path, tmp_path / "rows.store")
    assert same(dense(embedding.transform(store)), expected)
    assert same(dense(embedding.transform(tmp_path / "rows.store")), expected)


def test_pipeline_with_any_clustering():
    made = make_pipeline(SparseEmbedding(40, random_state=0), KMeans(3, random_state=0)).fit(SPARSE)
    rows = SparseEmbedding(40, random_state=0).fit_transform(SPARSE)
    assert same(made.predict(SPARSE), KMeans(3, random_state=0).fit(rows).labels_)


# --- columns that come later ---------------------------------------------------------------------


def test_hashed_rows_may_have_more_columns_than_were_fitted():
    embedding = SparseEmbedding(20, random_state=5).fit(SPARSE[:, :100])
    assert same(dense(embedding.transform(SPARSE)), dense(embedding.fit_transform(SPARSE)))


def test_tabled_rows_may_not():
    embedding = SparseEmbedding(20, hashed=False).fit(SPARSE[:, :100])
    with pytest.raises(ValueError, match="X has 150 features, but SparseEmbedding is expecting"):
        embedding.transform(SPARSE)


@pytest.mark.parametrize("hashed", [True, False])
def test_fewer_columns_are_refused(hashed):
    embedding = SparseEmbedding(20, hashed=hashed).fit(SPARSE)
    with pytest.raises(ValueError, match="X has 100 features, but SparseEmbedding is expecting"):
        embedding.transform(SPARSE[:, :100])


def test_new_columns_come_behind_the_known_ones():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS[:, :4], columns=list("abcd"))
    embedding = SparseEmbedding(2, random_state=0).fit(frame[["a", "b"]])
    assert same(embedding.transform(frame[["a", "b", "c"]]), embedding.transform(ROWS[:, :3]))
    with pytest.raises(ValueError, match="do not start with the same feature names"):
        embedding.transform(frame[["b", "a", "c"]])


# --- the rule ------------------------------------------------------------------------------------


def test_rule_by_hand():
    # eps = 0.5 is e' = 0.2: 6 / (0.04 * 0.1) = 1500, and (10 + log2 10) / 0.04 = 333.
    assert embedding_error(0.5) == pytest.approx(0.2)
    assert components_for(10, 0.5, 0.1) == 1500
    # At K = 100 the first term counts: (100 + 1) / 0.04 = 2525, against 6 / 0.02 = 300.
    assert components_for(100, 0.5, 0.5) == 2525


@given(st.floats(0.001, 0.999))
def test_error_of_the_cost_is_that_of_lemma_1(eps):
    error = embedding_error(eps)
    assert 2 * error / (1 - error) == pytest.approx(eps)
    assert (1 + error) / (1 - error) == pytest.approx(1 + eps)


def test_rule_chooses_the_components():
    X = sp.csr_array((3, 5000))
    assert SparseEmbedding(n_clusters=10).fit(X).n_components_ == 1500
    assert SparseEmbedding(n_clusters=100, eps=0.5, delta=0.5).fit(X).n_components_ == 2525


def test_rule_that_asks_for_more_columns_than_there_are_leaves_x_alone():
    embedding = SparseEmbedding(n_clusters=10)
    with pytest.warns(UserWarning, match=r"asks for 1,500 components, and X has 150 columns"):
        made = embedding.fit_transform(SPARSE)
    assert same(made, SPARSE)
    assert embedding.n_components_ == 150
    assert embedding.get_feature_names_out().shape == (150,)
    assert [part.tolist() for part in embedding.components([3, 149])] == [[3, 149], [1, 1]]
    with pytest.raises(ValueError, match="features"):
        embedding.transform(sp.csr_array((2, 151)))


# --- what is kept --------------------------------------------------------------------------------


def test_squared_norm_is_kept_in_expectation():
    x = ROWS[:20]
    norm2 = (x**2).sum(axis=1)
    found = np.array(
        [
            (SparseEmbedding(8, random_state=seed).fit_transform(x) ** 2).sum(axis=1) / norm2
            for seed in range(600)
        ]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0) - 1) < 4.5 * error)
    # And its variance is at most 2 / d' (Kane and Nelson 2014).
    assert np.all(found.var(axis=0) <= 2 / 8 * 1.2)


def partition_cost(X, labels, n_clusters):
    """Sum of squared distances to the means: |X|^2 - sum of |sums|^2 / sizes."""
    members = sp.csr_array((np.ones(len(labels)), (labels, np.arange(len(labels)))))
    sizes = np.maximum(np.bincount(labels, minlength=n_clusters), 1)[: members.shape[0]]
    sums = members @ X
    squares = sums.multiply(sums) if sp.issparse(sums) else sums * sums
    total = (X.multiply(X) if sp.issparse(X) else X * X).sum()
    return total - (np.asarray(squares.sum(axis=1)).ravel() / sizes).sum()


def test_costs_of_partitions_are_kept_within_the_rule():
    """Definition 2 of the paper, on a few partitions; benchmarks/embedding.py has all of them."""
    rng = np.random.default_rng(0)
    X, eps, delta, n_clusters = sp.random_array((300, 20_000), density=0.003, rng=rng), 0.9, 0.3, 5
    X = sp.csr_array(X)
    partitions = [rng.integers(0, n_clusters, size=300) for _ in range(10)]
    partitions += [KMeans(n_clusters, random_state=seed).fit(X).labels_ for seed in range(3)]
    true = [partition_cost(X, labels, n_clusters) for labels in partitions]
    kept = []
    for seed in range(20):
        rule = {"n_clusters": n_clusters, "eps": eps, "delta": delta}
        Z = SparseEmbedding(**rule, random_state=seed).fit_transform(X)
        ratios = [partition_cost(Z, *of) for of in ((labels, n_clusters) for labels in partitions)]
        kept.append(np.all(np.abs(np.divide(ratios, true) - 1) <= embedding_error(eps)))
    assert np.mean(kept) >= 1 - delta


# --- parameters and files ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "How many components"),
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"n_components": 2.5}, "n_components must be an integer"),
        ({"n_components": 2**31}, "n_components must be at most"),
        ({"n_components": 5, "eps": 0.5}, "pass either n_components or eps"),
        ({"n_clusters": 3, "eps": 0}, "eps must be a number above 0 and below 1"),
        ({"n_clusters": 3, "eps": 1}, "eps must be a number above 0 and below 1"),
        ({"n_clusters": 3, "delta": -0.1}, "delta must be a number above 0 and below 1"),
        ({"n_clusters": 3, "delta": 0}, "delta must be a number above 0 and below 1"),
        ({"n_clusters": 0}, "n_clusters must be an integer of at least 1"),
        ({"n_components": 5, "hashed": 1}, "hashed must be True or False"),
        ({"n_components": 5, "output": "csr"}, "output='csr' is not known"),
        ({"n_components": 5, "random_state": -1}, "random_state|Seed"),
    ],
)
def test_bad_parameters_are_refused_before_the_rows_are_looked_at(parameters, message):
    with pytest.raises(ValueError, match=message):
        SparseEmbedding(**parameters).fit("no such file")


@pytest.mark.parametrize("hashed", [True, False])
def test_file_keeps_the_map(tmp_path, hashed):
    embedding = SparseEmbedding(9, hashed=hashed).fit(SPARSE)  # a seed that nobody knows
    embedding.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert same(dense(loaded.transform(SPARSE)), dense(embedding.transform(SPARSE)))
    assert same(loaded.components(np.arange(150)), embedding.components(np.arange(150)))


def test_hash_takes_no_memory_for_columns():
    d = 2**31 - 2
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(d, size=(50, 20)), axis=1)
    values, indptr = rng.random(1000), np.arange(51) * 20
    X = sp.csr_array((values, columns.ravel(), indptr), shape=(50, d))
    embedding = SparseEmbedding(30, random_state=0).fit(X)
    tracemalloc.start()
    made = embedding.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
    components, signs = embedding.components(columns)
    assert made[3, components[3, 0]] != 0
    assert np.isclose(made.sum(), (signs * values.reshape(50, 20)).sum())
