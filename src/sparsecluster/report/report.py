"""A fitted model as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparsecluster import __version__
from sparsecluster.report import sections, table
from sparsecluster.report.facts import Content, fitted_sizes, neighbors, survey, texts_of
from sparsecluster.report.templating import check_jinja, render
from sparsecluster.rows.parameters import check_number
from sparsecluster.storage.atomic import atomic_file


def write_report(
    estimator: Any,
    path: str | os.PathLike[str],
    rows: Any = None,
    *,
    terms: int = 10,
    examples: int = 3,
    texts: Iterable[str] | None = None,
    title: str | None = None,
) -> dict[str, Any]:
    """Write a page about a fitted model: how the fit went, sizes, terms and similarity of clusters.

    The same model and rows give the same bytes.

    Parameters
    ----------
    estimator : KMeans, SphericalKMeans or MiniBatchKMeans
        Fitted, or loaded.
    path : str or path
        The file to write, an HTML page; it appears whole or not at all.
    rows : path, Rows, matrix, iterator of blocks or None, default=None
        Rows, to show how far those of each cluster are from its center, and which are nearest. A
        path is read block by block, as the training data were, and so may be larger than memory.
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
    dict
        `rows` and `cost`: number and cost of the rows given; `same_rows`: whether they are those of
        the fit. Each is None where no rows were given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from sparsecluster import KMeans
    >>> from sparsecluster.report.report import write_report
    >>> X = np.array([[1.0, 0], [0.9, 0], [0, 1.0]])
    >>> km = KMeans(n_clusters=2, random_state=0).fit(X, feature_names=["red", "blue"])
    >>> path = Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(km, path, X)["same_rows"]
    True
    >>> "blue" in path.read_text()
    True
    """
    check_number("terms", terms, Integral, 1)
    check_number("examples", examples, Integral, 0)
    if rows is None and texts is not None:
        raise ValueError("texts has no effect without rows.")
    check_is_fitted(estimator)
    check_jinja()
    content = _content(estimator, rows, terms, examples)
    content = replace(content, texts=_texts(content, rows, texts))
    page = _page(content, title or type(estimator).__name__)
    with atomic_file(path) as partial:
        partial.write_bytes(page.encode())
    looked = content.survey
    if looked is None:
        return {"rows": None, "cost": None, "same_rows": None}
    cost = float(looked.costs.sum())
    return {"rows": looked.n_rows, "cost": cost, "same_rows": looked.same_rows}


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
    script = render("sort.js")
    # The page's own script alone may run, by its hash: should a text of the data ever be taken for
    # markup, it can neither run nor load anything.
    digest = hashlib.sha256(f"\n{script}".encode()).digest()
    return render(
        "page.html",
        script=script,
        script_hash=base64.b64encode(digest).decode(),
        title=title,
        tiles=sections.tiles(content),
        making=sections.making(content, __version__),
        history=sections.history(content.estimator),
        sizes=sections.sizes(content),
        **table.table(content),
    )
