"""Text that every Python installation has: the docstrings of the standard library and of the
installed dependencies, as they are and weighted by tf-idf."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

PACKAGES = ("cyclopts", "joblib", "numpy", "rich", "scipy", "sklearn", "threadpoolctl")

SKIPPED_FOLDERS = frozenset(
    """
    __pycache__ _external _lib _vendor array_api_compat array_api_extra dist-packages ensurepip
    externals idlelib idle_test lib2to3 pydoc_data site-packages test tests turtledemo
    """.split()
)

SHORTEST_DOCSTRING = 15  # words

# Words of the docstring's form, not of its subject: section heads, type names, and the verbs and
# nouns with which any function is described.
BOILERPLATE = frozenset(
    """
    add added additional allow allowed allows applied apply arg args argument arguments arr array
    arrays attribute attributes automatically available base based behavior bool boolean callable
    called calling calls case cases change changed check class classes code compute computed
    computes computing consistency contain containing contains convention convert converted copy
    corresponding create created creates current currently data def default defaults defined
    defines definition depending deprecated described describes description details determine dict
    dictionary different directly doc docs docstring documentation does doesn dtype effect element
    elements ensure entry equal equivalent error errors example examples exception exist existing
    exists expected explicitly expression false final float floats following follows form format
    func function functions generate gets getting given gives handle helper higher hold holds
    ignored implement implementation implemented implements import include included includes
    including indicate indicates info information initialize input inputs instance instances
    instead int integer integers internal internally ints invalid isinstance isn item items
    iterable iterator keyword keywords know kwargs len length level like list lists long look lower
    make makes match matches mean means method methods mode module modules multiple named names nan
    ndarray ndarrays need needed needs new non nonetype normal note notes number numbers numpy obj
    object objects old omitted option optional options order original output outputs overridden
    override pair param parameter parameters params particular pass passed passing perform
    performed point possible present property provide provided provides public purpose python raise
    raised raises reading ref references related remove replace represent representation represents
    requested require required requires respectively result resulting results return returned
    returning returns rtype run scalar scipy self sequence set sets setting shape shaped similar
    simple simply single size sized sizes skip sklearn small specific specified specify standard
    store stored str string strings structure subclass subclasses support supported supports taken
    takes test tests true tuple tuples type typeerror types underlying unless unused update updated
    usage use used useful user users uses using usually valid value valueerror values variable
    variables version versionadded versionchanged want warning way work works write written wrong
    yield yields zero
    """.split()
)

_EXAMPLE_LINE = re.compile(r"^\s*(>>>|\.\.\.|\.\. ).*$", re.MULTILINE)


def save_docstrings(path: Path) -> None:
    """Write the docstrings to a file, each on a line of its own."""
    texts, _ = load_docstrings()
    lines = (" ".join(_prose_of(text).split()) for text in texts)
    path.write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")


def load_docstrings() -> tuple[list[str], list[str]]:
    """Collect docstrings from the sources of the standard library and of the dependencies.

    The sources are parsed, never imported. Docstrings of fewer than fifteen words and repetitions
    are left out, and the order depends on nothing but the files' names.

    Returns
    -------
    texts : list of str
        One docstring of a module, class or function each.
    modules : list of str
        The dotted name of the module of each.
    """
    module_of: dict[str, str] = {}
    for module, path in _source_files():
        for text in _docstrings_of(path):
            if len(text.split()) >= SHORTEST_DOCSTRING:
                module_of.setdefault(text, module)
    return list(module_of), list(module_of.values())


def vectorize(texts: list[str]) -> tuple[csr_matrix, np.ndarray]:
    """Turn texts into rows of tf-idf weights of length one (float32), and name the columns."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

    vectorizer = TfidfVectorizer(
        preprocessor=_prose_of,
        token_pattern=r"\b[a-z]{3,}\b",
        stop_words=sorted(ENGLISH_STOP_WORDS | BOILERPLATE),
        min_df=20,
        max_df=0.2,
        sublinear_tf=True,
        dtype=np.float32,
    )
    X = vectorizer.fit_transform(texts)
    return X, vectorizer.get_feature_names_out()


def _source_files() -> Iterator[tuple[str, Path]]:
    """Yield (dotted module name, file), the standard library first, each folder in sorted order."""
    yield from _python_files(Path(sysconfig.get_path("stdlib")), prefix="")
    for package in PACKAGES:
        # For a top-level name this finds the files without running any of them.
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            continue
        if spec.submodule_search_locations is None:
            yield package, Path(spec.origin)
        else:
            yield from _python_files(Path(spec.origin).parent, prefix=package + ".")


def _python_files(root: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    for folder, subfolders, files in os.walk(root):
        subfolders[:] = sorted(
            name for name in subfolders if name.isidentifier() and name not in SKIPPED_FOLDERS
        )
        inside = Path(folder).relative_to(root).parts
        for file in sorted(files):
            name, extension = os.path.splitext(file)
            if extension == ".py" and not name.startswith("test_") and name != "conftest":
                parts = inside if name == "__init__" else (*inside, name)
                yield (prefix + ".".join(parts)).rstrip("."), Path(folder, file)


def _docstrings_of(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and functions; none if it can't be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in other people's sources
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in _documented(tree):
        if text := ast.get_docstring(node):
            yield text


def _documented(node: Any) -> Iterator[Any]:
    """Yield a module or class and what it defines; what a function holds is no interface."""
    yield node
    if isinstance(node, ast.Module | ast.ClassDef):
        for inner in node.body:
            if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _documented(inner)


def _prose_of(text: str) -> str:
    """Lower the case and leave out doctest lines and directives."""
    return _EXAMPLE_LINE.sub("", text).lower()
