"""Options of the ways to start, as the registry declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts import Group, Parameter

from sparsecluster.cli.options import option_group
from sparsecluster.kmeans.seeding.registry import METHODS

STARTING = Group("Starting", sort_key=1)


def _options() -> dict[str, tuple[Any, Parameter]]:
    """Methods that share an option may give it different defaults."""
    kinds: dict[str, Any] = {}
    helps: dict[str, str] = {}
    for method, known in METHODS.items():
        for option in known.options:
            help = f"For {method}: {option.help[0].lower()}{option.help[1:]}"
            kinds[option.name] = option.kind
            helps[option.name] = f"{helps.get(option.name, '')} {help}".lstrip()
    return {name: (kinds[name], Parameter(group=STARTING, help=helps[name])) for name in kinds}


if TYPE_CHECKING:
    Starting = Any
else:
    Starting = option_group("Starting", _options())
