"""Stores that are read block by block, past the cache, or in part; and the versions before."""

import json
import os
import pickle
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

import sparsecluster.storage.store_files as files_module
import sparsecluster.storage.store_writer as writer_module
from sparsecluster import KMeans, convert, open_store
from sparsecluster.storage.store import StoreError
from sparsecluster.storage.store_writer import HEADER


def matrix(n_rows=2000):
    return sp.random_array((n_rows, 60), density=0.2, format="csr", dtype=np.float32, rng=5)


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Of many blocks."""
    monkeypatch.setattr(writer_module, "BLOCK_ENTRIES", 1490)
    sp.save_npz(tmp_path / "x.npz", matrix())
    path = convert(tmp_path / "x.npz", tmp_path / "x.store").path
    assert len(open_store(path).meta["blocks"]) > 10
    return path


@pytest.fixture
def no_memory(monkeypatch):
    """Stores are taken for larger than memory."""
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: 0)
    monkeypatch.setattr("sparsecluster.storage.store.CHUNK_BYTES", 4000)


def change(path, name, element, itemsize=4):
    """Turn one bit of an array over."""
    with (path / f"{name}.npy").open("r+b") as file:
        file.seek(HEADER + element * itemsize)
        byte = file.read(1)[0]
        file.seek(HEADER + element * itemsize)
        file.write(bytes([byte ^ 1]))


def as_version_2(path):
    """The store as it was written before: one checksum for all of indptr and norm2."""
    meta = json.loads((path / "meta.json").read_text())
    for name in ("indptr", "norm2"):
        content = (path / f"{name}.npy").read_bytes()[HEADER:]
        meta["checksums"][name] = [zlib.crc32(content)]
    meta["version"] = 2
    meta["checksum"] = writer_module.meta_checksum(meta)
    (path / "meta.json").write_text(json.dumps(meta))


def test_a_store_of_version_2_opens_and_is_compared(store):
    as_version_2(store)
    rows = open_store(store, verify=True)
    assert np.array_equal(rows.matrix.toarray(), matrix().toarray())
    assert np.array_equal(rows.part(2, 5).matrix.toarray(), matrix().toarray()[between(rows, 2, 5)])
    change(store, "norm2", 7, 8)
    with pytest.raises(StoreError, match=r"norm2\.npy"):
        open_store(store, verify=True)


def between(rows, first, last):
    ends = [0, *rows.meta["blocks"]]
    return slice(ends[first], ends[last])


# --- past the cache -------------------------------------------------------------------------------


def test_rows_read_past_the_cache_are_those_in_memory(store, no_memory):
    rows = open_store(store)
    assert rows.direct
    expected = KMeans(5, random_state=0).fit(matrix())
    found = KMeans(5, random_state=0).fit(rows)
    assert np.array_equal(found.labels_, expected.labels_)
    assert found.inertia_ == expected.inertia_
    assert np.array_equal(found.transform(rows), expected.transform(matrix()))


def test_file_systems_that_cannot_read_directly_give_the_same(store, no_memory, tmp_path):
    shared = "/dev/shm"
    if not os.access(shared, os.W_OK):
        pytest.skip("no file system in memory")
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(dir=shared) as folder:
        copy = shutil.copytree(store, f"{folder}/x.store")
        found = KMeans(5, random_state=0).fit(open_store(copy))
    assert np.array_equal(found.labels_, KMeans(5, random_state=0).fit(matrix()).labels_)


@pytest.mark.parametrize("name", ["indices", "data"])
@pytest.mark.parametrize("verify", [False, True])
def test_a_damaged_block_is_found_where_it_is_read(store, no_memory, name, verify):
    change(store, name, 9000)
    with pytest.raises(StoreError, match="not as it was written"):
        KMeans(5).fit(open_store(store, verify=verify))


def test_a_file_that_is_cut_off_meanwhile_is_an_error_not_a_crash(store, no_memory):
    rows = open_store(store)
    os.truncate(store / "data.npy", HEADER + 2000)
    with pytest.raises(OSError, match="ends early"):
        rows.checked()


def test_a_verified_store_can_still_be_read_past_the_cache(store, no_memory):
    rows = open_store(store, verify=True)
    assert KMeans(5, random_state=0, max_iter=2).fit(rows).labels_.shape == (2000,)
    assert len(rows.part(1, 3)) == len(range(2000)[between(rows, 1, 3)])


# --- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, 1 << 40])
def test_a_part_holds_its_blocks(store, monkeypatch, memory):
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: memory)
    rows = open_store(store)
    n_blocks = len(rows.meta["blocks"])
    for first, last in ((0, 1), (3, 7), (n_blocks - 1, n_blocks), (0, n_blocks)):
        part, expected = rows.part(first, last), matrix()[between(rows, first, last)]
        assert np.array_equal(part.matrix.toarray(), expected.toarray())
        assert part.core.nnz == expected.nnz
        labels = KMeans(3, random_state=0).fit(part).labels_
        assert np.array_equal(labels, KMeans(3, random_state=0).fit(expected).labels_)


def test_only_the_blocks_of_a_part_are_compared(store, monkeypatch):
    rows = open_store(store)
    last = len(rows.meta["blocks"])
    end = rows.meta["blocks"][-2]
    change(store, "data", int(rows.arrays["indptr"][end]))
    change(store, "indptr", end + 1, 8)
    read = []
    crc = files_module._crc
    monkeypatch.setattr(files_module, "_crc", lambda *given: read.append(given[2]) or crc(*given))
    damaged = open_store(store)
    assert damaged.part(0, 2).n_rows == damaged.meta["blocks"][1]
    assert max(end for parts in read for _, end in parts) < len(damaged.arrays["data"]) / 2
    with pytest.raises(StoreError, match="not as it was written"):
        open_store(store).part(last - 1, last)


def test_a_damaged_block_is_found_in_a_part_read_past_the_cache(store, no_memory):
    change(store, "indices", 9000)
    rows = open_store(store)
    damaged = int(np.searchsorted(rows.arrays["indptr"][rows.meta["blocks"]], 9000, "right"))
    assert rows.part(0, damaged).n_rows > 0
    with pytest.raises(StoreError, match="not as it was written"):
        rows.part(damaged, damaged + 1)


def test_a_part_can_be_sent_to_another_process(store):
    part = open_store(store).part(2, 4)
    again = pickle.loads(pickle.dumps(part))
    assert np.array_equal(again.matrix.toarray(), part.matrix.toarray())


@pytest.mark.parametrize("blocks", [(-1, 2), (3, 3), (5, 4), (0, 10_000)])
def test_blocks_that_are_not_there_are_refused(store, blocks):
    with pytest.raises(ValueError, match="no blocks"):
        open_store(store).part(*blocks)


@pytest.mark.parametrize("memory", [0, 1 << 40])
@pytest.mark.parametrize("version", [2, 3])
def test_rows_between_two_need_not_be_blocks(store, monkeypatch, memory, version):
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: memory)
    monkeypatch.setattr("sparsecluster.storage.store.CHUNK_BYTES", 4000)
    if version == 2:
        as_version_2(store)
    rows = open_store(store)
    ends = rows.meta["blocks"]
    for begin, end in ((0, 3), (ends[2] - 5, ends[6] + 5), (ends[1], ends[1] + 1), (1999, 2000)):
        part, expected = rows.between(begin, end), matrix()[begin:end]
        assert part.direct == (memory == 0)
        assert np.array_equal(part.matrix.toarray(), expected.toarray())
        norm2 = expected.astype(np.float64).multiply(expected).sum(axis=1)
        assert np.allclose(part.core.norm2, norm2, rtol=1e-12)
        again = pickle.loads(pickle.dumps(part))
        assert (again.provenance.first_row, again.shape) == (begin, part.shape)


@pytest.mark.parametrize("inside", [0, 30])
def test_damage_in_a_block_that_is_read_in_part_is_found(store, no_memory, inside):
    rows = open_store(store)
    ends = rows.meta["blocks"]
    change(store, "data", int(rows.arrays["indptr"][ends[2]]) + inside)
    with pytest.raises(StoreError, match=r"data\.npy is not as it was written"):
        open_store(store).between(ends[3] - 2, ends[5])
    assert open_store(store).between(ends[3], ends[5]).n_rows == ends[5] - ends[3]


@pytest.mark.parametrize("rows", [(-1, 2), (5, 4), (0, 10_000)])
def test_rows_that_are_not_there_are_refused(store, rows):
    with pytest.raises(ValueError, match="no rows"):
        open_store(store).between(*rows)


# --- more rows than a process takes ---------------------------------------------------------------

MANY = 2**31  # rows without entries, which take no room in files with holes


def with_many_rows(path):
    """Put a block of empty rows in front of a store."""
    meta = json.loads((path / "meta.json").read_text())
    first_end = meta["blocks"][0]
    for name, extra in (("indptr", 1), ("norm2", 0)):
        content = (path / f"{name}.npy").read_bytes()[HEADER:][8 * extra :]
        length = MANY + 2000 + extra
        with (path / f"{name}.npy").open("wb") as file:
            file.write(writer_module.npy_header(meta["arrays"][name][0], length))
            file.seek(HEADER + 8 * (MANY + extra))
            file.write(content)
        meta["arrays"][name][1] = length
        meta["checksums"][name][0] = zlib.crc32(content[: 8 * first_end])
    for sums in meta["checksums"].values():
        sums.insert(0, 0)  # that of the new block is not looked at, or of no entries
    meta["n_rows"] += MANY
    meta["blocks"] = [MANY, *(MANY + end for end in meta["blocks"])]
    meta["checksum"] = writer_module.meta_checksum(meta)
    (path / "meta.json").write_text(json.dumps(meta))


@pytest.mark.parametrize("memory", [0, 1 << 40])
def test_a_store_may_have_more_rows_than_a_process_takes(store, monkeypatch, memory):
    monkeypatch.setattr("sparsecluster.storage.store.available_memory", lambda: memory)
    with_many_rows(store)
    try:
        rows = open_store(store)
    except MemoryError:
        pytest.skip("not even a table of so many zeros can be had here")
    assert rows.n_rows == MANY + 2000
    part = rows.between(MANY + 10, MANY + 2000)
    assert np.array_equal(part.matrix.toarray(), matrix()[10:].toarray())
    assert part.provenance.first_row == MANY + 10
    labels = KMeans(3, random_state=0).fit(part).labels_
    assert np.array_equal(labels, KMeans(3, random_state=0).fit(matrix()[10:]).labels_)
    with pytest.raises(StoreError, match="one process takes at most"):
        rows.checked()
