"""Names of rows: from columns of files into rows, blocks and stores."""

import os
import pickle

import numpy as np
import pytest

from sparsecluster import (
    KMeans,
    Prepare,
    ReadError,
    convert,
    load_model,
    open_store,
    read,
    read_blocks,
)
from sparsecluster.formats import text as text_module
from sparsecluster.storage.store_files import StoreError

TEXTS = {"ä1": "red apple", "b 2": "green apple", "c,3": "blue sky"}


def as_csv(path):
    path.write_text("key,text\n" + "".join(f'"{key}",{text}\n' for key, text in TEXTS.items()))
    return path


def as_jsonl(path):
    lines = [f'{{"text": "{text}", "key": "{key}"}}\n' for key, text in TEXTS.items()]
    path.write_text("".join(lines))
    return path


def as_parquet(path):
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"key": list(TEXTS), "text": list(TEXTS.values())}), path
    )
    return path


FILES = [(as_csv, "x.csv"), (as_jsonl, "x.jsonl"), (as_parquet, "x.parquet")]


@pytest.mark.parametrize(("write", "name"), FILES)
@pytest.mark.parametrize("prepare", [None, Prepare(tfidf=True, norm="l2")])
def test_ids_are_those_of_the_column_in_memory_and_in_stores(tmp_path, write, name, prepare):
    path = write(tmp_path / name)
    rows = read(path, id_column="key", prepare=prepare)
    assert rows.ids.tolist() == list(TEXTS)
    assert list(rows.feature_names) == ["apple", "blue", "green", "red", "sky"]
    stored = convert(path, tmp_path / "x.store", id_column="key", prepare=prepare)
    assert stored.ids.tolist() == list(TEXTS)
    assert open_store(tmp_path / "x.store", verify=True).ids.tolist() == list(TEXTS)


@pytest.mark.parametrize(("write", "name"), FILES)
def test_without_the_option_there_are_none(tmp_path, write, name):
    path = write(tmp_path / name)
    assert read(path).ids is None
    assert convert(path, tmp_path / "x.store").ids is None


def test_blocks_have_their_own_ids(tmp_path, monkeypatch):
    path = as_csv(tmp_path / "x.csv")
    rows = read(path, id_column="key")
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", 1)
    blocks = list(read_blocks(path, like=rows))
    assert [block.ids.tolist() for block in blocks] == [[key] for key in TEXTS]
    stored = convert(path, tmp_path / "x.store", id_column="key")
    again = convert(stored.path, tmp_path / "y.store", dtype="float64")
    assert again.ids.tolist() == list(TEXTS)
    assert stored.ids_between(1, 3).tolist() == list(TEXTS)[1:]


def test_a_model_reads_ids_where_other_files_have_them(tmp_path):
    model = KMeans(2, random_state=0).fit(read(as_csv(tmp_path / "x.csv"), id_column="key"))
    model.save(tmp_path / "x.model")
    model = load_model(tmp_path / "x.model")
    assert read(as_jsonl(tmp_path / "x.jsonl"), like=model).ids.tolist() == list(TEXTS)
    (tmp_path / "y.csv").write_text("text\nblue apple\n")
    assert read(tmp_path / "y.csv", like=model).ids is None
    with pytest.raises(ReadError, match=r"no column 'name'. It has 'text'"):
        read(tmp_path / "y.csv", like=model, id_column="name")


def test_pickled_rows_keep_ids_and_selected_ones_have_none(tmp_path):
    rows = read(as_csv(tmp_path / "x.csv"), id_column="key")
    assert pickle.loads(pickle.dumps(rows)).ids.tolist() == list(TEXTS)
    assert rows.select(np.array([1])).ids is None


def test_rows_of_labels_have_no_ids_of_instances(tmp_path):
    from sparsecluster.prepare.metalabels import label_rows

    rows = read(as_csv(tmp_path / "x.csv"), id_column="key")
    (tmp_path / "x.svm").write_text("0 1:1\n1 2:1\n")
    labelled = read(tmp_path / "x.svm")
    made = label_rows(type(rows)(labelled.matrix, labelled.core, None, labelled.provenance), "x")
    assert made.ids is None


def test_numbers_are_ids_too_and_other_values_are_refused(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "aa", "key": 7}\n{"text": "bb", "key": "x"}\n')
    assert read(path, id_column="key").ids.tolist() == ["7", "x"]
    path.write_text('{"text": "aa", "key": 7}\n{"text": "bb", "key": null}\n')
    with pytest.raises(ReadError, match="line 2: the id is neither"):
        read(path, id_column="key")
    path.write_text('{"text": "aa", "key": 7}\n{"text": "bb"}\n')
    with pytest.raises(ReadError, match="line 2: there is no column 'key'"):
        read(path, id_column="key")


def test_ids_of_lists_in_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"indices": [[0, 2], []], "values": [[1.0, 2.0], []], "key": [10, 20]})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    rows = read(tmp_path / "x.parquet", id_column="key")
    assert (rows.ids.tolist(), rows.shape) == (["10", "20"], (2, 3))
    missing = pa.table({"text": ["aa", "bb"], "key": ["x", None]})
    pytest.importorskip("pyarrow.parquet").write_table(missing, tmp_path / "y.parquet")
    with pytest.raises(ReadError, match="row 1 has no value in the column 'key'"):
        read(tmp_path / "y.parquet", id_column="key")


def test_damaged_ids_are_refused(tmp_path):
    convert(as_csv(tmp_path / "x.csv"), tmp_path / "x.store", id_column="key")
    file = tmp_path / "x.store" / "ids.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    rows = open_store(tmp_path / "x.store")
    with pytest.raises(StoreError, match=r"ids\.npy is not as it was written"):
        rows.checked()
    with pytest.raises(StoreError, match=r"ids\.npy is not as it was written"):
        open_store(tmp_path / "x.store").ids  # noqa: B018


def test_a_file_name_that_is_not_utf_8_is_an_id_with_a_mark_in_place_of_the_byte(tmp_path):
    for name in (b"a.txt", b"caf\xe9.txt"):
        (tmp_path / os.fsdecode(name)).write_text("red apple")
    assert read(tmp_path).ids.tolist() == ["a.txt", "caf\ufffd.txt"]
