"""Where commands write: refused, before any work, where a result cannot be written or would destroy
what is read, another result, or a store."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

STDOUT = "-"
_OF_CHECKPOINTS = re.compile(r"(fit|run-\d+)\.safetensors")


def check_outputs(
    *,
    inputs: Iterable[Path | str | None],
    files: Iterable[Path | str | None] = (),
    folder: Path | None = None,
    checkpoint: Path | None = None,
) -> None:
    """Refuse outputs that are, hold, or lie in an input, another output or a store.

    `folder` is a store to make, `checkpoint` a folder whose other files stay.
    """
    read = [Path(one) for one in inputs if one is not None]
    written: list[Path] = []
    for path in [Path(one) for one in files if one not in (None, STDOUT)]:
        _check_file(path)
        _check_apart(path, [*read, *written])
        written.append(path)
    for path in [one for one in (folder, checkpoint) if one is not None]:
        _check_apart(path, [*read, *written])
    if checkpoint is not None:
        _check_checkpoint(checkpoint, [*read, *written])


def _check_file(path: Path) -> None:
    """Refuse a place where no file can be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a file is to be written.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file.")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path}: the folder {folder} cannot be written to.")


def _check_apart(path: Path, others: list[Path]) -> None:
    """Refuse a path that is one of the others, is in it, or is in a store."""
    from sparsecluster.storage.store_files import is_store

    place = Path(os.path.realpath(path))
    for other in others:
        within = [other, *(other.iterdir() if is_store(other) else ())]
        if any(_same(place, one) for one in within):
            raise ValueError(f"{path} would be written over {other}. Choose another name.")
        if any(_same(parent, other) for parent in place.parents):
            raise ValueError(f"{path} would be written into {other}. Choose another place.")
    for parent in place.parents:
        if is_store(parent):
            raise ValueError(
                f"{path} would be written into the store {parent}. Choose another place."
            )


def _check_checkpoint(folder: Path, others: list[Path]) -> None:
    """Refuse a folder that is a store, or whose files would be those of others."""
    from sparsecluster.storage.store_files import is_store

    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a checkpoint is a folder.")
    if is_store(folder):
        raise ValueError(f"{folder} is a store. Choose another folder for the checkpoint.")
    for other in others:
        place = Path(os.path.realpath(other))
        if _OF_CHECKPOINTS.fullmatch(place.name) and _same(place.parent, folder):
            raise ValueError(f"The checkpoint would be written over {other}. Choose another name.")


def _same(one: Path, other: Path) -> bool:
    """Whether two paths mean the same file or folder, by whatever names."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return one.samefile(other)
    except OSError:
        return False
