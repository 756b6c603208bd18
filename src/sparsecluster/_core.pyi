"""Types of the compiled core (cpp/bindings.cpp, cpp/bindings_text.cpp)."""

import numpy as np
from typing_extensions import Buffer

class Rows:
    n_rows: int
    n_features: int
    nnz: int
    norm2: np.ndarray
    max_norm: float
    @staticmethod
    def sparse(
        indptr: np.ndarray,
        indices: np.ndarray,
        values: np.ndarray,
        n_features: int,
        chunk_bytes: int = ...,
        n_columns: int | None = ...,
    ) -> Rows: ...
    @staticmethod
    def dense(values: np.ndarray, n_columns: int | None = ...) -> Rows: ...
    def inspect(self, n_threads: int) -> tuple[str, int]: ...
    def select(self, ids: np.ndarray) -> Rows: ...

class ColumnStats:
    mean_variance: float
    scatter: float

class Centers:
    n_clusters: int
    n_features: int
    nnz: int
    norm2: np.ndarray
    @staticmethod
    def from_csr(
        indptr: np.ndarray, indices: np.ndarray, values: np.ndarray, n_features: int
    ) -> Centers: ...
    def to_csr(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
    def limited(self, limit: CenterLimit, metric: str) -> Centers: ...

class Assigner:
    def __init__(
        self, rows: Rows, algorithm: str, n_threads: int, head_limit: int, metric: str
    ) -> None: ...
    def assign(
        self, centers: Centers, shift: np.ndarray, labels: np.ndarray
    ) -> tuple[int, int, str]: ...
    def forget(self, row: int) -> None: ...

class CenterLimit:
    values: tuple[float, str, float, int]
    def __init__(
        self, l1: float = ..., projection: str = ..., epsilon: float = ..., nnz: int = ...
    ) -> None: ...

class Sums:
    scatter: float
    mean_norm2: np.ndarray
    def __init__(
        self,
        rows: Rows,
        columns: ColumnStats,
        weights: np.ndarray | None,
        n_clusters: int,
        metric: str,
        limit: CenterLimit,
    ) -> None: ...
    def update(
        self, labels: np.ndarray, centers: Centers, n_threads: int
    ) -> tuple[int, np.ndarray, float]: ...

class MiniBatch:
    counts: np.ndarray
    n_features: int
    version: int
    n_batches: int
    rows_since_check: int
    def __init__(
        self,
        sums: Centers,
        counts: np.ndarray,
        metric: str,
        limit: CenterLimit,
        head_limit: int,
    ) -> None: ...
    def learn(
        self, rows: Rows, weights: np.ndarray | None, labels: np.ndarray, n_threads: int
    ) -> tuple[np.ndarray, np.ndarray]: ...
    def place(self, clusters: np.ndarray, rows: Rows, ids: np.ndarray, count: float) -> None: ...
    def widen(self, n_features: int) -> None: ...
    def centers(self) -> Centers: ...
    def state(self) -> tuple[Centers, np.ndarray, np.ndarray, int, int]: ...
    def resume(self, squares: np.ndarray, n_batches: int, rows_since_check: int) -> None: ...

class StopToken:
    def stop(self) -> None: ...
    def watch(self) -> None: ...
    def unwatch(self) -> None: ...

def simd_level() -> str: ...
def elkan_bytes(n_rows: int, n_clusters: int) -> int: ...
def column_stats(rows: Rows, weights: np.ndarray | None = None) -> ColumnStats: ...
def project_l1(values: np.ndarray, radius: float, method: str, epsilon: float) -> None: ...
def own_distances(
    rows: Rows, centers: Centers, labels: np.ndarray, n_threads: int
) -> np.ndarray: ...
def own_cost(
    rows: Rows,
    centers: Centers,
    labels: np.ndarray,
    weights: np.ndarray | None,
    n_threads: int,
) -> float: ...
def all_distances(rows: Rows, centers: Centers, out: np.ndarray, n_threads: int) -> None: ...
def tile_rates(rows: Rows, centers: Centers, n_threads: int) -> dict[str, float]: ...
def greedy_kmeans_plusplus(
    rows: Rows,
    n_clusters: int,
    first: int,
    draws: np.ndarray,
    weights: np.ndarray | None,
    floor: float,
    memory_limit: int,
    n_threads: int,
) -> tuple[np.ndarray, float]: ...
def chain_seeds(
    rows: Rows,
    n_clusters: int,
    length: int,
    first: int,
    seed: int,
    weights: np.ndarray | None,
    floor: float,
    n_threads: int,
) -> np.ndarray: ...
def first_variation(
    rows: Rows,
    weights: np.ndarray | None,
    centers: Centers,
    labels: np.ndarray,
    metric: str,
    head_limit: int,
    n_threads: int,
) -> int: ...

class TextError(ValueError):
    args: tuple[int, str]  # the line, from 1, and the reason

def parse_svmlight(
    buffer: Buffer,
    float64: bool,
    n_threads: int,
    least_index: int = ...,
    largest_index: int = ...,
    piece_bytes: int = ...,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int, int]: ...
def parse_numbers(
    buffer: Buffer, n_columns: int, float64: bool, n_threads: int, piece_bytes: int = ...
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
def count_lines(buffer: Buffer, n_threads: int) -> int: ...
