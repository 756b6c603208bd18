"""What is measured: one task is a kind of work with its parameters, the same for every system."""

from __future__ import annotations

from dataclasses import dataclass

FIT = "fit"
SEED = "seed"
PREDICT = "predict"
SPHERE = "sphere"


@dataclass(frozen=True)
class Task:
    """A kind of work, and everything that must be equal between systems.

    fit, seed, predict, or sphere: a fit by cosine.
    """

    kind: str
    k: int
    seed: int = 0
    threads: int = 2
    tol: float = 1e-4
    max_iter: int = 300
