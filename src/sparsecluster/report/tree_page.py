"""The page of a hierarchy: its dendrogram, the heights of its last merges, and its clusters."""

from __future__ import annotations

from typing import Any

from sparsecluster.report.labelled import cluster_values, head, sizes_of
from sparsecluster.report.plots import Axis, line_plot
from sparsecluster.report.templating import render

MOST_BRANCHES = 60
LAST_MERGES = 40
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1080, 380, 64, 12, 10, 48


def values(estimator: Any, title: str, version: str) -> dict[str, Any]:
    """What the template shows."""
    labels = estimator.labels_
    n_last = min(LAST_MERGES, len(estimator.linkage_))
    heights = estimator.linkage_[::-1, 2][:n_last]
    return {
        "title": title,
        "tiles": [
            ("rows", f"{len(labels):,}"),
            ("columns", f"{estimator.n_features_in_:,}"),
            ("clusters", f"{estimator.n_clusters_:,}"),
            ("cut above", f"{estimator.height_:,.6g}"),
            ("inversions", f"{estimator.n_inversions_:,}"),
        ],
        "making": head(
            estimator, version, ("linkage", f"{estimator.linkage}, by {estimator.metric} distance")
        ),
        "picture": dendrogram_picture(estimator),
        "heights": line_plot(
            range(1, n_last + 1),
            heights.tolist(),
            title="heights of the last merges",
            below="clusters left after the merge",
        ),
        **cluster_values(labels, sizes_of(labels, estimator.n_clusters_)),
    }


def dendrogram_picture(estimator: Any) -> Any:
    """The tree, or its top, as SVG."""
    lines = estimator.dendrogram(MOST_BRANCHES)
    if not len(lines.brackets):
        return ""
    n, top = len(lines.branches), float(lines.brackets[:, 4].max())
    up = Axis(0.0, top or 1.0, HEIGHT - BOTTOM, TOP, "linear")
    across = Axis(-0.5, n - 0.5, LEFT, WIDTH - RIGHT, "linear")
    clusters = estimator.clusters_of_nodes()
    brackets = []
    for node, (left, right, low, other, high) in zip(lines.nodes, lines.brackets, strict=True):
        a, b, y = across.place(left), across.place(right), up.place(high)
        brackets.append(
            {
                "d": f"M{a:.1f},{up.place(low):.1f}V{y:.1f}H{b:.1f}V{up.place(other):.1f}",
                "cluster": int(clusters[node]),
                "told": f"{high:,.6g}",
            }
        )
    branches = [
        {
            "place": across.place(float(i)),
            "text": f"({one.size:,})" if one.size > 1 else str(one.first),
        }
        for i, one in enumerate(lines.branches)
    ]
    ticks = [{"place": up.place(tick), "value": f"{tick:,.6g}"} for tick in up.ticks()]
    frame = {"width": WIDTH, "height": HEIGHT, "base": HEIGHT - BOTTOM}
    frame |= {"left": LEFT, "right": WIDTH - RIGHT}
    return render("dendrogram.svg", frame=frame, brackets=brackets, branches=branches, ticks=ticks)
