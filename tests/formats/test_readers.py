"""Readers of matrix files: equal to the libraries that wrote the files, whatever the size of the
blocks."""

import bz2
import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support.matrix_files import SIZES, assert_same, read, small_matrix

from sparsecluster.formats import triples
from sparsecluster.formats.docword import DocwordSource
from sparsecluster.formats.mtx import MtxSource
from sparsecluster.formats.npz import NpySource, NpzSource
from sparsecluster.formats.source import ReadError

BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture(scope="module")
def matrix():
    return small_matrix()


# --- npz, npy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_npz_of_every_format_gives_the_rows_that_scipy_loads(matrix, tmp_path, kind, compressed):
    path = tmp_path / "x.npz"
    sp.save_npz(path, matrix.asformat(kind), compressed=compressed)
    expected = sp.load_npz(path).tocsr()
    for size in SIZES:
        assert_same(read(NpzSource(path, block_entries=size)), expected)


def test_npz_sorts_rows_and_sums_duplicates_as_scipy_does(tmp_path):
    unsorted = sp.csr_array(
        (np.array([1.0, 2, 4, 8, 16]), np.array([3, 0, 3, 1, 0]), np.array([0, 3, 3, 5])),
        shape=(3, 4),
    )
    sp.save_npz(tmp_path / "x.npz", unsorted)
    np.testing.assert_array_equal(
        read(NpzSource(tmp_path / "x.npz")).toarray(), [[2, 0, 0, 5], [0, 0, 0, 0], [16, 8, 0, 0]]
    )


@pytest.mark.parametrize(
    ("stored", "read_as"),
    [
        ("f4", "f4"),
        ("f8", "f8"),
        (">f8", "f8"),
        ("i1", "f4"),
        ("u2", "f4"),
        ("?", "f4"),
        ("i4", "f8"),
    ],
)
def test_values_become_the_float_that_holds_them(matrix, tmp_path, stored, read_as):
    numbers = matrix.copy()
    numbers.data = numbers.data.astype(stored)
    sp.save_npz(tmp_path / "x.npz", numbers)
    np.save(tmp_path / "x.npy", numbers.toarray())
    for source in (NpzSource(tmp_path / "x.npz"), NpySource(tmp_path / "x.npy")):
        assert read(source).dtype == read_as


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_gives_its_cells_without_zeros(matrix, tmp_path, order):
    np.save(tmp_path / "x.npy", np.asarray(matrix.toarray(), order=order))
    for size in SIZES:
        assert_same(read(NpySource(tmp_path / "x.npy", block_entries=size)), matrix)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (3, 4)])
def test_matrices_without_entries_keep_their_shape(tmp_path, shape):
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(shape))
    np.save(tmp_path / "x.npy", np.zeros(shape))
    scipy.io.mmwrite(tmp_path / "x.mtx", sp.coo_array(shape))
    for source in (
        NpzSource(tmp_path / "x.npz"),
        NpySource(tmp_path / "x.npy"),
        MtxSource(tmp_path / "x.mtx"),
    ):
        assert read(source).shape == shape


def test_an_npz_that_needs_more_memory_than_is_free_is_refused(matrix, tmp_path, monkeypatch):
    sp.save_npz(tmp_path / "x.npz", matrix.tobsr())
    monkeypatch.setattr("sparsecluster.formats.npz.available_memory", lambda: 1000)
    with pytest.raises(ReadError, match=r"takes up to .* GB"):
        read(NpzSource(tmp_path / "x.npz"))


def save_csr(path, **changes):
    """An .npz file of a 2 x 3 matrix with some of its arrays replaced."""
    arrays = {
        "indices": np.array([0, 2, 1]),
        "indptr": np.array([0, 2, 3]),
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "data": np.array([1.0, 2.0, 3.0]),
    }
    np.savez(path, **{**arrays, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.array([0, 3, 1])}, "row 0, column 3: columns go from 0 to 2"),
        ({"indices": np.array([0, 2, -1])}, "row 1, column -1"),
        ({"indptr": np.array([0, 3, 2])}, "goes from 3 to 2 at position 2"),
        ({"indptr": np.array([0, 2, 9])}, "up to 3 at most"),
        ({"indptr": np.array([1, 2, 3])}, "starts with 1"),
        ({"indptr": np.array([0, 2])}, "2 elements where 3 are needed"),
        ({"indptr": np.array([0.0, 2, 3])}, "integers are needed"),
        ({"data": np.array([1.0, np.nan, 3])}, "row 0, column 2: the value is NaN"),
        ({"data": np.array([1.0, 2, -np.inf])}, "row 1, column 1: the value is infinity"),
        ({"data": np.array([1j, 2, 3])}, "real numbers are needed"),
        ({"data": np.array([1.0, 2])}, "indices has 3 elements, but data 2"),
        ({"shape": np.array([2, 2**31])}, "hash the features"),
        ({"shape": np.array([2**40, 3])}, "Split the file by rows"),
        ({"shape": np.array([2, -3])}, "claims the shape"),
        ({"shape": np.array([2, 3, 4])}, "two axes"),
        ({"format": np.array(b"lil")}, "unknown sparse format 'lil'"),
        (
            {"data": np.array([1e308, 1e308, 3]), "indices": np.array([1, 1, 1])},
            "duplicate entries add up to infinity",
        ),
    ],
)
def test_an_npz_that_contradicts_itself_is_refused(tmp_path, change, message):
    save_csr(tmp_path / "x.npz", **change)
    with pytest.raises(ReadError, match=message):
        read(NpzSource(tmp_path / "x.npz"))


def test_an_npz_of_plain_arrays_is_refused_with_their_names(tmp_path):
    np.savez(tmp_path / "x.npz", weights=np.ones(3))
    with pytest.raises(ReadError, match=r"weights.*save_npz"):
        read(NpzSource(tmp_path / "x.npz"))


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ReadError, match="numbers are needed"):
        read(NpySource(tmp_path / "x.npy"))


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }\n"
    for shape, name in (("1000000000,", "npz"), ("1000000, 1000000", "npy")):
        text = (header % shape).encode()
        content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(16)
        path = tmp_path / f"x.{name}"
        path.write_bytes(content)
        if name == "npz":
            save_csr(path)
            with zipfile.ZipFile(path) as archive:
                members = {item: archive.read(item) for item in archive.namelist()}
            with zipfile.ZipFile(path, "w") as archive:
                for item, old in members.items():
                    archive.writestr(item, content if item == "data.npy" else old)
        source = NpzSource(path) if name == "npz" else NpySource(path)
        with pytest.raises(ReadError):
            read(source)


# --- triples --------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_triples_in_any_order_give_the_matrix_that_scipy_sums(data):
    n_rows = data.draw(st.sampled_from([1, 3, 300]))
    n_entries = data.draw(st.integers(0, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = rng.integers(0, n_rows, n_entries)
    if data.draw(st.booleans()):
        rows = np.sort(rows)
    if data.draw(st.booleans()):
        rows[n_entries // 4 :] = n_rows // 2  # a row that is longer than a block
    columns = rng.integers(0, 9, n_entries)
    values = rng.integers(-5, 5, n_entries).astype(np.float64)
    piece = data.draw(st.integers(1, 70))

    def chunks():
        for begin in range(0, n_entries, piece):
            part = slice(begin, begin + piece)
            done = min(1.0, (begin + piece) / n_entries)
            yield triples.Triples(rows[part], columns[part], values[part], done)

    class Entries:
        n_features = 9

        def blocks(self):
            return triples.blocks_of_triples(
                Path("x"),
                chunks,
                n_rows=n_rows,
                n_columns=9,
                dtype=np.float64,
                block_entries=data.draw(st.sampled_from([1, 2, 5, 17, 300, 10**6])),
            )

    expected = sp.coo_array((values, (rows, columns)), shape=(n_rows, 9)).tocsr()
    assert_same(read(Entries()), expected)


def test_blocks_of_unsorted_triples_hold_no_more_than_was_asked_for():
    rng = np.random.default_rng(0)
    entries = triples.Triples(
        rng.integers(0, 1000, 5000), rng.integers(0, 50, 5000), np.ones(5000), 1.0
    )
    blocks = triples.blocks_of_triples(
        Path("x"),
        lambda: iter([entries]),
        n_rows=1000,
        n_columns=50,
        dtype=np.float64,
        block_entries=60,
    )
    assert max(len(block.data) for block in blocks) <= 60


def test_a_full_disk_says_where_to_find_room():
    entries = triples.Triples(np.array([1, 0]), np.array([0, 0]), np.ones(2), 1.0)

    def full(*_):
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triples._Buckets, "add", full)
        with pytest.raises(ReadError, match=r"No space left.*TMPDIR"):
            list(
                triples.blocks_of_triples(
                    Path("x"),
                    lambda: iter([entries]),
                    n_rows=2,
                    n_columns=1,
                    dtype=np.float64,
                    block_entries=9,
                )
            )


# --- Matrix Market --------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["rows", "columns", "random"])
def test_mtx_gives_the_rows_that_scipy_reads(matrix, tmp_path, order):
    entries = matrix.tocoo()
    keys = {
        "rows": np.lexsort([entries.col, entries.row]),
        "columns": np.lexsort([entries.row, entries.col]),
        "random": np.random.default_rng(1).permutation(entries.nnz),
    }[order]
    shuffled = (entries.data[keys], (entries.row[keys], entries.col[keys]))
    path = tmp_path / "x.mtx"
    scipy.io.mmwrite(path, sp.coo_array(shuffled, shape=matrix.shape))
    expected = scipy.io.mmread(path).tocsr()
    for size in SIZES:
        assert_same(read(MtxSource(path, dtype="float64", block_entries=size)), expected)
    assert_same(read(MtxSource(path, transpose=True)), expected.T.astype(np.float32))


@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_mtx_of_every_field_and_symmetry_is_as_scipy_reads_it(tmp_path, field, symmetry):
    if (field, symmetry) == ("pattern", "skew-symmetric"):
        pytest.skip("the format has no such matrices")
    half = sp.random_array((12, 12), density=0.3, rng=np.random.default_rng(0)).tocsr()
    half.data = np.arange(1, half.nnz + 1)
    full = {"general": half, "symmetric": half + half.T, "skew-symmetric": half - half.T}[symmetry]
    scipy.io.mmwrite(tmp_path / "x.mtx", full, field=field, symmetry=symmetry)
    expected = scipy.io.mmread(tmp_path / "x.mtx").tocsr()
    for size in SIZES:
        assert_same(read(MtxSource(tmp_path / "x.mtx", block_entries=size)), expected)


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_mtx_arrays_are_read_without_zeros(matrix, tmp_path, symmetry, transpose):
    square = matrix[:23]
    full = {"general": matrix, "symmetric": square + square.T, "skew-symmetric": square - square.T}
    scipy.io.mmwrite(tmp_path / "x.mtx", full[symmetry].toarray(), symmetry=symmetry)
    expected = sp.csr_array(scipy.io.mmread(tmp_path / "x.mtx"))
    if transpose:
        expected = sp.csr_array(expected.T)
    for size in SIZES:
        source = MtxSource(tmp_path / "x.mtx", transpose=transpose, block_entries=size)
        assert_same(read(source), expected)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_compressed_mtx_is_recognised(matrix, tmp_path, pack):
    scipy.io.mmwrite(tmp_path / "x.mtx", matrix)
    (tmp_path / "y.mtx").write_bytes(pack((tmp_path / "x.mtx").read_bytes()))
    assert_same(read(MtxSource(tmp_path / "y.mtx", block_entries=9)), matrix)


def test_mtx_with_comments_blank_lines_and_windows_newlines_is_read(tmp_path):
    lines = [
        "%%matrixmarket MATRIX coordinate Real general",
        "%",
        "",
        "2 2 2",
        "",
        "1 2 5",
        "%",
        "2 1 7",
    ]
    (tmp_path / "x.mtx").write_bytes("\r\n".join(lines).encode())
    np.testing.assert_array_equal(read(MtxSource(tmp_path / "x.mtx")).toarray(), [[0, 5], [7, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n", "does not start with %%MatrixMarket"),
        ("%%MatrixMarket matrix\n1 1 1\n", "line 1: .*with format"),
        (BANNER.replace("real", "complex") + "1 1 0\n", "'complex' is not read"),
        (BANNER + "% nothing else\n", "line 3: the number of rows"),
        (BANNER + "2 2\n", "line 2: 2 numbers"),
        (BANNER + "2 -2 0\n", "line 2: the number of rows"),
        (BANNER + "2 3000000000 0\n", "hash the features"),
        (BANNER.replace("general", "symmetric") + "2 3 0\n", "symmetric matrix of 2 x 3"),
        (BANNER + "2 2 1\n%\n\n3 1 5\n", "line 5: row 3 lies outside of 1 .. 2"),
        (BANNER + "2 2 1\n1 0 5\n", "line 3: column 0 lies outside of 1 .. 2"),
        (BANNER + "2 2 2\n1 1 5\n1 2 nan\n", "line 4"),
        (BANNER + "2 2 1\n1 1 five\n", "line 3"),
        (BANNER + "2 2 1\n1 1\n", "line 3"),
        (BANNER + "2 2 1\n1 1 5 5\n", "line 3"),
        (BANNER + "2 2 1\n1 1 5\n2 2 5\n", "line 4: there are more than the 1 entries"),
        (BANNER + "2 2 100000000000\n1 1 5\n", "ends after 1 of the 100000000000 entries"),
        (BANNER.replace("real", "integer") + "1 1 1\n1 1 16777217\n", "line 3: .*float64"),
        (BANNER.replace("coordinate", "array") + "40000 40000\n1\n", "after 1 of the 1600000000"),
        (BANNER.replace("coordinate", "array") + "1 1\n1\n2\n", "more than the 1 numbers"),
        (BANNER.replace("coordinate", "array") + "2 1\n1\nx\n", "line 4: a finite number"),
    ],
)
def test_a_broken_mtx_is_refused_by_its_line(tmp_path, text, message):
    (tmp_path / "x.mtx").write_text(text)
    with pytest.raises(ReadError, match=message):
        read(MtxSource(tmp_path / "x.mtx"))


# --- bags of words --------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [None, gzip.compress])
def test_docword_gives_counts_and_words(tmp_path, pack):
    text = b"3\n4\n4\n1 4 2\n3 1 1\n3 2 7\n1 1 5\n"
    path = tmp_path / ("docword.pets.txt.gz" if pack else "docword.pets.txt")
    path.write_bytes(pack(text) if pack else text)
    (tmp_path / "vocab.pets.txt").write_text("ant\nbée\ncat\ndog\n", encoding="utf-8")
    for size in SIZES:
        source = DocwordSource(path, block_entries=size)
        np.testing.assert_array_equal(
            read(source).toarray(), [[5, 0, 0, 2], [0, 0, 0, 0], [1, 7, 0, 0]]
        )
        assert source.feature_names.tolist() == ["ant", "bée", "cat", "dog"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the number of documents"),
        ("3 4 1\n1 1 1\n", "line 1: only the number of documents"),
        ("3\nx\n1\n", "line 2: the number of words"),
        ("3\n4\n1\n4 1 1\n", "line 4: row 4"),
        ("3\n4\n1\n1 1 -1\n", "document 1, word 1: the count is -1"),
        ("3\n4\n1\n1 1 99999999\n", "line 4: .*float64"),
        ("3\n4\n2\n1 1 1\n", "ends after 1 of the 2"),
    ],
)
def test_a_broken_docword_is_refused(tmp_path, text, message):
    (tmp_path / "docword.x.txt").write_text(text)
    with pytest.raises(ReadError, match=message):
        read(DocwordSource(tmp_path / "docword.x.txt"))


def test_a_vocabulary_of_another_length_is_refused(tmp_path):
    (tmp_path / "docword.x.txt").write_text("1\n2\n1\n1 1 1\n")
    (tmp_path / "vocab.x.txt").write_text("one\n")
    with pytest.raises(ReadError, match="1 words for the 2 columns"):
        read(DocwordSource(tmp_path / "docword.x.txt"))
