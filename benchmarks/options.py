"""The options of the command line, each with the default of the command that asks."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import data
from .data import Dataset
from .systems import SYSTEMS


@dataclass(frozen=True)
class Options:
    """What the user narrowed; a method gives that, or else the default."""

    parsed: argparse.Namespace

    @property
    def threads(self) -> int:
        return self.parsed.threads

    def data_sets(self, default: Sequence[str]) -> list[str]:
        """The sets to use; the synthetic one where there is no data folder."""
        if self.parsed.data:
            return list(self.parsed.data)
        present = data.available()
        return [name for name in default if name in present] or [data.SYNTHETIC]

    def clusters(self, default: Sequence[int], dataset: Dataset) -> list[int]:
        """The numbers of clusters, without those that are near the number of rows or above."""
        return [k for k in self.parsed.k or default if 2 * k <= dataset.X.shape[0]]

    def systems(self, default: Iterable[str]) -> list[str]:
        if not self.parsed.systems:
            return list(default)
        return [name for name in SYSTEMS if name in self.parsed.systems]

    def seeds(self, default: int) -> range:
        return range(self.parsed.seeds or default)
