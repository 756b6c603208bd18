"""What a fitted tree is turned into: paths, matrices, text, terms."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from sparsecluster.rows.checks import check_feature_names
from sparsecluster.rows.errors import counted
from sparsecluster.rows.parameters import check_number
from sparsecluster.tree.chain import write_chain
from sparsecluster.tree.routed import RoutedTree
from sparsecluster.tree.terms import node_columns


class TreeForms(RoutedTree):
    """A tree in the forms that others take."""

    labels_: np.ndarray

    def paths(self) -> np.ndarray:
        """For each row the nodes from below the root down to its leaf, a column per level; -1 where
        the leaf is above the last level."""
        check_is_fitted(self)
        return self.tree_.leaf_paths()[self.labels_]

    def leaf_order(self) -> np.ndarray:
        """The rows in the order of their leaves, from left to right."""
        check_is_fitted(self)
        return np.argsort(self.labels_, kind="stable")

    def cluster_chain(self) -> list[sp.csc_matrix]:
        """The tree as PECOS and other extreme multi-label systems take it.

        Returns
        -------
        chain : list of csc_matrix of float32
            Indicator matrices, from the root down: rows are the nodes of a level, columns those of
            the level above. Rows of the last one are the rows of X, its columns the leaves. A leaf
            above the last level is its own only child further down.
        """
        check_is_fitted(self)
        return self.tree_.chain(self.labels_)

    def save_chain(self, folder: str | os.PathLike[str]) -> None:
        """Write :meth:`cluster_chain` into a new folder, from which PECOS's ``ClusterChain.load``
        reads it."""
        write_chain(self.cluster_chain(), folder)

    # --- text ---------------------------------------------------------------------------------

    def linkage(self) -> np.ndarray:
        """The tree of the leaves as a linkage matrix of scipy: heights are levels, and a node of
        several children is several merges of one height."""
        check_is_fitted(self)
        return self.tree_.linkage()

    def newick(self, names: Sequence[str] | None = None) -> str:
        """The tree as Newick text, with these names for the leaves or their numbers."""
        check_is_fitted(self)
        n_leaves = self.tree_.n_leaves
        names = list(map(str, range(n_leaves))) if names is None else names
        if len(names) != n_leaves:
            raise ValueError(
                f"There are {len(names)} names for {counted(n_leaves, 'leaf', 'leaves')}."
            )
        return self.tree_.newick(names)

    def to_dict(self, n_terms: int = 0) -> dict[str, Any]:
        """The tree as nested dicts that JSON can hold.

        Each has `node`, `size`, `cost`, with `n_terms` the `terms` that tell it from its siblings,
        and `children`, or for a leaf its number, `leaf`.
        """
        check_is_fitted(self)
        tree = self.tree_
        terms = self.node_terms(n_terms) if n_terms else None
        leaf_of = {int(node): leaf for leaf, node in enumerate(tree.leaves)}

        def about(node: int) -> dict[str, Any]:
            known: dict[str, Any] = {"node": node, "size": int(tree.sizes[node])}
            known["cost"] = float(self.node_costs_[node])
            if terms is not None:
                known["terms"] = terms[node]
            return known | ({"leaf": leaf_of[node]} if node in leaf_of else {})

        return tree.documents(about)

    def node_terms(self, n_terms: int = 5, *, feature_names: Any = None) -> list[list[str]]:
        """For each node the columns that tell it from its siblings, most telling first.

        Parameters
        ----------
        n_terms : int, default=5
            How many to name for each node.
        feature_names : sequence of str, optional
            Names of the columns. By default those given to :meth:`fit`, those of its data frame, or
            x0, x1, ...
        """
        check_is_fitted(self)
        check_number("n_terms", n_terms, Integral, 1)
        names: Any = check_feature_names(feature_names, self.n_features_in_)
        if names is None:
            names = self.feature_names_
        if names is None:
            names = getattr(self, "feature_names_in_", [])
        return [
            [str(names[c]) if c < len(names) else f"x{c}" for c in columns]
            for columns in node_columns(self.tree_, self.node_centers_, int(n_terms))
        ]
