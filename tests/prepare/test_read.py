"""Reading files by their names and contents, text, and files read in the way of others."""

import bz2
import gzip
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

import sparsecluster.formats.text as text_module
from sparsecluster import (
    KMeans,
    Prepare,
    ReadError,
    SphericalKMeans,
    TextOptions,
    load_model,
    read,
    read_blocks,
)
from sparsecluster.formats.registry import detect

DOCUMENTS = ["red apple", "green apple, green pear", "blue sky", "sky and sea: blue, blue"]
X = sp.csr_array([[1.0, 0, 2], [0, 3, 0]])


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- formats ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.svm", "1 1:2", "svmlight"),
        ("a.txt", "1 1:2 3:0.5\n-1 2:1\n", "svmlight"),
        ("train.txt", "2 10 5\n0,4 1:1 9:1\n", "svmlight"),
        ("rcv1_train.multiclass", "33 12:0.1 47:0.2\n", "svmlight"),
        ("a", "1,2 qid:3 1:2\n", "svmlight"),
        ("a.txt", " 1:2 3:4\n", "svmlight"),
        ("a.txt", "just words\n", "txt"),
        ("a.txt", "see 1:2 for that\n", "txt"),
        ("a.txt", "", "txt"),
        ("docword.kos.txt", "2\n3\n3\n1 1 1\n", "docword"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 0\n", "mtx"),
        ("matrix", "%%MatrixMarket matrix coordinate real general\n1 1 0\n", "mtx"),
        ("a.jsonl", '{"text": "words"}\n', "jsonl"),
        ("a.csv", "text\nwords\n", "csv"),
        ("a.txt.gz", gzip.compress(b"just words\n", mtime=0), "txt"),
        ("a.svm.bz2", bz2.compress(b"1 1:2\n"), "svmlight"),
        ("A.TXT", "just words\n", "txt"),
    ],
)
def test_the_format_is_found(tmp_path, name, content, format):
    assert detect(write(tmp_path, name, content)) == format


def test_npz_is_known_by_its_content(tmp_path):
    sp.save_npz(tmp_path / "a.npz", X)
    (tmp_path / "a.npz").rename(tmp_path / "matrix.bin")
    assert np.array_equal(read(tmp_path / "matrix.bin").matrix.toarray(), X.toarray())


def test_an_unknown_format_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ReadError, match=r"svmlight.*docword"):
        read(write(tmp_path, "a.xyz", "what is this"))


@pytest.mark.parametrize("name", ["missing.svm", "."])
def test_what_is_no_file_is_refused(tmp_path, name):
    with pytest.raises(ReadError, match=r"does not exist|is a folder"):
        read(tmp_path / name)


def test_an_empty_file_is_refused(tmp_path):
    with pytest.raises(ReadError, match="no rows"):
        read(write(tmp_path, "a.svm", ""))


def test_options_of_other_formats_are_refused(tmp_path):
    path = write(tmp_path, "a.svm", "1 1:2\n")
    with pytest.raises(ValueError, match="transpose: no effect"):
        read(path, transpose=True)
    with pytest.raises(ValueError, match="token_pattern: no effect"):
        read(path, text=TextOptions())


def test_an_unknown_format_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="format='libsvm' is not known"):
        read(write(tmp_path, "a.svm", "1 1:2\n"), format="libsvm")


def test_matrix_market_agrees_with_scipy(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", X)
    rows = read(tmp_path / "a.mtx", dtype="float64")
    assert np.array_equal(rows.matrix.toarray(), X.toarray())
    flipped = read(tmp_path / "a.mtx", transpose=True)
    assert np.array_equal(flipped.matrix.toarray(), X.toarray().T)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_type_of_values_can_be_chosen(tmp_path, dtype):
    sp.save_npz(tmp_path / "a.npz", X)
    assert read(tmp_path / "a.npz", dtype=dtype).matrix.dtype == dtype


# --- text -------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    documents=st.lists(
        st.text(
            st.characters(
                exclude_characters="\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029", exclude_categories=["Cs"]
            ),
            max_size=60,
        ),
        min_size=1,
        max_size=12,
    ),
    tokens=st.integers(1, 20),
    longest=st.integers(1, 3),
    lowercase=st.booleans(),
    strip=st.sampled_from([None, "ascii", "unicode"]),
)
def test_text_is_counted_as_by_scikit_learn(
    tmp_path_factory, documents, tokens, longest, lowercase, strip
):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    path.write_bytes("".join(f"{line}\n" for line in documents).encode())
    options = TextOptions(ngram_range=(1, longest), lowercase=lowercase, strip_accents=strip)
    vectorizer = CountVectorizer(ngram_range=(1, longest), lowercase=lowercase, strip_accents=strip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "BLOCK_TOKENS", tokens)
        try:
            expected = vectorizer.fit_transform(documents).toarray()
        except ValueError:  # no terms at all
            with pytest.raises(ReadError, match="no columns"):
                read(path, format="txt", text=options)
            return
        rows = read(path, format="txt", text=options)
    assert list(rows.feature_names) == list(vectorizer.get_feature_names_out())
    assert np.array_equal(rows.matrix.toarray(), expected)


def test_json_lines_and_csv_are_read_like_lines(tmp_path):
    lines = write(tmp_path, "a.txt", "\n".join(DOCUMENTS))
    records = "".join(json.dumps({"id": 1, "text": one}) + "\n\n" for one in DOCUMENTS)
    table = "id,text\r\n" + "".join(f'1,"{one}"\r\n' for one in DOCUMENTS)
    expected = read(lines)
    for path in (write(tmp_path, "a.jsonl", records), write(tmp_path, "a.csv", table)):
        rows = read(path)
        assert list(rows.feature_names) == list(expected.feature_names)
        assert np.array_equal(rows.matrix.toarray(), expected.matrix.toarray())


def test_quoted_fields_hold_line_ends(tmp_path):
    path = write(tmp_path, "a.csv", 'text,n\n"red\napple",1\nsky,2\n')
    assert read(path).shape == (2, 3)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = write(tmp_path, "a.txt", "apple pear\n".encode("utf-8-sig"))
    assert list(read(path).feature_names) == ["apple", "pear"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "id,title\n1,x\n", "no column 'text'.*'id', 'title'"),
        ("a.csv", "", "is empty"),
        ("a.csv", "id,text\n1\n", "line 2: 1 columns, where the header has 2"),
        ("a.jsonl", '{"a": "x", "b": "y"}\n', "no column 'text'.*'a', 'b'"),
        ("a.jsonl", '{"text": "x"}\n{"text": \n', "line 2 is not JSON: expecting value"),
        ("a.jsonl", '{"text": 5}\n', "line 1: the field 'text' is not a string"),
        ("a.jsonl", "[1]\n", "line 1: an object"),
        ("a.txt", b"fine\nna\xefve\n", "not text in utf-8.*latin-1"),
        ("a.txt", "a b c\n", "no columns"),
        ("a.txt.gz", gzip.compress(b"word " * 1000, mtime=0)[:-30], "broken or cut off"),
    ],
)
def test_broken_text_is_refused_with_its_place(tmp_path, name, content, message):
    with pytest.raises(ReadError, match=message):
        read(write(tmp_path, name, content))


def test_an_encoding_can_be_chosen(tmp_path):
    path = write(tmp_path, "a.txt", "naïve café\n".encode("latin-1"))
    rows = read(path, text=TextOptions(encoding="latin-1"))
    assert list(rows.feature_names) == ["café", "naïve"]


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "klingon"},
        {"ngram_range": (0, 1)},
        {"ngram_range": (2, 1)},
        {"ngram_range": 2},
        {"ngram_range": (1, 2, 3)},
        {"token_pattern": "("},
        {"stop_words": "klingon"},
        {"strip_accents": "all"},
        {"column": 3},
    ],
)
def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(ValueError, match=r"encoding|ngram_range|stop_words|text options|column"):
        TextOptions(**options)


# --- in the way of others ---------------------------------------------------------------------


def test_a_model_reads_text_as_its_own_was_read(tmp_path):
    path = write(tmp_path, "a.txt", "\n".join(DOCUMENTS))
    model = KMeans(2, random_state=0).fit(read(path, prepare=Prepare(tfidf=True, norm="l2")))
    model.save(tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    new = write(tmp_path, "b.txt", "green apple with unheard words\nblue sky\n")
    labels = loaded.predict(new)
    assert labels.tolist() == [model.labels_[1], model.labels_[2]]
    assert np.array_equal(loaded.predict(path), model.labels_)


def test_blocks_in_the_way_of_a_model_are_its_rows(tmp_path, monkeypatch):
    path = write(tmp_path, "a.txt", "\n".join(DOCUMENTS * 50))
    model = SphericalKMeans(3, random_state=0).fit(path)
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", 20)
    parts = [model.predict(rows) for rows in read_blocks(path, like=model)]
    assert len(parts) > 5
    assert np.array_equal(np.concatenate(parts), model.labels_)


def test_columns_count_as_in_the_file_of_the_model(tmp_path):
    model = KMeans(2, random_state=0).fit(write(tmp_path, "a.svm", "0 0:1 5:1\n0 2:3\n0 0:1\n"))
    # No column 0 here: taken by itself it would count from one.
    labels = model.predict(write(tmp_path, "b.svm", "0 2:3\n0 5:1\n"))
    assert labels.tolist() == [model.labels_[1], model.labels_[0]]


def test_a_file_with_more_columns_than_the_model_is_refused(tmp_path):
    model = KMeans(2, random_state=0).fit(write(tmp_path, "a.svm", "0 1:1 5:1\n0 2:3\n0 1:1\n"))
    with pytest.raises(ReadError, match="6 columns or more, but 5 are expected"):
        model.predict(write(tmp_path, "b.svm", "0 6:3\n"))


def test_text_for_a_model_of_other_files_is_refused(tmp_path):
    model = KMeans(1).fit(write(tmp_path, "a.svm", "0 1:1 5:1\n0 2:3\n"))
    with pytest.raises(ReadError, match="is text, but the data it must match were not"):
        model.predict(write(tmp_path, "b.txt", "words\n"))


def test_prepare_and_like_exclude_each_other(tmp_path):
    path = write(tmp_path, "a.txt", "red apple\n")
    with pytest.raises(ValueError, match="exclude each other"):
        read(path, prepare=Prepare(norm="l2"), like=read(path))


def test_dropped_columns_of_a_matrix_are_dropped_again(tmp_path):
    path = write(tmp_path, "a.svm", "0 1:1 2:1 9:1\n0 2:3\n0 1:1 2:1\n")
    rows = read(path, prepare=Prepare(min_df=2))
    assert rows.shape == (3, 2)
    other = read(write(tmp_path, "b.svm", "0 2:4 5:1 9:7\n"), like=rows)
    assert other.matrix.toarray().tolist() == [[0, 4]]
