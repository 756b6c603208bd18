"""Labels as files: .npy, .csv, .txt, or lines on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sparsecluster.cli.outputs import STDOUT

if TYPE_CHECKING:
    import numpy as np

ENDINGS = (".npy", ".csv", ".txt")


def check_ending(target: str | None) -> None:
    """Refuse, before any work, a name that does not tell how labels are written."""
    if target not in (None, STDOUT) and Path(target).suffix not in ENDINGS:
        raise ValueError(f"{target}: labels are written as {', '.join(ENDINGS)}, or to -.")


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

    from sparsecluster.storage.atomic import atomic_file
    from sparsecluster.storage.store_writer import GrowingArray

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
    from sparsecluster.storage.atomic import atomic_file

    with atomic_file(target) as partial, partial.open("wb") as file:
        yield file
