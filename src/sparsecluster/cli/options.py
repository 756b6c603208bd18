"""Options that several commands share, as groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

from sparsecluster.formats.registry import FORMATS, all_options
from sparsecluster.formats.source import Option
from sparsecluster.rows.resources import MAX_THREADS

if TYPE_CHECKING:
    from sparsecluster.prepare.prepare import Prepare

READING = Group("Reading", sort_key=4)
PREPARING = Group("Preparing (drop, then log, then tf-idf, then norm, then embed)", sort_key=5)
RUNNING = Group("Running", sort_key=6)

# What every command checks alike.
Clusters = Annotated[int, Parameter(name=["--clusters", "--k", "-k"], validator=Number(gte=1))]
Seed = Annotated[int | None, Parameter(validator=Number(gte=0, lt=2**32))]
Shown = Annotated[int, Parameter(validator=Number(gte=1))]


def option_group(name: str, options: dict[str, tuple[Any, Parameter]], *bases: type) -> Any:
    """A class of options: the type of each, and how it is shown; None is what was not given."""
    fields = [(one, Annotated[kind | None, how], None) for one, (kind, how) in options.items()]
    # Without a module of its own it would pass for a type of Python's.
    module = {"__module__": __name__}
    made = make_dataclass(name, fields, bases=bases, frozen=True, kw_only=True, namespace=module)
    return Parameter(name="*")(made)


def given_options(group: Any) -> dict[str, Any]:
    """The options of a group that were given."""
    return {name: value for name, value in asdict(group).items() if value is not None}


@dataclass(frozen=True)
class _Reading:
    """How a data file is read."""

    def given(self) -> dict[str, Any]:
        """As `read` takes them."""
        parse = {one.name: one.parse for _, one in all_options() if one.parse is not None}
        return {
            name: parse[name](value) if name in parse else value
            for name, value in given_options(self).items()
        }


def _reading_options() -> dict[str, tuple[Any, Parameter]]:
    """What all formats share, then the options of each, with the formats that have it."""
    sniffed = f"{', '.join(FORMATS)}; by default what the file's first bytes and its name say."
    of_file = "Type of the values; by default that of the file, float32 for text."
    options = {
        "format": (str, Parameter(group=READING, help=sniffed)),
        "dtype": (Literal["float32", "float64"], Parameter(group=READING, help=of_file)),
    }
    declared: dict[str, tuple[Option, list[str]]] = {}
    for format, option in all_options():
        declared.setdefault(option.name, (option, []))[1].append(format)
    for name, (option, formats) in declared.items():
        help = f"For {', '.join(formats)}: {option.help[0].lower()}{option.help[1:]}"
        shown = Parameter(group=READING, help=help, negative=option.negative or ())
        options[name] = (option.kind, shown)
    return options


if TYPE_CHECKING:
    Reading = _Reading
else:
    Reading = option_group("Reading", _reading_options(), _Reading)


def _count_or_share(_: Any, tokens: Sequence[Token]) -> float:
    """An integer or a float, as it is written: 1 is a row, 1.0 are all."""
    written = tokens[0].value
    return int(written) if written.lstrip("+-").isdecimal() else float(written)


CountOrShare = Annotated[float, Parameter(converter=_count_or_share)]


def checkpoint_folder(_: Any, tokens: Sequence[Token]) -> Path:
    """The folder of --checkpoint; an empty name is refused before `Path` makes "." of it."""
    from sparsecluster.storage.checkpoint import check_folder

    check_folder(tokens[0].value, "it")  # after "Invalid value for --checkpoint"
    return Path(tokens[0].value)


@Parameter(name="*", group=PREPARING, negative=())
@dataclass(frozen=True, kw_only=True)
class Preparing:
    """What is made of the counts in a file.

    Parameters
    ----------
    tfidf
        Weight columns by their inverse frequency.
    norm
        Scale rows to norm 1.
    unit
        Short for --norm l2.
    log
        Replace values by log(1 + value).
    min_df
        Drop columns that occur in fewer rows, or a smaller share (0.01).
    max_df
        Drop columns that occur in more rows, or a larger share (0.2).
    drop_empty
        Drop columns that occur in no row.
    embed
        Make so many columns of all that are kept, by a sparse embedding.
    metalabels
        Make rows of the labels of the file: each is the sum of its rows, at unit length.
    """

    tfidf: bool = False
    norm: Literal["l2"] | None = None
    unit: bool = False
    log: bool = False
    min_df: CountOrShare = 0
    max_df: CountOrShare = 1.0
    drop_empty: bool = False
    embed: Annotated[int | None, Parameter(validator=Number(gte=1))] = None
    metalabels: bool = False

    def transformer(self) -> Prepare | None:
        """As the library takes them, and checked; None where nothing is to be done."""
        from sparsecluster.prepare.prepare import Prepare

        given = asdict(self)
        del given["metalabels"]
        if given.pop("unit"):
            given["norm"] = "l2"
        prepare = Prepare(**given)
        prepare.check_parameters()
        return None if prepare.get_params() == Prepare().get_params() else prepare


@Parameter(name="*", group=RUNNING, negative=())
@dataclass(frozen=True, kw_only=True)
class Running:
    """How a command runs and what it shows.

    Parameters
    ----------
    threads
        Threads to use, by default all CPUs; no result depends on it.
    quiet
        Show no progress and no summary.
    verbose
        Tell of each iteration, and how long each step took.
    json
        Give the summary as JSON, and no progress (unless --verbose).
    """

    threads: Annotated[int | None, Parameter(validator=Number(gte=1, lte=MAX_THREADS))] = None
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"])] = False
    json: bool = False
