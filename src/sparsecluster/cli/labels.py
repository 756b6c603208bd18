"""Labels as files: .npy, .csv, .txt, or lines on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import numpy as np

STDOUT = "-"
ENDINGS = (".npy", ".csv", ".txt")


def check_target(target: str) -> None:
    """Refuse, before any work, a place where labels cannot be written."""
    if target == STDOUT:
        return
    path = Path(target)
    if path.suffix not in ENDINGS:
        raise ValueError(f"{target}: labels are written as {', '.join(ENDINGS)}, or to -.")


def check_file_target(path: Path) -> None:
    """Refuse, before any work, a place where no file can be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a file is to be written.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path}: the folder {folder} cannot be written to.")


def write_labels(target: str, parts: Iterable[np.ndarray]) -> int:
    """Write labels, part by part; a file appears when it is whole. How many there were."""
    if target != STDOUT and Path(target).suffix == ".npy":
        return _write_npy(Path(target), parts)
    with _opened(target) as file:
        first = 0
        table = target.endswith(".csv")
        if table:
            file.write(b"row,label\n")
        for labels in parts:
            numbers = labels.tolist()
            if table:
                text = "".join(f"{row},{label}\n" for row, label in enumerate(numbers, first))
            else:
                text = "\n".join(map(str, numbers)) + "\n" if numbers else ""
            file.write(text.encode())
            first += len(numbers)
    return first


def _write_npy(path: Path, parts: Iterable[np.ndarray]) -> int:
    import numpy as np

    from sparsecluster.data.atomic import atomic_file
    from sparsecluster.data.store_writer import GrowingArray

    with atomic_file(path) as partial:
        array = GrowingArray(partial, np.int32)
        for labels in parts:
            array.append(labels)
        array.close()
    return array.length


@contextmanager
def _opened(target: str) -> Iterator[BinaryIO | Any]:
    if target == STDOUT:
        yield sys.stdout.buffer
        return
    from sparsecluster.data.atomic import atomic_file

    with atomic_file(target) as partial, partial.open("wb") as file:
        yield file
