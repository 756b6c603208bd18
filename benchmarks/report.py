"""Gathers what a command measures: prints it, writes JSON after every run, and draws a plot."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from . import machine, plots, tables
from .harness import disturbed
from .summary import Ratio, Summary


class Report:
    """The record of one command."""

    def __init__(self, console: Console, out: Path, settings: dict[str, Any]) -> None:
        self.console = console
        self.out = out
        self.record: dict[str, Any] = {
            "machine": machine.describe(),
            "settings": settings,
            "ratios": [],
            "sections": [],
            "runs": [],
        }
        self.panels: list[plots.Panel] = []

    def tell(self, text: str) -> None:
        self.console.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)

    def systems(self, title: str, summaries: list[Summary]) -> None:
        """A table of systems on one task."""
        if summaries:
            tables.systems_table(self.console, title, summaries)
            self._keep(title, summaries)

    def growth(self, title: str, steps: list[tuple[float, list[Summary]]], x_label: str) -> None:
        """A table of systems at growing sizes."""
        tables.growth_table(self.console, title, steps, x_label)
        self._keep(title, [one for _, found in steps for one in found])

    def _keep(self, title: str, summaries: list[Summary]) -> None:
        self.record["sections"].append(
            {"title": title, "systems": [asdict(one) for one in summaries]}
        )
        self.save()

    def ratios(
        self, title: str, ratios: Iterable[Ratio | None], wanted: str = "", aim: str = ""
    ) -> None:
        """A table of one figure over the data sets."""
        found = [one for one in ratios if one]
        tables.ratios_table(self.console, title, found, wanted, aim)
        self.record["ratios"].append(
            {
                "title": title,
                "wanted": wanted,
                "aim": aim,
                "figures": [asdict(one) for one in found],
            }
        )
        self.save()

    def save(self) -> None:
        self.out.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.out.with_suffix(".part")
        fresh.write_text(json.dumps(self.record, indent=1) + "\n")
        fresh.replace(self.out)

    def close(self) -> None:
        """Say where it is, and draw."""
        self.console.print(machine.one_line(self.record["machine"]), style="dim", highlight=False)
        shaky = sum(map(disturbed, self.record["runs"]))
        if shaky:
            advice = "measure again on an idle machine before quoting a ratio."
            text = f"{shaky} runs were disturbed by other processes: {advice}"
            self.console.print(text, style="yellow")
        self.save()
        written = [str(self.out)]
        picture = self.out.with_suffix(".png")
        panels = [panel for panel in self.panels if panel.values]
        if panels:
            if plots.draw(panels, picture):
                written.append(str(picture))
            else:
                self.tell("No plot: matplotlib is not installed (extra `bench`).")
        self.tell("written: " + ", ".join(written))
