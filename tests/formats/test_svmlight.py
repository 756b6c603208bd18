"""svmlight files are read as scikit-learn reads them, in any blocks; what is broken is named."""

import bz2
import gzip
import io
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from sparsecluster import _core
from sparsecluster.formats.source import ReadError
from sparsecluster.formats.svmlight import SvmlightSource

CORPUS = sorted(Path(__file__).parents[1].joinpath("corpus").joinpath("text").iterdir())
COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstandard.compress}


def oracle(text, dtype=np.float64):
    """The arrays of scikit-learn, with columns as written and labels in the order of the file."""
    matrix, labels = load_svmlight_file(
        io.BytesIO(text), dtype=dtype, multilabel=True, zero_based=True
    )
    return matrix.indptr, matrix.indices, matrix.data, [sorted(row) for row in labels]


def arrays(parsed):
    indptr, indices, data, label_indptr, values = parsed[:5]
    labels = [sorted(row) for row in np.split(values, label_indptr[1:-1])]
    return indptr, indices, data, labels[: len(indptr) - 1]


def assert_same(found, expected):
    assert all(np.array_equal(a, b) for a, b in zip(found[:3], expected[:3], strict=True))
    assert np.array_equal(np.signbit(found[2]), np.signbit(expected[2]))
    assert found[3] == expected[3]


def parse(text, *, float64=True, n_threads=1, **options):
    return _core.parse_svmlight(text, float64, n_threads, **options)


@pytest.fixture
def write(tmp_path):
    """A function that writes bytes or text to a file."""

    def written(content):
        path = tmp_path / "rows.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


def read(path, **options):
    """All blocks of a file, joined, and their source."""
    source = SvmlightSource(path, dtype="float64", **options)
    blocks = list(source.blocks())
    labels = [
        sorted(row)
        for block in blocks
        for row in np.split(block.labels.values, block.labels.indptr[1:-1])[: block.n_rows]
    ]
    lengths = [np.diff(block.indptr) for block in blocks]
    indptr = np.concatenate([[0], *lengths]).cumsum()
    indices = np.concatenate([np.empty(0, int), *(block.indices for block in blocks)])
    data = np.concatenate([np.empty(0), *(block.data for block in blocks)])
    return (indptr, indices, data, labels), source, blocks


# --- numbers -------------------------------------------------------------------------------------

DECIMALS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6, width=32).map(lambda value: f"{value:.6g}"),
    st.from_regex(r"[+-]?[0-9]{1,25}\.[0-9]{0,25}([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"[+-]?\.?[0-9]{1,12}(e-?[0-9]{1,3})?", fullmatch=True),
)
PAD = "\n" + 40 * "#"  # behind it the short cuts are taken too


@given(DECIMALS)
@example("9007199254740993")  # halfway between two doubles
@example("2.2250738585072011e-308")
@example("0." + 400 * "0" + "1e390")
@example("5e-324")
@example("1e-400")
@example("123456789012345678901234567890.")
@example("0.1234567890123456")
@example("-0")
def test_values_are_those_of_float(token):
    expected = float(token)
    for padding in ("", PAD):
        if math.isinf(expected):
            with pytest.raises(_core.TextError, match="too large for float64"):
                parse(f"1 1:{token}{padding}".encode())
        else:
            found = parse(f"1 1:{token}{padding}".encode())[2]
            assert found.tobytes() == np.array([expected]).tobytes()


def nearest_float32(token):
    """The nearest float32 of the exact decimal; of two as near the one with an even last bit."""
    exact, start = Fraction(token), np.float32(token)
    around = [np.nextafter(start, np.float32(way)) for way in (-np.inf, np.inf)]
    near = [value for value in (start, *around) if np.isfinite(value)]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


@given(DECIMALS.filter(lambda token: abs(float(token)) < 3.4e38))
@example("1.00000005960464480")  # rounded to a double first it would go the other way
@example("1.000000059604644775390625")
@example("1.0000000596046447753906251")
@example("16777217")
@example("16777219")
@example("1e-46")
@example("1.17549435e-38")
@example("7.0064923216240853e-46")
def test_float32_values_are_rounded_once(token):
    for padding in ("", PAD):
        found = parse(f"1 1:{token}{padding}".encode(), float64=False)[2]
        assert found[0] == nearest_float32(token)


# --- as scikit-learn -----------------------------------------------------------------------------


@st.composite
def texts(draw):
    """Lines as writers and people write them."""
    blank = st.sampled_from([" ", "  ", "\t", " \t "])
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            lines.append(draw(st.sampled_from(["", " ", "# note 1:2", "\t# :", "\r"])))
            continue
        labels = draw(st.lists(st.integers(-3, 200).map(str), max_size=4))
        columns = sorted(draw(st.sets(st.integers(0, 2**31 - 2), max_size=6)))
        words = [",".join(labels)] if labels else [""]
        words += ["qid:7"] if kind == 1 else []
        words += [f"{column}:{draw(DECIMALS)}" for column in columns]
        line = "".join(word + draw(blank) for word in words)
        lines.append(line + draw(st.sampled_from(["", "# 3:4", "\r", " "])))
    return ("\n".join(lines) + draw(st.sampled_from(["", "\n"]))).encode()


@given(
    texts().filter(lambda text: np.isfinite(oracle(text)[2]).all()),
    st.integers(1, 4),
    st.integers(1, 60),
)
def test_text_is_read_as_by_scikit_learn_however_it_is_cut(text, n_threads, piece_bytes):
    found = parse(text, n_threads=n_threads, piece_bytes=piece_bytes)
    assert_same(arrays(found), oracle(text))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_dumped_matrix_comes_back(tmp_path, dtype):
    matrix = sp.random_array((300, 5000), density=0.02, rng=0, format="csr")
    path = tmp_path / "rows.txt"
    dump_svmlight_file(matrix, np.arange(300) / 7, str(path), zero_based=False)
    text = path.read_bytes()
    for n_threads in (1, 4):
        found = parse(text, float64=dtype == "float64", n_threads=n_threads, piece_bytes=5000)
        assert_same(arrays(found), oracle(text, dtype))


@given(st.binary(max_size=60) | st.text("01.:,-+e #\n\tqid", max_size=60).map(str.encode))
@example(b"1 qid:3\n")
@example(b"qid:3 1:1")
@example(b"1,2:3")
def test_any_bytes_are_read_as_by_scikit_learn_or_refused(text):
    try:
        found = arrays(parse(text))
    except _core.TextError:
        return
    try:
        expected = oracle(text)
    except ValueError as error:
        if "sorted and unique" not in str(error):  # we sort
            raise
    else:
        assert_same(found, expected)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_what_the_fuzzer_found_is_read_alike_however_it_is_cut(path):
    text = path.read_bytes()[1:]

    def outcome(call, *arguments, **options):
        try:
            return [np.asarray(one).tobytes() for one in call(text, *arguments, **options)]
        except _core.TextError as error:
            return error.args

    for call, arguments in (
        (_core.parse_svmlight, (True,)),
        (_core.parse_svmlight, (False,)),
        (_core.parse_numbers, (2, True)),
        (_core.parse_numbers, (3, False)),
    ):
        whole = outcome(call, *arguments, 1)
        assert whole == outcome(call, *arguments, 3, piece_bytes=1)


def test_unsorted_rows_are_sorted():
    found = parse(b"1 9:1 3:2 5:3\n")
    assert found[1].tolist() == [3, 5, 9]
    assert found[2].tolist() == [2, 3, 1]


def test_the_range_of_columns_is_told():
    assert parse(b"1 9:1 3:2\n1\n2 17:1\n")[5:] == (3, 17)
    assert parse(b"1\n")[5:] == (-1, -1)


def test_any_buffer_will_do(tmp_path):
    text = b"1 2:3.5\n"
    path = tmp_path / "rows"
    path.write_bytes(text)
    for buffer in (bytearray(text), memoryview(text), np.memmap(path, np.uint8, "r")):
        assert parse(buffer)[2].tolist() == [3.5]


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x 1:1", "the label 'x' is not a number"),
        ("1,,2 1:1", "the label ',2' is not a number"),
        ("nan 1:1", "the label 'nan' is not a finite number"),
        ("1e999 1:1", "the label '1e999' is too large for float64"),
        ("1 2", "'2' is not index:value"),
        ("1 :2", "':2' is not index:value"),
        ("1 1_0:2", "'1_0:2' is not index:value"),
        ("1 -1:2", "the index in '-1:2' is negative"),
        ("1 2147483647:2", "the index in '2147483647:2' is above 2147483646"),
        ("1 99999999999999999999:2", "the index in '99999999999999999999:2' is above 2147483646"),
        ("1 1:", "the value '' is not a number"),
        ("1 1:1:1", "the value '1:1' is not a number"),
        ("1 1:0x1", "the value '0x1' is not a number"),
        ("1 1:+-1", "the value '+-1' is not a number"),
        ("1 1:1e", "the value '1e' is not a number"),
        ("1 1:-inf", "the value '-inf' is not a finite number"),
        ("1 1:1e400", "the value '1e400' is too large for float64"),
        ("1 1:\x00\xff", r"the value '\x00\xc3\xbf' is not a number"),
        ("1 1:" + 99 * "z", "the value '" + 30 * "z" + "...' is not a number"),
        ("1 5:1 3:1 5:2", "the index 5 occurs twice"),
        ("1 qid:a 1:1", "'qid:a' is not a query: a whole number is expected"),
    ],
)
def test_a_bad_line_is_named(write, line, reason):
    path = write("1 1:1\n# note\n\n2 2:2\n" + line + "\n1 nonsense\n")
    for block_bytes in (None, 4):
        with pytest.raises(ReadError, match=re.escape(f"{path}, line 5: {reason}.")):
            read(path, block_bytes=block_bytes)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_first_bad_line_is_named_whatever_thread_is_first(n_threads):
    text = 500 * b"1 1:1\n" + b"1 a:1\n" + 500 * b"1 b:1 \n"
    with pytest.raises(_core.TextError) as caught:
        parse(text, n_threads=n_threads, piece_bytes=20)
    assert caught.value.args == (501, "'a:1' is not index:value")


def test_a_value_too_large_for_float32_is_refused():
    with pytest.raises(_core.TextError, match="too large for float32"):
        parse(b"1 1:3.5e38", float64=False)


# --- files ---------------------------------------------------------------------------------------

TEXT = "1,2 3:0.5 7:1\n# note\n 1:2\n\n-1 qid:3 2:1e-3 9:4\n3\n"


@pytest.mark.parametrize("block_bytes", [1, 2, 7, 20, 1000, None])
@pytest.mark.parametrize("compression", [None, *COMPRESS])
def test_files_are_read_alike_in_blocks_of_any_size(write, compression, block_bytes):
    content = TEXT.encode() if compression is None else COMPRESS[compression](TEXT.encode())
    found, source, blocks = read(write(content), block_bytes=block_bytes)
    assert_same(found, oracle(TEXT.encode()))
    assert source.first_column == 1
    assert blocks[-1].done == 1
    assert [block.done for block in blocks] == sorted(block.done for block in blocks)


@pytest.mark.parametrize(
    ("text", "zero_based", "first"),
    [
        ("1 1:1", "auto", 1),
        ("1 0:1", "auto", 0),
        ("1", "auto", 0),
        ("1 1:1", True, 0),
        ("", False, 1),
    ],
)
def test_the_first_column_is_found(write, text, zero_based, first):
    assert read(write(text), zero_based=zero_based)[1].first_column == first


def test_column_zero_is_refused_where_columns_count_from_one(write):
    with pytest.raises(ReadError, match="line 2: the index 0 is below 1"):
        read(write("1 1:1\n1 0:1\n"), zero_based=False)


@pytest.mark.parametrize("block_bytes", [1, None])
def test_a_header_gives_the_shape(write, block_bytes):
    path = write("2 10 5\n0,4 1:1 9:1\n 3:1\n")
    found, source, _ = read(path, block_bytes=block_bytes)
    assert (source.n_features, source.n_labels, source.first_column) == (10, 5, 0)
    assert found[3] == [[0, 4], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3 10 5\n0 1:1\n", "tells of 3 rows, but there are 1"),
        ("1 10 5\n0 10:1\n", "line 2: the index 10 is above 9"),
        ("2 10 5\n0 1:1\n1,5 2:1\n", r"row 1 \(counted from 0\) has the label 5, .* 5 labels"),
        ("1 9999999999 5\n0 1:1\n", "line 1: tells of 9999999999 columns"),
    ],
)
def test_a_header_that_the_rows_contradict_is_named(write, text, message):
    with pytest.raises(ReadError, match=message):
        read(write(text), block_bytes=1)


def test_an_empty_file_has_no_rows(write):
    for block_bytes in (1, None):
        assert read(write(b""), block_bytes=block_bytes)[0][0].tolist() == [0]


# --- lines of numbers ----------------------------------------------------------------------------


TRIPLES = st.tuples(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 99), st.floats(-1e9, 1e9))


@given(st.lists(TRIPLES), st.integers(1, 4), st.integers(1, 40))
def test_lines_of_three_numbers_are_read(rows, n_threads, piece_bytes):
    lines = "\n% note\n".join(f"{first}\t {second} {third!r}\r" for first, second, third in rows)
    found = _core.parse_numbers(lines.encode(), 3, True, n_threads, piece_bytes)
    assert [tuple(row) for row in zip(*(one.tolist() for one in found), strict=True)] == rows


def test_lines_of_two_numbers_have_ones():
    first, second, third = _core.parse_numbers(b"1 2\n\n  \n3 4", 2, False, 1)
    assert (first.tolist(), second.tolist()) == ([1, 3], [2, 4])
    assert third.tolist() == [1, 1]
    assert third.dtype == np.float32


@pytest.mark.parametrize(
    ("line", "n_columns", "reason"),
    [
        ("1", 2, "a whole number is expected, not ''"),
        ("1 2.5", 2, "a whole number is expected, not '2.5'"),
        ("1 2 3", 2, "'3' follows after two numbers"),
        ("1 2", 3, "the value '' is not a number"),
        ("1 2 nan", 3, "the value 'nan' is not a finite number"),
        ("1 2 3 4", 3, "'4' follows after three numbers"),
        ("1 2 3#", 3, "the value '3' is not a number"),
        ("9223372036854775808 1", 2, "'9223372036854775808' is too large for 64 bits"),
    ],
)
def test_a_bad_line_of_numbers_is_named(line, n_columns, reason):
    start = "% note\n1 2" + (n_columns - 2) * " 3" + "\n"
    with pytest.raises(_core.TextError) as caught:
        _core.parse_numbers((start + line).encode(), n_columns, True, 1)
    assert caught.value.args == (3, reason)
