"""The docstrings of the installation: which there are, and as rows."""

import sys

import numpy as np
import pytest

from sparsecluster.datasets import docstrings


def test_corpus_is_thousands_of_documents_from_many_modules(corpus):
    texts, modules = corpus
    assert len(texts) == len(modules)
    assert len(texts) > 2000
    assert {"argparse", "sklearn.cluster._kmeans", "threadpoolctl"} <= set(modules)


def test_corpus_has_no_duplicates(corpus):
    texts, _ = corpus
    assert len(set(texts)) == len(texts)


def test_corpus_leaves_out_short_docstrings_and_tests(corpus):
    texts, modules = corpus
    assert min(len(text.split()) for text in texts) >= docstrings.SHORTEST_DOCSTRING
    parts = {part for module in modules for part in module.split(".")}
    assert not parts & {"test", "tests", "conftest", "site-packages"}


def test_reading_imports_none_of_the_modules(corpus):
    assert "turtle" in corpus[1]
    assert "turtle" not in sys.modules


def test_docstrings_are_those_of_module_classes_and_functions(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        '"""Module."""\n'
        "class C:\n"
        '    """Class."""\n'
        "    def method(self):\n"
        '        """Method.\n\n'
        '        More."""\n'
        "        def inner():\n"
        '            """Inner."""\n'
        "async def function():\n"
        '    """Function."""\n'
    )
    assert list(docstrings._docstrings_of(source)) == [
        "Module.",
        "Class.",
        "Method.\n\nMore.",
        "Function.",
    ]


@pytest.mark.parametrize("content", [b"def (:\n", b"\xff\xfe\x00", b"# coding: klingon\n"])
def test_unreadable_sources_have_no_docstrings(tmp_path, content):
    source = tmp_path / "broken.py"
    source.write_bytes(content)
    assert list(docstrings._docstrings_of(source)) == []


def test_rows_are_float32_of_length_one_or_empty(corpus):
    X, names = docstrings.vectorize(corpus[0])
    lengths = np.sqrt(X.multiply(X).sum(axis=1))
    assert X.dtype == np.float32
    assert X.shape == (len(corpus[0]), len(names))
    np.testing.assert_allclose(lengths[lengths > 0], 1, rtol=1e-5)
