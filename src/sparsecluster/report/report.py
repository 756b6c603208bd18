"""A fitted model as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_clusterer
from sklearn.utils.validation import check_is_fitted

from sparsecluster import __version__
from sparsecluster.report import cluster_tree_page, density_page, sections, table, tree_page
from sparsecluster.report.facts import Content, fitted_sizes, neighbors, survey, texts_of
from sparsecluster.report.templating import check_jinja, render
from sparsecluster.rows.parameters import check_number
from sparsecluster.storage.atomic import atomic_file


@dataclass(frozen=True)
class Report:
    """A page about a fitted model; a notebook shows it.

    Attributes
    ----------
    html : str
        The page.
    rows, cost : int, float or None
        Number and cost of the rows that were given; None where there were none.
    same_rows : bool or None
        Whether these are the rows of the fit; None where that is not known.
    """

    html: str
    rows: int | None
    cost: float | None
    same_rows: bool | None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which appears whole or not at all."""
        with atomic_file(path) as partial:
            partial.write_bytes(self.html.encode())

    def __repr__(self) -> str:
        return f"<Report of {len(self.html):,} characters: save(path) writes it>"

    def _repr_html_(self) -> str:
        # A page of its own, so that its style and script stay apart from those of the notebook.
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="Report" sandbox="allow-scripts" '
            f'style="width: 100%; height: 40em; border: 0"></iframe>'
        )


def make_report(
    estimator: Any,
    rows: Any = None,
    *,
    terms: int = 10,
    examples: int = 3,
    texts: Iterable[str] | None = None,
    title: str | None = None,
) -> Report:
    """A page about a fitted model: how the fit went, sizes, terms and similarity of clusters.

    The same model and rows give the same bytes.

    Parameters
    ----------
    estimator : estimator of this package
        Fitted, or loaded. The page of AgglomerativeClustering shows its dendrogram, that of
        ClusterTree its nodes with the terms that tell them from their siblings; both take no rows.
        That of DBSCAN or HDBSCAN shows noise and sizes and, with rows, how far these are from their
        neighbors.
    rows : path, Rows, matrix, iterator of blocks or None, default=None
        Rows, to show how far those of each cluster are from its center, and which are nearest. A
        path is read block by block, as the training data were, and so may be larger than memory.
        For DBSCAN and HDBSCAN all rows at once: a path, Rows or a matrix.
    terms : int, default=10
        How many columns to name for each cluster.
    examples : int, default=3
        How many of the rows nearest to each center to show.
    texts : iterable of str or None, default=None
        A text per row; those of the nearest rows are shown. By default, where `rows` is the path of
        a text file, its documents.
    title : str or None, default=None
        Title of the page; by default the name of the estimator.

    Returns
    -------
    Report
        The page, which a notebook shows and `save` writes to a file.

    Examples
    --------
    >>> import numpy as np
    >>> from sparsecluster import KMeans, make_report
    >>> X = np.array([[1.0, 0], [0.9, 0], [0, 1.0]])
    >>> km = KMeans(n_clusters=2, random_state=0).fit(X, feature_names=["red", "blue"])
    >>> report = make_report(km, X)
    >>> report.same_rows, "blue" in report.html
    (True, True)
    """
    check_number("terms", terms, Integral, 1)
    check_number("examples", examples, Integral, 0)
    if rows is None and texts is not None:
        raise ValueError("texts has no effect without rows.")
    check_is_fitted(estimator)
    check_jinja()
    if hasattr(estimator, "linkage_"):
        if rows is not None:
            raise ValueError(
                "A tree knows no clusters of other rows: report on it without any. It shows those "
                "that it was fitted to."
            )
        tree = tree_page.values(estimator, title or type(estimator).__name__, __version__)
        return Report(_rendered("tree.html", tree), None, None, None)
    if hasattr(estimator, "n_leaves_"):
        if rows is not None:
            raise ValueError("The page of a ClusterTree takes no rows.")
        title = title or type(estimator).__name__
        tree = cluster_tree_page.values(estimator, int(terms), title, __version__)
        return Report(_rendered("cluster_tree.html", tree), None, None, None)
    if not is_clusterer(estimator):
        raise ValueError(f"A {type(estimator).__name__} has no clusters to report on.")
    if hasattr(estimator, "n_noise_"):
        if texts is not None:
            raise ValueError("texts has no effect with a model without centers.")
        return _density_report(estimator, rows, int(terms), title or type(estimator).__name__)
    content = _content(estimator, rows, terms, examples)
    content = replace(content, texts=_texts(content, rows, texts))
    page = _page(content, title or type(estimator).__name__)
    looked = content.survey
    if looked is None:
        return Report(str(page), None, None, None)
    return Report(str(page), looked.n_rows, float(looked.costs.sum()), looked.same_rows)


def _density_report(estimator: Any, rows: Any, terms: int, title: str) -> Report:
    if isinstance(rows, Iterator):
        raise ValueError(
            "Neighbors are searched among all rows at once: pass a path, Rows or a matrix, not "
            "blocks."
        )
    distances = None if rows is None else estimator.k_distances(rows)
    page = density_page.values(estimator, distances, terms, title, __version__)
    n_rows = None if distances is None else len(distances)
    return Report(_rendered("density.html", page), n_rows, None, None)


def _content(estimator: Any, rows: Any, terms: int, examples: int) -> Content:
    centers = sp.csr_array(estimator.cluster_centers_, dtype=np.float64)
    names = estimator.feature_names_
    if names is None:
        names = getattr(estimator, "feature_names_in_", [])
    cosine = estimator.metric == "cosine"
    counts, labels = fitted_sizes(estimator)
    return Content(
        estimator=estimator,
        cosine=cosine,
        centers=centers,
        names=names,
        terms=int(terms),
        counts=counts,
        labels=labels,
        survey=None if rows is None else survey(estimator, rows, labels, int(examples)),
        neighbors=neighbors(estimator, centers, cosine),
        texts={},
    )


def _texts(content: Content, rows: Any, texts: Any) -> dict[int, str]:
    if texts is None and isinstance(rows, str | os.PathLike):
        from sparsecluster.prepare.read import read_documents

        texts = read_documents(rows, like=content.estimator)
    if texts is None or content.survey is None:
        return {}
    looked = content.survey
    shown = sorted(row for cluster in content.shown for row in looked.nearest_rows(cluster))
    return texts_of(shown, texts, looked.n_rows)


def _page(content: Content, title: str) -> str:
    values = {
        "title": title,
        "tiles": sections.tiles(content),
        "making": sections.making(content, __version__),
        "history": sections.history(content.estimator),
        "sizes": sections.sizes(content),
        **table.table(content),
    }
    return _rendered("page.html", values)


def _rendered(template: str, values: dict[str, Any]) -> str:
    script = render("sort.js")
    # The page's own script alone may run, by its hash: should a text of the data ever be taken for
    # markup, it can neither run nor load anything.
    digest = hashlib.sha256(f"\n{script}".encode()).digest()
    hashed = base64.b64encode(digest).decode()
    return str(render(template, script=script, script_hash=hashed, **values))
