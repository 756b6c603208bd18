"""The way of values into HTML: Jinja2 templates that escape all that they are given."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

# What XML cannot hold, and what would turn the text around it: they are shown as replaced.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufffe\uffff]"
)


def check_jinja() -> None:
    """Refuse to report where Jinja2 is missing, before any work."""
    if find_spec("jinja2") is None:
        raise ImportError("A report needs Jinja2: pip install 'sparsecluster[report]'.")


def render(template: str, **values: Any) -> Any:
    """A template filled with values, as markup that goes unescaped into another one."""
    from markupsafe import Markup

    return Markup(_environment().get_template(template).render(**values))


def shorten(value: Any, longest: int) -> str:
    """Text on one line, cut where it is too long."""
    # Only the start is looked at: a text may be a whole book.
    words = " ".join(str(value)[: 20 * longest].split())
    return words if len(words) <= longest else words[: longest - 1].rstrip() + "…"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("sparsecluster.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"shorten": shorten, "place": "{:.1f}".format}
    return made


def _printable(value: Any) -> Any:
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _UNPRINTABLE.sub("\ufffd", value)
    return value
