"""Which format a file has, by its name and its first bytes, and which reader takes it."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecluster.formats.files import open_stream
from sparsecluster.formats.source import ReadError, Source

COMPRESSED = (".gz", ".bz2", ".zst")
TEXT_OPTIONS = ("dtype", "text", "vocabulary")
LOOKED_AT = 1 << 16  # bytes of a file that tell its format
LINES_LOOKED_AT = 20

_NUMBER = rb"[-+]?[0-9.]+(?:[eE][-+]?\d+)?"
_SVMLIGHT = re.compile(
    rb"\s*(?:%(n)s(?:,%(n)s)*(?=\s|$))?(?:\s*qid:\d+)?(?:\s*\d+:%(n)s(?=\s|$))*\s*"
    % {b"n": _NUMBER}
)
_THREE_COUNTS = re.compile(rb"\d+\s+\d+\s+\d+\s*")


@dataclass(frozen=True)
class Format:
    """A reader: where it is, which endings belong to it, and which options it takes."""

    module: str
    source: str
    suffixes: tuple[str, ...]
    options: tuple[str, ...]


FORMATS = {
    "svmlight": Format(
        "svmlight",
        "SvmlightSource",
        (".svm", ".svmlight", ".libsvm"),
        ("dtype", "zero_based", "n_threads", "block_bytes"),
    ),
    "npz": Format("npz", "NpzSource", (".npz",), ()),
    "npy": Format("npz", "NpySource", (".npy",), ()),
    "mtx": Format("mtx", "MtxSource", (".mtx",), ("dtype", "transpose", "n_threads")),
    "docword": Format("docword", "DocwordSource", (), ("dtype", "n_threads")),
    "h5ad": Format("h5ad", "H5adSource", (".h5ad",), ("layer",)),
    "parquet": Format("parquet", "ParquetSource", (".parquet", ".feather", ".arrow"), ("columns",)),
    "txt": Format("text", "LinesSource", (".txt",), TEXT_OPTIONS),
    "jsonl": Format("text", "JsonLinesSource", (".jsonl", ".ndjson"), TEXT_OPTIONS),
    "csv": Format("text", "CsvSource", (".csv", ".tsv"), TEXT_OPTIONS),
}
TEXTS = ("txt", "jsonl", "csv")
_MAGIC = {
    b"PK\x03\x04": "npz",
    b"\x93NUMPY": "npy",
    b"\x89HDF\r\n": "h5ad",
    b"PAR1": "parquet",
    b"ARROW1": "parquet",
    b"%%MatrixMarket": "mtx",
}


def detect(path: Path) -> str:
    """The name of the format of a file; what is written in it counts more than its ending."""
    with open_stream(path) as stream:
        start = stream.read(LOOKED_AT)
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return name
    suffix = _suffix(path)
    named = next((name for name, one in FORMATS.items() if suffix in one.suffixes), None)
    if named not in (None, "txt"):
        return str(named)
    lines = start.split(b"\n")
    if path.name.startswith("docword.") and all(line.strip().isdigit() for line in lines[:3]):
        return "docword"
    if _looks_like_svmlight(lines):
        return "svmlight"
    if named is None:
        raise ReadError(
            f"{path}: neither its name nor its first lines tell its format. Pass one of "
            f"{', '.join(FORMATS)} as the format."
        )
    return named


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    while suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _looks_like_svmlight(lines: list[bytes]) -> bool:
    """Whether the first lines are labels and index:value, maybe behind a line of counts."""
    # The last line may be cut off; of a single line its beginning counts.
    whole = lines[:-1] if len(lines) > 1 else [lines[0].rpartition(b" ")[0] or lines[0]]
    # Long runs of blanks would take the pattern a time that grows with their square.
    filled = [b" ".join(line.partition(b"#")[0].split()) for line in whole[:LINES_LOOKED_AT]]
    filled = [line for line in filled if line]
    if filled and _THREE_COUNTS.fullmatch(filled[0]):
        filled = filled[1:]
    alike = all(_SVMLIGHT.fullmatch(line) for line in filled)
    return alike and any(b":" in line for line in filled)


def format_of(path: Path, format: str | None) -> str:
    """The name of the format of a file: the one that was given, or the one that it has."""
    if not path.exists():
        raise ReadError(f"{path} does not exist.")
    if path.is_dir():
        raise ReadError(f"{path} is a folder, and not a store.")
    if not path.is_file():
        raise ReadError(
            f"{path} is a pipe or a device. Write it to a file first: it is read twice."
        )
    return format or detect(path)


def open_source(
    path: Path, format: str, options: dict[str, Any], *, n_threads: int, whole: bool = False
) -> Source:
    """The reader of a file, with those options that were given; others than its own are refused.

    With `whole` the file may come as one block.
    """
    takes = FORMATS[format].options
    useless = set(options) - set(takes) - {"dtype"}
    if useless:
        raise ValueError(
            f"{', '.join(sorted(useless))}: of no use for {path}, which is read as {format}."
        )
    # What a reader cannot do by itself is done to its blocks.
    given = {name: value for name, value in options.items() if name in takes}
    if "n_threads" in takes:
        given["n_threads"] = n_threads
    if whole and "block_bytes" in takes:
        given["block_bytes"] = None
    module = importlib.import_module(f"sparsecluster.formats.{FORMATS[format].module}")
    source: Source = getattr(module, FORMATS[format].source)(path, **given)
    return source
