"""Model files that are broken, foreign, hostile or large, and saves that are killed."""

import json
import multiprocessing
import os
import pickle
import re
import struct
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from support.compare import same
from support.data import csr, dense, problem

from sparsecluster import KMeans, MiniBatchKMeans, ModelFileError, load_model
from sparsecluster.storage import model, tensors

X, _ = problem("text")


# --- broken files ------------------------------------------------------------------------------


def parts_of(path):
    """The header of a safetensors file, and its data."""
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), bytearray(content[end:])


def forge(path, change):
    """Change header, document and data of a file as someone would who knows its format."""
    header, data = parts_of(path)
    document = json.loads(header["__metadata__"][tensors.ENTRY])
    data = change(header, document, data) or data
    for name, (*_, checksum) in document["tensors"].items():
        entry = header.get(name, {"data_offsets": [0, 0], "dtype": "", "shape": []})
        raw = data[slice(*entry["data_offsets"])]
        document["tensors"][name] = [entry["dtype"], entry["shape"], zlib.crc32(raw) or checksum]
    text = json.dumps(document)
    header["__metadata__"] = {
        tensors.ENTRY: text,
        tensors.CHECKSUM: f"{zlib.crc32(text.encode()):08x}",
    }
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + bytes(data))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The bytes of a small model, and a place for broken ones."""
    path = tmp_path_factory.mktemp("small") / "model"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        km = MiniBatchKMeans(2, random_state=0, max_iter=2).fit(csr(X[:20, :9]))
    km.save(path)
    return path.read_bytes(), path, km


def refused_or_same(small, content):
    """Whether broken content is refused as such; where it is not, the model must be as it was."""
    _, path, km = small
    path.write_bytes(content)
    try:
        other = load_model(path)
    except ModelFileError as error:
        return str(path) in str(error)
    return (
        same(km.cluster_centers_, other.cluster_centers_)
        and same(km.labels_, other.labels_)
        and same(km.counts_, other.counts_)
        and km.history_ == other.history_
        and km.get_params() == other.get_params()
    )


@settings(deadline=None, max_examples=300)
@given(where=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_changed_byte_is_refused_or_changes_nothing(small, where, change):
    content = bytearray(small[0])
    content[int(where * len(content))] ^= change
    assert refused_or_same(small, bytes(content))


def test_changed_byte_of_the_header_is_refused_or_changes_nothing(small):
    length = 8 + struct.unpack("<Q", small[0][:8])[0]
    for at in range(0, length, 7):
        content = bytearray(small[0])
        content[at] ^= 1 << (at % 8)
        assert refused_or_same(small, bytes(content)), at


@settings(deadline=None, max_examples=100)
@given(where=st.floats(0, 1, exclude_max=True))
def test_cut_file_is_refused(small, where):
    small[1].write_bytes(small[0][: int(where * len(small[0]))])
    with pytest.raises(ModelFileError, match=r"cannot be loaded|only its beginning"):
        load_model(small[1])


@settings(deadline=None, max_examples=100)
@given(content=st.binary(max_size=300))
def test_random_bytes_are_refused(small, content):
    for begin in (b"", struct.pack("<Q", len(content)), small[0]):
        assert refused_or_same(small, begin + content) or not content


def test_pickle_is_refused_by_name(tmp_path):
    (tmp_path / "model").write_bytes(pickle.dumps(KMeans(2).fit(X)))
    with pytest.raises(ModelFileError, match="pickle"):
        load_model(tmp_path / "model")


def test_safetensors_of_others_is_refused(tmp_path):
    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "model")
    with pytest.raises(ModelFileError, match="none that sparsecluster wrote"):
        load_model(tmp_path / "model")


def test_newer_version_asks_for_an_upgrade(tmp_path):
    KMeans(2).fit(X).save(tmp_path / "model")
    forge(tmp_path / "model", lambda header, document, data: document.update(version=3))
    with pytest.raises(ModelFileError, match="Upgrade sparsecluster"):
        load_model(tmp_path / "model")


def test_history_without_the_columns_of_later_versions_is_loaded(tmp_path):
    path = tmp_path / "old.safetensors"
    km = KMeans(3, random_state=0, algorithm="hamerly").fit(np.random.RandomState(0).rand(40, 3))
    km.save(path)

    def leave_out(header, document, data):
        for name in ("skipped", "center_distances"):
            del document["fitted"]["history_"][name]

    forge(path, leave_out)
    records = load_model(path).history_
    assert [record.cost for record in records] == [record.cost for record in km.history_]
    assert {(record.skipped, record.center_distances) for record in records} == {(0, 0)}


def test_missing_file_is_no_broken_one(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "model")


# --- hostile files -----------------------------------------------------------------------------


def poke(name, at, value, dtype):
    """Write a value into a tensor."""

    def change(header, document, data):
        begin, end = header[name]["data_offsets"]
        np.frombuffer(data, dtype=np.uint8)[begin:end].view(dtype)[at] = value

    return change


def describe(name, **changes):
    """Describe a tensor as something else."""
    return lambda header, document, data: header[name].update(changes)


def say(*path, value):
    """Put something else into the document."""

    def change(header, document, data):
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


def deep(header, document, data):
    value = []
    for _ in range(900):
        value = [value]
    document["fitted"]["recipe_"] = {"a": value}


CENTERS = "cluster_centers_"
ATTACKS = {
    "indptr beyond the end": poke(f"{CENTERS}.indptr", -1, 10**9, np.int32),
    "indptr that decreases": poke(f"{CENTERS}.indptr", 1, 10**6, np.int32),
    "indptr below zero": poke(f"{CENTERS}.indptr", 0, -5, np.int32),
    "index beyond the shape": poke(f"{CENTERS}.indices", 3, 10**8, np.int32),
    "index below zero": poke(f"{CENTERS}.indices", 3, -1, np.int32),
    "not a number": poke(f"{CENTERS}.data", 0, np.nan, np.float64),
    "too large to square": poke(f"{CENTERS}.data", 0, 1e160, np.float64),
    "indices of another type": describe(f"{CENTERS}.indices", dtype="F32"),
    "values of another type": describe(f"{CENTERS}.data", dtype="I64"),
    "unknown type": describe(f"{CENTERS}.data", dtype="F8_E4M3"),
    "larger shape": describe(f"{CENTERS}.data", shape=[2**40]),
    "shape that overflows": describe(f"{CENTERS}.data", shape=[2**33, 2**33]),
    "shape below zero": describe(f"{CENTERS}.data", shape=[-1]),
    "offsets beyond the end": describe(f"{CENTERS}.data", data_offsets=[0, 2**50]),
    "offsets that overlap": describe(f"{CENTERS}.data", data_offsets=[8, 16]),
    "offsets of three": describe(f"{CENTERS}.data", data_offsets=[0, 1, 2]),
    "more columns than there can be": say("fitted", CENTERS, "shape", value=[2, 2**40]),
    "fewer rows": say("fitted", CENTERS, "shape", value=[1, 150]),
    "fewer columns": say("fitted", CENTERS, "shape", value=[2, 3]),
    "no centers": say("fitted", CENTERS, value=None),
    "labels as centers": say("fitted", CENTERS, value={"$tensor": "labels_"}),
    "centers as labels": say("fitted", "labels_", value={"$tensor": f"{CENTERS}.data"}),
    "unknown tensor": say("fitted", "labels_", value={"$tensor": "other"}),
    "unknown kind": say("fitted", "labels_", value={"$code": "1"}),
    "unknown class": say("estimator", value="os.system"),
    "no class": say("estimator", value=None),
    "unknown parameter": say("parameters", "n_cluster", value=3),
    "wrong parameter": say("parameters", "n_clusters", value=-3),
    "wrong seed": say("parameters", "random_state", value="a"),
    "wrong threads": say("parameters", "n_threads", value=10**9),
    "unknown attribute": say("fitted", "predict", value=1),
    "no names": lambda header, document, data: document["fitted"].pop("feature_names_"),
    "wrong inertia": say("fitted", "inertia_", value="low"),
    "wrong history": say("fitted", "history_", value={"cost": [1]}),
    "wrong names": say("fitted", "feature_names_", value=["a"]),
    "recipe too deep": deep,
    "no parameters": say("parameters", value=[]),
    "no table": lambda header, document, data: document.update(tensors={}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_content_that_does_not_fit_is_refused_though_checksums_do(attack, tmp_path):
    path = tmp_path / "model"
    KMeans(2, random_state=0).fit(csr(X)).save(path)
    forge(path, ATTACKS[attack])
    with pytest.raises(ModelFileError, match=re.escape(str(path))):
        load_model(path)


RANDOM = ("fitted", "stream", "random_state")
STREAM_ATTACKS = {
    "index of a sum": poke("stream.sums.indices", 0, 10**8, np.int32),
    "count below zero": poke("stream.counts", 0, -1, np.float64),
    "count next to nothing": poke("stream.counts", 0, 1e-300, np.float64),
    "square of another sum": poke("stream.squares", 0, 0.0, np.float64),
    "sum that is not finite": poke("stream.sums.data", 0, np.inf, np.float64),
    "fewer counts": describe("stream.counts", shape=[1]),
    "random numbers beyond their end": say(
        "fitted", "stream", "random_state", "position", value=9999
    ),
    "unknown metric": say("fitted", "stream", "made_with", "metric", value="x"),
    "no beginning": say("fitted", "stream", "made_with", value={}),
    "batches below zero": say("fitted", "stream", "n_batches", value=-1),
    "sums of another shape": say("fitted", "stream", "sums", "shape", value=[2, 151]),
}


@pytest.mark.parametrize("attack", STREAM_ATTACKS)
def test_stream_that_does_not_fit_is_refused_though_checksums_do(attack, tmp_path):
    path = tmp_path / "model"
    MiniBatchKMeans(2, random_state=0).fit(csr(X)).save(path)
    forge(path, STREAM_ATTACKS[attack])
    with pytest.raises(ModelFileError, match=re.escape(str(path))):
        load_model(path)


@pytest.mark.parametrize("attack", ["square of another sum", "sum that is not finite"])
def test_values_that_were_not_verified_are_refused_when_rows_come(attack, tmp_path):
    path = tmp_path / "model"
    MiniBatchKMeans(2, random_state=0).fit(csr(X)).save(path)
    forge(path, STREAM_ATTACKS[attack])
    km = load_model(path, verify=False)
    with pytest.raises(ValueError, match=r"finite|contradict"):
        km.partial_fit(csr(X))


def test_wide_model_takes_no_memory_for_its_columns(tmp_path):
    path = tmp_path / "model"
    MiniBatchKMeans(2, random_state=0).fit(csr(X)).save(path)

    def widen(header, document, data):
        document["fitted"]["n_features_in_"] = 2**31 - 1
        for part in ("sums", "centers"):
            document["fitted"]["stream"][part]["shape"][1] = 2**31 - 1

    forge(path, widen)
    assert load_model(path).n_features_in_ == 2**31 - 1


# --- large files, killed saves -----------------------------------------------------------------


def resident_of_file(path):
    """Bytes of a mapped file that this process has touched."""
    text = Path("/proc/self/smaps").read_text()
    blocks = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text)
    return 1024 * sum(
        int(re.search(r"Rss:\s+(\d+)", block)[1]) for block in blocks if str(path) in block
    )


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_loading_a_large_model_reads_no_values(sparse, tmp_path, monkeypatch):
    monkeypatch.setattr(model, "SMALL_FILE", 1_000_000)
    centers = np.random.default_rng(0).random((20, 200_000))
    if sparse:
        centers = sp.csr_array(centers)
    km = KMeans(2, random_state=0).fit(csr(X) if sparse else X)
    km.cluster_centers_, km.n_features_in_ = centers, 200_000
    km.feature_names_ = np.array([f"name {i}" for i in range(200_000)], dtype=object)
    path = tmp_path / "model"
    km.save(path)
    other = load_model(path)
    # The indices are checked; and the kernel maps some pages around those that are touched.
    read = resident_of_file(path) - (centers.indices.nbytes if sparse else 0)
    assert read < 1_000_000
    assert path.stat().st_size > 30_000_000
    assert other.predict(dense(centers[[7]]))[0] == 7


def save_for_ever(models, path):
    while True:
        for km in models:
            km.save(path)


def test_killed_save_leaves_one_model_whole(tmp_path):
    models = [KMeans(n_clusters, random_state=0).fit(csr(X)) for n_clusters in (40, 90)]
    for km in models:
        km.recipe_ = {"ballast": np.zeros(20_000 * km.n_clusters)}
    path = tmp_path / "model"
    models[0].save(path)
    expected = {km.n_clusters: km.cluster_centers_ for km in models}
    rng = np.random.default_rng(0)
    left_over = 0
    for _ in range(12):
        process = multiprocessing.get_context("fork").Process(
            target=save_for_ever, args=(models, path)
        )
        process.start()
        while len(os.listdir(tmp_path)) == 1:
            assert process.is_alive()
        time.sleep(rng.uniform(0, 0.15))
        process.kill()
        process.join()
        found = load_model(path, verify=True)
        assert same(found.cluster_centers_, expected[found.n_clusters])
        left_over += len(os.listdir(tmp_path)) > 1
    assert left_over > 0
    models[0].save(path)
    assert os.listdir(tmp_path) == ["model"]
