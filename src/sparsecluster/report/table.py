"""The table of clusters of a report, and that of clusters that are most alike."""

from __future__ import annotations

from sparsecluster.report.content import Content, escaped
from sparsecluster.report.facts import Neighbours, Survey, top_columns

MOST_PAIRS = 8
TERMS_OF_A_PAIR = 4
LONGEST_TEXT = 160


def clusters(content: Content) -> str:
    """The table of the clusters, largest first."""
    heads = "".join(f'<th scope="col" class="{kind}">{name}</th>' for name, kind in _heads(content))
    lines = "".join(_line(content, cluster) for cluster in content.shown)
    rest = content.n_clusters - len(content.shown)
    left_out = f"<p>The other {rest:,} clusters, none of them larger, are left out.</p>"
    return (
        f'<p class="note">{_note(content)}</p><table id="table"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table>{left_out if rest else ''}"
    )


def _note(content: Content) -> str:
    """How to read the table."""
    columns = "Terms are the columns" if len(content.names) else "Shown are the columns"
    said = (
        f"{columns} with the largest weights in the center; the bar beside each is its weight "
        f"against the largest of its cluster. Clusters, columns and rows are counted from 0."
    )
    if content.survey is not None and content.estimator.metric == "cosine":
        said += " A squared distance is twice what the cosine lacks of 1."
    return said


def _heads(content: Content) -> list[tuple[str, str]]:
    heads = [("cluster", "number")]
    if content.sizes is not None:
        seen = content.fitted is not None and content.fitted.labels is None
        heads += [("rows seen" if seen else "rows", "number"), ("share", "number")]
    if content.other_data:
        heads.append(("rows given", "number"))
    with_rows = content.survey is not None and len(content.survey.nearest[0])
    columns = "top terms" if len(content.names) else "top columns"
    heads.append((columns + (" and nearest rows" if with_rows else ""), "about"))
    if content.survey is not None:
        heads += [("mean squared distance", "number"), ("share of cost", "number")]
    if content.neighbours is not None:
        heads.append(("most alike", "number"))
    return heads


def _line(content: Content, cluster: int) -> str:
    cells = []
    if content.sizes is not None:
        size, total = int(content.sizes[cluster]), max(float(content.sizes.sum()), 1.0)
        largest = max(float(content.sizes.max()), 1.0)
        cells += [
            _cell("rows", size, f"{size:,}"),
            _cell("share", size / total, f"{size / total:.2%}", bar=size / largest),
        ]
    if content.other_data and content.survey is not None:
        given = int(content.survey.sizes[cluster])
        cells.append(_cell("rows given", given, f"{given:,}"))
    cells.append(f'<td class="about">{_terms(content, cluster)}{_examples(content, cluster)}</td>')
    if content.survey is not None:
        cells += _cost_cells(content.survey, cluster)
    if content.neighbours is not None:
        cells.append(_neighbour(content, content.neighbours, cluster))
    return (
        f'<tr id="c{cluster}"><th scope="row" data-value="{cluster}">{cluster}</th>'
        f"{''.join(cells)}</tr>"
    )


def _cell(name: str, value: float, said: str, bar: float | None = None) -> str:
    drawn = "" if bar is None else f'<span class="bar" style="width:{bar:.1%}"></span>'
    return f'<td class="number" data-label="{name}" data-value="{value:.12g}">{said}{drawn}</td>'


def _terms(content: Content, cluster: int) -> str:
    columns, weights = top_columns(content.centers, cluster, content.terms)
    if not len(columns):
        return '<p class="terms">no column above zero</p>'
    shown = (
        f'<span class="term" title="{weight:.4g}">'
        f'<i style="height:{max(weight / weights[0], 0.04):.0%}"></i>'
        f"<bdi>{content.term(int(column))}</bdi></span>"
        for column, weight in zip(columns, weights, strict=True)
    )
    return f'<p class="terms">{" ".join(shown)}</p>'


def _examples(content: Content, cluster: int) -> str:
    rows = [] if content.survey is None else content.survey.nearest_rows(cluster)
    if not rows:
        return ""
    if not content.texts:
        numbers = ", ".join(f'<span class="row">{row}</span>' for row in rows)
        return f'<p class="examples">rows {numbers}</p>'
    items = "".join(
        f'<li><span class="row">{row}</span> <bdi>{escaped(content.texts[row], LONGEST_TEXT)}</bdi>'
        f"</li>"
        for row in rows
    )
    return f'<ul class="examples">{items}</ul>'


def _cost_cells(survey: Survey, cluster: int) -> list[str]:
    size, cost, total = int(survey.sizes[cluster]), survey.costs[cluster], survey.costs.sum()
    share = cost / total if total > 0 else 0.0
    largest = survey.costs.max() / total if total > 0 else 1.0
    mean = f"{cost / size:.4g}" if size else "–"
    return [
        _cell("mean squared distance", cost / max(size, 1), mean),
        _cell("share of cost", share, f"{share:.2%}", bar=share / largest),
    ]


def _neighbour(content: Content, found: Neighbours, cluster: int) -> str:
    alike, likeness = int(found.alike[cluster]), found.likeness[cluster]
    told = f"{_link(content, alike)} <small>{likeness:.3f}</small>"
    if content.estimator.metric != "cosine":
        nearest = _link(content, int(found.nearest[cluster]))
        told += f"<small>nearest {nearest}: {found.distance[cluster]:.3g}</small>"
    return f'<td class="number" data-label="most alike" data-value="{likeness:.12g}">{told}</td>'


def _link(content: Content, cluster: int) -> str:
    return f'<a href="#c{cluster}">{cluster}</a>' if cluster in content.has_line else f"{cluster}"


def pairs(content: Content) -> str:
    """The clusters that are most alike."""
    found = content.neighbours
    if found is None:
        return ""
    lines = "".join(
        f"<tr><td>{_shortly_of(content, one)}</td><td>{_shortly_of(content, other)}</td>"
        f'<td class="number">{likeness:.3f}</td></tr>'
        for one, other, likeness in found.pairs(MOST_PAIRS)
    )
    measure = (
        "By the cosine of their centers: 1 for the same direction"
        if content.estimator.metric == "cosine"
        else "By 2ab / (aa + bb) of their centers a and b: 1 if they are equal"
    )
    return (
        f'<h2>Clusters that are most alike</h2><p class="note">{measure}, 0 if they have nothing '
        f'in common.</p><table id="pairs"><tbody>{lines}</tbody></table>'
    )


def _shortly_of(content: Content, cluster: int) -> str:
    columns, _ = top_columns(content.centers, cluster, TERMS_OF_A_PAIR)
    terms = ", ".join(f"<bdi>{content.term(int(column))}</bdi>" for column in columns)
    return f"<b>{_link(content, cluster)}</b> {terms}"
