"""Results joined back: a file written again, with the cluster of each row beside it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sparsecluster.formats.h5ad import H5adSource
from sparsecluster.formats.parquet import ParquetSource, ParquetTextSource
from sparsecluster.formats.source import Source
from sparsecluster.formats.table import TableSource, is_arrow
from sparsecluster.formats.text import CsvSource, JsonLinesSource, LinesSource
from sparsecluster.prepare.join_tables import ArrowJoin, H5adJoin
from sparsecluster.prepare.join_text import (
    OPENERS,
    CsvJoin,
    JoinedFile,
    JsonLinesJoin,
    LinesJoin,
    Results,
    TableOfRows,
)
from sparsecluster.prepare.passes import FirstPass, Transform, asked, recipe_of
from sparsecluster.storage.atomic import atomic_file

JOINED: dict[type[Source], type[JoinedFile]] = {
    CsvSource: CsvJoin,
    JsonLinesSource: JsonLinesJoin,
    LinesSource: LinesJoin,
    ParquetSource: ArrowJoin,
    ParquetTextSource: ArrowJoin,
    H5adSource: H5adJoin,
}


def join_labels(
    path: Any,
    labels: Any,
    out: Any,
    *,
    distances: Any = None,
    ids: Any = None,
    join_column: str = "cluster",
    like: Any = None,
    **options: Any,
) -> None:
    """Write a file again, with the cluster of each row in a column of its own.

    Rows keep their order, and their other columns stay as they are. The file appears when it is
    whole; the one that is read stays.

    Parameters
    ----------
    path : str, path or list of these
        The file that was read: .csv or .tsv, .jsonl, .parquet, .feather or .arrow with one line per
        row, .h5ad. Lines of text become a .csv file of row, cluster and text. For all other data a
        .csv file is written that has the numbers of the rows, their ids and the clusters. Several
        files, which must have the same columns, become one.
    labels : array of int, one per row
        For example ``km.labels_``.
    out : str or path
        The file to write, of the format that `path` has; text also as .gz or .bz2.
    distances : array of float, one per row, or None, default=None
        A further column, for example ``km.label_distances(path, km.labels_)``. It has the name of
        the other and "_distance".
    ids : array of str, one per row, or None, default=None
        Names of the rows, where only these are written.
    join_column : str, default="cluster"
        The name of the column. In .h5ad files it is one of ``.obs``, with categories.
    like : Rows, fitted estimator, Recipe or None, default=None
        How the file was read, as for :func:`read`.
    **options
        How the file was read, as for :func:`read`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sparsecluster import KMeans, join_labels, read
    >>> path = Path(tempfile.mkdtemp()) / "comments.csv"
    >>> _ = path.write_text("who,text\\nann,red apple\\nbob,blue sky\\n")
    >>> km = KMeans(2, random_state=0).fit(read(path))
    >>> join_labels(path, [0, 1], path.with_name("joined.csv"))
    >>> print(path.with_name("joined.csv").read_text())
    who,text,cluster
    ann,red apple,0
    bob,blue sky,1
    <BLANKLINE>
    """
    results = _results(labels, distances, ids)
    join = Join(
        path, out, column=join_column, distances=distances is not None, like=like, options=options
    )
    with join.writing() as write:
        for piece in results.pieces():
            write(piece)


class Join:
    """A file to be written beside another; what is wrong with it is refused at once."""

    def __init__(
        self,
        path: Any,
        out: Any,
        *,
        column: str = "cluster",
        distances: bool = True,
        like: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        if not column:
            raise ValueError("join_column must be a name, got ''.")
        self.out = Path(out)
        names = [column, f"{column}_distance"] if distances else [column]
        source = _source(path, like, options or {})
        files = getattr(source, "files", [source.path])
        if self.out.exists() and any(file.exists() and self.out.samefile(file) for file in files):
            raise ValueError(f"{out} would be written over {path}. Choose another name.")
        self._file = _joined_class(source)(source, files, names)
        self._check_ending()
        taken = self._file.taken()
        if there := [name for name in names if name in taken]:
            raise self._file.taken_already(there[0])

    def _check_ending(self) -> None:
        suffixes = [suffix.lower() for suffix in self.out.suffixes]
        self._ending = suffixes[-1] if suffixes else ""
        if self._file.compressible and self._ending in OPENERS:
            suffixes.pop()
        endings, first = self._file.endings(), self._file.files[0]
        own = [one.lower() for one in first.suffixes if one.lower() in endings]
        if not suffixes or suffixes[-1] not in (own or endings):
            wanted = " or ".join(own[-1:] or endings)
            raise ValueError(
                f"{self.out}: {self._file.what()} written to a file that ends in {wanted}"
                f"{', or in this and .gz or .bz2' if self._file.compressible else ''}."
            )

    @contextmanager
    def writing(self) -> Iterator[Callable[[Results], None]]:
        """Gives the function that takes results, in the order of the rows; at the end of the
        context they must be those of all rows."""
        with (
            atomic_file(self.out) as partial,
            self._file.writing(partial, self._ending) as write,
        ):
            yield write


def _source(path: Any, like: Any, options: dict[str, Any]) -> Source:
    """The reader of the file, as it was when the rows were read."""
    wanted = asked(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who reads the rows is warned then
        if like is None:
            return FirstPass(path, wanted).source
        return Transform(path, wanted, recipe_of(like)).source


def _joined_class(source: Source) -> type[JoinedFile]:
    if isinstance(source, ParquetSource) and not source.lines_are_rows():
        return TableOfRows
    if isinstance(source, TableSource):
        return ArrowJoin if is_arrow(source.files[0]) else CsvJoin
    return JOINED.get(type(source), TableOfRows)


def _results(labels: Any, distances: Any, ids: Any) -> Results:
    """Results of all rows, checked."""
    whole = np.asarray(labels).astype(np.int32)
    if not np.array_equal(whole, labels):
        raise ValueError("labels must be integers of 32 bits.")
    kept = None if distances is None else np.asarray(distances, dtype=np.float64)
    named = None if ids is None else np.asarray(ids, dtype=object)
    for name, array in {"labels": whole, "distances": kept, "ids": named}.items():
        if array is not None and array.shape != (len(whole),):
            raise ValueError(f"{name} must be one per row, got an array of shape {array.shape}.")
    return Results(whole, kept, named)
