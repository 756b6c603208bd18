"""What density looks like in numbers: clusters and noise, and distances to neighbors."""

from __future__ import annotations

from typing import Any

from sparsecluster.cli.clusters import cluster_sizes, clusters_table
from sparsecluster.rows.errors import counted

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


def distance_summary(distances: Any, k: int) -> dict[str, Any]:
    """Quantiles of the distances to the k-th neighbors, and the radius at the knee."""
    import numpy as np

    from sparsecluster import suggest_eps

    quantiles = np.quantile(distances, SHARES).tolist()
    return {
        "k": k,
        "quantiles": {f"{share:g}": one for share, one in zip(SHARES, quantiles, strict=True)},
        "suggested_eps": suggest_eps(distances),
    }


def distance_lines(summary: dict[str, Any]) -> list[str]:
    """The same for people."""
    quantiles = ", ".join(
        f"{100 * float(share):g}% {one:.3g}" for share, one in summary["quantiles"].items()
    )
    return [
        f"distance to neighbor {summary['k']}: {quantiles}",
        f"the curve bends at {summary['suggested_eps']:.4g}: try dbscan --eps "
        f"{summary['suggested_eps']:.4g} --min-samples {summary['k'] + 1}",
    ]


def density_summary(estimator: Any) -> dict[str, Any]:
    """What a fit found, as JSON can hold it."""
    core = getattr(estimator, "core_sample_indices_", None)
    return {
        "estimator": type(estimator).__name__,
        "clusters": estimator.n_clusters_,
        "noise": estimator.n_noise_,
        "core_rows": None if core is None else len(core),
        "sizes": cluster_sizes(estimator),
    }


def density_lines(
    estimator: Any, summary: dict[str, Any], *columns: tuple[str, list[str]]
) -> list[Any]:
    """The largest clusters, and how much is noise."""
    n_rows = len(estimator.labels_)
    found = f"{counted(summary['clusters'], 'cluster')} of {counted(n_rows, 'row')}: "
    found += f"{summary['noise']:,} ({summary['noise'] / n_rows:.1%}) are noise"
    if summary["core_rows"] is not None:
        found += f", {summary['core_rows']:,} core"
    return [*(clusters_table(estimator, 0, *columns) if summary["clusters"] else []), found]
