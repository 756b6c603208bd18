"""The steps by which the parts of a run are restored, where workers of them were lost.

What parts tell each other does not come by here, so none of them can be restored alone: all begin
once more, from centers that are known, and take the same steps to the same bits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sparsecluster.kmeans.packed import Arrays

# Steps that may have to be taken once more: of so many seconds, and so many times what it takes to
# learn centers to begin at.
REPLAY_SECONDS = 5.0
REPLAY_SHARE = 20.0


@dataclass(frozen=True)
class Step:
    """A call of all parts, and whether it applies what labels add to the sums before."""

    method: str
    given: Arrays
    applies: bool


@dataclass(frozen=True)
class Beginning:
    """Centers, and the labels of each part, if there are any."""

    centers: Arrays
    own: list[dict[str, Any]]


class Replay:
    """What brings all parts to where they are."""

    def __init__(self, beginning: Beginning) -> None:
        self.beginning, self.steps = beginning, list[Step]()
        self._later: tuple[Beginning, list[Step]] | None = None
        self._seconds = REPLAY_SECONDS
        self._began = time.monotonic()

    def add(self, step: Step) -> None:
        """Take over a step that all took."""
        self.steps.append(step)
        if self._later is None:
            return
        self._later[1].append(step)
        if step.applies:
            # Labels before the last update are known by these steps, too.
            (self.beginning, self.steps), self._later = self._later, None
            self._began = time.monotonic()

    @property
    def is_long(self) -> bool:
        """Whether it should begin at later centers."""
        return self._later is None and time.monotonic() > self._began + self._seconds

    def begin_at(self, beginning: Beginning, step: Step, seconds: float) -> None:
        """What leads to where the parts are, but for the labels before; and what it took to learn
        of these centers."""
        self._later = beginning, [step]
        self._seconds = max(REPLAY_SECONDS, REPLAY_SHARE * seconds)
