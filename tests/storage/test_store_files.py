"""The files of a store: replaced while they are open, written by several, described wrongly."""

import gc
import json
import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sparsecluster.storage.store_writer as writer_module
from sparsecluster import KMeans, Prepare, convert, open_store, read
from sparsecluster.prepare.metalabels import label_rows
from sparsecluster.storage.store import StoreError, StoreSource


def matrix(seed, n_rows=300):
    return sp.random_array((n_rows, 40), density=0.2, format="csr", dtype=np.float32, rng=seed)


def store(path, seed, **options):
    source = path.with_name(f"{seed}.npz")
    sp.save_npz(source, matrix(seed))
    return convert(source, path, overwrite=True, **options)


def same(rows, expected):
    return np.array_equal(rows.matrix.toarray(), expected.toarray())


# --- replaced while it is open ------------------------------------------------------------------


def test_a_store_that_is_replaced_stays_what_it_was(tmp_path):
    rows = store(tmp_path / "x.store", seed=1)
    other = store(tmp_path / "x.store", seed=2)
    expected = KMeans(4, random_state=0).fit(matrix(1)).labels_
    assert np.array_equal(KMeans(4, random_state=0).fit(rows).labels_, expected)
    assert same(other, matrix(2))


def test_a_damaged_store_that_is_replaced_is_still_damaged(tmp_path):
    store(tmp_path / "x.store", seed=1)
    with (tmp_path / "x.store" / "data.npy").open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(np.float32([2, 3]).tobytes())
    rows = open_store(tmp_path / "x.store")
    store(tmp_path / "x.store", seed=1)
    with pytest.raises(StoreError, match=r"data\.npy is not as it was written"):
        KMeans(4).fit(rows)


def test_a_store_that_is_removed_can_still_be_used(tmp_path):
    rows = store(tmp_path / "x.store", seed=1)
    shutil.rmtree(tmp_path / "x.store")
    KMeans(4, random_state=0).fit(rows)
    assert same(rows, matrix(1))


def test_the_working_directory_may_change(tmp_path, monkeypatch):
    store(tmp_path / "x.store", seed=1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    rows = open_store("x.store")
    monkeypatch.chdir("elsewhere")
    KMeans(4, random_state=0).fit(rows)
    assert rows.path == tmp_path / "x.store"


def test_rows_of_a_store_can_be_sent_to_another_process(tmp_path):
    rows = store(tmp_path / "x.store", seed=1)
    KMeans(4, random_state=0).fit(rows)
    assert same(pickle.loads(pickle.dumps(rows)), matrix(1))


def test_files_are_closed_once_they_were_compared(tmp_path):
    def n_open():
        # Those of the store alone: connections of other tests may close meanwhile.
        links = [f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")]
        return sum(
            os.readlink(one).startswith(str(tmp_path)) for one in links if os.path.islink(one)
        )

    rows = [open_store(store(tmp_path / "x.store", seed=1).path, verify=True) for _ in range(3)]
    assert n_open() <= 3 * len(rows[0].arrays)
    rows.clear()
    gc.collect()
    assert n_open() == 0


# Replaces a store for ever by that of its file.
WRITER = """
import sys
from sparsecluster import convert
while True:
    convert(sys.argv[1], sys.argv[2], overwrite=True)
"""


def test_readers_beside_writers_see_one_whole_version_or_the_other(tmp_path):
    path = tmp_path / "x.store"
    for seed in (1, 2):
        store(path, seed)
    versions = {seed: matrix(seed).toarray() for seed in (1, 2)}
    arguments = [[tmp_path / f"{seed}.npz", path] for seed in (1, 2)]
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, *one]) for one in arguments]
    try:
        seen = set()
        reads = 0
        while reads < 150 or len(seen) < 2:
            rows = read(path)
            rows.checked()
            found = [s for s, X in versions.items() if np.array_equal(rows.matrix.toarray(), X)]
            assert len(found) == 1
            seen.update(found)
            reads += 1
            assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    open_store(path, verify=True)


def test_conversions_at_once_all_succeed_and_the_last_stays(tmp_path):
    """In as many threads, which meet again and again as they put theirs in place."""
    path, seeds = tmp_path / "x.store", (1, 2, 3, 4)
    for seed in seeds:
        store(path, seed)

    def convert_often(seed):
        for _ in range(8):
            rows = convert(tmp_path / f"{seed}.npz", path, overwrite=True)
            assert same(rows, matrix(seed))

    with ThreadPoolExecutor(len(seeds)) as pool:
        list(pool.map(convert_often, seeds))
    rows = open_store(path, verify=True)
    assert any(same(rows, matrix(seed)) for seed in seeds)
    assert [one for one in os.listdir(tmp_path) if one.startswith(".")] == []


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", ["1 1:1\n2 2:1\n", "0,1 1:1\n1 2:1\n"])
def test_damaged_labels_name_the_store(tmp_path, lines):
    (tmp_path / "x.svm").write_text(lines)
    convert(tmp_path / "x.svm", tmp_path / "x.store")
    names = [one for one in os.listdir(tmp_path / "x.store") if one.startswith("label")]
    for name in names:
        shutil.rmtree(tmp_path / "copy.store", ignore_errors=True)
        shutil.copytree(tmp_path / "x.store", tmp_path / "copy.store")
        with (tmp_path / "copy.store" / name).open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\x41")
        with pytest.raises(StoreError, match=rf"copy\.store is damaged: {name}"):
            label_rows(open_store(tmp_path / "copy.store"), "x")


# --- the description --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    folder = tmp_path_factory.mktemp("described")
    lines = ["0,2 red apple\n", "1 green apple\n", "2 blue sky\n"] * 5
    (folder / "text.txt").write_text("".join(lines))
    (folder / "rows.svm").write_text("0,1 1:1 3:2\n1 2:1\n 3:4\n" * 5)
    convert(folder / "text.txt", folder / "text.store", prepare=Prepare(tfidf=True, min_df=2))
    convert(folder / "rows.svm", folder / "labels.store")
    return folder


def places(value, path=()):
    """The paths to all values in a JSON document."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, -1, 2**31, 2**64, 10**400, 0.5, 1e300, float("nan"), float("inf")])
    | st.sampled_from(["", "x", "indptr", "<f4", "|O", "<M8", "é", "\x00", "../data"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["array", "x", "indptr"]), inner, max_size=2)
    ),
    max_leaves=3,
)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_description_of_wrong_types_is_refused_in_words(described, tmp_path, data):
    whole = described / data.draw(st.sampled_from(["text.store", "labels.store"]))
    copy = tmp_path / "copy.store"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(whole, copy)
    meta = json.loads((whole / "meta.json").read_text())
    places_there = [place for place in places(meta) if place and place[0] != "checksum"]
    *parents, last = data.draw(st.sampled_from(places_there))
    holder = meta
    for key in parents:
        holder = holder[key]
    if data.draw(st.integers(0, 9)) == 0:
        del holder[last]
    else:
        holder[last] = data.draw(JSON)
    meta["checksum"] = writer_module.meta_checksum(meta)
    (copy / "meta.json").write_text(json.dumps(meta))
    before, refused = open_store(whole), None
    try:
        rows = open_store(copy, verify=True)
        rows.checked()
    except StoreError as error:
        refused = str(error)
    if refused is not None:
        assert "copy.store" in refused
        return
    # What is left says nothing about the rows, or says it differently.
    assert same(rows, before.matrix)
    list(StoreSource(rows).blocks())
    if rows.recipe is not None:
        rows.recipe.described()


def test_any_value_of_another_type_is_refused(described, tmp_path):
    """Every value of the description in turn, but for those that are only told to the user."""
    for name in ("text.store", "labels.store"):
        copy = tmp_path / name
        shutil.copytree(described / name, copy)
        whole = (copy / "meta.json").read_text()
        for place in places(json.loads(whole)):
            if not place or place[0] in ("checksum", "origin", "recipe", "version"):
                continue
            for wrong in ("x", -1, 0.5, {}, [[]], True):
                meta = json.loads(whole)
                holder = meta
                for key in place[:-1]:
                    holder = holder[key]
                if type(holder[place[-1]]) is type(wrong) and holder[place[-1]] == wrong:
                    continue
                holder[place[-1]] = wrong
                meta["checksum"] = writer_module.meta_checksum(meta)
                (copy / "meta.json").write_text(json.dumps(meta))
                with pytest.raises(StoreError):
                    open_store(copy, verify=True)
