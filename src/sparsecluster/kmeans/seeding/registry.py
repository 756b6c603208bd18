"""The ways to start, by name, with their options; a function is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Option:
    """An option of a method: an integer of at least 1 (`int`), or a positive number (`float`)."""

    name: str
    kind: type[int] | type[float]
    help: str


@dataclass(frozen=True)
class Method:
    """Where the function of a method lives, its options, and its metric if it has only one.

    The function takes rows, the number of centers, a SeedSetting and the options by keyword. It
    returns indices of rows, or centers as a CSR array. One that is `distributed` needs no more of
    rows than `SampledRows` says, or draws them as k-means|| does: rows that workers have do, too.
    """

    home: str
    options: tuple[Option, ...] = ()
    metric: str | None = None
    distributed: bool = False

    def load(self) -> Callable[..., Any]:
        """The function that `home` names as module:function."""
        module, name = self.home.split(":")
        return getattr(import_module(module, __package__), name)


TRIALS = Option("n_local_trials", int, "Candidates per step, by default 2 + ln(clusters).")
CHAIN = Option("chain_length", int, "Steps per Markov chain, by default 100.")
ROUNDS = Option("rounds", int, "Rounds of draws, by default 5.")
PER_ROUND = Option("oversampling", float, "Rows drawn per center and round, by default 2.")
PER_CENTER = Option("oversampling", float, "Rows drawn per center, by default 4.")
SAMPLE = Option("sample_size", int, "Rows in the sample, by default 2000.")

METHODS: dict[str, Method] = {
    "k-means++": Method(".plusplus:greedy_kmeans_plusplus", (TRIALS,)),
    "plain-k-means++": Method(".plusplus:plain_kmeans_plusplus"),
    "spkm++": Method(".plusplus:spkm_plusplus", metric="cosine"),
    "mcmc": Method(".plusplus:mcmc", (CHAIN,)),
    "k-means||": Method(".parallel:kmeans_parallel", (PER_ROUND, ROUNDS), distributed=True),
    "furthest-first": Method(".farthest:furthest_first"),
    "oversample": Method(".farthest:oversample", (PER_CENTER,), distributed=True),
    "bisecting": Method(".hierarchy:bisecting"),
    "hierarchical": Method(".hierarchy:hierarchical", (SAMPLE,), distributed=True),
    "random": Method(".shared:random_rows", distributed=True),
}
