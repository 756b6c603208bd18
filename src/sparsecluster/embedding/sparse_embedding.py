"""Sparse embedding: every column goes to one of a few components, with a random sign.

Liu, Shen and Tsang, "Sparse Embedded k-Means Clustering" (NIPS 2017)."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from sparsecluster.base import SparseEstimator
from sparsecluster.embedding.rule import components_for
from sparsecluster.prepare.entrance import enter, names_of_frame
from sparsecluster.rows.column_map import ColumnMap
from sparsecluster.rows.parameters import Choice, Constraint, Flag, integer
from sparsecluster.rows.resources import effective_memory_limit, effective_n_threads, threads_for
from sparsecluster.rows.rows import MAX_INDEX, Rows
from sparsecluster.storage.fields import INTEGER, Array

OUTPUTS = ("auto", "dense", "sparse")
# Of the rule, where only the number of clusters is given.
USUAL_EPS, USUAL_DELTA = 0.5, 0.1
WORK_OF_AN_ENTRY = 8  # in multiply-adds


class Share(Constraint):
    """A number above 0 and below 1."""

    def check(self, name: str, value: Any) -> None:
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not number or not 0 < value < 1:
            raise ValueError(f"{name} must be a number above 0 and below 1, got {value!r}.")


class SparseEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SparseEstimator):
    """Fewer columns, in one pass over the entries: each column is added to one of `n_components`.

    Every column has a component and a sign, both at random; a value of the column is added to the
    component, or taken from it. Squared distances are kept in expectation, and with enough
    components the k-means cost of every partition within a factor of 1 + eps. Nothing is learned
    from X but its number of columns, so blocks of a stream can be transformed one by one.

    Parameters
    ----------
    n_components : int or None, default=None
        Columns of the result. None: by the rule of the paper, from `n_clusters`, `eps` and `delta`.
    n_clusters : int or None, default=None
        For the rule: number of clusters K that will be looked for; with `n_components` it does not
        count.
    eps : float or None, default=None
        For the rule: how far the cost of the best clustering of the embedded rows may lie above the
        optimum, as a share of it; above 0 and below 1. None is 0.5. The costs of all partitions
        then change by at most a factor of 1 +- e', where eps = 2 e' / (1 - e').
    delta : float or None, default=None
        For the rule: probability of missing that; above 0 and below 1. None is 0.1. The rule is
        max((K + log2(1 / delta)) / e'^2, 6 / (e'^2 delta)) components. Where X has no more columns
        than that, a warning says so, and X stays as it is.
    hashed : bool, default=True
        Whether components and signs are a hash of the seed and the number of the column: without a
        table, the same on every machine, for any number of columns; rows may have more of them
        later. With False they are a table, drawn from `random_state`, and the number of columns is
        fixed.
    output : {"auto", "dense", "sparse"}, default="auto"
        Form of the result. "auto" is an array for arrays; for sparse X it is CSR where that is
        expected to take less memory, by the entries in the rows that were fitted.
    random_state : int, RandomState or None, default=None
        Of the signs and components. An int is the seed of the hash.
    n_threads : int or None, default=None
        Threads to use; the result does not depend on it.
    memory_limit : int, str or None, default=None
        Bytes (or "2GB") that the result may take; more is refused before any work. By default half
        of the memory that is free.

    Attributes
    ----------
    n_components_ : int
        Columns of the result.
    seed_ : int
        Of the hash.
    table_ : ndarray of int32, or None
        Component of each column, c or, where its sign changes, -1 - c; None where it is hashed, or
        X stays as it is.
    n_features_in_ : int
        Columns of the rows that were fitted.

    Notes
    -----
    Sums are made in float64, row by row in the order of the columns, and rounded once to the type
    of X: the result is the same to the bit for any number of threads and any blocks.

    The hash of column j is entry j of the SplitMix64 stream that starts at the mixed seed. Its
    lowest bit gives the sign, its other bits, as a fraction of 2**63, times `n_components` the
    component.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsecluster import SparseEmbedding
    >>> X = csr_array([[1.0, 0, 2, 0, 0], [0, 3, 0, 0, 1]])
    >>> SparseEmbedding(3, random_state=0).fit_transform(X).toarray()
    array([[-2.,  0., -1.],
           [-1.,  3.,  0.]])
    """

    _parameters = {
        name: SparseEstimator._parameters[name] for name in ("n_threads", "memory_limit")
    } | {
        "n_components": integer(1, MAX_INDEX).optional,
        "n_clusters": integer(1).optional,
        "eps": Share().optional,
        "delta": Share().optional,
        "hashed": Flag(),
        "output": Choice(OUTPUTS),
    }
    _fitted = SparseEstimator._fitted | {"n_components_": INTEGER, "seed_": INTEGER}

    n_components_: int
    seed_: int
    table_: np.ndarray | None
    _sparse_output: bool

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_clusters: int | None = None,
        eps: float | None = None,
        delta: float | None = None,
        hashed: bool = True,
        output: str = "auto",
        random_state: Any = None,
        n_threads: int | None = None,
        memory_limit: int | str | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_clusters = n_clusters
        self.eps = eps
        self.delta = delta
        self.hashed = hashed
        self.output = output
        self.random_state = random_state
        self.n_threads = n_threads
        self.memory_limit = memory_limit

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be, before any work."""
        super().check_parameters()
        for_rule = [name for name in ("eps", "delta") if getattr(self, name) is not None]
        if self.n_components is not None and for_rule:
            raise ValueError(
                f"n_components={self.n_components} leaves nothing to the rule: pass either "
                f"n_components or {', '.join(for_rule)}."
            )
        if self.n_components is None and self.n_clusters is None:
            raise ValueError(
                "How many components? Pass n_components, or n_clusters (and eps, delta) to have "
                "the rule of the paper choose."
            )
        check_random_state(self.random_state)

    # --- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> SparseEmbedding:
        """Take the number of columns of X, and draw components and signs.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
        y : ignored
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit to X, and transform it."""
        return self._embedded(self._fit(X))

    def _fit(self, X: Any) -> Rows:
        self.check_parameters()
        rows = self._enter(X, reset=True)
        n_components = self._components_for(rows.n_features)
        random_state = check_random_state(self.random_state)
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = random_state.randint(np.iinfo(np.int32).max)
        self.seed_, self.n_components_ = int(seed), n_components or rows.n_features
        self.table_ = None
        if n_components is not None and not self.hashed:
            drawn = random_state.randint(n_components, size=rows.n_features).astype(np.int32)
            signs = random_state.randint(2, size=rows.n_features).astype(np.int32)
            self.table_ = drawn ^ -signs
        self._reduces = n_components is not None
        itemsize = rows.matrix.dtype.itemsize
        density = self._map.density(rows)
        smaller = density * (itemsize + np.dtype(np.int32).itemsize) < itemsize
        self._sparse_output = self.output == "sparse" or (self.output == "auto" and smaller)
        self._remember(rows, None)
        return rows

    def _components_for(self, n_features: int) -> int | None:
        """Components to make of so many columns; None where the rule asks for no fewer."""
        if self.n_components is not None:
            return int(self.n_components)
        assert self.n_clusters is not None
        eps = USUAL_EPS if self.eps is None else float(self.eps)
        delta = USUAL_DELTA if self.delta is None else float(self.delta)
        needed = components_for(int(self.n_clusters), eps, delta)
        if needed < n_features:
            return needed
        warnings.warn(
            f"For {self.n_clusters} clusters, eps={eps:g} and delta={delta:g} the rule asks for "
            f"{needed:,} components, and X has {n_features:,} columns: it stays as it is. Raise "
            f"eps or delta, or pass n_components.",
            UserWarning,
            stacklevel=4,
        )
        return None

    # --- transforming -------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """The rows of X in terms of the components, in the float type of X.

        Parameters
        ----------
        X : sparse matrix or array of shape (n_samples, n_features), frame, Rows, store or path
            With `hashed` it may have more columns than were fitted; if they have names, the new
            ones come behind the known ones.

        Returns
        -------
        embedded : csr_array or ndarray of shape (n_samples, n_components_)
        """
        self.check_is_fitted()
        return self._embedded(self._rows(X))

    def components(self, columns: Any) -> tuple[np.ndarray, np.ndarray]:
        """The component of each of these columns, and its sign: 1 or -1.

        Examples
        --------
        >>> import numpy as np
        >>> from sparsecluster import SparseEmbedding
        >>> embedding = SparseEmbedding(1000, random_state=0).fit(np.eye(3))
        >>> embedding.components([0, 1, 2])
        (array([883, 431,  26], dtype=int32), array([-1,  1, -1], dtype=int32))
        """
        self.check_is_fitted()
        columns = np.asarray(columns)
        if columns.dtype.kind not in "iu" or np.any(columns < 0):
            raise ValueError("columns must be numbers of columns, integers of at least 0.")
        if not (self._reduces and self.hashed) and np.any(columns >= self.n_features_in_):
            raise ValueError(f"There are {self.n_features_in_} columns.")
        if not self._reduces:
            return columns.astype(np.int32), np.ones(columns.shape, dtype=np.int32)
        places = self._map.places(columns.ravel()).reshape(columns.shape)
        signs = np.where(places < 0, -1, 1).astype(np.int32)
        return np.where(places < 0, ~places, places), signs

    def check_is_fitted(self) -> None:
        """Raise NotFittedError where nothing was fitted."""
        check_is_fitted(self, "n_components_")

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    @property
    def _map(self) -> ColumnMap:
        return ColumnMap(n_components=self.n_components_, seed=self.seed_, table=self.table_)

    def _rows(self, X: Any) -> Rows:
        """The checked rows of X, which may have more columns than were fitted."""
        shape: Any = getattr(X, "shape", ())
        grown = len(shape) == 2 and shape[1] > self.n_features_in_
        if not (grown and self._reduces and self.hashed):
            return self._enter(X, reset=False)
        rows = enter(X, n_threads=effective_n_threads(self.n_threads))
        names = rows.feature_names if isinstance(X, Rows) else names_of_frame(X)
        known = self._names_of_columns(self.recipe)
        if names is None or known is None or list(names[: len(known)]) == list(known):
            return rows
        raise ValueError(
            "The columns of X are more than those that were fitted, but do not start with the same "
            "feature names. Put the new columns behind the known ones."
        )

    def _embedded(self, rows: Rows) -> Any:
        if not self._reduces:
            wanted = {"dense": False, "sparse": True}.get(self.output, rows.sparse)
            if wanted == rows.sparse:
                return rows.matrix
            return sp.csr_array(rows.matrix) if wanted else rows.matrix.toarray()
        sparse = self._sparse_output and (rows.sparse or self.output == "sparse")
        self._check_memory(rows, sparse)
        work = WORK_OF_AN_ENTRY * rows.core.nnz
        n_threads = threads_for(work, effective_n_threads(self.n_threads))
        return self._map.embedded(rows, sparse=sparse, n_threads=n_threads)

    def _check_memory(self, rows: Rows, sparse: bool) -> None:
        """Refuse a result that does not fit into the memory limit."""
        limit, itemsize = effective_memory_limit(self.memory_limit), rows.matrix.dtype.itemsize
        cells = rows.n_rows * self.n_components_
        needed = float(cells * itemsize)
        if sparse:
            entries = min(cells * self._map.density(rows), rows.core.nnz)
            needed = entries * (itemsize + 4) + 8 * rows.n_rows
        if needed > limit:
            raise ValueError(
                f"The embedded rows take {needed / 1e9:.3g} GB, more than the memory limit of "
                f"{limit / 1e9:.3g} GB. Transform X in blocks of rows, convert it to a store with "
                f"Prepare(embed={self.n_components_}), use fewer components, or raise memory_limit."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # --- files --------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """What was fitted, in arrays and what JSON can hold."""
        self.check_is_fitted()
        form = {"sparse_output": bool(self._sparse_output), "reduces": self._reduces}
        return super().get_state() | {"form": form, "table_": self.table_}

    def set_state(self, state: dict[str, Any], *, verify: bool) -> None:
        """Take over what `get_state` gave."""
        form, table = state.pop("form"), state.pop("table_")
        for name in ("sparse_output", "reduces"):
            if type(form[name]) is not bool:
                raise ValueError(f"has {form[name]!r} as {name}")
        self._sparse_output, self._reduces = form["sparse_output"], form["reduces"]
        super().set_state(state, verify=verify)
        self.table_ = table
        n_components, n_features = self.n_components_, self.n_features_in_
        if not 1 <= n_components <= MAX_INDEX or not 0 <= self.seed_ < 2**64:
            raise ValueError("has a number of components or a seed that cannot be")
        if not self._reduces and n_components != n_features:
            raise ValueError("has another number of components than of columns")
        if (table is not None) != (self._reduces and not self.hashed):
            raise ValueError("has a table where there is none, or none where there is one")
        if table is not None:
            Array(np.int32).unpack("table_", table, n_features)
            reached = np.where(table < 0, ~table, table)
            if len(table) != n_features or (n_features and reached.max() >= n_components):
                raise ValueError("has a table of other components or columns")
