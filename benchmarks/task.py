"""What is measured: one task is a kind of work with its parameters, the same for every system."""

from __future__ import annotations

from dataclasses import dataclass

FIT = "fit"
SEED = "seed"
PREDICT = "predict"


@dataclass(frozen=True)
class Task:
    """A kind of work (fit, seed or predict) and everything that must be equal between systems."""

    kind: str
    k: int
    seed: int = 0
    threads: int = 2
    tol: float = 1e-4
    max_iter: int = 300
