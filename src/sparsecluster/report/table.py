"""The table of clusters of a report, and that of clusters that are most similar."""

from __future__ import annotations

from typing import Any

from sparsecluster.report.facts import Content, Survey

MOST_PAIRS = 8
TERMS_OF_A_PAIR = 4


def table(content: Content) -> dict[str, Any]:
    """What the template makes the two tables of."""
    found = [] if content.neighbors is None else content.neighbors.pairs(MOST_PAIRS)
    left_out = content.n_clusters - len(content.shown)
    return {
        "lines": [_line(content, cluster) for cluster in content.shown],
        "left_out": f"{left_out:,}" if left_out else "",
        "content": content,
        "pairs": [(one, other, f"{similarity:.3f}") for one, other, similarity in found],
        "top_terms": {
            cluster: content.top_terms(cluster, TERMS_OF_A_PAIR)[0]
            for pair in found
            for cluster in pair[:2]
        },
    }


def _line(content: Content, cluster: int) -> dict[str, Any]:
    survey = content.survey
    return {
        "cluster": cluster,
        "sizes": _size_cells(content, cluster),
        "terms": _terms(content, cluster),
        "distinguishing": content.distinguishing[cluster],
        "nearest_rows": [] if survey is None else survey.nearest_rows(cluster),
        "costs": [] if survey is None else _cost_cells(survey, cluster),
    }


def _cell(name: str, value: float, text: str, bar: float | None = None) -> dict[str, Any]:
    drawn = None if bar is None else f"{bar:.1%}"
    return {"name": name, "value": f"{value:.12g}", "text": text, "bar": drawn}


def _size_cells(content: Content, cluster: int) -> list[dict[str, Any]]:
    cells = []
    if content.sizes is not None:
        size, total = int(content.sizes[cluster]), max(float(content.sizes.sum()), 1.0)
        largest = max(float(content.sizes.max()), 1.0)
        cells += [
            _cell("rows", size, f"{size:,}"),
            _cell("share", size / total, f"{size / total:.2%}", bar=size / largest),
        ]
    if content.other_data:
        given = int(content.other_data.sizes[cluster])
        cells.append(_cell("rows given", given, f"{given:,}"))
    return cells


def _terms(content: Content, cluster: int) -> list[dict[str, Any]]:
    names, weights = content.top_terms(cluster, content.terms)
    return [
        {
            "name": name,
            "weight": f"{weight:.4g}",
            "height": f"{max(weight / weights[0], 0.04):.0%}",
        }
        for name, weight in zip(names, weights, strict=True)
    ]


def _cost_cells(survey: Survey, cluster: int) -> list[dict[str, Any]]:
    size, cost, total = int(survey.sizes[cluster]), survey.costs[cluster], survey.costs.sum()
    share = cost / total if total > 0 else 0.0
    largest = survey.costs.max() / total if total > 0 else 1.0
    mean = f"{cost / size:.4g}" if size else "–"
    return [
        _cell("mean squared distance", cost / max(size, 1), mean),
        _cell("share of cost", share, f"{share:.2%}", bar=share / largest),
    ]
