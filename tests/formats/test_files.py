"""Streams of bytes: decompressed, cut after whole lines, and with errors that name the file."""

import bz2
import gzip
import re
import sys

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sparsecluster.formats import files
from sparsecluster.formats.files import open_stream, whole_lines
from sparsecluster.formats.source import ReadError

COMPRESS = {"gzip": gzip.compress, "bzip2": bz2.compress, "zstd": zstandard.compress}
LINES = b"".join(b"1 %d:%d\n" % (i, i * i) for i in range(5000))


def read(path, block_bytes=None):
    with open_stream(path) as stream:
        return [bytes(text) for text in whole_lines(stream, block_bytes)]


@given(st.lists(st.binary(max_size=9)).map(b"\n".join), st.integers(1, 20))
def test_blocks_hold_whole_lines(tmp_path_factory, text, block_bytes):
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b" " + text)  # no magic
    blocks = read(path, block_bytes)
    assert b"".join(blocks) == b" " + text
    assert all(block.endswith(b"\n") for block in blocks[:-1])


@pytest.mark.parametrize("compression", COMPRESS)
def test_compression_is_told_by_the_first_bytes(tmp_path, compression):
    path = tmp_path / "rows.txt"
    path.write_bytes(COMPRESS[compression](LINES))
    with open_stream(path) as stream:
        assert stream.compression == compression
        assert stream.readall() == LINES
        assert stream.done == 1


@pytest.mark.parametrize("compression", COMPRESS)
def test_several_compressed_files_in_one_are_read_on(tmp_path, compression):
    path = tmp_path / "rows"
    path.write_bytes(COMPRESS[compression](b"1 1:1\n") + COMPRESS[compression](b"2 2:2\n"))
    assert read(path) == [b"1 1:1\n2 2:2\n"]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_broken_compressed_files_are_named(tmp_path, compression, damage):
    content = bytearray(COMPRESS[compression](LINES))
    if damage == "cut off":
        del content[-20:]
    else:
        content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path = tmp_path / "rows"
    path.write_bytes(content)
    message = f"{path}: the {compression} data are broken or cut off"
    with pytest.raises(ReadError, match=re.escape(message)):
        read(path)


def test_zstd_without_its_package_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "rows"
    path.write_bytes(zstandard.compress(LINES))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(ReadError, match=r"sparsecluster\[zstd\]"):
        read(path)


def test_a_line_may_be_longer_than_a_block_but_not_endless(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_LINE", 64)
    path = tmp_path / "rows"
    path.write_bytes(60 * b"x")
    assert read(path, 4) == [60 * b"x"]
    path.write_bytes(65 * b"x")
    with pytest.raises(ReadError, match="a line of more than 64 bytes"):
        read(path, 4)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ReadError, match="nowhere: cannot be opened"):
        open_stream(tmp_path / "nowhere")
