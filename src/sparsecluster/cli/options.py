"""Options that several commands share, as groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter, Token
from cyclopts.validators import Number

from sparsecluster.formats.registry import FORMATS, all_options
from sparsecluster.formats.source import Option
from sparsecluster.rows.resources import MAX_THREADS

if TYPE_CHECKING:
    from sparsecluster.prepare.prepare import Prepare

READING = Group("Reading", sort_key=4)
PREPARING = Group("Preparing (drop, then log, then tf-idf, then norm)", sort_key=5)
RUNNING = Group("Running", sort_key=6)


# What every command checks alike.
Clusters = Annotated[int, Parameter(name=["--clusters", "-k"], validator=Number(gte=1))]
Seed = Annotated[int | None, Parameter(validator=Number(gte=0, lt=2**32))]
Shown = Annotated[int, Parameter(validator=Number(gte=1))]


def option(group: Group, help: str, **more: object) -> Parameter:
    """An option of a group, with what it does."""
    return Parameter(group=group, help=help, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """How a data file is read: what all formats share."""

    format: Annotated[
        str | None,
        option(
            READING,
            f"{', '.join(FORMATS)}; by default what the file's first bytes and its name say.",
        ),
    ] = None
    dtype: Annotated[
        Literal["float32", "float64"] | None,
        option(READING, "Type of the values; by default that of the file, float32 for text."),
    ] = None

    def given(self) -> dict[str, Any]:
        """As `read` takes them."""
        given = {"format": self.format, "dtype": self.dtype}
        for name, (declared, _) in _declared().items():
            value = getattr(self, name)
            parsed = value is not None and declared.parse is not None
            given[name] = declared.parse(value) if parsed else value  # type: ignore[misc]
        return {name: value for name, value in given.items() if value is not None}


def _declared() -> dict[str, tuple[Option, list[str]]]:
    """The options of all formats by name, each with the formats that have it."""
    found: dict[str, tuple[Option, list[str]]] = {}
    for format, declared in all_options():
        found.setdefault(declared.name, (declared, []))[1].append(format)
    return found


def _field(declared: Option, formats: list[str]) -> tuple[str, Any, Any]:
    """The field of a group of options for an option of some formats."""
    help = f"For {', '.join(formats)}: {declared.help[0].lower()}{declared.help[1:]}"
    negative: Any = declared.negative or ()
    shown = option(READING, help, negative=negative)
    kind: Any = Annotated[declared.kind | None, shown]
    return declared.name, kind, field(default=None)


if TYPE_CHECKING:
    Reading = _Reading
else:
    Reading = Parameter(name="*")(
        make_dataclass(
            "Reading",
            [_field(*one) for one in _declared().values()],
            bases=(_Reading,),
            frozen=True,
            kw_only=True,
            namespace={"__module__": __name__},
        )
    )


def _count_or_share(_: Any, tokens: Sequence[Token]) -> float:
    """An integer or a float, as it is written: 1 is a row, 1.0 are all."""
    written = tokens[0].value
    return int(written) if written.lstrip("+-").isdecimal() else float(written)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Preparing:
    """What is made of the counts in a file."""

    tfidf: Annotated[
        bool, option(PREPARING, "Weight columns by their inverse frequency.", negative=())
    ] = False
    norm: Annotated[Literal["l2"] | None, option(PREPARING, "Scale rows to norm 1.")] = None
    unit: Annotated[bool, option(PREPARING, "Short for --norm l2.", negative=())] = False
    log: Annotated[bool, option(PREPARING, "Replace values by log(1 + value).", negative=())] = (
        False
    )
    min_df: Annotated[
        float,
        option(
            PREPARING,
            "Drop columns that occur in fewer rows, or a smaller share (0.01).",
            converter=_count_or_share,
        ),
    ] = 0
    max_df: Annotated[
        float,
        option(
            PREPARING,
            "Drop columns that occur in more rows, or a larger share (0.2).",
            converter=_count_or_share,
        ),
    ] = 1.0
    drop_empty: Annotated[
        bool, option(PREPARING, "Drop columns that occur in no row.", negative=())
    ] = False
    metalabels: Annotated[
        bool,
        option(
            PREPARING,
            "Make rows of the labels of the file: each is the sum of its rows, at unit length.",
            negative=(),
        ),
    ] = False

    def transformer(self) -> Prepare | None:
        """As the library takes them, and checked; None where nothing is to be done."""
        from sparsecluster.prepare.prepare import Prepare

        given = {
            "tfidf": self.tfidf,
            "norm": "l2" if self.unit else self.norm,
            "log": self.log,
            "min_df": self.min_df,
            "max_df": self.max_df,
            "drop_empty": self.drop_empty,
        }
        prepare = Prepare(**given)  # type: ignore[arg-type]
        prepare.check_parameters()
        return None if prepare.get_params() == Prepare().get_params() else prepare


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Running:
    """How a command runs and what it shows."""

    threads: Annotated[
        int | None,
        option(
            RUNNING,
            "Threads to use, by default all CPUs; no result depends on it.",
            validator=Number(gte=1, lte=MAX_THREADS),
        ),
    ] = None
    quiet: Annotated[
        bool,
        option(RUNNING, "Show no progress and no summary.", negative=(), name=["--quiet", "-q"]),
    ] = False
    json: Annotated[
        bool, option(RUNNING, "Give the summary as JSON, and no progress.", negative=())
    ] = False
