"""The report of a model: every number in it against a direct computation, and what it does with
text that would be markup."""

import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

from sparsecluster import (
    KMeans,
    MiniBatchKMeans,
    Prepare,
    SphericalKMeans,
    convert,
    load_model,
    read,
    read_blocks,
)
from sparsecluster.cli import app
from sparsecluster.formats import text as text_reader
from sparsecluster.report.facts import MOST_CLUSTERS
from sparsecluster.report.plots import line_plot, size_plot
from sparsecluster.report.templating import shorten

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</td><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;\x00\u202e\ud800"


def rows_like_text(n_rows=300, n_features=60):
    return sp.random_array(
        (n_rows, n_features),
        density=0.1,
        format="csr",
        dtype=np.float64,
        rng=np.random.default_rng(5),
    )


class Page:
    """A report, read as XML: only a well-formed one is."""

    def __init__(self, path):
        self.text = path.read_text(encoding="utf-8")
        self.root = ElementTree.fromstring(self.text)

    def tile(self, name):
        return self.root.find(f".//dd[@id='{name}']").text

    def line(self, cluster):
        return self.root.find(f".//tr[@id='c{cluster}']")

    @property
    def clusters(self):
        return [
            int(line.get("id")[1:]) for line in self.root.findall(".//table[@id='table']/tbody/tr")
        ]

    def value(self, cluster, name):
        return float(self.line(cluster).find(f"td[@data-label='{name}']").get("data-value"))

    def terms(self, cluster):
        return [
            term.find("bdi").text
            for term in self.line(cluster).iter("span")
            if term.get("class") == "term"
        ]

    def nearest_rows(self, cluster):
        found = [one for one in self.line(cluster).iter("span") if one.get("class") == "row"]
        return [int(one.text) for one in found]

    @property
    def words(self):
        return " ".join("".join(self.root.find("body").itertext()).split())


@pytest.fixture
def page(tmp_path):
    """Write a report and read it."""

    def make(estimator, rows=None, **options):
        path = tmp_path / "report.html"
        estimator.report(path, rows, **options)
        return Page(path)

    return make


@pytest.fixture(scope="module")
def fitted():
    X = rows_like_text()
    names = [f"word{i}" for i in range(X.shape[1])]
    return KMeans(6, random_state=0).fit(X, feature_names=names), X


def distances2(X, centers):
    return ((X.toarray()[:, None] - centers.toarray()[None]) ** 2).sum(axis=2)


def test_the_head_tells_shape_and_result(page, fitted):
    km, _ = fitted
    found = page(km)
    assert (found.tile("rows"), found.tile("columns"), found.tile("clusters")) == ("300", "60", "6")
    assert found.tile("cost") == f"{km.inertia_:.6g}"
    assert found.tile("iterations") == str(km.n_iter_)
    assert "random_state=0" in found.words


def test_clusters_are_listed_with_their_sizes_largest_first(page, fitted):
    km, _ = fitted
    found, sizes = page(km), np.bincount(km.labels_)
    assert [found.value(c, "rows") for c in range(6)] == sizes.tolist()
    assert found.clusters == sorted(range(6), key=lambda c: (-sizes[c], c))


def test_terms_are_those_of_top_terms(page, fitted):
    km, _ = fitted
    found = page(km, terms=4)
    assert [found.terms(c) for c in range(6)] == km.top_terms(4)


def test_columns_without_names_are_numbers(page):
    X = rows_like_text()
    km = KMeans(3, random_state=0).fit(X)
    expected = [[term[1:] for term in terms] for terms in km.top_terms(5)]
    assert [page(km, terms=5).terms(c) for c in range(3)] == expected


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_distances_to_centers_are_right(page, metric):
    X = rows_like_text()[:, :20] + sp.csr_array(np.full((300, 20), 0.01))
    km = (KMeans if metric == "euclidean" else SphericalKMeans)(5, random_state=1).fit(X)
    rows = X
    if metric == "cosine":
        rows = sp.csr_array(X / np.linalg.norm(X.toarray(), axis=1, keepdims=True))
    own = distances2(rows, km.cluster_centers_)[np.arange(300), km.labels_]
    found = page(km, X, examples=4)
    for c in range(5):
        members = np.flatnonzero(km.labels_ == c)
        assert found.value(c, "mean squared distance") == pytest.approx(own[members].mean())
        assert found.value(c, "share of cost") == pytest.approx(own[members].sum() / own.sum())
        assert (
            found.nearest_rows(c) == members[np.argsort(own[members], kind="stable")[:4]].tolist()
        )


def test_the_most_similar_cluster_is_right(page, fitted):
    km, _ = fitted
    C = km.cluster_centers_.toarray()
    norm2 = (C**2).sum(axis=1)
    similarity = 2 * (C @ C.T) / (norm2[:, None] + norm2)
    np.fill_diagonal(similarity, -np.inf)
    found = page(km)
    for c in range(6):
        cell = found.line(c).find("td[@data-label='most similar']")
        assert float(cell.get("data-value")) == pytest.approx(similarity[c].max())
        assert cell.find("a").text == str(similarity[c].argmax())


def test_the_nearest_cluster_is_right(page, fitted):
    km, _ = fitted
    distances = np.sqrt(distances2(km.cluster_centers_, km.cluster_centers_))
    np.fill_diagonal(distances, np.inf)
    found = page(km)
    for c in range(6):
        cell = found.line(c).find("td[@data-label='most similar']")
        said = "".join(cell.findall("small")[-1].itertext())
        assert said == f"nearest {distances[c].argmin()}: {distances[c].min():.3g}"


def test_rows_of_the_fit_are_recognised(page, fitted):
    assert "300 rows of the fit" in page(*fitted).words


def test_other_rows_are_called_so_and_counted_apart(page, fitted):
    km, X = fitted
    found = page(km, X[:100])
    assert "other data than the fit's: 100 rows" in found.words
    given = np.bincount(km.labels_[:100], minlength=6)
    assert [found.value(c, "rows given") for c in range(6)] == given.tolist()
    assert found.value(0, "rows") == (km.labels_ == 0).sum()


def test_sizes_of_a_model_without_labels_come_from_the_data(page, fitted, tmp_path):
    km, X = fitted
    km.save(tmp_path / "m.st", labels=False)
    loaded = load_model(tmp_path / "m.st")
    assert "does not store the sizes" in page(loaded).words
    sizes = [page(loaded, X).value(c, "rows") for c in range(6)]
    assert sizes == np.bincount(km.labels_).tolist()


def test_a_stream_tells_what_its_centers_have_seen(page):
    X = rows_like_text()
    km = MiniBatchKMeans(4, random_state=0, reassignment_ratio=0.0)
    for begin in range(0, 300, 100):
        km.partial_fit(X[begin : begin + 100])
    found = page(km)
    assert [found.value(c, "rows") for c in range(4)] == np.rint(km.counts_).tolist()
    assert "rows seen" in found.words


def test_one_cluster_has_no_neighbour(page):
    km = KMeans(1, random_state=0).fit(rows_like_text())
    found = page(km)
    assert found.clusters == [0]
    assert "most similar" not in found.words


def test_of_many_clusters_the_largest_are_listed(page):
    km = KMeans(MOST_CLUSTERS + 20, random_state=0).fit(rows_like_text())
    found = page(km)
    assert len(found.clusters) == MOST_CLUSTERS
    assert "The other 20 clusters" in found.words


def test_markup_in_names_and_texts_is_shown_not_made(page):
    X = rows_like_text()
    km = KMeans(3, random_state=0).fit(X, feature_names=[HOSTILE] * X.shape[1])
    found = page(km, X, texts=[HOSTILE] * 300, title=HOSTILE)
    # One script, that of the page; no tag that the page does not have without them.
    assert len(found.root.findall(".//script")) == 1
    assert not found.root.findall(".//img")
    shown = (
        HOSTILE.replace("\x00", "\ufffd").replace("\u202e", "\ufffd").replace("\ud800", "\ufffd")
    )
    assert found.line(0).find(".//li/bdi").text == shown
    assert found.root.find("head/title").text == shown


def test_a_browser_sees_the_same_tags_as_xml_does(page, fitted):
    km, X = fitted
    found = page(km, X, texts=[HOSTILE] * 300)
    seen = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: seen.append(tag)
    parser.feed(found.text)
    assert seen == [one.tag.replace(SVG, "") for one in found.root.iter()]


def test_long_text_is_cut():
    assert shorten("a  b\n" * 100, 10) == "a b a b a…"


def test_nothing_comes_from_elsewhere(page, fitted):
    found = page(*fitted)
    addresses = [
        one.get(name) for one in found.root.iter() for name in ("href", "src") if one.get(name)
    ]
    assert all(address.startswith("#") for address in addresses)
    assert "url(" not in found.text
    assert "@import" not in found.text


def test_without_jinja_the_extra_is_named(page, fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"sparsecluster\[report\]"):
        page(*fitted)


def test_links_lead_somewhere(page, fitted):
    found = page(*fitted)
    places = {one.get("id") for one in found.root.iter()}
    assert {one.get("href")[1:] for one in found.root.iter() if one.get("href")} <= places


def test_the_same_model_gives_the_same_bytes(page, fitted, tmp_path):
    km, X = fitted
    km.save(tmp_path / "m.st")
    assert page(km, X).text == page(load_model(tmp_path / "m.st"), X).text


def test_blocks_give_the_same_bytes_as_all_rows_at_once(page, fitted):
    km, X = fitted
    blocks = (X[begin : begin + 7] for begin in range(0, 300, 7))
    assert page(km, blocks).text == page(km, X).text


def test_pictures_show_the_history(page, fitted):
    km, _ = fitted
    pictures = page(km).root.findall(f".//{SVG}svg")
    points = pictures[0].find(f"{SVG}polyline").get("points").split()
    heights = [-float(point.split(",")[1]) for point in points]
    assert len(points) == len(km.history_)
    costs = [record.cost for record in km.history_]
    assert np.corrcoef(heights, costs)[0, 1] > 0.999


@pytest.mark.parametrize("values", [[5.0], [0.0, 0.0], [3.0, np.nan], [1e12, 1e-12], [0.0, 1e300]])
@pytest.mark.parametrize("scale", ["linear", "log1p"])
def test_odd_histories_make_a_picture(values, scale):
    iterations = range(1, len(values) + 1)
    picture = line_plot(iterations, values, title="t", scale=scale)
    assert "nan" not in picture
    assert ElementTree.fromstring(picture).tag == f"{SVG}svg"


@pytest.mark.parametrize("sizes", [[1], [1, 0], [9, 9, 9], [10**9, *[1] * 400]])
def test_odd_sizes_make_a_picture(sizes):
    picture = size_plot(range(len(sizes)), np.array(sizes), title="t", linked=frozenset())
    assert ElementTree.fromstring(picture).tag == f"{SVG}svg"


def test_labels_that_cannot_be_are_refused(page, fitted):
    km = KMeans(2, random_state=0).fit(rows_like_text())
    km.labels_ = np.array([0, 2**31 - 1], dtype=np.int32)
    with pytest.raises(ValueError, match="values outside 0 to 1"):
        page(km)


@pytest.mark.parametrize("texts", [["one"], iter(["one"])])
def test_too_few_texts_are_refused(page, fitted, texts):
    with pytest.raises(ValueError, match="one per row is needed"):
        page(*fitted, texts=texts)


# --- files and the command --------------------------------------------------------------------

WORDS = ["red apple", "green apple", "apple pear", "blue sky", "sky sea", "blue sea", "sea sky"]


@pytest.fixture
def model(tmp_path):
    """A model of a file of text, and the file."""
    documents = tmp_path / "words.txt"
    documents.write_text("\n".join(WORDS * 5) + "\n")
    rows = read(documents, prepare=Prepare(tfidf=True, norm="l2"))
    KMeans(2, random_state=0).fit(rows).save(tmp_path / "words.model")
    return tmp_path / "words.model", documents


@pytest.fixture
def run(capfd):
    def command(*arguments):
        status = 0
        try:
            app.meta([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
        sys.stdout.flush()
        return status, capfd.readouterr()

    return command


def test_nearest_documents_of_a_file_are_shown(page, model):
    km = load_model(model[0])
    found = page(km, model[1])
    for c in range(2):
        shown = [one.text for one in found.line(c).findall(".//li/bdi")]
        assert shown == [(WORDS * 5)[row] for row in found.nearest_rows(c)]
        assert len(shown) == 3


def test_a_file_in_many_blocks_gives_the_same_bytes(page, model, monkeypatch):
    km = load_model(model[0])
    at_once = page(km, model[1]).text
    monkeypatch.setattr(text_reader, "BLOCK_TOKENS", 8)
    assert len(list(read_blocks(model[1], like=km))) > 5
    assert page(km, model[1]).text == at_once


def test_the_command_writes_beside_the_model(run, model):
    status, captured = run("report", *model)
    assert status == 0
    assert "2 clusters" in captured.out
    found = Page(model[0].with_suffix(".html"))
    assert "words.model with words.txt" in found.words
    assert "35 rows of the fit" in found.words


def test_the_command_takes_a_store(run, model, tmp_path):
    convert(model[1], tmp_path / "w.store", prepare=Prepare(tfidf=True, norm="l2"))
    status, captured = run(
        "report", model[0], tmp_path / "w.store", "--json", "--out", tmp_path / "r"
    )
    assert status == 0
    assert '"same_rows": true' in captured.out
    assert len(Page(tmp_path / "r").nearest_rows(0)) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{data}"], "holds no model|is not|too short|cannot"),
        (["{model}", "missing.txt"], "missing.txt does not exist"),
        (["{model}", "--terms", "0"], "for --terms. Must be >= 1"),
        (["{model}", "--column", "text"], "have no effect without data"),
        (["{model}", "--out", "{model}"], "would be written over"),
        (["{model}", "--out", "nowhere/report.html"], "there is no folder"),
    ],
)
def test_mistakes_are_one_line(run, model, arguments, said):
    filled = [one.format(model=model[0], data=model[1]) for one in arguments]
    status, captured = run("report", *filled)
    assert status == 2
    assert captured.err.count("\n") == 1
    assert any(part in captured.err for part in said.split("|"))
