"""Model files: what is saved comes back; what is broken, foreign or hostile is refused."""

import copy
import json
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
import warnings
import zlib

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import scipy.sparse as sp
from data import LAYOUTS, csr, dense, problem
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sparsecluster import KMeans, MiniBatchKMeans, ModelFileError, SphericalKMeans, load_model
from sparsecluster.data import tensors

X, _ = problem("text")
SCALARS = ("inertia_", "objective_", "n_iter_", "algorithm_", "n_clusters_", "n_features_in_")


def reloaded(km, tmp_path, **options):
    km.save(tmp_path / "model")
    return load_model(tmp_path / "model", **options)


def same(first, second):
    """Whether two values, matrices or trees of them are equal to the bit, types included."""
    if sp.issparse(first):
        parts = ("data", "indices", "indptr")
        return first.shape == second.shape and all(
            same(getattr(first, part), getattr(second, part)) for part in parts
        )
    if isinstance(first, np.ndarray):
        equal = first.tolist() == second.tolist() if first.dtype == object else None
        if equal is None:
            equal = np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
        return first.dtype == second.dtype and equal
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[k], second[k]) for k in first)
    if isinstance(first, (list, tuple)):
        alike = type(first) is type(second) and len(first) == len(second)
        return alike and all(map(same, first, second))
    return type(first) is type(second) and first == second


# --- what comes back ---------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("layout", ["int32", "int64", "dense"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "km",
    [
        KMeans(9, random_state=0, n_init=2),
        SphericalKMeans(9, random_state=0, zero_rows="first"),
        MiniBatchKMeans(9, random_state=0, batch_size=50),
        MiniBatchKMeans(
            9, random_state=0, batch_size=50, max_iter=2, schedule="sculley", center_nnz=20
        ),
    ],
    ids=["kmeans", "spherical", "nested", "sculley"],
)
def test_fit_comes_back_to_the_bit(km, dtype, layout, mmap, tmp_path):
    data = LAYOUTS[layout](X, dtype)
    km = clone(km).fit(data)
    other = reloaded(km, tmp_path, mmap=mmap)
    assert type(other) is type(km)
    assert other.get_params() == km.get_params()
    assert same(km.cluster_centers_, other.cluster_centers_)
    assert same(km.labels_, other.labels_)
    assert km.history_ == other.history_
    for name in SCALARS:
        assert getattr(km, name, None) == getattr(other, name, None), name
    assert same(km.predict(data), other.predict(data))
    assert same(km.transform(data), other.transform(data))


def test_labels_can_be_left_out(tmp_path):
    KMeans(3, random_state=0).fit(X).save(tmp_path / "model", labels=False)
    other = load_model(tmp_path / "model")
    assert not hasattr(other, "labels_")
    assert len(other.predict(X)) == len(X)


NAMES = [f"word{i}" for i in range(147)] + ["größe", "日本\n語", ""]


def test_names_come_back_one_by_one_and_together(tmp_path):
    km = KMeans(3, random_state=0).fit(X, feature_names=NAMES)
    other = reloaded(km, tmp_path)
    assert other.feature_names_[148] == "日本\n語"
    assert other.top_terms(5) == km.top_terms(5)
    assert list(other.feature_names_) == NAMES
    assert (other.feature_names_ == km.feature_names_).all()
    assert len(other.feature_names_[-2:]) == 2


def test_columns_of_a_data_frame_are_held_against_those_of_fit(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    other = reloaded(KMeans(3, random_state=0).fit(frame), tmp_path)
    assert same(other.predict(frame), other.labels_)
    with pytest.raises(ValueError, match="feature names"):
        other.predict(frame.rename(columns={"word3": "word4000"}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), (7, 7), (np.int64(7), 7), (np.random.RandomState(7), None)],
    ids=["none", "int", "numpy", "object"],
)
def test_seed_comes_back_if_it_is_a_number(value, expected, tmp_path):
    assert reloaded(KMeans(3, random_state=value).fit(X), tmp_path).random_state == expected


def test_functions_are_left_out_and_the_file_says_so(tmp_path):
    km = KMeans(3, init=lambda X, k, random_state: X[:k], callback=lambda record: None).fit(X)
    other = reloaded(km, tmp_path)
    assert (other.init, other.callback) == ("k-means++", None)
    assert document_of(tmp_path / "model")["left_out"] == ["callback", "init"]


@pytest.mark.parametrize("layout", [csr, np.array], ids=["sparse", "dense"])
def test_given_centers_come_back_as_a_parameter(layout, tmp_path):
    start = layout(X[:3])
    other = reloaded(KMeans(3, init=start).fit(X), tmp_path)
    assert same(start, other.init)
    assert same(other.labels_, clone(other).fit(X).labels_)


def test_recipe_comes_back(tmp_path):
    km = KMeans(3, random_state=0).fit(X)
    km.recipe_ = {
        "steps": [{"name": "tfidf", "idf": np.arange(3.0), "ngrams": (1, 2)}, "unit"],
        "values": {"a": np.float32([1.5, np.nan]), "b": float("-inf"), "c": None, "d": True},
        "mask": np.array([[True], [False]]),
        "words": [f"w{i}" for i in range(500)],
    }
    assert same(reloaded(km, tmp_path).recipe_, km.recipe_)


def test_recipe_that_cannot_be_kept_is_refused_and_the_old_file_stays(tmp_path):
    km = KMeans(3, random_state=0).fit(X)
    km.save(tmp_path / "model")
    km.recipe_ = {"steps": [object()]}
    with pytest.raises(TypeError, match=r"recipe_\.steps\.0 cannot be kept"):
        km.save(tmp_path / "model")
    assert same(load_model(tmp_path / "model").labels_, km.labels_)


@pytest.mark.parametrize("mmap", [True, False])
def test_copies_of_a_loaded_model_need_no_file(mmap, tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X), feature_names=NAMES)
    other = reloaded(km, tmp_path, mmap=mmap)
    for copied in (pickle.loads(pickle.dumps(other)), copy.deepcopy(other)):
        assert type(copied.feature_names_) is np.ndarray
        assert copied.cluster_centers_.data.flags.writeable
        assert same(copied.cluster_centers_, km.cluster_centers_)
        assert same(copied.predict(csr(X)), km.labels_)
    assert same(clone(other).fit(csr(X)).labels_, km.labels_)


def test_loaded_model_can_be_saved_over_its_own_file(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X), feature_names=NAMES)
    again = reloaded(reloaded(km, tmp_path), tmp_path)
    assert same(again.cluster_centers_, km.cluster_centers_)
    assert list(again.feature_names_) == NAMES


def test_file_is_one_that_safetensors_reads(tmp_path):
    km = KMeans(3, random_state=0).fit(csr(X))
    km.save(tmp_path / "model")
    found = safetensors.numpy.load_file(tmp_path / "model")
    assert same(found["cluster_centers_.data"], km.cluster_centers_.data)


@pytest.mark.parametrize("km", [KMeans(), MiniBatchKMeans()], ids=["kmeans", "minibatch"])
def test_model_without_a_fit_is_refused(km, tmp_path):
    with pytest.raises(NotFittedError):
        km.save(tmp_path / "model")
    assert not os.listdir(tmp_path)


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("options", [{}, {"center_l1": 3.0}, {"memory_limit": 100_000}])
@pytest.mark.parametrize("start", ["fit", "partial_fit"])
def test_stream_goes_on_to_the_bit(metric, options, start, tmp_path):
    one = MiniBatchKMeans(9, metric=metric, zero_rows="first", random_state=0, **options)
    getattr(one, start)(csr(X[:100]))
    one.partial_fit(csr(X[100:150]))
    other = reloaded(one, tmp_path)
    assert other.n_steps_ == one.n_steps_
    assert same(other.counts_, one.counts_)
    for km in (one, other):
        for begin in range(150, 600, 50):
            km.partial_fit(csr(X[begin : begin + 50]))
    assert same(one.labels_, other.labels_)
    assert same(one.cluster_centers_, other.cluster_centers_)
    assert one.inertia_ == other.inertia_


@pytest.mark.parametrize("layout", [csr, np.array], ids=["sparse", "dense"])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 5.0)], ids=["alike", "weighted"])
def test_rows_that_wait_still_do(layout, weights, tmp_path):
    one = MiniBatchKMeans(9, random_state=0)
    with pytest.warns(UserWarning, match="no centers yet"):
        one.partial_fit(layout(X[:4]), sample_weight=weights)
    other = reloaded(one, tmp_path)
    for km in (one, other):
        km.partial_fit(layout(X[4:60]))
    assert same(one.cluster_centers_, other.cluster_centers_)
    assert same(one.counts_, other.counts_)


def test_features_grow_after_loading(tmp_path):
    one = MiniBatchKMeans(3, grow_features=True, random_state=0).partial_fit(csr(X[:50, :100]))
    other = reloaded(one, tmp_path)
    for km in (one, other):
        km.partial_fit(csr(X[50:]))
    assert same(one.cluster_centers_, other.cluster_centers_)


def test_parameter_that_a_stream_began_with_cannot_change_after_loading(tmp_path):
    km = MiniBatchKMeans(3, random_state=0).partial_fit(csr(X))
    with pytest.raises(ValueError, match="center_nnz changed"):
        reloaded(km, tmp_path).set_params(center_nnz=2).partial_fit(csr(X))


# --- broken files ------------------------------------------------------------------------------


def parts_of(path):
    """The header of a safetensors file, and its data."""
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:end]), bytearray(content[end:])


def document_of(path):
    return json.loads(parts_of(path)[0]["__metadata__"][tensors.ENTRY])


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
    with pytest.raises(ModelFileError, match="cannot be loaded"):
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
    forge(tmp_path / "model", lambda header, document, data: document.update(version=2))
    with pytest.raises(ModelFileError, match="Upgrade sparsecluster"):
        load_model(tmp_path / "model")


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
    with pytest.raises(ValueError, match="finite|contradict"):
        km.partial_fit(csr(X))


def test_wide_model_takes_no_memory_for_its_columns(tmp_path):
    path = tmp_path / "model"
    MiniBatchKMeans(2, random_state=0).fit(csr(X)).save(path)

    def widen(header, document, data):
        for part in ("sums", "centers"):
            document["fitted"]["stream"][part]["shape"][1] = 2**31 - 1

    forge(path, widen)
    assert load_model(path).n_features_in_ == 2**31 - 1


# --- large files, killed saves -----------------------------------------------------------------


def resident_of_file(path):
    """Bytes of a mapped file that this process has touched."""
    text = open("/proc/self/smaps").read()
    blocks = re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text)
    return 1024 * sum(
        int(re.search(r"Rss:\s+(\d+)", block)[1]) for block in blocks if str(path) in block
    )


@pytest.mark.parametrize("sparse", [True, False], ids=["sparse", "dense"])
def test_loading_a_large_model_reads_no_values(sparse, tmp_path):
    rng = np.random.default_rng(0)
    centers = rng.random((100, 100_000))
    if sparse:
        centers = sp.csr_array(centers)
    km = KMeans(2, random_state=0).fit(csr(X) if sparse else X)
    km.cluster_centers_, km.n_features_in_ = centers, 100_000
    km.feature_names_ = np.array([f"name {i}" for i in range(100_000)], dtype=object)
    path = tmp_path / "model"
    km.save(path)
    assert path.stat().st_size > tensors.ALWAYS_VERIFIED
    other = load_model(path)
    values = 8 * 100 * 100_000
    # The kernel maps some pages around those that are touched.
    read = resident_of_file(path) - (values / 2 if sparse else 0)
    assert read < 5_000_000
    assert other.predict(dense(centers[[7]]))[0] == 7


SAVER = """
import sys
from sparsecluster import load_model
first, second, path = sys.argv[1:]
models = [load_model(first), load_model(second)]
sys.stdout.write("ready\\n")
sys.stdout.flush()
while True:
    for km in models:
        km.save(path)
"""


def test_killed_save_leaves_one_model_whole(tmp_path):
    made = {}
    for n_clusters in (40, 90):
        km = KMeans(n_clusters, random_state=0).fit(csr(X))
        km.recipe_ = {"ballast": np.zeros(100_000 * n_clusters)}
        km.save(tmp_path / str(n_clusters))
        made[n_clusters] = km
    folder = tmp_path / "saved"
    folder.mkdir()
    path = folder / "model"
    arguments = [*(str(tmp_path / str(n)) for n in made), str(path)]
    made[40].save(path)
    rng = np.random.default_rng(0)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVER, *arguments], stdout=subprocess.PIPE
        )
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        found = load_model(path, verify=True)
        assert same(found.cluster_centers_, made[found.n_clusters].cluster_centers_)
    made[40].save(path)
    assert os.listdir(folder) == ["model"]
