"""Which K a table of clusterings speaks for, why, and what speaks against it.

It goes by the simplified silhouette (Hruschka et al. 2004), by distances to centers. Mean distances
to the rows of a cluster hold its spread as well: a cluster of short rows, which spread little, is
then near to all rows, and clusterings that have one look bad, however well they tell others apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Below these a silhouette is called low, and clusters are called unstable.
LOW, UNSTABLE = 0.1, 0.6
STEADIER = 0.05  # by which another K must be more stable to be told
FLAT = 0.02  # of the highest silhouette: another maximum this near is told


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """A number of clusters, the reason for it, and the doubt about it."""

    k: int
    reason: str
    doubt: str


def knee(ks: np.ndarray, costs: np.ndarray) -> int:
    """Where a falling curve bends: the point farthest below the line from its first to its last.

    Both axes are scaled to one (the rule of Kneedle, Satopaa et al. 2011). Of several such points
    the first counts.
    """
    fall = costs[0] - costs[-1]
    if len(ks) < 3 or not fall > 0:
        return int(ks[0])
    line = (ks - ks[0]) / (ks[-1] - ks[0])
    below = (1.0 - line) - (costs - costs[-1]) / fall
    return int(ks[int(np.argmax(below))])


def candidates(ks: np.ndarray, silhouettes: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """All K whose simplified silhouette is within its standard error of the highest.

    What is left out stays so when larger K are added: the highest only rises.
    """
    return ks[silhouettes + errors >= silhouettes.max()]


def recommend(
    table: np.ndarray, *, complete: bool = True, too_many: int | None = None
) -> Recommendation:
    """Of those whose simplified silhouette is within its standard error of the highest, the most
    stable K.

    Stabilities are compared to two digits; of equal ones, and without any, the highest silhouette
    counts. The table is `complete` if it has all of the range; `too_many` is the K that ended it
    because there are too few distinct rows.
    """
    ks, silhouettes = table["k"], table["simplified_silhouette"]
    near = np.isin(ks, candidates(ks, silhouettes, table["simplified_error"]))
    stable = np.round(np.nan_to_num(table["stability"], nan=-1.0), 2)
    order = np.lexsort((ks, -silhouettes, -stable, ~near))
    chosen = table[order[0]]
    k, best = int(chosen["k"]), int(ks[np.argmax(silhouettes)])
    bend = knee(ks, table["cost"])
    return Recommendation(
        k=k,
        reason=_reason(chosen, best, float(silhouettes.max()), bend, len(table)),
        doubt=_doubt(table, chosen, bend, _range_doubts(table, k, complete, too_many)),
    )


def _reason(chosen: np.void, best: int, highest: float, bend: int, n_tried: int) -> str:
    k, value = int(chosen["k"]), float(chosen["simplified_silhouette"])
    if n_tried == 1:
        return f"K = {k} is the only one that was tried (simplified silhouette {value:.3f})."
    if k == best:
        reason = f"K = {k} has the highest simplified silhouette, {value:.3f}"
    else:
        reason = (
            f"K = {k} is the most stable of those whose simplified silhouette is within its "
            f"standard error of the highest: it has {value:.3f}, and K = {best} has {highest:.3f}"
        )
    told = []
    if np.isfinite(chosen["stability"]):
        told.append(
            f"clusterings of samples of the rows agree with it by an adjusted Rand index of "
            f"{chosen['stability']:.2f}"
        )
    if bend == k:
        told.append("the cost curve bends there, too")
    return reason + "".join(f"; {one}" for one in told) + "."


def _range_doubts(table: np.ndarray, k: int, complete: bool, too_many: int | None) -> list[str]:
    """What is open because of where the table begins and ends."""
    ks, costs, doubts = table["k"], table["cost"], []
    last, larger = int(ks[-1]), "and a larger one may be better"
    # Without a cost every cluster is of equal rows.
    if costs[-1] <= 1e-12 * costs[0]:
        doubts.append(f"K = {last} leaves no cost: X has no more distinct rows than that")
    elif too_many is not None:
        doubts.append(
            f"the search ended at K = {last}: X has too few distinct rows for {too_many} clusters"
        )
    elif not complete:
        ended = f"the search ended at K = {last}, before the end of the range"
        doubts.append(f"{ended}, {larger}" if k == last else ended)
    elif len(ks) == 1:
        doubts.append("no other K was tried")
    elif k == last:
        doubts.append(f"it is the last of the range, {larger}")
    if len(ks) > 1 and k == ks[0]:
        smaller = "a smaller one may be better" if k > 2 else "the rows may be one cluster alone"
        doubts.append(f"it is the first of the range, and {smaller}")
    return doubts


def _doubt(table: np.ndarray, chosen: np.void, bend: int, range_doubts: list[str]) -> str:
    ks, silhouettes, k = table["k"], table["simplified_silhouette"], int(chosen["k"])
    doubts = list(range_doubts)
    if chosen["silhouette"] < LOW:
        doubts.append(
            f"a silhouette of {chosen['silhouette']:.3f} is low: clusters overlap, or there are "
            f"none"
        )
    if np.isfinite(chosen["stability"]) and chosen["stability"] < UNSTABLE:
        doubts.append("samples of the rows give other clusters")
    stable = np.nan_to_num(table["stability"], nan=-1.0)
    if stable.max() > stable[ks == k][0] + STEADIER:
        steadiest = int(np.argmax(stable))
        doubts.append(f"K = {ks[steadiest]} is more stable, with {stable[steadiest]:.2f}")
    rival, best = _rival(ks, silhouettes, k), int(np.argmax(silhouettes))
    if silhouettes[best] > chosen["simplified_silhouette"]:
        doubts.append(f"K = {ks[best]} has a higher simplified silhouette, {silhouettes[best]:.3f}")
    elif rival is not None:
        doubts.append(
            f"K = {rival[0]} is nearly as good, with a simplified silhouette of {rival[1]:.3f}"
        )
    if len(ks) > 2 and bend != k:
        doubts.append(f"the cost curve bends at K = {bend}")
    if not doubts:
        compared = len(ks) > 2 and np.isfinite(chosen["stability"])
        agreed = "all measures agree" if compared else "nothing that was measured speaks against it"
        return f"Little: {agreed}."
    return f"{doubts[0][0].upper()}{'; '.join(doubts)[1:]}."


def _rival(ks: np.ndarray, silhouettes: np.ndarray, k: int) -> tuple[int, float] | None:
    """Another peak of the silhouettes that is nearly as high."""
    padded = np.concatenate([[-np.inf], silhouettes, [-np.inf]])
    peak = (silhouettes > padded[:-2]) & (silhouettes >= padded[2:]) & (ks != k)
    peak &= np.abs(ks - k) > 1
    near = peak & (silhouettes >= (1 - FLAT) * silhouettes.max())
    if not near.any():
        return None
    best = int(np.flatnonzero(near)[np.argmax(silhouettes[near])])
    return int(ks[best]), float(silhouettes[best])
