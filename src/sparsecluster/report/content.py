"""What the parts of a report are made from, and the way of text from anywhere into HTML."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsecluster.report.facts import FittedSizes, Neighbours, Survey

MOST_CLUSTERS = 200  # that have a line of the table
LONGEST_TERM = 40

# What XML cannot hold, and what would turn the text around it: they are shown as replaced.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def escaped(value: Any, longest: int | None = None) -> str:
    """Text from anywhere as HTML that shows it: on one line, cut where it is too long."""
    words = str(value)
    if longest is not None:
        # Only the start is looked at: a text may be a whole book.
        words = " ".join(words[: 20 * longest].split())
        words = words if len(words) <= longest else words[: longest - 1].rstrip() + "…"
    return html.escape(_UNPRINTABLE.sub("\ufffd", words))


@dataclass(frozen=True, kw_only=True)
class Content:
    """All that the parts are made from."""

    estimator: Any
    centers: Any  #: as a CSR array
    names: Any  #: of the columns; may be shorter than they are many
    terms: int
    fitted: FittedSizes | None
    survey: Survey | None
    neighbours: Neighbours | None
    texts: dict[int, str]

    @property
    def n_clusters(self) -> int:
        return int(self.centers.shape[0])

    @property
    def other_data(self) -> bool:
        """Whether the rows that were looked through are others than the known sizes tell of."""
        return self.fitted is not None and self.survey is not None and not self.survey.same_rows

    @property
    def sizes(self) -> np.ndarray | None:
        """Rows of the clusters: of the fit where it knows them, else of the data."""
        if self.fitted is not None:
            return self.fitted.counts
        return None if self.survey is None else self.survey.sizes

    @cached_property
    def order(self) -> list[int]:
        """The clusters, largest first."""
        if self.sizes is None:
            return list(range(self.n_clusters))
        return [int(i) for i in np.lexsort((np.arange(self.n_clusters), -self.sizes))]

    @cached_property
    def shown(self) -> list[int]:
        """The clusters that have a line of the table."""
        return self.order[:MOST_CLUSTERS]

    @cached_property
    def has_line(self) -> frozenset[int]:
        """The same, to ask for one of them."""
        return frozenset(self.shown)

    def term(self, column: int) -> str:
        """The name of a column, as HTML."""
        named = column < len(self.names)
        return escaped(self.names[column] if named else column, LONGEST_TERM)

    @property
    def example_rows(self) -> list[int]:
        """The rows whose texts the table shows."""
        if self.survey is None:
            return []
        return sorted(row for cluster in self.shown for row in self.survey.nearest_rows(cluster))
