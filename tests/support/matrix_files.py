"""Small matrix files of the formats that need further packages, and how sources are compared."""

from itertools import islice

import numpy as np
import pytest
import scipy.sparse as sp

SIZES = (1, 7, 100, 10**6)


def read(source, most_blocks=None):
    """The rows of a source as a CSR array, after a check of the contract of its blocks."""
    blocks = list(islice(source.blocks(), most_blocks))
    for block in blocks:
        assert block.indptr.dtype == np.int64
        assert block.indptr[0] == 0
        assert block.indptr[-1] == len(block.indices) == len(block.data)
        assert block.indices.dtype == np.int32
        assert block.data.dtype == blocks[0].data.dtype
        assert block.data.dtype in (np.float32, np.float64)
        assert np.isfinite(block.data).all()
        row = np.repeat(np.arange(block.n_rows), np.diff(block.indptr))
        ascending = (np.diff(block.indices) > 0) | (np.diff(row) > 0)
        assert ascending.all()
    done = [block.done for block in blocks]
    assert done == sorted(done)
    assert all(0 <= share <= 1 for share in done)
    lengths = [np.diff(block.indptr) for block in blocks]
    indptr = np.concatenate([[0], *lengths]).cumsum().astype(np.int64)
    indices = np.concatenate([np.zeros(0, np.int32), *(block.indices for block in blocks)])
    data = np.concatenate([block.data for block in blocks]) if blocks else np.zeros(0)
    n_features = source.n_features
    if n_features is None:
        n_features = int(indices.max(initial=-1)) + 1
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))


def assert_same(matrix, expected):
    """The same shape, and the same entries, explicit zeros included."""
    expected = sp.csr_array(expected).copy()
    expected.sum_duplicates()
    assert matrix.shape == expected.shape
    np.testing.assert_array_equal(matrix.indptr, expected.indptr)
    np.testing.assert_array_equal(matrix.indices, expected.indices)
    np.testing.assert_array_equal(matrix.data, expected.data)


def small_matrix():
    """CSR with empty rows at the start, in the middle and at the end, and an empty column."""
    rng = np.random.default_rng(0)
    dense = rng.integers(1, 100, (60, 23)) / 8 * (rng.random((60, 23)) < 0.15)
    dense[[0, 1, 20, 59]] = 0
    dense[:, 4] = 0
    return sp.csr_array(dense)


def write_h5ad(path, matrix, *, old=False, names="strings"):
    """A file as anndata writes it, with a matrix in X, twice it in a layer and thrice it in raw."""
    h5py = pytest.importorskip("h5py")

    def write(group, name, value):
        if not sp.issparse(value):
            group.create_dataset(name, data=value)
            return
        node = group.create_group(name)
        for array in ("data", "indices", "indptr"):
            numbers = getattr(value, array)
            chunks = (min(5, len(numbers)),)
            node.create_dataset(array, data=numbers, chunks=chunks, compression="gzip")
        node.attrs["h5sparse_format" if old else "encoding-type"] = (
            value.format if old else f"{value.format}_matrix"
        )
        node.attrs["h5sparse_shape" if old else "shape"] = value.shape

    labels = [f"gene{i}".encode() for i in range(matrix.shape[1])]
    with h5py.File(path, "w") as file:
        write(file, "X", matrix)
        write(file.create_group("layers"), "double", matrix * 2)
        raw = file.create_group("raw")
        write(raw, "X", matrix * 3)
        for parent in (file, raw):
            if names == "table":
                table = np.array([(label, 1.0) for label in labels], [("index", "S9"), ("n", "f8")])
                parent.create_dataset("var", data=table)
                continue
            var = parent.create_group("var")
            var.attrs["_index"] = "symbols"
            if names == "strings":
                var.create_dataset("symbols", data=labels, dtype=h5py.string_dtype())
            else:
                column = var.create_group("symbols")
                column.create_dataset("categories", data=labels[::-1], dtype=h5py.string_dtype())
                column.create_dataset("codes", data=np.arange(len(labels))[::-1])


def write_cells(path, matrix, genes, *, cells=None, obsm=None):
    """An AnnData file with a sparse X of named columns and, where given, names of its rows."""
    h5py = pytest.importorskip("h5py")
    matrix = sp.csr_array(matrix)
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(matrix, part)
        file["var/_index"] = np.array(genes, dtype="S")
        if cells is not None:
            file["obs/_index"] = np.array(cells, dtype="S")
        for name, value in (obsm or {}).items():
            file[f"obsm/{name}"] = value


def write_zarr_cells(path, matrix, genes, cells, embedding, version):
    """The same for zarr, in small chunks."""
    zarr = pytest.importorskip("zarr")
    root = zarr.open_group(path, mode="w", zarr_format=version)
    matrix = sp.csr_array(matrix)
    arrays = {f"X/{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
    strings = np.dtypes.StringDType()
    arrays |= {
        "var/_index": np.array(genes, dtype=strings),
        "obs/_index": np.array(cells, dtype=strings),
        "obsm/X_pca": embedding,
    }
    for name, array in arrays.items():
        chunks = tuple(min(7, length) for length in array.shape)
        root.create_array(name, data=array, chunks=chunks)
    root["X"].attrs.update({"encoding-type": "csr_matrix", "shape": list(matrix.shape)})


def write_table(path, columns):
    """A table in the format that the name ends in, in pieces of a few lines."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table(columns)
    if path.suffix == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(table, path, row_group_size=17)
    elif path.suffix == ".feather":
        import pyarrow.feather

        pyarrow.feather.write_feather(table, path, chunksize=17)
    else:
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=17)


def lists_of(matrix):
    cuts = matrix.indptr[1:-1]
    return [part.tolist() for part in np.split(matrix.indices, cuts)], [
        part.tolist() for part in np.split(matrix.data, cuts)
    ]


FILES = ["x.parquet", "x.feather", "x.arrow"]
