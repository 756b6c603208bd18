"""Where a search for K is: what it resumes from."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster.evaluation.chain import Link, Split
from sparsecluster.evaluation.choice import ChoiceRecord
from sparsecluster.storage.checkpoint import StateFile


@dataclass(frozen=True, kw_only=True)
class SearchState:
    """After a K: the records so far, the links of the chains, and clusterings to choose from."""

    records: list[ChoiceRecord] = field(default_factory=list)
    links: list[Link | None] = field(default_factory=list)
    #: labels and centers of those that may be recommended, by K
    kept: dict[int, tuple[np.ndarray, sp.csr_array]] = field(default_factory=dict)

    def save(self, file: StateFile) -> None:
        """Write it in the place of the state before."""
        file.save(
            {
                "records": [asdict(one) for one in self.records],
                "links": [None if link is None else _packed(link) for link in self.links],
                "kept": {
                    str(k): {"labels": labels, "centers": centers}
                    for k, (labels, centers) in self.kept.items()
                },
            }
        )

    @classmethod
    def load(cls, file: StateFile, sizes: list[int]) -> SearchState | None:
        """The state that was written last, for chains of so many rows; None where none was."""

        def restored(packed: dict[str, Any]) -> SearchState:
            links = [None if one is None else _unpacked(one) for one in packed["links"]]
            if len(links) != len(sizes):
                raise ValueError("the number of samples is another")
            for link, size in zip(links, sizes, strict=True):
                if link is not None and link.labels.shape != (size,):
                    raise ValueError("the labels are of a wrong shape")
            records = [ChoiceRecord(**_numbers(one)) for one in packed["records"]]
            kept = {
                int(k): (np.array(one["labels"]), sp.csr_array(one["centers"]))
                for k, one in packed["kept"].items()
            }
            return cls(records=records, links=links, kept=kept)

        return file.load(restored)


def _numbers(record: dict[str, Any]) -> dict[str, Any]:
    """What JSON cannot say, NaN, was left out of it."""
    return {name: float("nan") if one is None else one for name, one in record.items()}


def _packed(link: Link) -> dict[str, Any]:
    splits = link.splits
    halves = [one.centers for one in splits.values()]
    empty = sp.csr_array((0, link.centers.shape[1]))
    return {
        "labels": link.labels,
        "centers": link.centers,
        "cost": link.cost,
        "iterations": link.iterations,
        "split_clusters": np.array(list(splits), dtype=np.int64),
        "split_gains": np.array([one.gain for one in splits.values()], dtype=np.float64),
        "split_rows": np.array([one.shape[0] for one in halves], dtype=np.int64),
        "split_centers": sp.csr_array(sp.vstack(halves, format="csr")) if halves else empty,
    }


def _unpacked(packed: dict[str, Any]) -> Link:
    ends = np.cumsum(packed["split_rows"])
    centers = sp.csr_array(packed["split_centers"])
    parts = zip(packed["split_clusters"].tolist(), packed["split_gains"].tolist(),
                packed["split_rows"].tolist(), ends.tolist(), strict=True)  # fmt: skip
    return Link(
        labels=np.array(packed["labels"]),
        centers=sp.csr_array(packed["centers"]),
        cost=float(packed["cost"]),
        iterations=int(packed["iterations"]),
        splits={
            cluster: Split(gain=gain, centers=centers[end - rows : end])
            for cluster, gain, rows, end in parts
        },
    )
