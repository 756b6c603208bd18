"""Which format a file has, by its name and its first bytes, and which reader takes it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecluster.formats.files import open_stream
from sparsecluster.formats.foreign import refuse_foreign
from sparsecluster.formats.inputs import Inputs, ending, is_zarr
from sparsecluster.formats.several import SeveralSource
from sparsecluster.formats.source import Option, ReadError, Source
from sparsecluster.rows.parameters import check_name

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
    """A format: where its reader is, and by which endings or first bytes a file shows it."""

    module: str
    source: str
    suffixes: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()

    @property
    def reader(self) -> type[Source]:
        """The class that reads it, which is imported when it is first needed."""
        module = self.module if "." in self.module else f"sparsecluster.formats.{self.module}"
        reader: type[Source] = getattr(importlib.import_module(module), self.source)
        return reader


FORMATS = {
    "svmlight": Format("svmlight", "SvmlightSource", (".svm", ".svmlight", ".libsvm")),
    "npz": Format("npz", "NpzSource", (".npz",), (b"PK\x03\x04",)),
    "npy": Format("npz", "NpySource", (".npy",), (b"\x93NUMPY",)),
    "mtx": Format("mtx", "MtxSource", (".mtx",), (b"%%MatrixMarket",)),
    "docword": Format("docword", "DocwordSource"),
    "h5ad": Format("h5ad", "H5adSource", (".h5ad",), (b"\x89HDF\r\n",)),
    "zarr": Format("h5ad", "ZarrSource", (".zarr",)),
    "parquet": Format(
        "parquet", "ParquetSource", (".parquet", ".feather", ".arrow"), (b"PAR1", b"ARROW1")
    ),
    "txt": Format("text", "LinesSource", (".txt",)),
    "jsonl": Format("text", "JsonLinesSource", (".jsonl", ".ndjson")),
    "csv": Format("text", "CsvSource", (".csv", ".tsv")),
    "texts": Format("text", "FilesSource"),
    "parquet-text": Format("parquet", "ParquetTextSource"),
    "table": Format("table", "TableSource"),
}


def all_options() -> Iterator[tuple[str, Option]]:
    """The options of all readers, each with the name of its format."""
    for name, format in FORMATS.items():
        for option in format.reader.options:
            yield name, option


def detect(path: Path, usual: str | None = None) -> str:
    """The name of the format of a file; what is written in it counts more than its ending. Where
    neither tells it is the `usual` one."""
    with open_stream(path) as stream:
        start = stream.read(LOOKED_AT)
    refuse_foreign(path, start)
    for name, format in FORMATS.items():
        if format.magic and start.startswith(format.magic):
            return name
    suffix = ending(path)
    named = next((name for name, one in FORMATS.items() if suffix in one.suffixes), None)
    if not start and (named is None or FORMATS[named].magic):
        raise ReadError(f"{path} is empty.")
    if named not in (None, "txt"):
        return str(named)
    lines = start.split(b"\n")
    if path.name.startswith("docword.") and all(line.strip().isdigit() for line in lines[:3]):
        return "docword"
    if _looks_like_svmlight(lines):
        return "svmlight"
    if named is None and lines[0].lstrip(b"\xef\xbb\xbf ").startswith(b'{"'):
        return "jsonl"
    if named is None and start.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"["):
        raise ReadError(
            f"{path} is a JSON array. Write one object per line, as jq -c '.[]' does, with a name "
            f"that ends in .jsonl."
        )
    if named is None and usual is not None:
        return usual
    if named is None:
        raise ReadError(
            f"{path}: neither its name nor its first lines tell its format. Say it, as in "
            f"format='csv'; there are {', '.join(FORMATS)}."
        )
    return named


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


def format_of(
    inputs: Inputs,
    format: str | None,
    options: dict[str, Any],
    terms: bool | None = None,
    usual: str | None = None,
) -> str:
    """The name of the format of some files: the one that was given, or the one that they have.

    A folder of .txt files has a document in each. Where a format can hold text or numbers, the
    options decide, then `terms`: whether columns are to be terms. Files that tell nothing are CSV
    where options say so, else `usual`.
    """
    if format is not None:
        return format
    if is_zarr(inputs.path):
        return "zarr"
    if inputs.path.is_dir() and {ending(file) for file in inputs.files} == {".txt"}:
        return "texts"
    first, *others = inputs.files
    if options.keys() & {"column", "columns", "delimiter", "header"}:
        usual = "csv"
    found = detect(first, usual)
    for other in others:
        if (its := detect(other, usual)) != found:
            raise ReadError(
                f"{inputs.path}: files that are read as one must have one format, but {first} is "
                f"{found} and {other} is {its}. Name the right ones by a pattern, as in "
                f"'{first.parent}/*{first.suffix}'."
            )
    if found not in ("csv", "parquet"):
        return found
    from sparsecluster.formats.kinds import kind_of

    return kind_of(found, first, options, terms)


def open_source(
    inputs: Inputs,
    format: str,
    options: dict[str, Any],
    *,
    dtype: str | None = None,
    n_threads: int,
    whole: bool = False,
    like: bool = False,
    vocabulary: Any = None,
) -> Source:
    """The reader of some files, with those options that were given; others than its own are
    refused.

    With `whole` a file may come as one block; with `like` its rows are to be like others, by
    their `vocabulary` where columns are terms. What a reader cannot do by itself is done to its
    blocks.
    """
    reader = FORMATS[format].reader
    known = {option.name: option for option in reader.options}
    check_belong(options, set(known), f"{inputs.path}, which is read as {format}")
    for name, value in options.items():
        known[name].check(value)
    if like:
        options = reader.options_of_others | options
    shared: dict[str, Any] = {"n_threads": n_threads, "files": inputs.files}
    if dtype is not None:
        shared["dtype"] = dtype
    if whole:
        shared["block_bytes"] = None
    if vocabulary is not None:
        shared["vocabulary"] = vocabulary
    takes = inspect.signature(reader).parameters
    given = {**options, **{key: shared[key] for key in shared.keys() & takes.keys()}}
    if "files" in takes:
        return reader(inputs.path, **given)
    sources = [reader(file, **given) for file in inputs.files]
    if len(sources) == 1:
        return sources[0]
    return SeveralSource(inputs.path, sources, typed=dtype is not None)


def check_belong(options: dict[str, Any], known: set[str], target: str) -> None:
    """Refuse options that a reader does not have; the error says whether any has."""
    useless = sorted(options.keys() - known)
    for name in useless:
        check_name("option", name, dict.fromkeys(option.name for _, option in all_options()))
    if useless:
        raise ValueError(f"{', '.join(useless)}: no effect on {target}.")
