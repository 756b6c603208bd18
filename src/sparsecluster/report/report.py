"""A fitted model as one HTML page that needs nothing else: no network, no other file."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from importlib.resources import files
from numbers import Integral
from string import Template
from typing import Any

import scipy.sparse as sp

from sparsecluster.report import sections, table
from sparsecluster.report.content import Content, escaped
from sparsecluster.report.facts import fitted_sizes, neighbours, survey, texts_of
from sparsecluster.rows.checks import check_number
from sparsecluster.storage.atomic import atomic_file
from sparsecluster.storage.model import library_version

_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


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
    """Write a page about a fitted model: how the fit went, sizes, terms and likeness of clusters.

    The same model and rows give the same bytes.

    Parameters
    ----------
    estimator : KMeans, SphericalKMeans or MiniBatchKMeans
        Fitted, or loaded.
    path : str or path
        The file to write, an HTML page; it appears whole or not at all.
    rows : path, Rows, matrix, iterator of blocks or None, default=None
        Rows to tell of each cluster how far they are from its center, and which are nearest. A path
        is read block by block, in the way of the model, and so may be larger than memory.
    terms : int, default=10
        How many columns to name for each cluster.
    examples : int, default=3
        How many of the rows nearest to each center to show.
    texts : iterable of str or None, default=None
        A text for each row, to show of the nearest ones. By default, where `rows` is the path of a
        file of text, the documents in it.
    title : str or None, default=None
        Head of the page; by default the name of the estimator.

    Returns
    -------
    dict
        What a program may want to know: `rows` and `cost` of the rows looked through, and
        `same_rows`, whether they are those of the fit. None where no rows were given.

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
        raise ValueError("texts are of no use without rows.")
    estimator._check_is_fitted()
    content = _content(estimator, rows, terms, examples)
    content = replace(content, texts=_texts(content, rows, texts))
    page = _page(content, title or type(estimator).__name__)
    with atomic_file(path) as partial:
        partial.write_bytes(page.encode())
    looked = content.survey
    return {
        "rows": None if looked is None else looked.n_rows,
        "cost": None if looked is None else float(looked.costs.sum()),
        "same_rows": None if looked is None else looked.same_rows,
    }


def _content(estimator: Any, rows: Any, terms: int, examples: int) -> Content:
    centers = sp.csr_array(estimator.cluster_centers_)
    names = estimator.feature_names_
    if names is None:
        names = getattr(estimator, "feature_names_in_", [])
    fitted = fitted_sizes(estimator)
    labels = None if fitted is None else fitted.labels
    return Content(
        estimator=estimator,
        centers=centers,
        names=names,
        terms=int(terms),
        fitted=fitted,
        survey=None if rows is None else survey(estimator, rows, labels, int(examples)),
        neighbours=neighbours(centers, estimator.n_threads),
        texts={},
    )


def _texts(content: Content, rows: Any, texts: Any) -> dict[int, str]:
    if texts is None and isinstance(rows, str | os.PathLike):
        from sparsecluster.prepare.read import read_documents

        texts = read_documents(rows, like=content.estimator)
    if texts is None or content.survey is None:
        return {}
    return texts_of(content.example_rows, texts, content.survey.n_rows)


def _page(content: Content, title: str) -> str:
    template = files("sparsecluster.report").joinpath("template.html").read_text(encoding="utf-8")
    scripts = _SCRIPT.findall(template)
    # The page's own script alone may run, by its hash: should a text of the data ever be taken for
    # markup, it can neither run nor load anything.
    hashes = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts]
    return Template(template).substitute(
        script_sources=" ".join(f"'sha256-{one}'" for one in hashes),
        title=escaped(title, sections.LONGEST_VALUE),
        tiles=sections.tiles(content),
        making=sections.making(content, library_version()),
        history=sections.history(content.estimator),
        sizes=sections.sizes(content),
        clusters=table.clusters(content),
        pairs=table.pairs(content),
    )
