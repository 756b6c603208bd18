"""Options that several commands share, as groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

if TYPE_CHECKING:
    from sparsecluster.prepare.prepare import Prepare
    from sparsecluster.prepare.steps import ReadOptions

READING = Group("Reading", sort_key=2)
PREPARING = Group("Preparing (drop, then log, then tf-idf, then unit)", sort_key=3)
RUNNING = Group("Running", sort_key=4)


def option(group: Group, help: str, **more: object) -> Parameter:
    """An option of a group, with what it does."""
    return Parameter(group=group, help=help, **more)  # type: ignore[arg-type]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a data file is read."""

    format: Annotated[
        str | None,
        option(
            READING,
            "svmlight, npz, npy, mtx, docword, h5ad, parquet, txt, jsonl or csv; by default what "
            "the file's first bytes and its name say.",
        ),
    ] = None
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        option(READING, "Type of the values; by default that of the file, float32 for text."),
    ] = None
    column: Annotated[
        str | None, option(READING, "Column of csv, or field of jsonl, with the text.")
    ] = None
    encoding: Annotated[str | None, option(READING, "Of text; utf-8 by default.")] = None
    stop_words: Annotated[
        str | None,
        option(READING, "Words of text to leave out: english, or words separated by commas."),
    ] = None
    ngrams: Annotated[int | None, option(READING, "Longest term of text, in words.")] = None
    token_pattern: Annotated[
        str | None, option(READING, "Regular expression of a word of text.")
    ] = None
    keep_case: Annotated[
        bool, option(READING, "Tell capitals from small letters in text.", negative=())
    ] = False
    strip_accents: Annotated[
        Literal["ascii", "unicode"] | None, option(READING, "Take accents off text.")
    ] = None
    zero_based: Annotated[
        bool | None,
        option(
            READING,
            "Whether columns of svmlight count from zero; by default, if a column 0 occurs.",
            negative="--one-based",
        ),
    ] = None
    transpose: Annotated[
        bool, option(READING, "Take the columns of mtx for rows.", negative=())
    ] = False
    layer: Annotated[
        str | None, option(READING, "Layer of h5ad to take instead of X, or raw/X.")
    ] = None
    columns: Annotated[
        str | None,
        option(READING, "Columns of parquet: indices,values or row,column,value, by name."),
    ] = None

    def for_read(self, threads: int | None = None) -> ReadOptions:
        """As the library takes them."""
        from sparsecluster.formats.text import TextOptions
        from sparsecluster.prepare.steps import ReadOptions

        given = {
            "column": self.column,
            "encoding": self.encoding,
            "stop_words": self._stop_words(),
            "ngrams": self.ngrams,
            "token_pattern": self.token_pattern,
            "lowercase": False if self.keep_case else None,
            "strip_accents": self.strip_accents,
        }
        given = {name: value for name, value in given.items() if value is not None}
        return ReadOptions(
            format=self.format,
            dtype=self.dtype,
            text=TextOptions(**given) if given else None,  # type: ignore[arg-type]
            zero_based=self.zero_based,
            transpose=self.transpose or None,
            layer=self.layer,
            columns=tuple(self.columns.split(",")) if self.columns else None,
            n_threads=threads,
        )

    def _stop_words(self) -> str | tuple[str, ...] | None:
        if self.stop_words is None or self.stop_words == "english":
            return self.stop_words
        return tuple(word for word in self.stop_words.split(",") if word)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Preparing:
    """What is made of the counts in a file."""

    tfidf: Annotated[
        bool, option(PREPARING, "Weight columns by their inverse frequency.", negative=())
    ] = False
    unit: Annotated[bool, option(PREPARING, "Scale rows to length one.", negative=())] = False
    log: Annotated[bool, option(PREPARING, "Replace values by log(1 + value).", negative=())] = (
        False
    )
    min_rows: Annotated[int, option(PREPARING, "Drop columns that occur in fewer rows.")] = 0
    max_share: Annotated[
        float, option(PREPARING, "Drop columns that occur in a larger share of the rows.")
    ] = 1.0
    drop_empty: Annotated[
        bool, option(PREPARING, "Drop columns that occur in no row.", negative=())
    ] = False
    metalabels: Annotated[
        bool,
        option(
            PREPARING,
            "Take the labels of the file for rows: each the sum of its rows, at length one.",
            negative=(),
        ),
    ] = False

    def transformer(self) -> Prepare | None:
        """As the library takes them; None where nothing is to be done."""
        from sparsecluster.prepare.prepare import Prepare

        given = {
            "tfidf": self.tfidf,
            "unit": self.unit,
            "log": self.log,
            "min_rows": self.min_rows,
            "max_share": self.max_share,
            "drop_empty": self.drop_empty,
        }
        prepare = Prepare(**given)  # type: ignore[arg-type]
        return None if prepare.get_params() == Prepare().get_params() else prepare


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Running:
    """How a command runs and what it tells."""

    threads: Annotated[
        int | None,
        option(RUNNING, "Threads to use, by default all CPUs; no result depends on it."),
    ] = None
    quiet: Annotated[
        bool,
        option(RUNNING, "Show no progress and no summary.", negative=(), name=["--quiet", "-q"]),
    ] = False
    json: Annotated[
        bool, option(RUNNING, "Give the summary as JSON, and no progress.", negative=())
    ] = False
