"""What `choose_k` found: a number of clusters, and the table behind it, as text and picture."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.evaluation.recommend import Recommendation, knee


@dataclass(frozen=True, kw_only=True)
class ChoiceRecord:
    """One K that was tried: what a callback gets, and a row of the table.

    Attributes
    ----------
    k : int
        The number of clusters.
    cost : float
        The cost of the clustering (see :func:`clustering_cost`); it falls from row to row.
    silhouette, silhouette_error : float
        The mean silhouette (see :func:`silhouette`), and its standard error.
    simplified_silhouette, simplified_error : float
        The same by distances to centers (see :func:`simplified_silhouette`): what K is chosen by.
    stability : float
        How well clusterings of samples of the rows agree with this one on their rows: the mean
        adjusted Rand index. NaN where there are no samples.
    iterations : int
        Iterations that it took from the K before.
    seconds : float
        Time that it took, samples and silhouettes included.
    """

    k: int
    cost: float
    silhouette: float
    silhouette_error: float
    simplified_silhouette: float
    simplified_error: float
    stability: float
    iterations: int
    seconds: float


COLUMNS = {one.name: {"int": np.int64, "float": np.float64}[str(one.type)]
           for one in fields(ChoiceRecord)}  # fmt: skip


def as_table(records: list[ChoiceRecord]) -> np.ndarray:
    """The records as an array with named columns."""
    rows = [tuple(asdict(one).values()) for one in records]
    return np.array(rows, dtype=list(COLUMNS.items()))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Choice:
    """What :func:`choose_k` recommends.

    Attributes
    ----------
    k : int
        The number of clusters.
    reason, doubt : str
        Why this one, and what speaks against it.
    table : ndarray with named columns
        A row for each K that was tried, as :class:`ChoiceRecord` describes them:
        ``choice.table["cost"]`` has the costs. ``pandas.DataFrame(choice.table)`` takes it.
    knee : int
        Where the cost curve bends.
    labels : ndarray of shape (n_samples,), int32
        The clusters of the rows for this K.
    centers : csr_array or ndarray
        Their centers: ``KMeans(choice.k, init=choice.centers)`` starts from them.
    metric : str
        "euclidean" or "cosine".
    """

    k: int
    reason: str
    doubt: str
    table: np.ndarray
    labels: np.ndarray
    centers: Any
    metric: str

    @property
    def knee(self) -> int:
        return knee(self.table["k"], self.table["cost"])

    def __repr__(self) -> str:
        return f"<Choice: k={self.k} of {self.table['k'][0]} to {self.table['k'][-1]}>"

    def __str__(self) -> str:
        lines = ["    K          cost  silhouette  simplified  stability"]
        for row in self.table:
            stable = f"{row['stability']:.3f}" if np.isfinite(row["stability"]) else "-"
            mark = " <" if row["k"] == self.k else ""
            lines.append(
                f"{row['k']:5d}  {row['cost']:12.6g}  {row['silhouette']:10.4f}  "
                f"{row['simplified_silhouette']:10.4f}  {stable:>9}{mark}"
            )
        return "\n".join([*lines, self.reason, f"Doubt: {self.doubt}"])

    def plot(self, axes: Any = None) -> Any:
        """Draw cost, silhouettes and stability against K, with the choice and the knee marked.

        Parameters
        ----------
        axes : sequence of two matplotlib axes, default=None
            Where to draw; new ones by default.

        Returns
        -------
        The two axes.
        """
        if axes is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError:
                raise ImportError(
                    "A plot needs matplotlib: pip install 'sparsecluster[plot]'."
                ) from None
            axes = plt.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")[1]
        upper, lower = axes
        ks, bend = self.table["k"], self.knee
        upper.plot(ks, self.table["cost"], marker=".", color="C0")
        at = self.table["cost"][ks == bend][0]
        upper.plot([bend], [at], "o", color="C1", label=f"knee, K = {bend}")
        upper.set_ylabel("cost")
        lower.plot(ks, self.table["silhouette"], marker=".", color="C2", label="silhouette")
        lower.plot(ks, self.table["simplified_silhouette"], marker=".", color="C4",
                   label="simplified silhouette")  # fmt: skip
        lower.set_ylabel("silhouette")
        lower.set_xlabel("K")
        for one in (upper, lower):
            one.axvline(self.k, linestyle="--", color="gray", label=f"choice, K = {self.k}")
        handles, names = lower.get_legend_handles_labels()
        if np.isfinite(self.table["stability"]).any():
            beside = lower.twinx()
            beside.plot(ks, self.table["stability"], marker=".", color="C3", alpha=0.6,
                        label="stability")  # fmt: skip
            beside.set_ylabel("stability (adjusted Rand)")
            beside.set_ylim(0, 1.05)
            more, more_names = beside.get_legend_handles_labels()
            handles, names = handles + more, names + more_names
        lower.legend(handles, names, loc="best")
        upper.legend()
        return axes


def made_choice(
    recommendation: Recommendation,
    table: np.ndarray,
    labels: np.ndarray,
    centers: sp.csr_array,
    metric: str,
) -> Choice:
    """A recommendation with what stands behind it."""
    return Choice(
        k=recommendation.k,
        reason=recommendation.reason,
        doubt=recommendation.doubt,
        table=table,
        labels=labels,
        centers=centers,
        metric=metric,
    )
