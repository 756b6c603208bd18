"""The page of clusters by density."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import DBSCAN, HDBSCAN, make_report

X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.3], [99.0]])


@pytest.fixture
def model():
    return DBSCAN(0.5, min_samples=2, metric="euclidean").fit(X)


def told(page, name):
    return re.search(rf'<dd id="{name}">(.*?)</dd>', page)[1]


def test_noise_clusters_and_core_rows_are_told(model):
    page = make_report(model).html
    assert told(page, "noise") == "1 (14.3%)"
    assert told(page, "clusters") == "2"
    assert told(page, "core") == "6"
    assert page.count('<tr id="c') == 2


def test_k_distances_are_drawn_with_the_radius(model):
    report = make_report(model, X)
    assert report.rows == 7
    assert "distance of each row to its neighbor 1" in report.html
    assert ">eps 0.5</text>" in report.html
    assert "knee" in report.html
    assert "Pass the data" not in report.html


def test_report_of_hdbscan_shows_its_spanning_tree():
    model = HDBSCAN(3, min_samples=2, metric="euclidean").fit(X)
    page = make_report(model, X).html
    assert "lengths of the edges" in page
    assert ">eps" not in page


def test_terms_of_a_cluster_are_those_of_its_core_rows():
    Z = sp.csr_array([[3.0, 1, 0], [3, 2, 0], [0, 0, 1], [0, 0, 2]])
    model = DBSCAN(0.2, min_samples=2).fit(Z, feature_names=["<a>", "b", "c"])
    page = make_report(model, terms=2).html
    assert "<bdi>&lt;a&gt;</bdi>, <bdi>b</bdi>" in page


def test_all_noise_is_a_page_too():
    model = DBSCAN(0.01, min_samples=2, metric="euclidean").fit(X[:1])
    page = make_report(model).html
    assert "all rows are noise" in page
    assert told(page, "noise") == "1 (100.0%)"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (iter([X]), {}, "all rows at once"),
        (np.ones((3, 2)), {}, "features"),
        (X, {"texts": ["a"] * 7}, "without centers"),
        (X[:1], {}, "only 0 others"),
    ],
)
def test_rows_that_cannot_be_are_refused(model, rows, options, message):
    with pytest.raises(ValueError, match=message):
        make_report(model, rows, **options)


def test_given_distances_have_no_rows_to_search():
    distances = np.abs(X - X.T)
    model = DBSCAN(0.5, min_samples=2, metric="precomputed").fit(distances)
    assert told(make_report(model).html, "clusters") == "2"
    with pytest.raises(ValueError, match="no rows to search"):
        make_report(model, distances)
