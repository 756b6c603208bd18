"""Whatever `read` takes, `convert` takes: the same matrix, labels and names, in every format."""

import json
import os

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matrix_files import lists_of, write_h5ad, write_table

from sparsecluster import Prepare, convert, open_store, read
from sparsecluster.formats.source import ReadError
from sparsecluster.formats.text import TextOptions
from sparsecluster.prepare import convert as convert_module


@pytest.fixture(autouse=True, scope="module")
def no_waiting_for_the_disk():
    """Hundreds of small stores need not survive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


def dense(labels):
    return labels.toarray() if sp.issparse(labels) else labels


def assert_convert_gives_what_read_gives(path, out, **options):
    expected = read(path, **options)
    convert(path, out, **options)
    rows = open_store(out, verify=True)
    assert rows.shape == expected.shape
    assert rows.matrix.dtype == expected.matrix.dtype
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(rows.matrix, name), getattr(expected.matrix, name))
    assert sp.issparse(rows.labels) == sp.issparse(expected.labels)
    np.testing.assert_array_equal(dense(rows.labels), dense(expected.labels))
    np.testing.assert_array_equal(rows.feature_names, expected.feature_names)


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("prepare", [None, Prepare(norm="l2")])
@pytest.mark.parametrize(
    "text", ["3,1 1:1\n2 2:1\n", "1,3,1 1:1\n2 2:1\n", "2,2 1:1\n1 2:1\n", "1 1:1\n 2:1\n4,0 1:2\n"]
)
def test_labels_in_any_order_are_converted_as_they_are_read(tmp_path, text, prepare):
    (tmp_path / "x.svm").write_text(text)
    assert_convert_gives_what_read_gives(tmp_path / "x.svm", tmp_path / "x.store", prepare=prepare)


def test_labels_of_a_row_ascend_and_count_once(tmp_path):
    (tmp_path / "x.svm").write_text("3,1,3 1:1\n2 2:1\n")
    labels = convert(tmp_path / "x.svm", tmp_path / "x.store").labels
    np.testing.assert_array_equal(labels.toarray(), [[0, 1, 0, 1], [0, 0, 1, 0]])


def test_a_header_of_more_labels_than_are_counted_does_not_wrap_around(tmp_path):
    (tmp_path / "x.svm").write_text("2 3 9000000000\n4294967297,1 1:1\n2 2:1\n")
    for action in (read, lambda path: convert(path, tmp_path / "x.store")):
        with pytest.raises(ReadError, match=r"x\.svm.*labels"):
            action(tmp_path / "x.svm")
    assert os.listdir(tmp_path) == ["x.svm"]


def test_a_store_that_does_not_open_is_not_left_behind(tmp_path, monkeypatch):
    (tmp_path / "x.svm").write_text("1 1:1\n")

    def broken(folder, path):
        raise ReadError(f"{path} is damaged.")

    monkeypatch.setattr(convert_module, "open_unnamed", broken)
    with pytest.raises(ReadError):
        convert(tmp_path / "x.svm", tmp_path / "x.store")
    assert os.listdir(tmp_path) == ["x.svm"]


# --- every format ---------------------------------------------------------------------------------

NAMES = {
    "svmlight": "x.svm",
    "csr": "x.npz",
    "coo": "x.npz",
    "csc": "x.npz",
    "bsr": "x.npz",
    "npy": "x.npy",
    "mtx": "x.mtx",
    "docword": "docword.x.txt",
    "h5ad": "x.h5ad",
    "parquet": "x.parquet",
    "arrow": "x.feather",
}


@st.composite
def matrices(draw):
    n_rows, n_columns = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    numbers = st.lists(st.integers(-3, 3), min_size=n_columns, max_size=n_columns)
    dense = np.array(draw(st.lists(numbers, min_size=n_rows, max_size=n_rows)), dtype=float)
    dense[0, 0] = 1
    return sp.csr_array(dense)


def write_svmlight(path, matrix, draw):
    labels = st.lists(st.integers(0, 9), min_size=draw(st.integers(0, 1)), max_size=4)
    lines = []
    for begin, end in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        entries = zip(matrix.indices[begin:end], matrix.data[begin:end], strict=True)
        words = [f"{column + 1}:{value:g}" for column, value in entries]
        lines.append(" ".join([",".join(map(str, draw(labels))), *draw(st.permutations(words))]))
    path.write_text("\n".join(lines) + "\n")


def write(folder, format, matrix, draw):
    path = folder / NAMES[format]
    if format == "svmlight":
        write_svmlight(path, matrix, draw)
    elif format in ("csr", "coo", "csc", "bsr"):
        sp.save_npz(path, matrix.asformat(format), compressed=draw(st.booleans()))
    elif format == "npy":
        np.save(path, matrix.toarray())
    elif format == "mtx":
        scipy.io.mmwrite(path, matrix if draw(st.booleans()) else matrix.toarray())
    elif format == "docword":
        entries = abs(matrix).tocoo()
        triples = zip(entries.row + 1, entries.col + 1, entries.data, strict=True)
        lines = [*map(str, (*matrix.shape, matrix.nnz)), *(f"{r} {c} {v:g}" for r, c, v in triples)]
        path.write_text("\n".join(lines) + "\n")
        words = "\n".join(f"w{i}" for i in range(matrix.shape[1]))
        path.with_name("vocab.x.txt").write_text(words)
    elif format == "h5ad":
        write_h5ad(path, draw(st.sampled_from([matrix, matrix.tocsc(), matrix.toarray()])))
    elif draw(st.booleans()):
        indices, values = lists_of(matrix)
        write_table(path, {"indices": indices, "values": values})
    else:
        entries = matrix.tocoo()
        write_table(path, {"row": entries.row, "column": entries.col, "value": entries.data})
    return path


@pytest.mark.parametrize("format", NAMES)
def test_every_matrix_is_converted_as_it_is_read(tmp_path_factory, format):
    @settings(max_examples=12, deadline=None)
    @given(data=st.data(), matrix=matrices())
    def check(data, matrix):
        folder = tmp_path_factory.mktemp("files")
        path = write(folder, format, matrix, data.draw)
        prepare = data.draw(st.sampled_from([None, Prepare(norm="l2")]))
        assert_convert_gives_what_read_gives(path, folder / "x.store", prepare=prepare)

    check()


DOCUMENT = st.text(st.sampled_from('ab é\u2028\x85\ud800😀",\t'), max_size=8)


@settings(max_examples=40, deadline=None)
@given(documents=st.lists(DOCUMENT, min_size=1, max_size=6), data=st.data())
def test_every_text_is_converted_as_it_is_read(tmp_path_factory, documents, data):
    folder = tmp_path_factory.mktemp("texts")
    documents = ["word", *documents]
    path = folder / data.draw(st.sampled_from(["x.txt", "x.jsonl", "x.csv"]))
    newline = data.draw(st.sampled_from(["\n", "\r\n"]))
    if path.suffix == ".jsonl":
        lines = [json.dumps({"text": document}) for document in documents]
    else:
        documents = [document.replace("\ud800", "") for document in documents]
        lines = documents
    if path.suffix == ".csv":
        quoted = [document.replace('"', '""') for document in documents]
        lines = ["text", *(f'"{document}"' for document in quoted)]
    path.write_bytes(newline.join(lines).encode())
    options = TextOptions(token_pattern="[^ ]+", lowercase=False)
    assert_convert_gives_what_read_gives(path, folder / "x.store", text=options)


# --- the end of a line ----------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_newline_is_no_part_of_a_document(tmp_path, newline):
    (tmp_path / "x.txt").write_bytes(newline.join(["a b", "", "c b", ""]).encode())
    rows = read(tmp_path / "x.txt", text=TextOptions(token_pattern="[^ ]+"))
    assert rows.feature_names.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(rows.matrix.toarray(), [[1, 1, 0], [0, 0, 0], [0, 1, 1]])
