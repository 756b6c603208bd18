"""How far the k-th neighbors of rows are, and the radius that this suggests for DBSCAN."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsecluster.neighbors.graphs import nearest
from sparsecluster.neighbors.search import Progress, Search, entered_search


def k_distances(
    X: Any,
    k: int = 4,
    *,
    metric: str = "cosine",
    n_threads: int | None = None,
    memory_limit: int | str | None = None,
    progress: Progress | None = None,
) -> np.ndarray:
    """The distance of each row to its k-th nearest neighbor, itself not counted.

    Sorted, these distances show where clusters end and noise begins: DBSCAN with
    ``min_samples=k + 1`` makes the rows core whose distance is at most `eps` (Ester et al. 1996).

    Parameters
    ----------
    X : matrix, frame, Rows, store or path
        The rows.
    k : int, default=4
        Which neighbor.
    metric, n_threads, memory_limit, progress
        As for :func:`~sparsecluster.radius_graph`.

    Returns
    -------
    ndarray of float64
        One distance per row, in the order of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import k_distances
    >>> k_distances(np.array([[0.0], [1.0], [3.0], [9.0]]), 1, metric="euclidean")
    array([1., 1., 2., 6.])
    """
    search = entered_search(
        X, metric=metric, n_threads=n_threads, memory_limit=memory_limit, progress=progress
    )
    return kth_distances(search, k)


def kth_distances(search: Search, k: int) -> np.ndarray:
    """The distance of each row of a search to its k-th nearest neighbor."""
    _, distances = nearest(search, k)
    return distances[k - 1 :: k].copy()


def suggest_eps(distances: Any, *, plot: Any = None) -> float:
    """The k-distance at the knee of the sorted curve: a radius to try first.

    The knee is the point of the ascending curve that lies farthest below the straight line from its
    first point to its last, both axes scaled to one (the rule of Kneedle, Satopaa et al. 2011). Of
    several such points the first counts.

    Parameters
    ----------
    distances : array-like
        What :func:`k_distances` gives.
    plot : bool or matplotlib axes, default=None
        Draw the sorted distances with the knee, on new axes (True) or on these. Needs matplotlib.

    Returns
    -------
    float

    Examples
    --------
    >>> from sparsecluster import suggest_eps
    >>> suggest_eps([0.1, 0.2, 0.1, 0.2, 0.9, 0.8])
    0.2
    """
    curve = np.sort(np.asarray(distances, dtype=np.float64).ravel())
    if not len(curve) or not np.all(np.isfinite(curve)) or curve[0] < 0:
        raise ValueError("distances must be finite numbers of at least 0, one per row.")
    span = curve[-1] - curve[0]
    line = np.linspace(0.0, 1.0, len(curve))
    below = line - (curve - curve[0]) / (span if span > 0 else 1.0)
    knee = int(np.argmax(below)) if span > 0 else len(curve) - 1
    if plot is not None and plot is not False:
        plot_k_distances(curve, float(curve[knee]), axes=None if plot is True else plot)
    return float(curve[knee])


def plot_k_distances(distances: Any, eps: float | None = None, *, axes: Any = None) -> Any:
    """Draw sorted k-distances, and a radius where one is given.

    Parameters
    ----------
    distances : array-like
        What :func:`k_distances` gives.
    eps : float, default=None
        A radius to mark.
    axes : matplotlib axes, default=None
        Where to draw; new ones by default.

    Returns
    -------
    matplotlib axes
    """
    if axes is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError(
                "A plot needs matplotlib: pip install 'sparsecluster[plot]'."
            ) from None
        axes = plt.subplots()[1]
    curve = np.sort(np.asarray(distances, dtype=np.float64).ravel())
    axes.plot(np.arange(1, len(curve) + 1), curve)
    axes.set_xlabel("rows, by distance")
    axes.set_ylabel("distance to the k-th neighbor")
    if eps is not None:
        axes.axhline(eps, linestyle="--", color="gray", label=f"eps = {eps:.3g}")
        axes.legend()
    return axes
