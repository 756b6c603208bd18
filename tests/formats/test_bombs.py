"""Small files that stand for gigabytes are refused by every reader, in little memory, or read."""

import bz2
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from support import bomb_files
from support.marks import slow_except
from support.matrix_files import assert_same, read
from support.processes import HANGS

from sparsecluster import convert
from sparsecluster import read as read_rows
from sparsecluster.formats import limits
from sparsecluster.formats.files import open_stream
from sparsecluster.formats.mtx import MtxSource
from sparsecluster.formats.source import ReadError

zstandard = pytest.importorskip("zstandard")

HARMLESS = {"labels.svm", "spaces.txt"}  # are read, in little memory and time


def assert_harmless(files):
    program = (sys.executable, Path(bomb_files.__file__), *files)
    done = subprocess.run(program, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["name"] for result in results] == [path.name for path in files]
    for path, result in zip(files, results, strict=True):
        assert len(result["said"]) == 2, (path.name, result)
        assert result["memory"] < bomb_files.GIGABYTE, (path.name, result)
        assert result["disk"] < bomb_files.GIGABYTE, (path.name, result)
        for message in result["said"]:
            if path.name not in HARMLESS:
                assert message.startswith(str(path.parent)), (path.name, result)
                assert len(message) < 500


@pytest.mark.parametrize(
    "kind",
    slow_except(
        ["plain_texts", "many_files"], ["compressed_texts", "plain_texts", "many_files", "matrices"]
    ),
)
def test_bombs_of_text_and_numpy_take_less_than_a_gigabyte(tmp_path, kind):
    assert_harmless(getattr(bomb_files, kind)(tmp_path))


def test_bombs_of_anndata_take_less_than_a_gigabyte(tmp_path):
    pytest.importorskip("h5py")
    assert_harmless(bomb_files.annotated(tmp_path))


@pytest.mark.slow
def test_bombs_of_parquet_and_arrow_take_less_than_a_gigabyte(tmp_path):
    pytest.importorskip("pyarrow")
    assert_harmless(bomb_files.tables(tmp_path))


PACK = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstandard.compress}


@settings(max_examples=30, deadline=None)
@given(
    pack=st.sampled_from(list(PACK.values())),
    parts=st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 9_000)), max_size=4),
    step=st.integers(1, 5000),
)
def test_no_stream_gives_more_than_its_file_may_become(tmp_path_factory, pack, parts, step):
    path = tmp_path_factory.getbasetemp() / "stream"
    content = b"".join(part * count for part, count in parts)
    path.write_bytes(b"".join(pack(part * count) for part, count in parts) or pack(b""))
    most = max(2000, limits.LARGEST_GROWTH * path.stat().st_size)
    given, refusal = b"", ""
    with pytest.MonkeyPatch.context() as patch, open_stream(path) as stream:
        patch.setattr(limits, "FREE_BYTES", 2000)
        try:
            while read := stream.read(step):
                given += read
        except ReadError as error:
            refusal = str(error)
    assert len(given) <= most
    if refusal:
        assert refusal.startswith(f"{path}: ")
        assert "decompress it" in refusal
        assert len(content) > 2000
    else:
        assert given == content


def test_what_compresses_as_data_do_is_read_however_long_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "FREE_BYTES", 1000)
    rng = np.random.default_rng(0)
    lines = [
        f"1 {' '.join(f'{i}:1' for i in np.unique(rng.integers(1, 99, 9)))}" for _ in range(3000)
    ]
    (tmp_path / "x.svm.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    assert read_rows(tmp_path / "x.svm.gz").n_rows == 3000


def test_documents_that_are_too_long_are_refused_by_their_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsecluster.formats.files.LONGEST_TEXT", 20)
    contents = {
        "x.txt": "some words\n" + "a" * 21 + "\n",
        "x.jsonl": '{"text": "words"}\n{"text": "' + "a" * 20 + '"}\n',
        "x.csv": "text\n" + "a" * 21 + "\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(ReadError, match=rf"{name}, line 2: has more than 20 characters. Split"):
            read_rows(tmp_path / name)


def test_a_block_of_text_ends_with_its_rows_too(tmp_path, monkeypatch):
    monkeypatch.setattr("sparsecluster.formats.text.BLOCK_TOKENS", 10)
    (tmp_path / "x.txt").write_text("word\n" + "\n" * 50)
    shares = []
    assert read_rows(tmp_path / "x.txt", progress=shares.append).n_rows == 51
    assert len(shares) > 4


def test_very_many_labels_are_not_made_into_rows(tmp_path):
    (tmp_path / "x.svm").write_text("2147483646 1:1\n")
    with pytest.raises(ReadError, match=r"x\.svm claims 2,147,483,647 rows for 1 entry"):
        convert(tmp_path / "x.svm", tmp_path / "x.store", metalabels=True)


def test_a_tall_array_with_few_columns_is_believed(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "FREE_ROWS", 10)
    text = "%%MatrixMarket matrix array real general\n3000 1\n" + "0\n" * 2999 + "1\n"
    (tmp_path / "x.mtx").write_text(text)
    expected = sp.coo_array(([1.0], ([2999], [0])), shape=(3000, 1)).astype(np.float32)
    assert_same(read(MtxSource(tmp_path / "x.mtx")), expected)


def test_a_bomb_leaves_nothing_behind(tmp_path):
    (tmp_path / "x.txt.gz").write_bytes(bomb_files.repeated(gzip.compress, b"aa ", 1 << 27))
    with pytest.raises(ReadError):
        convert(tmp_path / "x.txt.gz", tmp_path / "x.store")
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt.gz"]
