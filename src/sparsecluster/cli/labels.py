"""Labels as files: .npy, .csv, .txt, .parquet, or lines on standard output; written and read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sparsecluster.cli.outputs import STDOUT

if TYPE_CHECKING:
    from sparsecluster.prepare.join_text import Results

ENDINGS = (".npy", ".csv", ".txt", ".parquet")


def check_ending(target: str | None) -> None:
    """Refuse, before any work, a name that does not tell how labels are written."""
    if target not in (None, STDOUT) and Path(target).suffix not in ENDINGS:
        raise ValueError(f"{target}: labels are written as {', '.join(ENDINGS)}, or to -.")
    if target is not None and target.endswith(".parquet") and find_spec("pyarrow") is None:
        raise ValueError(f"{target} needs pyarrow: pip install 'sparsecluster[parquet]'.")


def write_labels(target: str, parts: Iterable[Results]) -> int:
    """Write labels, part by part; a file appears when it is whole. How many there were."""
    if target != STDOUT and Path(target).suffix == ".npy":
        return _write_npy(Path(target), parts)
    if target.endswith(".parquet"):
        return _write_parquet(target, parts)
    n_rows = 0
    with _opened(target) as file:
        for number, part in enumerate(parts):
            if target.endswith(".csv"):
                text = _table(part, n_rows, header=number == 0)
            else:
                text = "".join(f"{label}\n" for label in part.labels.tolist())
            file.write(text.encode())
            n_rows += len(part.labels)
    return n_rows


def _table(part: Results, first_row: int, *, header: bool) -> str:
    """Lines of a CSV file, with ids where they are known."""
    from sparsecluster.prepare.join_text import csv_line

    columns = _columns(part, first_row)
    lines = map(csv_line, zip(*columns.values(), strict=True))
    return (csv_line(columns) if header else "") + "".join(lines)


def _columns(part: Results, first_row: int) -> dict[str, Any]:
    """The columns of a table of labels, by name."""
    columns = {"row": range(first_row, first_row + len(part.labels)), "label": part.labels.tolist()}
    return columns if part.ids is None else {**columns, "id": part.ids.tolist()}


def _write_parquet(target: str, parts: Iterable[Results]) -> int:
    import pyarrow as pa
    import pyarrow.parquet

    from sparsecluster.storage.atomic import atomic_file

    kinds = {"row": pa.int64(), "label": pa.int32(), "id": pa.string()}
    n_rows = 0
    with atomic_file(target) as partial, ExitStack() as opened:
        writer = None
        for part in parts:
            columns = _columns(part, n_rows)
            schema = pa.schema([(name, kinds[name]) for name in columns])
            if writer is None:
                writer = opened.enter_context(pa.parquet.ParquetWriter(partial, schema))
            writer.write_table(pa.table(columns, schema=schema))
            n_rows += len(part.labels)
    return n_rows


def _write_npy(path: Path, parts: Iterable[Results]) -> int:
    import numpy as np

    from sparsecluster.storage.atomic import atomic_file
    from sparsecluster.storage.store_writer import GrowingArray

    with atomic_file(path) as partial:
        array = GrowingArray(partial, np.int32)
        for part in parts:
            array.append(part.labels)
        array.close()
    return array.length


@contextmanager
def _opened(target: str) -> Iterator[BinaryIO | Any]:
    if target == STDOUT:
        yield sys.stdout.buffer
        return
    from sparsecluster.storage.atomic import atomic_file

    with atomic_file(target) as partial, partial.open("wb") as file:
        yield file


def read_array(path: Path, what: str) -> Any:
    """One value per row, from a .npy file."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        if "allow_pickle" in str(error) and path.read_bytes()[:6] == b"\x93NUMPY":
            raise ValueError(f"{path} holds Python objects. Save {what} as numbers.") from None
        raise ValueError(f"{path} is not a whole .npy file of {what}.") from None
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path} holds several arrays. Save {what} as one .npy array.")
    return found


def read_labels(path: Path) -> Any:
    """The labels in a file as `write_labels` has them; also strings, one per line."""
    import numpy as np

    if path.suffix not in ENDINGS:
        raise ValueError(f"{path}: labels are read from {', '.join(ENDINGS)}.")
    if path.suffix == ".npy":
        return read_array(path, "labels")
    if path.suffix == ".parquet":
        check_ending(str(path))
        import pyarrow.parquet

        names = pyarrow.parquet.read_schema(path).names
        if "label" not in names:
            raise ValueError(f"{path} has no column named label.")
        if "row" in names:
            _check_order(pyarrow.parquet.read_table(path, columns=["row"])["row"].to_pylist(), path)
        found = pyarrow.parquet.read_table(path, columns=["label"])["label"]
        return np.asarray(found.to_pylist())
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text (byte {error.start}).") from None
    if path.suffix == ".csv":
        import csv

        header, *rows = list(csv.reader(lines)) or [[]]
        if "label" not in header:
            raise ValueError(f"{path} has no column named label.")
        at = header.index("label")
        rows = [row for row in rows if row]
        if "row" in header:
            _check_order([row[header.index("row")] if row else "" for row in rows], path)
        lines = [row[at] if at < len(row) else "" for row in rows]
    if not lines:
        raise ValueError(f"{path} has no labels.")
    if "" in lines:
        raise ValueError(f"{path}: label {lines.index('') + 1} is empty.")
    try:
        return np.array([int(line) for line in lines])
    except ValueError:
        return np.array(lines)


def _check_order(rows: list[Any], path: Path) -> None:
    """Refuse a table of labels whose lines are in another order than the rows of the data."""
    for number, row in enumerate(rows):
        if str(row) != str(number):
            raise ValueError(
                f"{path}: label {number + 1} is that of row {row}, not of row {number}. Sort the "
                f"file by its column row."
            )
