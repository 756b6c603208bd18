"""Several files of one format, read one after the other as if they were one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.limits import Growth
from sparsecluster.formats.source import Block, ReadError, Source


class SeveralSource(Source):
    """The blocks of several sources. Where files state their columns or names, these must agree.

    With `typed` the values of all blocks will be brought to one type.
    """

    def __init__(self, path: Path, sources: list[Source], *, typed: bool) -> None:
        super().__init__(path)
        self._sources = sources
        self._typed = typed

    def options_found(self) -> dict[str, Any]:
        last = self._sources[-1]
        last.first_column = self.first_column
        return last.options_found()

    def blocks(self) -> Iterator[Block]:
        growth = Growth(self.path, [source.path for source in self._sources])
        first, n_entries = None, 0
        for source in self._sources:
            growth.open(source.path)
            with closing(source.blocks()) as blocks:  # type: ignore[type-var]
                for block in blocks:
                    first = first or block
                    self._check_alike(first, block, source)
                    growth.add(block.indptr, block.indices, block.data)
                    if len(block.indices):
                        column = source.first_column
                        self.first_column = min(self.first_column, column) if n_entries else column
                        n_entries += len(block.indices)
                    yield replace(block, done=growth.share(block.done))
            self._take_over(source)
        if any(source.n_features is None for source in self._sources):
            self.n_features = None

    def _check_alike(self, first: Block, block: Block, source: Source) -> None:
        if not self._typed and block.data.dtype != first.data.dtype:
            raise ReadError(
                f"{source.path} has values of type {block.data.dtype}, and "
                f"{self._sources[0].path} of type {first.data.dtype}. Say which is wanted (dtype)."
            )
        for name in ("ids", "labels"):
            if (getattr(block, name) is None) != (getattr(first, name) is None):
                raise ReadError(f"{source.path}: only some of the files have {name} of rows.")

    def _take_over(self, source: Source) -> None:
        """What a file tells of all rows; refused where another told something else."""
        for name, what in (("n_features", "columns"), ("n_labels", "labels")):
            told, known = getattr(source, name), getattr(self, name)
            if None not in (told, known) and told != known:
                raise ReadError(
                    f"{source.path} has {told} {what}, and {self._sources[0].path} has {known}. "
                    f"Files that are read as one must have the same."
                )
            if known is None:
                setattr(self, name, told)
        names, known = source.feature_names, self.feature_names
        if source is self._sources[0]:
            self.feature_names = names
        elif (names is None) != (known is None) or not np.array_equal(names, known):  # type: ignore[arg-type]
            raise ReadError(
                f"The columns of {source.path} have other names than those of "
                f"{self._sources[0].path}, or another order."
            )
