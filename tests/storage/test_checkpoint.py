"""Checkpoints: a fit that ended early goes on, and ends as if nothing had happened."""

import itertools
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data import text

from sparsecluster import KMeans, SphericalKMeans, choose_k, convert
from sparsecluster.rows.rows import as_rows
from sparsecluster.storage.checkpoint import CheckpointError, fingerprint, open_checkpoint, seconds

X = sp.csr_array(text(np.random.default_rng(5), n_rows=2000).astype(np.float32))
X = X[np.diff(X.indptr) > 0]


class Crash(Exception):
    pass


def crash_after(n_calls):
    """A callback that ends the fit as a crash would, between two iterations."""
    left = [n_calls]

    def callback(record):
        left[0] -= 1
        if left[0] < 0:
            raise Crash

    return callback


def same(a, b):
    return (
        np.array_equal(a.labels_, b.labels_)
        and a.inertia_ == b.inertia_
        and np.array_equal(a.cluster_centers_.data, b.cluster_centers_.data)
        and [(r.iteration, r.cost, r.moved) for r in a.history_]
        == [(r.iteration, r.cost, r.moved) for r in b.history_]
    )


FITS = {
    "plain": (KMeans, {}),
    "cosine": (SphericalKMeans, {"zero_rows": "first"}),
    "refined": (KMeans, {"refine": "first-variation", "max_iter": 60}),
    "several runs": (KMeans, {"n_init": 3, "n_threads": 1}),
    "elkan": (KMeans, {"algorithm": "elkan"}),
    "hamerly": (KMeans, {"algorithm": "hamerly", "tol": 0}),
    "random start": (KMeans, {"init": "random", "max_iter": 8}),
}


@pytest.mark.filterwarnings("ignore:K-means did not converge")
@pytest.mark.parametrize("name", FITS)
def test_a_fit_goes_on_where_it_was(tmp_path, name):
    kind, parameters = FITS[name]
    parameters = {"n_clusters": 25, "random_state": 3, **parameters}
    unbroken = kind(**parameters).fit(X)
    crashes = 0
    for after in (0, 1, 2, 3, 5, 8, 1000):
        model = kind(**parameters, checkpoint=tmp_path, checkpoint_every=0)
        try:
            model.set_params(callback=crash_after(after)).fit(X)
        except Crash:
            crashes += 1
    assert crashes >= 3  # each time further, because the iteration that ended in it is kept
    assert same(model, unbroken)


def test_what_has_ended_is_not_computed_again(tmp_path):
    model = KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    calls = []
    again = KMeans(5, random_state=0, checkpoint=tmp_path, callback=calls.append).fit(X)
    assert same(model, again)
    assert calls == []


def test_a_start_drawn_at_random_is_kept(tmp_path):
    with pytest.raises(Crash):
        KMeans(9, checkpoint=tmp_path, checkpoint_every=0, callback=crash_after(2)).fit(X)
    first = KMeans(9, checkpoint=tmp_path).fit(X)
    second = KMeans(9, checkpoint=tmp_path).fit(X)
    assert same(first, second)
    assert first.history_[0].iteration == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_and_algorithm_may_change(tmp_path, threads):
    unbroken = KMeans(12, random_state=1).fit(X)
    crashing = KMeans(12, random_state=1, checkpoint=tmp_path, checkpoint_every=0, n_threads=2)
    with pytest.raises(Crash):
        crashing.set_params(callback=crash_after(3)).fit(X)
    model = KMeans(
        12, random_state=1, checkpoint=tmp_path, algorithm="lloyd", n_threads=threads
    ).fit(X)
    assert same(model, unbroken)


def test_dense_rows_and_weights_go_on_too(tmp_path):
    dense, weights = X[:400].toarray(), np.random.RandomState(0).rand(400)
    unbroken = KMeans(6, random_state=1).fit(dense, sample_weight=weights)
    crashing = KMeans(6, random_state=1, checkpoint=tmp_path, checkpoint_every=0)
    with pytest.raises(Crash):
        crashing.set_params(callback=crash_after(2)).fit(dense, sample_weight=weights)
    model = KMeans(6, random_state=1, checkpoint=tmp_path).fit(dense, sample_weight=weights)
    assert np.array_equal(model.cluster_centers_, unbroken.cluster_centers_)
    assert np.array_equal(model.labels_, unbroken.labels_)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"n_clusters": 6}, "n_clusters"),
        ({"random_state": 1}, "random_state"),
        ({"init": "random"}, "init"),
        ({"tol": 0.1}, "tol"),
        ({"max_iter": 7}, "max_iter"),
    ],
)
def test_another_fit_is_refused(tmp_path, changed, named):
    parameters = {"n_clusters": 5, "random_state": 0, "checkpoint": tmp_path}
    KMeans(**parameters).fit(X)
    with pytest.raises(CheckpointError, match=rf"another fit \(different {named}\)"):
        KMeans(**{**parameters, **changed}).fit(X)


def test_other_data_are_refused(tmp_path):
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    other = X.copy()
    other.data[0] *= 1.5
    with pytest.raises(CheckpointError, match="values"):
        KMeans(5, random_state=0, checkpoint=tmp_path).fit(other)
    with pytest.raises(CheckpointError, match="sample_weight"):
        KMeans(5, random_state=0, checkpoint=tmp_path).fit(X, sample_weight=np.full(X.shape[0], 2))


def test_rows_in_another_order_are_other_data(tmp_path):
    ones = sp.csr_array((np.random.default_rng(0).random((512, 60)) < 0.1).astype(np.float32))
    same_length = np.flatnonzero(np.diff(ones.indptr) == 6)
    order = np.arange(512)
    order[same_length] = same_length[::-1]
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(ones)
    with pytest.raises(CheckpointError, match="another fit"):
        KMeans(5, random_state=0, checkpoint=tmp_path).fit(ones[order])


@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_other_dense_data_are_refused(tmp_path, kind, dtype):
    one, other = np.random.default_rng(0).random((2, 200, 6)).astype(dtype)
    kind(4, random_state=0, checkpoint=tmp_path).fit(one)
    with pytest.raises(CheckpointError, match="different values"):
        kind(4, random_state=0, checkpoint=tmp_path).fit(other)


def test_data_in_memory_and_in_a_store_share_a_checkpoint(tmp_path):
    sp.save_npz(tmp_path / "x.npz", X)
    rows = convert(tmp_path / "x.npz", tmp_path / "x.store")
    one = KMeans(5, random_state=0, checkpoint=tmp_path / "state").fit(X)
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for same_data in (rows, wide):
        assert same(KMeans(5, random_state=0, checkpoint=tmp_path / "state").fit(same_data), one)


VALUES = st.sampled_from([0.0, -0.0, 0.25, 0.5, -0.5, 1.0, 1.5, 2.0])
SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 5))


@st.composite
def neighbouring_data(draw):
    """Several data sets that differ by little: a value, its place, the shape, the type, weights."""
    shape = draw(SHAPES)
    cells = draw(st.lists(VALUES, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    X = np.array(cells).reshape(shape)
    one_changed, rolled = X.copy(), np.roll(X, 1)
    place = draw(st.integers(0, X.size - 1))
    one_changed.flat[place] = draw(VALUES)
    reshaped = X.reshape(shape[::-1])
    wider = np.hstack([X, np.zeros((shape[0], 1))])
    longer = np.vstack([X, np.zeros((1, shape[1]))])
    rows, columns = draw(st.permutations(range(shape[0]))), draw(st.permutations(range(shape[1])))
    found = [X, one_changed, rolled, reshaped, wider, longer, X[rows], X[:, columns], -X, X + 1e-9]
    return [array.astype(dtype) for array in found for dtype in (np.float32, np.float64)]


def variants(array):
    """The same values as an array and as CSR, without weights and with some."""
    n_rows = len(array)
    for matrix in (np.ascontiguousarray(array), sp.csr_array(array)):
        for weights in (None, np.ones(n_rows), np.linspace(0.1, 0.9, n_rows)):
            yield matrix, weights


def identity(matrix, weights):
    """All that makes data what they are, to the byte."""
    parts = (
        (*matrix.indptr.tolist(), *matrix.indices.tolist(), matrix.data.tobytes())
        if sp.issparse(matrix)
        else (matrix.tobytes(),)
    )
    return matrix.shape, parts, None if weights is None else weights.tobytes()


@settings(max_examples=60, deadline=None)
@given(neighbouring_data())
def test_different_data_never_share_a_fingerprint(arrays):
    found = {}
    for matrix, weights in itertools.chain.from_iterable(map(variants, arrays)):
        same_fit = fingerprint({}, as_rows(matrix, n_threads=1), weights)
        before = found.setdefault(repr(same_fit), identity(matrix, weights))
        assert before == identity(matrix, weights)
    assert len(found) == len(set(found.values()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n_clusters": np.int64(3)}, {"n_clusters": np.int64(4)}),
        ({"random_state": np.int64(3)}, {"random_state": np.int64(4)}),
        (
            {"random_state": np.random.RandomState(1)},
            {"random_state": np.random.RandomState(2)},
        ),
        ({"init": np.eye(3, 150)}, {"init": np.eye(3, 150)[[1, 0, 2]]}),
    ],
)
def test_parameters_of_numpy_are_told_apart(tmp_path, one, other):
    common = {"n_clusters": 3, "checkpoint": tmp_path}
    KMeans(**{**common, **one}).fit(X)
    with pytest.raises(CheckpointError, match="another fit"):
        KMeans(**{**common, **other}).fit(X)


def test_a_function_as_start_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="init"):
        KMeans(3, checkpoint=tmp_path, init=lambda X, k, random_state: X[:k]).fit(X)


def test_columns_in_another_order_are_other_data(tmp_path):
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    order = np.arange(X.shape[1])
    order[:2] = 1, 0
    with pytest.raises(CheckpointError, match="another fit"):
        KMeans(5, random_state=0, checkpoint=tmp_path).fit(sp.csr_array(X[:, order]))


def test_metrics_do_not_share_a_checkpoint(tmp_path):
    unit = X / np.sqrt(X.multiply(X).sum(axis=1))[:, None]
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(sp.csr_array(unit))
    with pytest.raises(CheckpointError, match="metric"):
        SphericalKMeans(5, random_state=0, checkpoint=tmp_path).fit(sp.csr_array(unit))


@pytest.mark.parametrize("name", ["fit.safetensors", "run-0.safetensors"])
def test_a_damaged_checkpoint_is_refused(tmp_path, name):
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    content = (tmp_path / name).read_bytes()
    for broken in (content[:-9], content[: len(content) // 2], b"", bytes(100)):
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(CheckpointError, match="Remove"):
            KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)


def refusal(folder):
    """What a fit says that cannot resume from a folder, without the names of files."""
    with pytest.raises(CheckpointError) as refused:
        KMeans(5, random_state=0, checkpoint=folder).fit(X)
    said = str(refused.value)
    assert said.startswith(f"Cannot resume from {folder}/")
    assert said.endswith(f". Remove {folder} to start again.")
    return said.split("safetensors: ")[1].split(". Remove")[0]


@pytest.mark.parametrize(
    ("taken", "place", "said"),
    [
        ("fit", "run-0", "it does not hold what was expected ('centers' is missing)"),
        ("run-0", "fit", "it does not hold what was expected (the seeds are of a wrong shape)"),
    ],
)
def test_a_file_in_the_place_of_another_is_refused_in_words(tmp_path, taken, place, said):
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    shutil.copy(tmp_path / f"{taken}.safetensors", tmp_path / f"{place}.safetensors")
    assert refusal(tmp_path) == said


def test_a_checkpoint_of_an_earlier_version_is_refused_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsecluster.storage.checkpoint.VERSION", 1)
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    monkeypatch.undo()
    assert refusal(tmp_path) == "it is of version 1, not 2"


def test_a_header_without_its_fields_is_refused_in_words(tmp_path):
    KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)
    file = tmp_path / "run-0.safetensors"
    content = file.read_bytes()
    file.write_bytes(content.replace(b'"data_offsets":[0,', b'"data_offsets":[10', 1))
    assert "without a beginning and an end" in refusal(tmp_path)
    file.write_bytes(content.replace(b'"dtype"', b'"dtypo"', 1))
    assert refusal(tmp_path) == "it is damaged ('dtype' is missing)"


@pytest.mark.parametrize("name", ["fit", "run-0"])
def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path, name):
    (tmp_path / f"{name}.safetensors").mkdir()
    assert refusal(tmp_path) == "it is a folder"


@pytest.mark.parametrize("empty", ["", 5])
def test_what_names_no_folder_is_refused(tmp_path, monkeypatch, empty):
    monkeypatch.chdir(tmp_path)
    for call in (
        lambda: KMeans(5, random_state=0, checkpoint=empty).fit(X),
        lambda: choose_k(X, [2, 3], random_state=0, checkpoint=empty),
    ):
        with pytest.raises(ValueError, match="checkpoint must be the path of a folder"):
            call()
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_in_use_is_refused(tmp_path):
    with open_checkpoint(tmp_path, {}, 60), pytest.raises(CheckpointError, match="Another fit"):
        KMeans(5, random_state=0, checkpoint=tmp_path).fit(X)


@pytest.mark.parametrize(
    ("every", "expected"), [(60, 60), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("5", 5), (0, 0)]
)
def test_times_are_understood(every, expected):
    assert seconds(every) == expected


@pytest.mark.parametrize("every", ["often", -1, None, True, "5 days", float("nan")])
def test_other_times_are_refused(every):
    with pytest.raises(ValueError, match="checkpoint_every"):
        KMeans(2, checkpoint_every=every).fit(X)
