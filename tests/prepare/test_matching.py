"""Columns that have names are matched by name, in every format that has them."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.matrix_files import write_cells

from sparsecluster import KMeans, MiniBatchKMeans, Prepare, convert, open_store, read
from sparsecluster.formats.registry import FORMATS
from sparsecluster.formats.source import Block, ReadError, Source
from sparsecluster.prepare import passes

NAMES = [f"gene{i}" for i in range(40)]
PREPARE = {"counts": None, "dropped": Prepare(tfidf=True, min_df=12, norm="l2")}


def write_docword(path, matrix, names):
    entries = sp.coo_array(matrix)
    lines = [*map(str, matrix.shape), str(entries.nnz)]
    triples = zip(entries.row + 1, entries.col + 1, entries.data.astype(int), strict=True)
    lines += [" ".join(map(str, triple)) for triple in sorted(triples)]
    path.write_text("\n".join(lines) + "\n")
    path.with_name(path.name.replace("docword", "vocab")).write_text("\n".join(names) + "\n")


@pytest.fixture
def matrix():
    rng = np.random.RandomState(3)
    counts = rng.poisson(rng.gamma(0.3, 1, size=(1, 40)), size=(150, 40)).astype(np.float32)
    counts[:, 5] += 1
    return counts


@pytest.fixture
def turned():
    return np.random.RandomState(4).permutation(40)


@pytest.mark.parametrize("kind", PREPARE)
@pytest.mark.parametrize("named", ["x.h5ad", "docword.x.txt"])
def test_columns_in_another_order_give_the_labels_of_the_model(
    tmp_path, matrix, turned, named, kind
):
    writer = write_cells if named == "x.h5ad" else write_docword
    folder = tmp_path / "turned"
    folder.mkdir()
    writer(tmp_path / named, matrix, NAMES)
    writer(folder / named, matrix[:, turned], [NAMES[i] for i in turned])
    rows = read(tmp_path / named, prepare=PREPARE[kind])
    model = KMeans(4, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict(folder / named), model.labels_)
        again = read(folder / named, like=rows)
        assert (again.matrix != rows.matrix).nnz == 0
        assert list(again.feature_names) == list(rows.feature_names)
        store = convert(folder / named, tmp_path / "like.store", like=model)
        assert (store.matrix != rows.matrix).nnz == 0
        convert(folder / named, tmp_path / "raw.store")
        assert np.array_equal(model.predict(tmp_path / "raw.store"), model.labels_)


def test_rows_in_another_order_are_refused_and_the_advice_helps(tmp_path, matrix, turned):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    write_cells(tmp_path / "turned.h5ad", matrix[:, turned], [NAMES[i] for i in turned])
    model = KMeans(4, random_state=0).fit(tmp_path / "x.h5ad")
    with pytest.raises(ValueError, match=r"another order. Pass the path.*read\(path, like=model\)"):
        model.predict(read(tmp_path / "turned.h5ad"))
    rows = read(tmp_path / "turned.h5ad", like=model)
    assert np.array_equal(model.predict(rows), model.labels_)


def test_missing_columns_are_refused_or_zero_by_choice(tmp_path, matrix):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    write_cells(tmp_path / "few.h5ad", matrix[:, 3:], NAMES[3:])
    model = KMeans(4, random_state=0).fit(tmp_path / "x.h5ad")
    lacks = r"few.h5ad lacks 3 of the 40 expected columns \(gene0, gene1, gene2\)"
    with pytest.raises(ReadError, match=lacks + r"\. Read it with missing_columns='zero'"):
        model.predict(tmp_path / "few.h5ad")
    with pytest.warns(UserWarning, match="few.h5ad lacks 3 of the 40 expected columns: taken as 0"):
        rows = read(tmp_path / "few.h5ad", like=model, missing_columns="zero")
    zeroed = matrix.copy()
    zeroed[:, :3] = 0
    assert np.array_equal(rows.matrix.toarray(), zeroed)
    assert np.array_equal(model.predict(rows), model.predict(zeroed))


def test_columns_that_are_not_known_are_left_out_and_counted(tmp_path, matrix):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    more = np.hstack([matrix[:, :2] + 7, matrix])
    write_cells(tmp_path / "more.h5ad", more, ["spike", "marker", *NAMES])
    rows = read(tmp_path / "x.h5ad", prepare=Prepare(min_df=12))
    model = KMeans(4, random_state=0).fit(rows)
    with pytest.warns(UserWarning, match="has 2 unexpected columns: left out"):
        assert np.array_equal(model.predict(tmp_path / "more.h5ad"), model.labels_)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["gene1", *NAMES[1:]], r"occur more than once \(gene1\)"),
        (
            [f"other{i}" for i in range(40)],
            "none of the expected columns: it has other0, other1",
        ),
    ],
)
def test_names_that_cannot_be_matched_are_refused(tmp_path, matrix, names, message):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    write_cells(tmp_path / "y.h5ad", matrix, names)
    with pytest.raises(ReadError, match=message):
        read(tmp_path / "y.h5ad", like=read(tmp_path / "x.h5ad"), missing_columns="zero")


def test_names_that_repeat_in_the_same_places_are_fine(tmp_path, matrix):
    names = ["gene1", *NAMES[1:]]
    write_cells(tmp_path / "x.h5ad", matrix, names)
    model = KMeans(4, random_state=0).fit(tmp_path / "x.h5ad")
    assert np.array_equal(model.predict(tmp_path / "x.h5ad"), model.labels_)


def test_a_frame_is_compared_with_the_names_of_a_file_as_scikit_learn_does(tmp_path, matrix):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    model = KMeans(4, random_state=0).fit(tmp_path / "x.h5ad")
    frame = pd.DataFrame(matrix, columns=NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(model.predict(frame), model.labels_)
        assert np.array_equal(model.predict(matrix), model.labels_)
    with pytest.raises(ValueError, match="feature names should match those that were passed"):
        model.predict(frame[NAMES[::-1]])
    assert not hasattr(model, "feature_names_in_")


def test_a_file_is_matched_with_the_names_of_a_frame(tmp_path, matrix, turned):
    write_cells(tmp_path / "turned.h5ad", matrix[:, turned], [NAMES[i] for i in turned])
    model = KMeans(4, random_state=0).fit(pd.DataFrame(matrix, columns=NAMES))
    assert np.array_equal(model.predict(tmp_path / "turned.h5ad"), model.labels_)
    with pytest.raises(ValueError, match="other names than the training data, or another order"):
        model.predict(read(tmp_path / "turned.h5ad"))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.mtx", "x.h5ad", "x.svm", "x.store"])
def test_a_file_that_states_another_number_of_columns_is_refused(tmp_path, matrix, name):
    model = KMeans(4, random_state=0).fit(matrix)
    path, small = tmp_path / name, matrix[:, :4]
    if name == "x.npy":
        np.save(path, small)
    elif name in ("x.npz", "x.store"):
        sp.save_npz(tmp_path / "x.npz", sp.csr_array(small))
    elif name == "x.mtx":
        path.write_text("%%MatrixMarket matrix coordinate real general\n1 4 1\n1 1 1\n")
    elif name == "x.h5ad":
        write_cells(path, small, [f"gene{i}" for i in range(4)])
    else:
        path.write_text("1 4 2\n0 1:1\n")  # the header of the extreme classification repository
    if name == "x.store":
        convert(tmp_path / "x.npz", path)
        with pytest.raises(ValueError, match="X has 4 features"):
            model.predict(open_store(path))
    with pytest.raises(ReadError, match="has 4 columns, but 40 are expected"):
        model.predict(path)


def test_missing_columns_without_like_are_refused(tmp_path, matrix):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    with pytest.raises(ValueError, match="missing_columns: no effect without like"):
        read(tmp_path / "x.h5ad", missing_columns="zero")
    with pytest.raises(ValueError, match="missing_columns='nan' is not known"):
        read(tmp_path / "x.h5ad", like=read(tmp_path / "x.h5ad"), missing_columns="nan")


def test_a_growing_vocabulary_keeps_the_places_of_its_names(tmp_path, matrix):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    write_cells(tmp_path / "more.h5ad", np.hstack([matrix, matrix[:, :1]]), [*NAMES, "new"])
    write_cells(tmp_path / "turned.h5ad", matrix[:, ::-1], NAMES[::-1])
    model = MiniBatchKMeans(3, random_state=0, grow_features=True)
    model.partial_fit(tmp_path / "x.h5ad").partial_fit(tmp_path / "more.h5ad")
    assert model.n_features_in_ == 41
    with pytest.raises(ValueError, match="not those of before, in the same order"):
        model.partial_fit(tmp_path / "turned.h5ad")


class LateNames(Source):
    """A file that names its columns behind its rows."""

    def blocks(self):
        yield Block(
            indptr=np.array([0, 1]),
            indices=np.zeros(1, dtype=np.int32),
            data=np.ones(1, dtype=np.float32),
        )
        self.n_features, self.feature_names = 40, np.array(NAMES[::-1], dtype=object)


def test_names_that_come_too_late_are_refused(tmp_path, matrix, monkeypatch):
    write_cells(tmp_path / "x.h5ad", matrix, NAMES)
    model = KMeans(4, random_state=0).fit(tmp_path / "x.h5ad")
    monkeypatch.setitem(FORMATS, "late", SimpleNamespace(reader=LateNames, module="late"))
    monkeypatch.setattr(passes, "format_of", lambda *_, **__: "late")
    (tmp_path / "x.late").write_text("late")
    with pytest.raises(ReadError, match="names them behind its rows"):
        model.predict(tmp_path / "x.late")
