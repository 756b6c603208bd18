"""Random bits as a function of a seed and of numbers: the same on every machine, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seed_of(random_state: Any) -> int:
    """A seed: the number itself, else one drawn from the generator."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        check_random_state(random_state)  # refuses what numpy would not take
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def mixed_bits(numbers: Any) -> np.ndarray:
    """64 random bits for each number: the output function of SplitMix64."""
    bits = np.array(numbers, dtype=np.uint64, ndmin=1)
    bits ^= bits >> np.uint64(30)
    bits *= _MIX_1
    bits ^= bits >> np.uint64(27)
    bits *= _MIX_2
    bits ^= bits >> np.uint64(31)
    return bits


def stream_bits(seed: Any, numbers: Any) -> np.ndarray:
    """Entries of the SplitMix64 streams that begin at these seeds, at these numbers."""
    # Arrays wrap around as they should; numpy warns of single numbers that do.
    seeds, counts = (np.array(one, dtype=np.uint64, ndmin=1) for one in (seed, numbers))
    return mixed_bits(seeds + (counts + np.uint64(1)) * GOLDEN)


def random_signs(seed: int, columns: np.ndarray) -> np.ndarray:
    """A sign for each column, 1 or -1, in float64."""
    bits = stream_bits(mixed_bits(seed)[0], columns)
    return 1.0 - 2.0 * (bits >> np.uint64(63)).astype(np.float64)
