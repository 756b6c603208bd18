"""What the parts of a report are made from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsecluster.report.facts import FittedSizes, Neighbors, Survey, top_columns

MOST_CLUSTERS = 200  # that have a line of the table


@dataclass(frozen=True, kw_only=True)
class Content:
    """All that the parts are made from."""

    estimator: Any
    cosine: bool
    centers: Any  #: as a CSR array
    names: Any  #: of the columns; may be shorter than they are many
    terms: int
    fitted: FittedSizes | None
    survey: Survey | None
    neighbors: Neighbors | None
    texts: dict[int, str]

    @property
    def n_clusters(self) -> int:
        return int(self.centers.shape[0])

    @property
    def rows_of_fit(self) -> int | None:
        """How many rows were fitted; None where the model does not say."""
        return (
            None if self.fitted is None or self.fitted.labels is None else len(self.fitted.labels)
        )

    @property
    def other_data(self) -> Survey | None:
        """The survey, where its rows are others than those that the known sizes count."""
        if self.fitted is None or self.survey is None or self.survey.same_rows:
            return None
        return self.survey

    @property
    def sizes(self) -> np.ndarray | None:
        """Rows of the clusters: of the fit where it knows them, else of the data."""
        if self.fitted is not None:
            return self.fitted.counts
        return None if self.survey is None else self.survey.sizes

    @property
    def counts_seen(self) -> bool:
        """Whether the sizes are what the centers of a stream have seen."""
        return self.fitted is not None and self.fitted.labels is None

    @cached_property
    def shown(self) -> list[int]:
        """The clusters that have a line of the table, largest first."""
        if self.sizes is None:
            return list(range(self.n_clusters))[:MOST_CLUSTERS]
        return largest_first(self.sizes)[:MOST_CLUSTERS]

    def top_terms(self, cluster: int, most: int) -> tuple[list[Any], np.ndarray]:
        """Names and weights of the columns with the largest weights."""
        columns, weights = top_columns(self.centers, cluster, most)
        named = len(self.names)
        return [self.names[one] if one < named else int(one) for one in columns], weights


def largest_first(sizes: np.ndarray) -> list[int]:
    """The clusters by size; of equal ones the first."""
    return [int(cluster) for cluster in np.argsort(-sizes, kind="stable")]
