"""Stores: what they hold, what they refuse, and fits from them."""

import json
import os
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from support.marks import slow_except

import sparsecluster.rows.rows as rows_module
import sparsecluster.storage.store_writer as writer_module
from sparsecluster import (
    KMeans,
    MiniBatchKMeans,
    Prepare,
    ReadError,
    SphericalKMeans,
    convert,
    open_store,
    read,
    seed_centers,
)
from sparsecluster.formats.svmlight import SvmlightSource
from sparsecluster.storage.store import StoreError

TEXT = ["The red apple", "a green apple, a green pear", "blue sky", "", "sky and sea: blue, blue"]


def counts(n_rows=300, n_features=80, seed=0, dtype=np.float32):
    rng = np.random.RandomState(seed)
    dense = rng.poisson(0.15 + 0.5 * (rng.rand(n_rows, 1) < 0.2), size=(n_rows, n_features))
    return sp.csr_array(dense.astype(dtype))


def saved(folder, X, name="rows.npz"):
    sp.save_npz(folder / name, X)
    return folder / name


def same_matrix(a, b):
    return (
        a.shape == b.shape
        and np.array_equal(a.indptr, b.indptr)
        and np.array_equal(a.indices, b.indices)
        and np.array_equal(a.data, b.data)
    )


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(writer_module, "BLOCK_ENTRIES", 50)


def test_a_store_holds_the_rows_to_the_bit(tmp_path, small_blocks):
    X = counts(dtype=np.float64) * 0.1
    rows = convert(saved(tmp_path, X), tmp_path / "x.store")
    assert same_matrix(rows.matrix, X)
    assert rows.matrix.data.dtype == np.float64
    assert len(rows.meta["blocks"]) > 3


def test_a_store_is_mapped_and_read_only(tmp_path):
    rows = convert(saved(tmp_path, counts()), tmp_path / "x.store")
    with pytest.raises(ValueError, match="read-only"):
        rows.matrix.data[0] = 2


@pytest.mark.parametrize("estimator", [KMeans, SphericalKMeans, MiniBatchKMeans])
def test_a_fit_from_a_store_is_that_from_memory(tmp_path, estimator, small_blocks):
    X = counts()
    X = X[np.diff(X.indptr) > 0]
    rows = convert(saved(tmp_path, X), tmp_path / "x.store")
    stored = estimator(n_clusters=7, random_state=0).fit(rows)
    in_memory = estimator(n_clusters=7, random_state=0).fit(X)
    assert np.array_equal(stored.labels_, in_memory.labels_)
    assert stored.inertia_ == in_memory.inertia_
    assert same_matrix(stored.cluster_centers_, in_memory.cluster_centers_)
    assert np.array_equal(stored.predict(rows), in_memory.predict(X))
    assert np.array_equal(stored.predict(tmp_path / "x.store"), in_memory.labels_)


@pytest.fixture
def streamed(monkeypatch):
    """Stores are taken for larger than memory."""
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: 0)
    monkeypatch.setattr("sparsecluster.storage.store.CHUNK_BYTES", 10_000)


@pytest.mark.parametrize("n_threads", slow_except([2], [1, 2]))
@pytest.mark.parametrize("memory_limit", slow_except([10_000], [10_000, None]))
@pytest.mark.parametrize(
    "estimator",
    [
        KMeans(9, random_state=0),
        KMeans(9, random_state=0, init="random", algorithm="elkan"),
        KMeans(9, random_state=0, algorithm="hamerly", n_init=2),
        KMeans(9, random_state=0, refine="first-variation", max_iter=30),
        SphericalKMeans(9, random_state=0, init="spkm++"),
        SphericalKMeans(9, random_state=0, memory_limit=10**6),
        MiniBatchKMeans(9, random_state=0, batch_size=50),
        MiniBatchKMeans(9, random_state=0, batch_size=50, schedule="sculley", max_iter=2),
    ],
    ids=lambda one: f"{type(one).__name__} {one.init} {getattr(one, 'algorithm', '')}",
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_that_do_not_fit_into_memory_give_the_same(
    tmp_path, streamed, estimator, memory_limit, n_threads
):
    X = counts(n_rows=1200, n_features=300, seed=3)  # dozens of chunks
    X = X[np.diff(X.indptr) > 0]
    rows = convert(saved(tmp_path, X), tmp_path / "x.store", prepare=Prepare(norm="l2"))
    in_memory = clone(estimator).fit(read(tmp_path / "rows.npz", prepare=Prepare(norm="l2")))
    stored = clone(estimator).set_params(memory_limit=memory_limit, n_threads=n_threads).fit(rows)
    assert rows.streamed
    assert np.array_equal(stored.labels_, in_memory.labels_)
    assert stored.inertia_ == in_memory.inertia_
    assert np.array_equal(
        sp.csr_array(stored.cluster_centers_).toarray(),
        sp.csr_array(in_memory.cluster_centers_).toarray(),
    )
    for name in ("cost", "moved"):
        told, expected = ([getattr(one, name) for one in m.history_] for m in (stored, in_memory))
        assert told == expected


@pytest.mark.parametrize("algorithm", ["lloyd", "elkan", "elkan-rows", "hamerly", "block-max"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_sums_that_follow_an_assignment_are_those_of_its_labels(
    tmp_path, streamed, algorithm, metric
):
    X = counts(n_rows=900, n_features=200, seed=5)
    X = X[np.diff(X.indptr) > 0]
    weights = np.random.default_rng(6).integers(0, 4, X.shape[0]).astype(float)
    given = {"algorithm": algorithm, "metric": metric, "random_state": 1, "n_threads": 2}
    rows = convert(saved(tmp_path, X), tmp_path / "x.store")
    stored = KMeans(9, **given).fit(rows, sample_weight=weights)
    in_memory = KMeans(9, **given).fit(X, sample_weight=weights)
    assert rows.streamed
    assert np.array_equal(stored.labels_, in_memory.labels_)
    assert np.array_equal(stored.cluster_centers_.toarray(), in_memory.cluster_centers_.toarray())
    assert [one.moved for one in stored.history_] == [one.moved for one in in_memory.history_]


def test_norms_of_rows_that_do_not_fit_stay_in_their_file(tmp_path, streamed):
    X = counts()
    rows = convert(saved(tmp_path, X), tmp_path / "x.store").checked()
    assert np.shares_memory(rows.core.norm2, rows.arrays["norm2"])
    assert np.array_equal(rows.core.norm2, rows_module.as_rows(X, n_threads=1).core.norm2)
    part = rows.between(10, 40)
    assert np.shares_memory(part.core.norm2, rows.arrays["norm2"])


def test_norms_that_are_others_than_those_in_a_file_are_kept():
    core = rows_module.as_rows(counts(), n_threads=1).core
    own = core.norm2.copy()
    assert not core.take_norms(own + 1)
    assert np.array_equal(core.norm2, own)


@pytest.mark.parametrize("method", ["hierarchical", "bisecting", "mcmc", "random"])
def test_seeds_from_a_store_are_those_from_memory(tmp_path, method):
    X = counts()
    rows = convert(saved(tmp_path, X), tmp_path / "x.store")
    stored, stored_rows = seed_centers(rows, 5, method, random_state=0)
    in_memory, rows_in_memory = seed_centers(X, 5, method, random_state=0)
    assert np.array_equal(stored.toarray(), in_memory.toarray())
    assert np.array_equal(stored_rows, rows_in_memory)


def test_indices_of_more_than_32_bits_are_not_copied_to_one_type(tmp_path, monkeypatch):
    rows = convert(saved(tmp_path, counts()), tmp_path / "x.store")
    monkeypatch.setattr(rows_module, "MAX_INDEX", 10)  # as if there were 2**31 entries
    arrays = rows.arrays
    matrix = rows_module.mapped_csr(arrays["indptr"], arrays["indices"], arrays["data"], 80)
    assert matrix.indptr.dtype == np.int64
    assert matrix.indices is arrays["indices"]


def test_cosines_of_a_store_need_a_copy_that_fits(tmp_path):
    X = counts()
    X = X[np.diff(X.indptr) > 0]
    rows = convert(saved(tmp_path, X), tmp_path / "x.store")
    with pytest.raises(ValueError, match="--unit"):
        SphericalKMeans(n_clusters=3, memory_limit=1000).fit(rows)
    unit = convert(tmp_path / "x.store", tmp_path / "unit.store", prepare=Prepare(norm="l2"))
    model = SphericalKMeans(n_clusters=3, memory_limit=1000, random_state=0).fit(unit)
    assert np.array_equal(model.labels_, SphericalKMeans(3, random_state=0).fit(X).labels_)


# --- what is converted ------------------------------------------------------------------------


def test_conversion_gives_the_rows_of_read(tmp_path, small_blocks):
    path = tmp_path / "rows.svm"
    dump_svmlight_file(counts(), np.arange(300) % 4, str(path), zero_based=False)
    for prepare in (None, Prepare(tfidf=True, norm="l2", min_df=30, log=True)):
        stored = convert(path, tmp_path / "x.store", prepare=prepare, overwrite=True)
        in_memory = read(path, prepare=prepare)
        assert same_matrix(stored.matrix, in_memory.matrix)
        assert np.array_equal(stored.labels, in_memory.labels)
        assert stored.recipe.get_state().keys() == in_memory.recipe.get_state().keys()
        assert stored.recipe.same_values(in_memory.recipe)


def test_text_becomes_what_scikit_learn_makes_of_it(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n")
    vectorizer = CountVectorizer(dtype=np.float32)
    expected = vectorizer.fit_transform(TEXT)
    rows = convert(path, tmp_path / "x.store")
    assert list(rows.feature_names) == list(vectorizer.get_feature_names_out())
    assert np.array_equal(rows.matrix.toarray(), expected.toarray())


def test_text_by_tfidf_becomes_what_scikit_learn_makes_of_it(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n".join(TEXT) + "\n")
    expected = TfidfVectorizer(min_df=2).fit_transform(TEXT).toarray()
    prepare = Prepare(tfidf=True, norm="l2", min_df=2)
    rows = convert(path, tmp_path / "x.store", dtype="float64", prepare=prepare)
    np.testing.assert_allclose(rows.matrix.toarray(), expected, rtol=1e-14)


def test_columns_that_turn_out_to_count_from_zero_late(tmp_path, monkeypatch):
    lines = [f"0 {i % 5 + 1}:1" for i in range(2000)] + ["0 0:1 3:2"]
    path = tmp_path / "late.svm"
    path.write_text("\n".join(lines))
    monkeypatch.setitem(SvmlightSource.__init__.__kwdefaults__, "block_bytes", 1000)
    rows = convert(path, tmp_path / "x.store")
    assert rows.shape == (2001, 6)
    assert same_matrix(rows.matrix, read(path).matrix)


def test_several_labels_a_row_become_an_indicator(tmp_path, small_blocks):
    path = tmp_path / "labels.svm"
    path.write_text("3 4 5\n0,4 1:1\n 2:1\n3 3:1\n")
    stored, in_memory = convert(path, tmp_path / "x.store"), read(path)
    expected = [[1, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 0]]
    assert stored.labels.toarray().tolist() == expected
    assert in_memory.labels.toarray().tolist() == expected


def test_a_store_becomes_another_store(tmp_path, small_blocks):
    X = counts()
    convert(saved(tmp_path, X), tmp_path / "x.store")
    prepare = Prepare(tfidf=True, min_df=20)
    rows = convert(tmp_path / "x.store", tmp_path / "y.store", prepare=prepare)
    assert np.array_equal(rows.matrix.toarray(), prepare.fit_transform(X).toarray())


def test_a_file_like_another_gets_its_columns_and_weights(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXT))
    (tmp_path / "b.txt").write_text("green sky\nan unknown word\n")
    rows = convert(tmp_path / "a.txt", tmp_path / "a.store", prepare=Prepare(tfidf=True, norm="l2"))
    other = convert(tmp_path / "b.txt", tmp_path / "b.store", like=rows)
    expected = TfidfVectorizer().fit(TEXT).transform(["green sky", "an unknown word"])
    assert list(other.feature_names) == list(rows.feature_names)
    np.testing.assert_allclose(other.matrix.toarray(), expected.toarray(), rtol=1e-6)


# --- refusals ---------------------------------------------------------------------------------


def test_an_existing_store_is_not_overwritten_unasked(tmp_path):
    path = saved(tmp_path, counts())
    convert(path, tmp_path / "x.store")
    with pytest.raises(ReadError, match="exists"):
        convert(path, tmp_path / "x.store")
    convert(path, tmp_path / "x.store", overwrite=True)


def test_a_folder_that_is_no_store_is_never_overwritten(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "work.txt").write_text("years")
    with pytest.raises(ReadError, match="not a store"):
        convert(saved(tmp_path, counts()), tmp_path / "precious", overwrite=True)
    assert (tmp_path / "precious" / "work.txt").read_text() == "years"


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\n" * 1000 + "1 1:one\n")
    with pytest.raises(ReadError, match="line 1001"):
        convert(path, tmp_path / "x.store")
    assert os.listdir(tmp_path) == ["bad.svm"]


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    (folder / "text.txt").write_text("\n".join(TEXT * 20))
    convert(folder / "text.txt", folder / "x.store", prepare=Prepare(tfidf=True))
    return folder / "x.store"


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_changed_byte_is_found(whole_store, tmp_path, data):
    copy = tmp_path / "copy.store"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole_store, copy)
    name = data.draw(st.sampled_from(sorted(os.listdir(copy))))
    content = bytearray((copy / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    (copy / name).write_bytes(content)
    before = open_store(whole_store)
    try:
        rows = open_store(copy, verify=True)
        rows.checked()
    except StoreError:
        return
    # White space of a header is not part of what is stored.
    assert same_matrix(rows.matrix, before.matrix)
    assert list(rows.feature_names) == list(before.feature_names)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_cut_off_file_is_found_when_opened(whole_store, tmp_path, data):
    copy = tmp_path / "copy.store"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole_store, copy)
    name = data.draw(st.sampled_from(sorted(os.listdir(copy))))
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(StoreError):
        open_store(copy)


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "data.npy"])
def test_rows_are_checked_before_a_fit_reads_them(whole_store, tmp_path, name):
    copy = tmp_path / "copy.store"
    shutil.copytree(whole_store, copy)
    content = bytearray((copy / name).read_bytes())
    content[-4:] = b"\x7f\x7f\x7f\x7f"
    (copy / name).write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        KMeans(n_clusters=2).fit(open_store(copy))


def test_a_missing_file_is_found(whole_store, tmp_path):
    copy = tmp_path / "copy.store"
    shutil.copytree(whole_store, copy)
    (copy / "norm2.npy").unlink()
    with pytest.raises(StoreError, match=r"norm2\.npy"):
        open_store(copy)


def test_a_newer_store_is_refused(whole_store, tmp_path):
    copy = tmp_path / "copy.store"
    shutil.copytree(whole_store, copy)
    meta = json.loads((copy / "meta.json").read_text())
    meta["version"] = 4
    meta["checksum"] = writer_module.meta_checksum(meta)
    (copy / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(StoreError, match="version 4"):
        open_store(copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n_rows", 10**9),
        ("n_rows", -1),
        ("n_features", 2**40),
        ("n_features", "many"),
        ("dtype", "|O"),
        ("arrays", {}),
        ("arrays", None),
        ("recipe", {"text": 1}),
        ("recipe", {"array": "indptr"}),
        ("blocks", None),
    ],
)
def test_a_tampered_description_is_refused(whole_store, tmp_path, key, value):
    copy = tmp_path / "copy.store"
    shutil.copytree(whole_store, copy)
    meta = json.loads((copy / "meta.json").read_text())
    meta[key] = value
    meta["checksum"] = writer_module.meta_checksum(meta)
    (copy / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(StoreError):
        open_store(copy, verify=True)
