"""Trees as Newick text, out and in: `(A:1,(B:0.5,C:0.5):0.5);`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

_TOKEN = re.compile(r"\s*(?:\[[^\]]*\]\s*)*('(?:[^']|'')*'|[(),:;]|[^\s(),:;'\[][^(),:;'\[]*)")
_PLAIN = re.compile(r"[^\s(),:;'\[\]]+(?: [^\s(),:;'\[\]]+)*")
TOKENS_SHOWN = 20


@dataclass
class TreeNode:
    """A tree, or a part of one: a leaf has a name and no children.

    Attributes
    ----------
    name : str
        Empty where there is none.
    length : float
        Of the branch above it.
    children : list of TreeNode
    """

    name: str = ""
    length: float = 0.0
    children: list[TreeNode] = field(default_factory=list)

    @property
    def leaves(self) -> list[TreeNode]:
        """All leaves, from left to right."""
        return [node for node in self._nodes() if not node.children]

    def _nodes(self) -> list[TreeNode]:
        """All nodes, each before its children."""
        found, pending = [], [self]
        while pending:
            node = pending.pop()
            found.append(node)
            pending.extend(reversed(node.children))
        return found

    def linkage(self) -> np.ndarray:
        """A linkage matrix of the leaves, from left to right.

        The height of a node is half the length of the longest way between two of its leaves of
        different branches: where all leaves are equally far from the root, the length of that way
        down. Nodes of more than two children become several merges of one height.
        """
        from sparsecluster.hierarchy.tree import linkage_matrix

        number = {id(leaf): i for i, leaf in enumerate(self.leaves)}
        depth: dict[int, float] = {}
        merges: list[tuple[float, int, int]] = []
        for node in reversed(self._nodes()):  # children first
            below = [depth[id(child)] + child.length for child in node.children]
            depth[id(node)] = max(below, default=0.0)
            firsts = [number[id(child)] for child in node.children]
            if firsts:
                number[id(node)] = firsts[0]
            height = sum(sorted(below)[-2:]) / 2
            merges += [(height, firsts[0], other) for other in firsts[1:]]
        # A stable sort: of equal heights the lower node stays first.
        merges.sort(key=lambda merge: merge[0])
        heights, one, other = np.array(merges).reshape(-1, 3).T
        return linkage_matrix(one.astype(np.int64), other.astype(np.int64), heights)


def read_newick(text: str) -> TreeNode:
    """A tree from Newick text, as phylogenetics programs and :meth:`AgglomerativeClustering.newick`
    write it.

    Parameters
    ----------
    text : str
        One tree, which ends with a semicolon. Names may be in quotes; comments in brackets are
        left out.

    Returns
    -------
    TreeNode

    Examples
    --------
    >>> from sparsecluster import read_newick
    >>> tree = read_newick("(Gorilla:0.17, (Chimp:0.19, Human:0.12):0.08);")
    >>> [leaf.name for leaf in tree.leaves]
    ['Gorilla', 'Chimp', 'Human']
    """
    tokens, at = [], 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"Not Newick text: {text[at : at + TOKENS_SHOWN]!r} cannot be read.")
        tokens.append(match[1].strip())
        at = match.end()
    return _parsed(tokens)


def _parsed(tokens: list[str]) -> TreeNode:
    root = node = TreeNode()
    parents: list[TreeNode] = []
    stream = iter(tokens)
    for token in stream:
        if token == "(":
            parents.append(node)
            node.children.append(node := TreeNode())
        elif token in ",)":
            if not parents:
                raise ValueError(f"Not Newick text: {token!r} outside of parentheses.")
            if token == ",":
                parents[-1].children.append(node := TreeNode())
            else:
                node = parents.pop()
        elif token == ":":
            node.length = _length(next(stream, ""))
        elif token == ";":
            if (more := next(stream, None)) is not None:
                raise ValueError(f"Not the Newick text of one tree: {more!r} follows its end.")
            break
        else:
            node.name = token[1:-1].replace("''", "'") if token.startswith("'") else token
    else:
        raise ValueError("Not Newick text: it does not end with a semicolon.")
    if parents:
        raise ValueError("Not Newick text: a parenthesis is not closed.")
    return root


def _length(token: str) -> float:
    try:
        length = float(token)
    except ValueError:
        length = math.nan
    if not math.isfinite(length):
        raise ValueError(f"Not Newick text: {token!r} is no length.")
    return length


def write_newick(linkage: np.ndarray, names: Sequence[str]) -> str:
    """A linkage matrix as Newick text; a branch is as long as the heights at its ends differ."""
    n_leaves = len(linkage) + 1
    children = linkage[:, :2].astype(np.int64).tolist()
    heights = np.concatenate([np.zeros(n_leaves), linkage[:, 2]]).tolist()
    parts: list[str] = []
    pending: list[tuple[int, float] | str] = [";", (2 * n_leaves - 2, heights[-1])]
    while pending:
        now = pending.pop()
        if isinstance(now, str):
            parts.append(now)
            continue
        node, above = now
        length = "" if node == 2 * n_leaves - 2 else f":{above - heights[node]!r}"
        if node < n_leaves:
            parts.append(_quoted(names[node]) + length)
            continue
        left, right = children[node - n_leaves]
        parts.append("(")
        pending += [f"){length}", (right, heights[node]), ",", (left, heights[node])]
    return "".join(parts)


def write_tree(root: TreeNode) -> str:
    """A tree of any number of children per node as Newick text."""
    parts: list[str] = []
    pending: list[TreeNode | str] = [";", root]
    while pending:
        now = pending.pop()
        if isinstance(now, str):
            parts.append(now)
            continue
        name = _quoted(now.name) if now.name else ""
        end = name if now is root else f"{name}:{now.length!r}"
        if not now.children:
            parts.append(end)
            continue
        parts.append("(")
        pending.append(f"){end}")
        for child in now.children[:0:-1]:
            pending += [child, ","]
        pending.append(now.children[0])
    return "".join(parts)


def _quoted(name: str) -> str:
    name = str(name)
    return name if _PLAIN.fullmatch(name) else "'" + name.replace("'", "''") + "'"
