"""Clusters joined back into the files that were read: the same rows in the same order."""

import bz2
import csv
import gzip
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matrix_files import FILES, lists_of, small_matrix, write_h5ad, write_table

from sparsecluster import KMeans, ReadError, join_labels, read
from sparsecluster.formats.text import CsvSource
from sparsecluster.prepare.join import Join
from sparsecluster.prepare.join_text import Results

ODD_TABLES = {
    "plain": b"n,text\n1,red apple\n2,blue sky\n",
    "windows newlines": b"n,text\r\n1,red apple\r\n2,blue sky\r\n",
    "no final newline": b"n,text\n1,red apple\n2,blue sky",
    "blank lines": b"n,text\n\n1,red apple\n\n\n2,blue sky\n\n",
    "quoted newlines": b'n,text\n1,"red\n\napple"\n2,"blue\r\nsky"\n',
    "quotes and commas": b'n,text\n"1","say ""red"", apple"\n2,"blue, sky"\n',
    "quotes inside of a field": b'n,text\n1,5" apple\n2,blue "sky"\n',
    "a byte order mark": b"\xef\xbb\xbfn,text\n1,red apple\n2,blue sky\n",
    "an empty document": b"n,text\n1,\n2,blue sky\n",
    "one column": b'text\nred apple\n""\n\nblue sky\n',
    "old newlines": b"n,text\r1,red apple\r2,blue sky\r",
}


def table(content, encoding="utf-8-sig", delimiter=","):
    lines = io.StringIO(content.decode(encoding), newline="")
    return [row for row in csv.reader(lines, delimiter=delimiter) if row]


def joined(tmp_path, name, content, out, labels, **options):
    (tmp_path / name).write_bytes(content)
    join_labels(tmp_path / name, labels, tmp_path / out, **options)
    return (tmp_path / out).read_bytes()


@pytest.mark.parametrize("content", ODD_TABLES.values(), ids=ODD_TABLES)
def test_table_has_the_rows_that_the_reader_has(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    n_rows = read(path).n_rows
    labels, distances = np.arange(n_rows) + 3, np.arange(n_rows) / 7
    join_labels(path, labels, tmp_path / "b.csv", distances=distances)
    before, after = table(content), table((tmp_path / "b.csv").read_bytes())
    assert after[0] == [*before[0], "cluster", "cluster_distance"]
    assert [row[:-2] for row in after[1:]] == before[1:]
    assert [int(row[-2]) for row in after[1:]] == labels.tolist()
    assert [float(row[-1]) for row in after[1:]] == distances.tolist()
    again = read(tmp_path / "b.csv", column="text")
    assert (again.matrix != read(path).matrix).nnz == 0


def test_table_stays_as_it_is_written(tmp_path):
    content = b'\xef\xbb\xbfn,text\r\n"007","red, apple"\r\n\r\n8,blue sky'
    expected = b'\xef\xbb\xbfn,text,cluster\r\n"007","red, apple",1\r\n\r\n8,blue sky,0'
    assert joined(tmp_path, "a.csv", content, "b.csv", [1, 0]) == expected


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "utf-8"])
def test_table_keeps_its_encoding_and_its_delimiter(tmp_path, encoding):
    content = "n\ttext\n1\tgrün, rot\n2\tblau\n".encode(encoding)
    found = joined(tmp_path, "a.tsv", content, "b.tsv", [4, 5], encoding=encoding)
    assert found == "n\ttext\tcluster\n1\tgrün, rot\t4\n2\tblau\t5\n".encode(encoding)


@pytest.mark.parametrize(("ending", "module"), [(".gz", gzip), (".bz2", bz2)])
def test_compressed_files_are_read_and_written(tmp_path, ending, module):
    content = module.compress(b"text\nred\nblue\n")
    found = joined(tmp_path, f"a.csv{ending}", content, f"b.csv{ending}", [1, 0])
    assert module.decompress(found) == b"text,cluster\nred,1\nblue,0\n"
    assert joined(tmp_path, f"a.csv{ending}", content, "b.csv", [1, 0]).startswith(b"text,")


def test_json_lines_stay_as_they_are_written(tmp_path):
    content = b'{"text": "a", "n": 1e2 }\r\n\n "b" \n\t{"text":"\\u00e9","o":{"p":[]}}'
    found = joined(tmp_path, "a.jsonl", content, "b.jsonl", [2, 1, 0], distances=[0, 0.25, 1.5])
    assert found == (
        b'{"text": "a", "n": 1e2, "cluster": 2, "cluster_distance": 0.0}\r\n\n'
        b'{"text": "b", "cluster": 1, "cluster_distance": 0.25} \n'
        b'\t{"text":"\\u00e9","o":{"p":[]}, "cluster": 0, "cluster_distance": 1.5}'
    )
    assert [json.loads(line)["cluster"] for line in found.splitlines() if line] == [2, 1, 0]


def test_lines_of_text_become_a_table(tmp_path):
    content = b'red, apple\n\n"sky"\r\nlast'
    found = joined(tmp_path, "a.txt", content, "b.csv", [3, 2, 1, 0], distances=[0, 1, 2, 3])
    assert table(found) == [
        ["row", "cluster", "cluster_distance", "text"],
        ["0", "3", "0.0", "red, apple"],
        ["1", "2", "1.0", ""],
        ["2", "1", "2.0", '"sky"'],
        ["3", "0", "3.0", "last"],
    ]


def test_matrix_becomes_a_table_of_ids(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.eye_array(3, format="csr"))
    ids = ["plain", 'a "b", c', "two\nlines"]
    join_labels(tmp_path / "a.npz", [1, 0, 1], tmp_path / "b.csv", ids=ids)
    rows = table((tmp_path / "b.csv").read_bytes())
    assert rows == [
        ["row", "id", "cluster"],
        *([str(row), ids[row], str(label)] for row, label in enumerate([1, 0, 1])),
    ]
    join_labels(tmp_path / "a.npz", [1, 0, 1], tmp_path / "c.csv", join_column="group")
    assert (tmp_path / "c.csv").read_text() == "row,group\n0,1\n1,0\n2,1\n"


@pytest.mark.parametrize("parts", [1, 2, 7])
def test_results_may_come_in_any_parts(tmp_path, parts):
    n_rows = 100
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "".join(f"word{i}\n" for i in range(n_rows)))
    whole, cut = tmp_path / "whole.csv", tmp_path / "cut.csv"
    labels, distances = np.arange(n_rows, dtype=np.int32), np.arange(n_rows) / 3
    join_labels(path, labels, whole, distances=distances)
    with Join(path, cut).writing() as write:
        for rows in np.array_split(np.arange(n_rows), parts):
            write(Results(labels[rows], distances[rows]))
    assert cut.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("parts", [1, 5])
def test_arrow_table_gets_columns(tmp_path, name, parts):
    pa = pytest.importorskip("pyarrow")
    matrix = small_matrix()
    indices, values = lists_of(matrix)
    names = [None if i % 5 == 0 else f"row {i}" for i in range(len(indices))]
    kinds = pa.array(["a", "b"] * 30).dictionary_encode()
    write_table(tmp_path / name, {"id": names, "indices": indices, "kind": kinds, "values": values})
    out = tmp_path / f"out{(tmp_path / name).suffix}"
    labels, distances = np.arange(60, dtype=np.int32), np.arange(60) / 3
    with Join(tmp_path / name, out).writing() as write:
        for rows in np.array_split(np.arange(60), parts):
            write(Results(labels[rows], distances[rows]))
    before, after = arrow_table(tmp_path / name), arrow_table(out)
    assert after.schema.names == [*before.schema.names, "cluster", "cluster_distance"]
    assert after.select(before.schema.names).equals(before)
    assert after["cluster"].to_pylist() == labels.tolist()
    assert after["cluster_distance"].to_pylist() == distances.tolist()
    assert (read(out).matrix != read(tmp_path / name).matrix).nnz == 0


def arrow_table(path):
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    if path.suffix == ".parquet":
        return pa.parquet.read_table(path)
    if path.read_bytes()[:6] == b"ARROW1":
        return pa.feather.read_table(path)
    with pa.ipc.open_stream(path.read_bytes()) as reader:
        return reader.read_all()


@pytest.mark.parametrize("codec", ["zstd", "gzip", "none"])
def test_parquet_keeps_metadata_groups_and_compression(tmp_path, codec):
    pytest.importorskip("pyarrow")
    import pandas as pd
    import pyarrow.parquet as pq

    frame = pd.DataFrame(
        {
            "indices": [[i % 7, 9] for i in range(50)],
            "values": [[1.0, 2.0]] * 50,
            "when": pd.date_range("2020-01-01", periods=50, tz="UTC"),
        },
        index=pd.Index(np.arange(50) * 2, name="key"),
    )
    frame.to_parquet(tmp_path / "a.parquet", compression=codec, row_group_size=20)
    join_labels(tmp_path / "a.parquet", np.arange(50), tmp_path / "b.parquet")
    file = pq.ParquetFile(tmp_path / "b.parquet").metadata
    assert [file.row_group(group).num_rows for group in range(file.num_row_groups)] == [20, 20, 10]
    expected = "UNCOMPRESSED" if codec == "none" else codec.upper()
    assert file.row_group(0).column(0).compression == expected
    found = pd.read_parquet(tmp_path / "b.parquet")
    assert found.pop("cluster").tolist() == list(range(50))
    pd.testing.assert_frame_equal(found, pd.read_parquet(tmp_path / "a.parquet"))


def test_columns_that_spark_knows_do_not_hide_the_new_one(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    spark = b"org.apache.spark.sql.parquet.row.metadata"
    known = pa.table({"indices": [[1]], "values": [[1.0]]})
    pq.write_table(
        known.replace_schema_metadata({spark: b"{}", b"k": b"v"}), tmp_path / "a.parquet"
    )
    join_labels(tmp_path / "a.parquet", [0], tmp_path / "b.parquet")
    assert pq.read_schema(tmp_path / "b.parquet").metadata == {b"k": b"v"}


def test_single_entries_become_a_table_of_rows(tmp_path):
    pytest.importorskip("pyarrow")
    write_table(tmp_path / "a.parquet", {"row": [0, 0, 1], "col": [0, 1, 1], "value": [1.0, 2, 3]})
    with pytest.raises(ValueError, match=r"b\.parquet.*ends in \.csv"):
        join_labels(tmp_path / "a.parquet", [1, 0], tmp_path / "b.parquet")
    join_labels(tmp_path / "a.parquet", [1, 0], tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == "row,cluster\n0,1\n1,0\n"


def cells(path, obs="cell", n_rows=60):
    """A file of AnnData with the index of its observations, in a column of another name."""
    h5py = pytest.importorskip("h5py")
    write_h5ad(path, small_matrix())
    with h5py.File(path, "r+") as file:
        group = file.create_group("obs")
        group.attrs["_index"] = obs
        group.attrs["column-order"] = np.array(["n"], dtype=object)
        group.attrs["encoding-type"], group.attrs["encoding-version"] = "dataframe", "0.2.0"
        group[obs] = [f"c{i}".encode() for i in range(n_rows)]
        group["n"] = np.arange(n_rows)
    return path


def test_h5ad_gets_categories_in_obs(tmp_path):
    h5py = pytest.importorskip("h5py")
    path, out = cells(tmp_path / "a.h5ad"), tmp_path / "b.h5ad"
    before = path.read_bytes()
    labels, distances = np.arange(60) % 12, np.arange(60) / 3
    join_labels(path, labels, out, distances=distances)
    assert path.read_bytes() == before
    with h5py.File(out) as file:
        obs = file["obs"]
        assert list(obs.attrs["column-order"]) == ["n", "cluster", "cluster_distance"]
        assert dict(obs["cluster"].attrs) == {
            "encoding-type": "categorical",
            "encoding-version": "0.2.0",
            "ordered": False,
        }
        categories = obs["cluster/categories"].asstr()[:]
        assert categories.tolist() == [str(cluster) for cluster in range(12)]
        assert obs["cluster/codes"].dtype == np.int8
        assert categories[obs["cluster/codes"][:]].astype(int).tolist() == labels.tolist()
        assert obs["cluster_distance"][:].tolist() == distances.tolist()
    assert (read(out).matrix != read(path).matrix).nnz == 0


def test_h5ad_is_read_by_anndata(tmp_path):
    anndata = pytest.importorskip("anndata")
    join_labels(cells(tmp_path / "a.h5ad"), np.arange(60) % 3, tmp_path / "b.h5ad")
    obs = anndata.read_h5ad(tmp_path / "b.h5ad").obs
    assert obs["cluster"].cat.categories.tolist() == ["0", "1", "2"]
    assert obs["cluster"].astype(int).tolist() == (np.arange(60) % 3).tolist()
    assert obs.index[5] == "c5"


def test_h5ad_without_obs_is_refused(tmp_path):
    pytest.importorskip("h5py")
    write_h5ad(tmp_path / "a.h5ad", small_matrix())
    with pytest.raises(ValueError, match="there is no obs"):
        Join(tmp_path / "a.h5ad", tmp_path / "b.h5ad")


WRONG_NUMBERS = {
    "a.csv": lambda path: path.write_text("text\na\nb\nc\n"),
    "a.jsonl": lambda path: path.write_text('{"text": "a"}\n"b"\n"c"\n'),
    "a.txt": lambda path: path.write_text("a\nb\nc\n"),
    "a.parquet": lambda path: write_table(
        path, {"indices": [[0], [1], [2]], "values": [[1.0], [1.0], [1.0]]}
    ),
    "a.h5ad": lambda path: cells(path, n_rows=3),
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
@pytest.mark.parametrize(("n_labels", "message"), [(2, "more rows"), (4, "fewer rows")])
def test_other_number_of_labels_leaves_no_file(tmp_path, name, n_labels, message):
    WRONG_NUMBERS[name](tmp_path / name)
    out = tmp_path / f"out{'.csv' if name == 'a.txt' else (tmp_path / name).suffix}"
    with pytest.raises(ValueError, match=message):
        join_labels(tmp_path / name, np.zeros(n_labels, int), out)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "content", "out", "message"),
    [
        (
            "a.csv",
            "text\nx\n",
            "b.parquet",
            r"ends in \.csv, or in this and \.gz",
        ),
        ("a.csv", "text\nx\n", "b.tsv", r"ends in \.csv"),
        ("a.csv", "text\nx\n", "b", r"ends in \.csv"),
        ("a.csv", "text\nx\n", "b.csv.zst", r"ends in \.csv"),
        ("a.jsonl", '"x"\n', "b.csv", r"ends in \.jsonl"),
        ("a.txt", "x\n", "b.txt", r"ends in \.csv"),
        ("a.csv", "text,cluster\nx,1\n", "b.csv", "'cluster' already.*join_column"),
        ("a.csv", "text,cluster_distance\nx,1\n", "b.csv", "'cluster_distance' already"),
        ("a.jsonl", '"x"\n{"text": "a", "cluster": 1}\n', "b.jsonl", "'cluster' already"),
        ("a.csv", "text\nx\n", "a.csv", "written over"),
        ("a.csv", "text\nx\n", "link.csv", "written over"),
    ],
)
def test_wrong_output_is_refused_at_once(tmp_path, name, content, out, message):
    (tmp_path / name).write_text(content)
    (tmp_path / "link.csv").symlink_to(tmp_path / name)
    with pytest.raises(ValueError, match=message):
        Join(tmp_path / name, tmp_path / out)
    assert (tmp_path / name).read_text() == content


def test_column_can_have_another_name(tmp_path):
    content = b"text,cluster\nx,1\n"
    found = joined(tmp_path, "a.csv", content, "b.csv", [5], distances=[0.5], join_column="new, 2")
    assert found == b'text,cluster,"new, 2","new, 2_distance"\nx,1,5,0.5\n'


def test_late_field_of_the_same_name_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('"x"\n' * 2000 + '{"text": "a", "cluster": 1}\n')
    with pytest.raises(ValueError, match=r"'cluster' already.*join_column"):
        join_labels(path, np.zeros(2001, int), tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()


@pytest.mark.parametrize(
    "wrong",
    [{"labels": [0.5]}, {"labels": [2**40]}, {"labels": [0], "distances": [1.0, 2.0]}],
)
def test_results_are_checked(tmp_path, wrong):
    (tmp_path / "a.csv").write_text("text\nx\n")
    labels = wrong.pop("labels")
    with pytest.raises(ValueError, match=r"(labels|distances) must"):
        join_labels(tmp_path / "a.csv", labels, tmp_path / "b.csv", **wrong)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_label_distances_are_those_of_transform(metric):
    dense = sp.random_array((80, 30), density=0.2, rng=2).toarray()
    dense[3] = 0
    X = sp.csr_array(dense)
    km = KMeans(5, metric=metric, zero_rows="first", random_state=0).fit(X)
    expected = km.transform(X)
    labels = np.arange(80) % 5
    for assigned in (km.labels_, labels):
        np.testing.assert_allclose(
            km.label_distances(X, assigned),
            expected[np.arange(80), assigned],
            rtol=1e-12,
            atol=1e-12,
        )
    for wrong in ([0], np.full(80, 5), np.full(80, -1)):
        with pytest.raises(ValueError, match="from 0 to 4"):
            km.label_distances(X, wrong)


@settings(max_examples=200, derandomize=True)
@given(st.text(alphabet='ab,"\n\r ', max_size=40), st.booleans())
def test_any_table_that_is_read_is_joined(body, header_alone):
    """Whatever stands in a table, the joined one has the same cells in the same order."""
    content = ("text\n" if header_alone else "text,n\n") + body
    with TemporaryDirectory() as folder:
        path, out = Path(folder, "a.csv"), Path(folder, "b.csv")
        path.write_bytes(content.encode())
        try:
            documents = list(CsvSource(path).documents())
        except ReadError:
            return
        join_labels(path, np.arange(len(documents)), out)
        before, after = table(path.read_bytes()), table(out.read_bytes())
    assert [row[:-1] for row in after] == before
    assert [row[-1] for row in after] == ["cluster", *map(str, range(len(documents)))]


def test_a_column_without_a_name_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("text\nx\n")
    with pytest.raises(ValueError, match="join_column must be a name"):
        join_labels(tmp_path / "a.csv", [0], tmp_path / "b.csv", join_column="")
