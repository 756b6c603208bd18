"""Readers of AnnData, Parquet and Arrow files, and all readers on broken files."""

import gzip
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matrix_files import (
    FILES,
    SIZES,
    assert_same,
    lists_of,
    read,
    small_matrix,
    write_cells,
    write_h5ad,
    write_table,
    write_zarr_cells,
)

from sparsecluster.formats.docword import DocwordSource
from sparsecluster.formats.h5ad import H5adSource, ZarrSource
from sparsecluster.formats.inputs import inputs_of
from sparsecluster.formats.mtx import MtxSource
from sparsecluster.formats.npz import NpySource, NpzSource
from sparsecluster.formats.parquet import ParquetSource
from sparsecluster.formats.registry import format_of
from sparsecluster.formats.source import ReadError


@pytest.fixture(scope="module")
def matrix():
    return small_matrix()


# --- AnnData --------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("kind", ["csr", "csc", "dense"])
def test_h5ad_gives_x_layers_and_raw(matrix, tmp_path, kind, old):
    stored = matrix.toarray() if kind == "dense" else matrix.asformat(kind)
    write_h5ad(tmp_path / "x.h5ad", stored, old=old)
    for options, factor in (({}, 1), ({"layer": "double"}, 2), ({"layer": "raw/X"}, 3)):
        for size in SIZES:
            source = H5adSource(tmp_path / "x.h5ad", block_entries=size, **options)
            assert_same(read(source), matrix * factor)


@pytest.mark.parametrize("names", ["strings", "categories", "table"])
def test_h5ad_gives_the_names_of_its_variables(matrix, tmp_path, names):
    write_h5ad(tmp_path / "x.h5ad", matrix, names=names)
    for raw in (False, True):
        source = H5adSource(tmp_path / "x.h5ad", layer="raw/X" if raw else None)
        read(source)
        assert source.feature_names.tolist() == [f"gene{i}" for i in range(matrix.shape[1])]


def test_an_unknown_layer_is_refused_with_those_that_are_there(matrix, tmp_path):
    write_h5ad(tmp_path / "x.h5ad", matrix)
    with pytest.raises(ReadError, match=r"no layers/counts.*X, raw/X, layer 'double'"):
        read(H5adSource(tmp_path / "x.h5ad", layer="counts"))


def test_h5ad_calls_a_data_frame_in_obsm_one(matrix, tmp_path):
    write_h5ad(tmp_path / "x.h5ad", matrix)
    with pytest.importorskip("h5py").File(tmp_path / "x.h5ad", "r+") as file:
        file.create_group("obsm/scores").attrs["_index"] = "_index"
    with pytest.raises(ReadError, match="obsm/scores is a data frame; a matrix is needed"):
        read(H5adSource(tmp_path / "x.h5ad", obsm="scores"))


@pytest.mark.parametrize("size", SIZES)
def test_h5ad_gives_the_names_of_its_observations(matrix, tmp_path, size):
    cells = [f"cell{i}" for i in range(matrix.shape[0])]
    genes = [f"gene{i}" for i in range(matrix.shape[1])]
    write_cells(tmp_path / "x.h5ad", matrix, genes, cells=cells)
    blocks = list(H5adSource(tmp_path / "x.h5ad", block_entries=size).blocks())
    assert [name for block in blocks for name in block.ids] == cells
    assert all(len(block.ids) == block.n_rows for block in blocks)
    write_cells(tmp_path / "few.h5ad", matrix, genes, cells=cells[:-1])
    with pytest.raises(ReadError, match="names of the observations"):
        list(H5adSource(tmp_path / "few.h5ad", block_entries=size).blocks())
    write_cells(tmp_path / "none.h5ad", matrix, genes)
    assert all(block.ids is None for block in H5adSource(tmp_path / "none.h5ad").blocks())


def test_an_embedding_of_h5ad_is_read_by_its_name(matrix, tmp_path):
    genes = [f"gene{i}" for i in range(matrix.shape[1])]
    embedding = np.random.RandomState(0).rand(matrix.shape[0], 3)
    write_cells(tmp_path / "x.h5ad", matrix, genes, obsm={"X_pca": embedding})
    source = H5adSource(tmp_path / "x.h5ad", obsm="X_pca")
    assert_same(read(source), sp.csr_array(embedding))
    assert source.feature_names is None
    with pytest.raises(ReadError, match=r"no obsm/X_umap.*X, obsm 'X_pca'"):
        read(H5adSource(tmp_path / "x.h5ad", obsm="X_umap"))
    with pytest.raises(ValueError, match="layer='counts' and obsm='X_pca' exclude each other"):
        H5adSource(tmp_path / "x.h5ad", obsm="X_pca", layer="counts")


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_folder_is_read_like_h5ad(matrix, tmp_path, version):
    cells = [f"cell{i}" for i in range(matrix.shape[0])]
    genes = [f"gene{i}" for i in range(matrix.shape[1])]
    embedding = np.random.RandomState(0).rand(matrix.shape[0], 3)
    write_zarr_cells(tmp_path / "x.zarr", matrix, genes, cells, embedding, version)
    assert format_of(inputs_of(tmp_path / "x.zarr"), None, {}) == "zarr"
    for size in SIZES:
        source = ZarrSource(tmp_path / "x.zarr", block_entries=size)
        ids = [name for block in source.blocks() for name in block.ids]
        assert (ids, source.feature_names.tolist()) == (cells, genes)
        assert_same(read(ZarrSource(tmp_path / "x.zarr", block_entries=size)), matrix)
        found = read(ZarrSource(tmp_path / "x.zarr", obsm="X_pca", block_entries=size))
        assert_same(found, sp.csr_array(embedding))


@pytest.mark.parametrize(
    ("source", "library"), [(H5adSource, "h5py"), (ZarrSource, "zarr")], ids=["h5ad", "zarr"]
)
def test_a_library_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch, source, library):
    path = tmp_path / "x"
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}: pip install 'sparsecluster\["):
        list(source(path).blocks())


def test_a_zarr_folder_that_claims_more_than_it_holds_is_refused(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "x.zarr", mode="w", zarr_format=2)
    group.create_array("X", shape=(1 << 20, 1 << 10), chunks=(1 << 10, 1 << 10), dtype="f4")
    with pytest.raises(ReadError, match="times as much"):
        list(ZarrSource(tmp_path / "x.zarr").blocks())


def test_a_lying_shape_in_h5ad_is_refused(matrix, tmp_path):
    h5py = pytest.importorskip("h5py")
    write_h5ad(tmp_path / "x.h5ad", matrix)
    with h5py.File(tmp_path / "x.h5ad", "r+") as file:
        file["X"].attrs["shape"] = (2**30, matrix.shape[1])
    with pytest.raises(ReadError, match="61 elements where 1073741825 are needed"):
        read(H5adSource(tmp_path / "x.h5ad"))


# --- Parquet, Arrow -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_lists_of_indices_and_values_are_rows(matrix, tmp_path, name):
    indices, values = lists_of(matrix)
    write_table(tmp_path / name, {"id": ["a"] * 60, "terms": indices, "tfidf": values})
    for size in SIZES:
        assert_same(read(ParquetSource(tmp_path / name, block_entries=size)), matrix)


@pytest.mark.parametrize("name", FILES)
def test_lines_of_row_column_and_value_are_entries(matrix, tmp_path, name):
    entries = matrix.tocoo()
    order = np.random.default_rng(0).permutation(entries.nnz)
    columns = {"v": entries.data[order], "col": entries.col[order], "row": entries.row[order]}
    write_table(tmp_path / name, columns)
    for size in SIZES:
        source = ParquetSource(tmp_path / name, columns=("row", "col", "v"), block_entries=size)
        # The last row is empty, which a table of entries cannot tell.
        assert_same(read(source), matrix[:59])


def test_lists_can_be_named_where_there_are_several(matrix, tmp_path):
    indices, values = lists_of(matrix)
    counts = [[1] * len(row) for row in indices]
    write_table(tmp_path / "x.parquet", {"a": indices, "b": counts, "c": values})
    with pytest.raises(ReadError, match=r"columns a \(list.*are not those of a sparse matrix"):
        read(ParquetSource(tmp_path / "x.parquet"))
    source = ParquetSource(tmp_path / "x.parquet", columns=("a", "b"))
    assert_same(read(source), (matrix != 0).astype(float))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"indices": [[0], [1, 2]], "values": [[1.0], [1.0]]}, "row 1 has 2 indices, but 1 values"),
        ({"indices": [[0], None], "values": [[1.0], []]}, "row 1 is null"),
        ({"indices": [[0], [1]], "values": [[1.0], [None]]}, "holds null"),
        ({"indices": [[0], [-1]], "values": [[1.0], [1.0]]}, "row 1, column -1"),
        ({"indices": [[0], [2**40]], "values": [[1.0], [1.0]]}, "row 1, column 1099511627776"),
        ({"indices": [[0], [1]], "values": [[1.0], [float("inf")]]}, "row 1, column 1.*infinity"),
        ({"row": [0, -1], "column": [0, 0], "value": [1.0, 1.0]}, "entry 1: row -1 lies outside"),
        ({"row": [0, 2**31], "column": [0, 0], "value": [1.0, 1.0]}, "entry 1: row 2147483648"),
        ({"row": [0, None], "column": [0, 0], "value": [1.0, 1.0]}, "'row' holds null"),
        ({"row": [0, 1], "column": [0, 0], "value": ["a", "b"]}, "not those of a sparse matrix"),
    ],
)
def test_a_table_that_is_no_matrix_is_refused(tmp_path, columns, message):
    write_table(tmp_path / "x.parquet", columns)
    with pytest.raises(ReadError, match=message):
        read(ParquetSource(tmp_path / "x.parquet"))


# --- broken files of every format -----------------------------------------------------------------


def write_all(folder, matrix):
    """Small valid files of all formats that can be written here, and their readers."""
    sources = []
    for kind in ("csr", "coo", "csc", "bsr", "dia"):
        for compressed in (False, True):
            path = folder / f"{kind}{compressed}.npz"
            sp.save_npz(path, matrix.asformat(kind), compressed=compressed)
            sources.append(NpzSource(path, block_entries=20))
    np.save(folder / "x.npy", matrix.toarray())
    sources.append(NpySource(folder / "x.npy", block_entries=20))
    scipy.io.mmwrite(folder / "x.mtx", matrix)
    text = (folder / "x.mtx").read_bytes()
    (folder / "x.mtx.gz").write_bytes(gzip.compress(text))
    scipy.io.mmwrite(folder / "dense.mtx", matrix.toarray())
    for name in ("x.mtx", "x.mtx.gz", "dense.mtx"):
        sources.append(MtxSource(folder / name, block_entries=20))
    (folder / "docword.x.txt").write_text("3\n4\n4\n1 4 2\n3 1 1\n3 2 7\n1 1 5\n")
    (folder / "vocab.x.txt").write_text("a\nb\nc\nd\n")
    sources.append(DocwordSource(folder / "docword.x.txt", block_entries=20))
    return sources


def write_extras(folder, matrix):
    """Small valid files of the formats that need further packages, and their readers."""
    sources = []
    for kind in ("csr", "csc"):
        write_h5ad(folder / f"{kind}.h5ad", matrix.asformat(kind))
        sources.append(H5adSource(folder / f"{kind}.h5ad", block_entries=20))
    indices, values = lists_of(matrix)
    for name in FILES:
        write_table(folder / name, {"indices": indices, "values": values})
        sources.append(ParquetSource(folder / name, block_entries=20))
    entries = matrix.tocoo()
    columns = {"row": entries.row, "column": entries.col, "value": entries.data}
    write_table(folder / "entries.parquet", columns)
    return [*sources, ParquetSource(folder / "entries.parquet", block_entries=20)]


def break_and_read(source, changes, length):
    """What the reader says of a file with some bytes changed and its end cut off; its path where it
    reads it. The file is mended again."""
    whole = source.path.read_bytes()
    broken = bytearray(whole)
    for share, value in changes:
        broken[int(share * (len(whole) - 1))] = value
    source.path.write_bytes(broken[: round(length * len(whole))])
    try:
        # A number that is changed may claim very many empty rows.
        read(source, most_blocks=1000)
    except ReadError as error:
        return str(error)
    finally:
        source.path.write_bytes(whole)
    return str(source.path)


CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3)
LENGTHS = st.one_of(st.just(1.0), st.floats(0, 1))


@pytest.fixture(scope="module")
def files(matrix, tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("files"), matrix)


@pytest.fixture(scope="module")
def extra_files(matrix, tmp_path_factory):
    return write_extras(tmp_path_factory.mktemp("extra_files"), matrix)


@settings(max_examples=300, deadline=None)
@given(which=st.integers(0, 14), changes=CHANGES, length=LENGTHS)
def test_a_broken_file_is_read_or_refused(files, which, changes, length):
    source = files[which]
    assert str(source.path.parent) in break_and_read(source, changes, length)


@settings(max_examples=200, deadline=None)
@given(which=st.integers(2, 5), changes=CHANGES, length=LENGTHS)
def test_a_broken_table_is_read_or_refused(extra_files, which, changes, length):
    source = extra_files[which]
    assert str(source.path.parent) in break_and_read(source, changes, length)


# No bytes are changed, because there are files on which the HDF5 library itself does not end.
@settings(max_examples=50, deadline=None)
@given(which=st.integers(0, 1), length=st.floats(0, 0.99))
def test_a_cut_off_h5ad_is_refused(extra_files, which, length):
    source = extra_files[which]
    message = break_and_read(source, [], length)
    assert "is not an .h5ad file" in message or "broken or cut short" in message


def test_a_missing_file_is_refused_by_every_reader(tmp_path):
    for kind in (NpzSource, NpySource, MtxSource, DocwordSource, H5adSource, ParquetSource):
        if kind is H5adSource:
            pytest.importorskip("h5py")
        if kind is ParquetSource:
            pytest.importorskip("pyarrow")
        with pytest.raises(ReadError, match="cannot be opened"):
            read(kind(tmp_path / "none"))
