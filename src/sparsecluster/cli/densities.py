"""What density looks like in numbers: clusters and noise, and distances to neighbors."""

from __future__ import annotations

from typing import Any

from sparsecluster.rows.errors import counted

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_SHOWN = 50  # clusters in a table


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
    import numpy as np

    labels = estimator.labels_
    sizes = np.bincount(labels[labels >= 0], minlength=estimator.n_clusters_)
    core = getattr(estimator, "core_sample_indices_", None)
    return {
        "estimator": type(estimator).__name__,
        "clusters": estimator.n_clusters_,
        "noise": estimator.n_noise_,
        "core_rows": None if core is None else len(core),
        "sizes": sizes.tolist(),
    }


def density_lines(summary: dict[str, Any], n_rows: int) -> list[Any]:
    """The largest clusters, and how much is noise."""
    from rich.table import Table

    table = Table()
    table.add_column("cluster", justify="right", style="dim")
    table.add_column("rows", justify="right")
    sizes = summary["sizes"]
    order = sorted(range(len(sizes)), key=lambda one: (-sizes[one], one))
    for cluster in order[:MOST_SHOWN]:
        table.add_row(str(cluster), f"{sizes[cluster]:,}")
    more = len(order) - MOST_SHOWN
    found = f"{counted(summary['clusters'], 'cluster')} of {counted(n_rows, 'row')}: "
    found += f"{summary['noise']:,} ({summary['noise'] / n_rows:.1%}) are noise"
    if summary["core_rows"] is not None:
        found += f", {summary['core_rows']:,} core"
    return [
        *([table] if sizes else []),
        *([f"and {more:,} smaller ones (use --json to list all)"] if more > 0 else []),
        found,
    ]
