"""The examples in docs/reducing.md run, and show what they say."""

import re
from pathlib import Path

import pytest

from sparsecluster.embedding.dimensions import TABLE
from sparsecluster.embedding.reduce import METHODS

PAGE = (Path(__file__).parents[2] / "docs" / "reducing.md").read_text()


@pytest.fixture(scope="module")
def shown():
    """What each example prints, one after the other in one session."""
    import contextlib
    import io

    session, shown = {}, []
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, "reducing.md", "exec"), session)
        shown.append(out.getvalue().splitlines())
    return shown


def test_all_methods_but_one_find_the_topics(shown):
    accuracy = {line.split()[0]: float(line.split()[-1]) for line in shown[0]}
    assert len(accuracy) == 5
    assert accuracy.pop("svd-selection") < 0.9 < min(accuracy.values())


def test_selection_keeps_names_and_sparse_rows(shown):
    assert re.fullmatch(r"\['word\d+' 'word\d+' 'word\d+'\] True", shown[1][0])


def test_sparsified_k_means_finds_the_topics_and_predicts_them(shown):
    assert shown[2] == ["(4, 2000) True", "True"]


def test_table_of_dimensions_is_whole(shown):
    assert [line.split()[0] for line in shown[3]] == list(TABLE)


def test_page_names_every_method():
    table = PAGE.split("## The methods")[1].split("##")[0]
    named = re.findall(r'^\| `"(.*?)"` \|', table, re.MULTILINE)
    assert named == list(METHODS)
