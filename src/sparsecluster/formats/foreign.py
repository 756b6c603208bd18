"""Files of other programs: told by their first bytes, and refused with what to do instead."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from sparsecluster.formats.source import ReadError

SPREADSHEET = "Save the sheet as CSV, and name that file."
DOCUMENT = "Save it as plain text (.txt), and name that file."
ARCHIVE = "Unpack it, and name the file in it, or the folder."
#: place in the file, its bytes there, what it is, what to do
_MAGIC = (
    (0, b"%PDF", "a PDF file", "Extract its text, for example with pdftotext."),
    (0, b"\xd0\xcf\x11\xe0", "an old Excel or Word file", "Save it as CSV or as plain text."),
    (0, b"7z\xbc\xaf", "a 7z archive", ARCHIVE),
    (0, b"Rar!", "a RAR archive", ARCHIVE),
    (0, b"\xfd7zXZ", "compressed with xz", "Decompress it first; .gz, .bz2 and .zst are read."),
    (257, b"ustar", "a tar archive", ARCHIVE),
    (0, b"SQLite format 3", "a SQLite database", "Export the table as CSV."),
    (0, b"MATLAB 5.0", "a MATLAB file", "Save the matrix with scipy.sparse.save_npz."),
    (0, b"\x80\x04\x95", "a Python pickle", "Save the matrix with scipy.sparse.save_npz."),
    (0, b"\x80\x05\x95", "a Python pickle", "Save the matrix with scipy.sparse.save_npz."),
    (0, b"ORC", "an ORC file", "Write it as Parquet."),
    (0, b"Obj\x01", "an Avro file", "Write it as Parquet."),
    (0, b"FEA1", "a Feather file of version 1", "Write it again with pyarrow's write_feather."),
)
#: a file in an archive, by the beginning of its name
_IN_ZIP = (
    ("xl/", "an Excel workbook", SPREADSHEET),
    ("word/", "a Word document", DOCUMENT),
    ("ppt/", "a PowerPoint file", DOCUMENT),
    ("content.xml", "an OpenDocument file", "Save it as CSV, or as plain text."),
)
_MARKUP = (b"<!doctype html", b"<html", b"<?xml")


def refuse_foreign(path: Path, start: bytes) -> None:
    """Refuse a file that begins as those of other programs do."""
    for at, magic, what, advice in _MAGIC:
        if start[at : at + len(magic)] == magic:
            raise ReadError(f"{path} is {what}. {advice}")
    if start.startswith(b"PK\x03\x04"):
        _refuse_zip(path)
    text = start[:100].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith(_MARKUP):
        raise ReadError(f"{path} is a page of HTML or XML. Extract its text, or save it as CSV.")


def _refuse_zip(path: Path) -> None:
    """Refuse an archive without arrays; one that is broken is left to the reader of arrays."""
    try:
        with zipfile.ZipFile(os.fspath(path)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return
    if any(name.endswith(".npy") for name in names):
        return
    for start, what, advice in _IN_ZIP:
        if any(name.startswith(start) for name in names):
            raise ReadError(f"{path} is {what}. {advice}")
    raise ReadError(f"{path} is a zip archive. {ARCHIVE}")
