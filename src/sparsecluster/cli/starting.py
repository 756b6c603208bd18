"""Options of the ways to start, as the registry declares them."""

from __future__ import annotations

from dataclasses import asdict, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from sparsecluster.kmeans.seeding.registry import METHODS

STARTING = Group("Starting", sort_key=1)


def _fields() -> list[tuple[str, Any, None]]:
    """A field per option; methods that share an option may give it different defaults."""
    kinds: dict[str, Any] = {}
    helps: dict[str, list[str]] = {}
    for method, known in METHODS.items():
        for option in known.options:
            kinds[option.name] = option.kind
            helps.setdefault(option.name, []).append(
                f"For {method}: {option.help[0].lower()}{option.help[1:]}"
            )
    return [
        (name, Annotated[kind | None, Parameter(group=STARTING, help=" ".join(helps[name]))], None)
        for name, kind in kinds.items()
    ]


if TYPE_CHECKING:
    Starting = Any
else:
    Starting = Parameter(name="*")(
        make_dataclass(
            "Starting",
            _fields(),
            frozen=True,
            kw_only=True,
            namespace={"__module__": __name__},  # else it passes for a type of Python's own
        )
    )


def given_options(starting: Starting) -> dict[str, Any]:
    """The options that were given, as the library takes them."""
    return {name: value for name, value in asdict(starting).items() if value is not None}
