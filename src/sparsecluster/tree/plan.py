"""How many children a node gets, and how many rows each of them may have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LARGEST_SHARE = 7 / 8  # of a node's rows that one child may have, so that every way down is short


@dataclass(frozen=True)
class SizePlan:
    """The sizes of a tree whose leaves have bounded sizes.

    Balanced trees have about as few leaves as `max_leaf_size` allows, all of about one size; nodes
    near the leaves have all `branching` children, those near the root what is left.
    """

    branching: int
    max_leaf_size: int
    min_leaf_size: int
    balanced: bool

    def check(self, n_rows: int | None = None) -> None:
        """Refuse bounds that cannot be kept; those of so many rows, where these are known."""
        low, high = self.min_leaf_size, self.max_leaf_size
        if low > high:
            raise ValueError(f"min_leaf_size={low} is more than max_leaf_size={high}.")
        if not self.balanced and 2 * low > high + 1:
            raise ValueError(
                f"min_leaf_size={low} cannot be kept with max_leaf_size={high}: a node of "
                f"{high + 1} rows has to be split, and one of its leaves would get "
                f"{(high + 1) // 2} rows at most. Pass at most {(high + 1) // 2}."
            )
        if n_rows is None:
            return
        if n_rows < low:
            raise ValueError(f"min_leaf_size={low} is more than there are rows ({n_rows}).")
        smallest = self._smallest_leaf(n_rows) if self.balanced and low > 1 else low
        if smallest < low:
            raise ValueError(
                f"min_leaf_size={low} cannot be kept: a balanced tree of {n_rows} rows with "
                f"leaves of at most {high} rows has leaves of {smallest}. Pass at most "
                f"{smallest}, or another max_leaf_size."
            )

    def height(self, n_rows: int) -> int:
        """Levels below the root of a balanced tree."""
        levels, most = 0, self.max_leaf_size
        while most < n_rows:
            levels, most = levels + 1, most * self.branching
        return levels

    def children(
        self, sizes: np.ndarray, levels_below: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Number of children of nodes that are to be split, and the bounds of their sizes."""
        leaves = -(-sizes // self.max_leaf_size)
        if self.balanced:
            n_children = np.maximum(-(-leaves // self.branching ** max(levels_below - 1, 0)), 2)
            return n_children, sizes // n_children, -(-sizes // n_children)
        n_children = np.minimum(np.clip(leaves, 2, self.branching), sizes // self.min_leaf_size)
        lower = np.full(len(sizes), self.min_leaf_size, dtype=np.int64)
        upper = np.maximum((sizes * LARGEST_SHARE).astype(np.int64), -(-sizes // n_children))
        return n_children, lower, np.minimum(upper, sizes - (n_children - 1) * lower)

    def _smallest_leaf(self, n_rows: int) -> int:
        sizes, leaves = {n_rows}, set()
        for levels_below in range(self.height(n_rows), -1, -1):
            leaves |= {size for size in sizes if size <= self.max_leaf_size}
            split = np.array(sorted(sizes - leaves), dtype=np.int64)
            if not len(split):
                break
            _, lower, upper = self.children(split, levels_below)
            sizes = {*lower.tolist(), *upper.tolist()}
        return min(leaves)
