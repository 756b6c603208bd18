"""Files of other programs are refused as what they are, whatever they are called."""

import io
import tarfile
import zipfile

import pytest

from sparsecluster import ReadError, read


def zipped(*names):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, "<x/>")
    return content.getvalue()


def tarred():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())
    return content.getvalue()


@pytest.mark.parametrize("name", ["x.csv", "x", "x.xlsx"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook. Save the sheet as"),
        (zipped("mimetype", "content.xml"), "an OpenDocument file. Save it as CSV"),
        (zipped("word/document.xml"), "a Word document. Save it as plain text"),
        (zipped("a.csv"), "a zip archive. Unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Word file. Save it as CSV"),
        (b"%PDF-1.7\n", "a PDF file. Extract its text"),
        (b"\xfd7zXZ\x00", "compressed with xz. Decompress it"),
        (b"SQLite format 3\x00", "a SQLite database. Export"),
        (b"\n<!DOCTYPE html>\n<html>", "a page of HTML or XML"),
        (tarred(), "a tar archive. Unpack it"),
        (b"\x80\x05\x95\x00", "a Python pickle. Save the matrix"),
    ],
)
def test_they_are_refused_with_what_to_do(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ReadError, match=f"{name} is {message}"):
        read(path)


def test_an_array_of_json_is_to_be_written_line_by_line(tmp_path):
    (tmp_path / "x.json").write_text('[{"text": "red sky"},\n {"text": "blue sea"}]')
    with pytest.raises(ReadError, match=r"x\.json is a JSON array. Write one object per line"):
        read(tmp_path / "x.json")


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.h5ad", "x.parquet", "x"])
def test_a_file_without_a_byte_is_called_empty(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(ReadError, match=f"{name} is empty"):
        read(tmp_path / name)
