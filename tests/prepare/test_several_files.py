"""Several files as one: lists, patterns of names and folders, in every format."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import KMeans, Prepare, ReadError, convert, load_model, read, read_blocks

PARTS = [["red apple", "green apple"], ["blue sky"], ["red sky", "blue apple", "sky"]]
LINES = [line for part in PARTS for line in part]


def as_txt(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def as_csv(path, lines):
    path.write_text("text\n" + "".join(f"{line}\n" for line in lines))


def as_jsonl(path, lines):
    path.write_text("".join(f'{{"text": "{line}"}}\n' for line in lines))


def as_parquet(path, lines):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"text": lines}), path)


@pytest.mark.parametrize(
    ("write", "ending"),
    [(as_txt, ".txt"), (as_csv, ".csv"), (as_jsonl, ".jsonl"), (as_parquet, ".parquet")],
)
def test_parts_of_text_are_read_as_one_file(tmp_path, write, ending):
    write(tmp_path / f"all{ending}", LINES)
    (tmp_path / "parts").mkdir()
    for number, lines in enumerate(PARTS):
        write(tmp_path / "parts" / f"part-{number}{ending}", lines)
    whole = read(tmp_path / f"all{ending}", prepare=Prepare(tfidf=True))
    names = sorted((tmp_path / "parts").iterdir())
    for given in (str(tmp_path / "parts" / "part-*"), names):
        rows = read(given, prepare=Prepare(tfidf=True))
        assert np.array_equal(rows.matrix.toarray(), whole.matrix.toarray())
        assert list(rows.feature_names) == list(whole.feature_names)
        stored = convert(given, tmp_path / "x.store", prepare=Prepare(tfidf=True), overwrite=True)
        assert np.array_equal(stored.matrix.toarray(), whole.matrix.toarray())
        others = np.concatenate([b.matrix.toarray() for b in read_blocks(given, like=whole)])
        assert np.array_equal(others, whole.matrix.toarray())


def test_parts_of_matrices_are_read_as_one(tmp_path):
    whole = sp.random_array((9, 5), density=0.5, format="csr", random_state=0, dtype=np.float32)
    for number in range(3):
        sp.save_npz(tmp_path / f"part-{number}.npz", whole[3 * number : 3 * number + 3])
        np.save(tmp_path / f"part-{number}.npy", whole[3 * number : 3 * number + 3].toarray())
    for ending in ("npz", "npy"):
        given = str(tmp_path / f"part-*.{ending}")
        shares = []
        assert np.array_equal(read(given, progress=shares.append).matrix.toarray(), whole.toarray())
        assert shares == sorted(shares)
        assert shares[-1] == 1
        stored = convert(given, tmp_path / f"{ending}.store")
        assert np.array_equal(stored.matrix.toarray(), whole.toarray())


def test_columns_of_svmlight_count_from_zero_where_any_part_has_a_column_0(tmp_path):
    first, second = tmp_path / "a.svm", tmp_path / "b.svm"
    first.write_text("1 1:1 2:2\n")
    second.write_text("2 3:1\n")
    assert read([first, second]).shape == (2, 3)
    second.write_text("2 0:1 3:1\n")
    for rows in (read([first, second]), convert([first, second], tmp_path / "x.store")):
        assert rows.matrix.toarray().tolist() == [[0, 1, 2, 0], [1, 0, 0, 1]]
        assert rows.recipe.options == {"zero_based": True}
        assert list(rows.labels) == [1, 2]


def test_what_does_not_fit_together_is_refused_with_its_file(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 3)))
    np.save(tmp_path / "b.npy", np.ones((2, 4)))
    with pytest.raises(ReadError, match=r"b\.npy has 4 columns, and .*a\.npy has 3"):
        read(str(tmp_path / "?.npy"))
    np.save(tmp_path / "b.npy", np.ones((2, 3), np.float32))
    with pytest.raises(ReadError, match=r"b\.npy has values of type float32.*\(dtype\)"):
        read(str(tmp_path / "?.npy"))
    assert read(str(tmp_path / "?.npy"), dtype="float64").matrix.dtype == np.float64
    (tmp_path / "c.csv").write_text("text\naa\n")
    with pytest.raises(ReadError, match=r"a\.npy is npy and .*c\.csv is csv"):
        read(tmp_path)
    (tmp_path / "d.csv").write_text("text\nbb\ncc,dd\n")
    with pytest.raises(ReadError, match=r"d\.csv, line 3: 2 columns"):
        read([tmp_path / "c.csv", tmp_path / "d.csv"])
    (tmp_path / "e.csv").write_text("body,id\nbb,1\n")
    with pytest.raises(ReadError, match=r"e\.csv, line 1: there is no column 'text'"):
        read([tmp_path / "c.csv", tmp_path / "e.csv"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("no-*.csv", "no file has a name like this"),
        ("no.csv", "does not exist"),
        ([], "empty list"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        read(given)


def test_a_name_with_the_letters_of_a_pattern_is_a_file(tmp_path):
    as_txt(tmp_path / "a[1].txt", LINES)
    assert read(tmp_path / "a[1].txt").n_rows == len(LINES)


# --- folders ----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    texts = tmp_path / "texts"
    (texts / "sub").mkdir(parents=True)
    (texts / "b.txt").write_text("red apple\nand sky")
    (texts / "a.txt").write_text("blue sky")
    (texts / "sub" / "c.txt.gz").write_bytes(gzip.compress("grün".encode()))
    (texts / "_SUCCESS").write_text("")
    (texts / ".hidden.txt").write_text("nothing")
    return texts


def test_a_folder_of_text_has_a_document_in_each_file(folder, tmp_path):
    rows = read(folder)
    assert rows.ids.tolist() == ["a.txt", "b.txt", "sub/c.txt.gz"]
    assert list(rows.feature_names) == ["and", "apple", "blue", "grün", "red", "sky"]
    assert rows.recipe.format == "texts"
    assert convert(folder, tmp_path / "x.store").ids.tolist() == rows.ids.tolist()
    assert read(str(folder / "*.txt"), format="texts").ids.tolist() == ["a.txt", "b.txt"]
    assert read(folder, format="txt").n_rows == 4


def test_a_model_of_a_folder_reads_another(folder, tmp_path):
    model = KMeans(2, random_state=0).fit(folder)
    model.save(tmp_path / "x.model")
    other = tmp_path / "other"
    other.mkdir()
    (other / "z.txt").write_text("blue sky")
    assert load_model(tmp_path / "x.model").predict(other).tolist() == [model.labels_[0]]


def test_a_document_that_is_too_long_or_not_text_is_refused_by_its_file(folder, monkeypatch):
    (folder / "d.txt").write_bytes(b"caf\xe9")
    with pytest.raises(ReadError, match=r"d\.txt: the file is not text in utf-8"):
        read(folder)
    assert "café" in read(folder, encoding="latin-1").feature_names
    monkeypatch.setattr("sparsecluster.formats.files.LONGEST_TEXT", 10)
    with pytest.raises(ReadError, match=r"b\.txt: has more than 10 characters"):
        read(folder)


def test_part_files_of_parquet_are_a_folder(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parts = tmp_path / "data.parquet"
    parts.mkdir()
    (parts / "_SUCCESS").write_text("")
    for number in range(2):
        table = pa.table({"indices": [[number]], "values": [[1.0 + number]]})
        parquet.write_table(table, parts / f"part-{number:04}.parquet")
    assert read(parts).matrix.toarray().tolist() == [[1, 0], [0, 2]]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_part_of_parquet_may_have_no_rows(tmp_path, use_dictionary):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"text": ["red apple"], "id": [1]})
    parquet.write_table(table, tmp_path / "part-0.parquet")
    empty = tmp_path / "part-1.parquet"
    parquet.write_table(table.slice(0, 0), empty, use_dictionary=use_dictionary)
    assert read(tmp_path).matrix.toarray().tolist() == [[1, 1]]
    with pytest.raises(ReadError, match=r"part-1\.parquet has no rows"):
        read(empty)


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(ReadError, match="is a folder without files, and not a store"):
        read(tmp_path)
