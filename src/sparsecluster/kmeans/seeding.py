"""Starting centers: by name (a function each, in METHODS), given, or from a user's function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from sparsecluster import _core
from sparsecluster.kmeans import centers as centers_
from sparsecluster.kmeans.assignment import make_assigner
from sparsecluster.kmeans.empty import warn_fewer_distinct
from sparsecluster.kmeans.setting import SeedSetting, Setting
from sparsecluster.rows.checks import check_number
from sparsecluster.rows.names import check_name
from sparsecluster.rows.rows import MAX_INDEX, Rows

# Squared chords of the unit sphere are 2 - 2 cos, so 1.5 - cos = (squared chord + 1) / 2.
SPHERICAL_FLOOR = 1.0


def seed(
    init: Any,
    rows: Rows,
    n_clusters: int,
    setting: SeedSetting,
    options: dict[str, Any] | None = None,
) -> _core.Centers:
    """Centers to start from; fewer, with a warning, where there are fewer distinct rows."""
    if callable(init):
        matrix = rows.matrix if rows.selected is None else rows.picked(np.arange(rows.n_rows))
        init = init(matrix, n_clusters, random_state=setting.random_state)
        if isinstance(init, tuple):
            raise ValueError(
                "The init function returned a tuple; it must return the centers alone."
            )
    if not isinstance(init, str):
        given = centers_.check_centers(init, n_clusters, rows.n_features)
        return centers_.to_core(centers_.on_sphere(given) if setting.metric == "cosine" else given)
    centers, _ = seed_by_name(init, rows, n_clusters, setting, options)
    return centers_.to_core(centers)


def seed_by_name(
    method: str, rows: Rows, n_clusters: int, setting: SeedSetting, options: dict[str, Any] | None
) -> tuple[sp.csr_array, np.ndarray | None]:
    """Centers in float64, and the rows they are, or None where they are not rows."""
    check_method(method, setting.metric, options)
    eligible = None
    if setting.metric == "cosine" and not rows.core.norm2.all():
        # Rows without direction make no centers.
        eligible = np.flatnonzero(rows.core.norm2)
        if not len(eligible):
            raise ValueError("All rows of X are zero: there is no direction to start from.")
        weights = None if setting.weights is None else setting.weights[eligible]
        if weights is not None and not weights.any():
            raise ValueError("All rows of X that have weight are zero: there is no direction.")
        setting = replace(setting, weights=weights)
        rows = rows.select(eligible)
    found = METHODS[method](rows, n_clusters, setting, **(options or {}))
    if sp.issparse(found):
        centers = sp.csr_array(found, dtype=np.float64)
        return (centers_.on_sphere(centers) if setting.metric == "cosine" else centers), None
    if len(found) < n_clusters:
        warn_fewer_distinct(len(found), n_clusters)
    return rows.take(found), (found if eligible is None else eligible[found])


def check_method(
    method: str, metric: str, options: dict[str, Any] | None = None, *, name: str = "init"
) -> None:
    """Refuse unknown names and options, before any work; `name` is what the caller calls it."""
    check_name(name, method, tuple(METHODS))
    if method == "spkm++" and metric != "cosine":
        raise ValueError(
            f"{name}='spkm++' draws by cosines and needs rows of unit norm: use SphericalKMeans "
            f"(metric='cosine')."
        )
    if not options:
        return
    known = {
        option: parameter.annotation
        for option, parameter in inspect.signature(METHODS[method]).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    for option, value in options.items():
        if option not in known:
            takes = f"takes {', '.join(known)}" if known else "takes no options"
            raise ValueError(f"{option!r} is no option of {name}={method!r}, which {takes}.")
        if "float" in known[option]:
            check_number(option, value, Real, 0)
            if not 0 < value < np.inf:
                raise ValueError(f"{option} must be positive and finite, got {value!r}.")
        else:
            check_number(option, value, Integral, 1)
            if value > MAX_INDEX:
                raise ValueError(f"{option} must be at most {MAX_INDEX}, got {value!r}.")


# --- one function a method: indices of rows, or centers as a CSR array -------------------------


def random_rows(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Rows at random, in proportion to their weights, each at most once."""
    chance, possible = None, rows.n_rows
    if setting.weights is not None:
        chance = setting.weights / setting.weights.sum()
        possible = int(np.count_nonzero(chance))
    return setting.random_state.choice(
        rows.n_rows, min(possible, n_clusters), replace=False, p=chance
    )


def n_candidates(n_clusters: int) -> int:
    """Rows that greedy k-means++ tries a step: 2 + ln K, as scikit-learn and sparsekmeans do.

    (The text of SparseKmeans says log2; its package and scikit-learn take the natural logarithm.)
    """
    return 2 + int(np.log(n_clusters))


def greedy_kmeans_plusplus(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, n_local_trials: int | None = None
) -> np.ndarray:
    """Each center the best of several draws by squared distance (Arthur, Vassilvitskii 2007)."""
    trials = n_candidates(n_clusters) if n_local_trials is None else int(n_local_trials)
    return _draw_by_distance(rows, n_clusters, setting, trials)


def plain_kmeans_plusplus(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Each center drawn in proportion to the squared distance to the nearest one so far."""
    return _draw_by_distance(rows, n_clusters, setting, 1)


def spkm_plusplus(rows: Rows, n_clusters: int, setting: SeedSetting) -> np.ndarray:
    """Each center drawn in proportion to 1.5 less the cosine with the nearest one so far.

    The slides give this once as 1.5 (1 - cos) and once as 1.5 - cos. The second is meant: only it
    adds up to the objective 1.5 n - sum cos that it is divided by, and the theorem is about it.
    """
    return _draw_by_distance(rows, n_clusters, setting, 1, SPHERICAL_FLOOR)


def _draw_by_distance(
    rows: Rows, n_clusters: int, setting: SeedSetting, trials: int, floor: float = 0.0
) -> np.ndarray:
    needed = 8 * (n_clusters - 1) * trials
    if trials > 1 and needed > max(setting.memory_limit, 2**30):
        raise ValueError(
            f"n_local_trials={trials} needs {needed / 1e9:.3g} GB of random numbers for "
            f"{n_clusters} clusters, more than the memory limit. Try fewer."
        )
    first = first_row(rows, setting)
    draws = setting.random_state.random_sample((n_clusters - 1, trials))
    indices, _ = _core.greedy_kmeans_plusplus(
        rows.core, n_clusters, first, draws, setting.weights, floor, setting.memory_limit,
        setting.n_threads,
    )  # fmt: skip
    return np.asarray(indices)


def first_row(rows: Rows, setting: SeedSetting) -> int:
    """A row at random, by weight."""
    if setting.weights is None:
        return int(setting.random_state.randint(rows.n_rows))
    return int(setting.random_state.choice(rows.n_rows, p=setting.weights / setting.weights.sum()))


def mcmc(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, chain_length: int = 100
) -> np.ndarray:
    """Draws of k-means++ (of spkm++ for the cosine) approximated by Markov chains: one pass."""
    first = first_row(rows, setting)
    floor = SPHERICAL_FLOOR if setting.metric == "cosine" else 0.0
    chain_seed = int(setting.random_state.randint(np.iinfo(np.int64).max, dtype=np.int64))
    indices = _core.chain_seeds(
        rows.core, n_clusters, int(chain_length), first, chain_seed, setting.weights, floor,
        setting.n_threads,
    )  # fmt: skip
    return np.asarray(indices)


def kmeans_parallel(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, oversampling: float = 2.0, rounds: int = 5
) -> np.ndarray:
    """k-means|| (Bahmani et al. 2012): a few rounds of many draws, then greedy k-means++ on them.

    `oversampling` times `n_clusters` rows are expected a round.
    """
    weights = np.ones(rows.n_rows) if setting.weights is None else setting.weights
    chosen = np.array([first_row(rows, setting)])
    distance2 = nearest_of(rows, rows.take(chosen), setting)[1]
    for _ in range(int(rounds)):
        chance = weights * distance2
        total = chance.sum()
        if not total > 0:
            break
        drawn = setting.random_state.random_sample(rows.n_rows)
        new = np.flatnonzero(drawn * total < oversampling * n_clusters * chance)
        if len(new):
            distance2 = np.minimum(distance2, nearest_of(rows, rows.take(new), setting)[1])
            chosen = np.concatenate([chosen, new])
    chosen = np.unique(chosen)
    if len(chosen) < n_clusters:
        # Too few rounds for so many centers: the rest as k-means++ would.
        return greedy_kmeans_plusplus(rows, n_clusters, setting)
    nearest, _ = nearest_of(rows, rows.take(chosen), setting)
    counts = np.bincount(nearest, weights, minlength=len(chosen))
    few = rows.select(chosen)
    found = greedy_kmeans_plusplus(few, n_clusters, replace(setting, weights=counts))
    return chosen[found]


def furthest_first(rows: Rows, n_clusters: int, setting: SeedSetting) -> sp.csr_array:
    """The mean, then again and again the row farthest from all centers so far."""
    mean = mean_row(rows, setting)
    if setting.metric == "cosine":
        mean = centers_.on_sphere(mean)
    found = farthest_rows(rows, n_clusters - 1, setting, start=mean)
    if len(found) + 1 < n_clusters:
        warn_fewer_distinct(len(found) + 1, n_clusters)
    return sp.csr_array(sp.vstack([mean, rows.take(found)], format="csr"))


def oversample(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, oversampling: float = 4.0
) -> np.ndarray:
    """More rows than needed at random; of these, those that lie farthest apart are kept."""
    more = min(rows.n_rows, int(np.ceil(max(1.0, oversampling) * n_clusters)))
    drawn = np.sort(random_rows(rows, more, setting))
    few = rows.select(drawn)
    alike = replace(setting, weights=None)
    first = farthest_rows(few, 1, alike, start=mean_row(few, alike))
    if not len(first):
        return drawn[:1]
    others = farthest_rows(few, n_clusters - 1, alike, start=few.take(first))
    return drawn[np.concatenate([first, others])]


def bisecting(rows: Rows, n_clusters: int, setting: SeedSetting) -> sp.csr_array:
    """Means of clusters that come from splitting the costliest cluster in two, again and again."""
    from sparsecluster.kmeans.loop import iterate  # which starts from what this module finds

    parts = [np.arange(rows.n_rows)]
    costs = [_scatter(rows, setting.weights)]
    while len(parts) < n_clusters and max(costs) > 0:
        worst = int(np.argmax(costs))
        members = parts[worst]
        few = rows.select(members)
        weights = None if setting.weights is None else setting.weights[members]
        inner = replace(setting, weights=weights)
        start = _draw_by_distance(few, 2, inner, n_candidates(2))
        if len(start) < 2:
            costs[worst] = 0.0
            continue
        columns = _core.column_stats(few.core, weights)
        found = iterate(
            few,
            centers_.to_core(few.take(start)),
            inner,
            columns=columns,
            tolerance=1e-4 * columns.mean_variance,
            max_iter=50,
            on_iteration=lambda record: None,
        )
        halves = [members[found.labels == side] for side in (0, 1)]
        if not all(map(len, halves)):
            costs[worst] = 0.0
            continue
        distance2 = _core.own_distances(few.core, found.centers, found.labels, setting.n_threads)
        if weights is not None:
            distance2 = distance2 * weights
        parts[worst : worst + 1] = halves
        costs[worst : worst + 1] = [
            float(distance2[found.labels == side].sum()) if len(halves[side]) > 1 else 0.0
            for side in (0, 1)
        ]
    if len(parts) < n_clusters:
        warn_fewer_distinct(len(parts), n_clusters)
    return _means(rows, parts, setting)


def hierarchical(
    rows: Rows, n_clusters: int, setting: SeedSetting, *, sample_size: int = 2000
) -> sp.csr_array:
    """Means of the clusters that Ward's method finds in a sample."""
    from scipy.cluster.hierarchy import fcluster, linkage

    size = min(rows.n_rows, max(int(sample_size), 2 * n_clusters))
    if 16 * size * size > setting.memory_limit:
        raise ValueError(
            f"init='hierarchical' needs the distances between {size} rows, "
            f"{16 * size * size / 1e9:.3g} GB, more than the memory limit of "
            f"{setting.memory_limit / 1e9:.3g} GB. Lower sample_size, or choose another init."
        )
    drawn = np.sort(random_rows(rows, size, setting))
    if len(drawn) <= n_clusters:
        return rows.take(drawn)
    sample = rows.take(drawn)
    norm2 = np.asarray(sample.power(2).sum(axis=1)).ravel()
    distance2 = norm2[:, None] + norm2 - 2 * (sample @ sample.T).toarray()
    condensed = np.sqrt(np.maximum(distance2[np.triu_indices(len(drawn), 1)], 0.0))
    labels = fcluster(linkage(condensed, "ward"), n_clusters, "maxclust") - 1
    parts = [drawn[labels == cluster] for cluster in range(labels.max() + 1)]
    if len(parts) < n_clusters:
        warn_fewer_distinct(len(parts), n_clusters)
    return _means(rows, parts, setting)


METHODS: dict[str, Callable[..., Any]] = {
    "k-means++": greedy_kmeans_plusplus,
    "plain-k-means++": plain_kmeans_plusplus,
    "spkm++": spkm_plusplus,
    "mcmc": mcmc,
    "k-means||": kmeans_parallel,
    "furthest-first": furthest_first,
    "oversample": oversample,
    "bisecting": bisecting,
    "hierarchical": hierarchical,
    "random": random_rows,
}


# --- what they share ----------------------------------------------------------------------------


def nearest_of(
    rows: Rows, centers: sp.csr_array, setting: Setting
) -> tuple[np.ndarray, np.ndarray]:
    """For each row the nearest of the centers, and its squared distance."""
    core = centers_.to_core(centers)
    labels = np.full(rows.n_rows, -1, dtype=np.int32)
    assigner = make_assigner("lloyd", rows, setting)
    assigner.assign(core, np.zeros(0), labels)
    return labels, _core.own_distances(rows.core, core, labels, setting.n_threads)


def farthest_rows(
    rows: Rows, count: int, setting: SeedSetting, *, start: sp.csr_array
) -> np.ndarray:
    """Row by row the one farthest from `start` and from all before; of equals the first."""
    distance2 = nearest_of(rows, start, setting)[1]
    if setting.weights is not None:
        distance2 = np.where(setting.weights > 0, distance2, -1.0)
    found: list[int] = []
    while len(found) < count:
        farthest = int(np.argmax(distance2))
        if not distance2[farthest] > 0:
            break
        found.append(farthest)
        distance2 = np.minimum(
            distance2, nearest_of(rows, rows.take(np.array([farthest])), setting)[1]
        )
    return np.array(found, dtype=np.int64)


def mean_row(rows: Rows, setting: SeedSetting) -> sp.csr_array:
    """The mean of all rows, as a CSR array of one row."""
    return _means(rows, [np.arange(rows.n_rows)], setting)


def _means(rows: Rows, parts: list[np.ndarray], setting: SeedSetting) -> sp.csr_array:
    """The weighted mean of each list of rows; of the rows alike where they have no weight.

    With cosines, where a mean is zero and has no direction, a row of the list stands for it.
    """
    shares, members = [], []
    for part in parts:
        share = np.ones(len(part)) if setting.weights is None else setting.weights[part]
        total = share.sum()
        shares.append(share / total if total > 0 else np.full(len(part), 1 / len(part)))
        members.append(part)
    means = _combined(rows, members, shares)
    if setting.metric == "cosine":
        lost = np.flatnonzero(abs(means).max(axis=1).toarray().ravel() < 1e-12)
        for cluster in lost:
            members[cluster], shares[cluster] = members[cluster][:1], np.ones(1)
        if len(lost):
            means = _combined(rows, members, shares)
    return means


def _combined(rows: Rows, members: list[np.ndarray], shares: list[np.ndarray]) -> sp.csr_array:
    indptr = np.concatenate([[0], np.cumsum([len(part) for part in members])])
    entries = (np.concatenate(shares), np.concatenate(members), indptr)
    pick = sp.csc_array(sp.csr_array(entries, shape=(len(members), rows.n_rows)))
    combined = sp.csr_array((len(members), rows.n_features))
    for begin, block in rows.in_blocks():
        combined += pick[:, begin : begin + block.shape[0]] @ block
    return combined


def _scatter(rows: Rows, weights: np.ndarray | None) -> float:
    return float(_core.column_stats(rows.core, weights).scatter)
