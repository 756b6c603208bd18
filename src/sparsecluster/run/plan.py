"""What an iteration of k-means costs on many machines: a model of bytes and seconds.

Rows are shared out evenly. Each machine scans its rows, adds up those that moved, and sends these
sums; merged they go out to all machines, each of which moves the centers by them. Sums travel up a
tree whose nodes merge eight children each, and merged ones down the same tree; or they are cut into
as many ranges of clusters as there are machines, of which each machine merges one: what takes less
time counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

FAN = 8  # children of a node of the tree
CENTER_ENTRY_BYTES = 12  # a column and a float64
INDEX_ENTRY_BYTES = 8  # of the centers, turned around for a scan
SUM_ENTRY_BYTES = 20  # a column and two integers of 64 bits
ROW_BYTES = 16  # where a row begins, and its norm
STATE_BYTES = 24  # of a row: labels, bounds
TASK_SECONDS = 0.5e-3  # of the scheduler
MOST_MACHINES = 1 << 14  # that are tried
WORTH = 0.8  # twice as many machines are worth it where an iteration takes at most this share


@dataclass(frozen=True)
class Speeds:
    """Constants of the model, of one core or one machine.

    Attributes
    ----------
    scan : float
        Products of an entry of a row with a center, per second and core.
    later_share : float
        Share of the time of a full scan that a scan takes once few rows move.
    update : float
        Entries of rows added to cluster sums, per second and core.
    disk : float
        Bytes per second that a machine reads.
    measured : bool
        Whether they were measured here, or assumed.
    """

    scan: float = 5e9
    later_share: float = 0.25
    update: float = 1e8
    disk: float = 2e9
    measured: bool = False


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The rows to be clustered, and into how many clusters."""

    rows: int
    entries: float  #: of a row
    columns: int
    clusters: int
    growth: float = 0.5  #: m rows have entries * m**growth columns together, as Heaps has it
    value_bytes: int = 4

    def columns_of(self, rows: float) -> float:
        """How many columns so many rows have together, as far as they have any."""
        return min(float(self.columns), self.entries * min(rows, rows**self.growth))

    @property
    def center_entries(self) -> float:
        """Entries of a center."""
        return self.columns_of(self.rows / self.clusters)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """What the rows are shared out among."""

    number: int
    cores: int
    memory: float  #: bytes of each
    network: float  #: bytes per second of each, in either direction


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What travels in an iteration: bytes of each machine, and seconds in both ways."""

    bytes: float
    tree_seconds: float
    sharded_seconds: float

    @property
    def seconds(self) -> float:
        return min(self.tree_seconds, self.sharded_seconds)


@dataclass(frozen=True, kw_only=True)
class IterationCost:
    """Seconds of the parts of an iteration; rows are read while others are scanned."""

    scan: float
    disk: float
    update: float
    sums: Exchange
    merged: Exchange
    scheduling: float

    @property
    def parts(self) -> dict[str, float]:
        """The parts that follow one another."""
        reads = self.disk > self.scan
        return {
            "disk" if reads else "scan": max(self.scan, self.disk),
            "update": self.update,
            "sums in": self.sums.seconds,
            "sums out": self.merged.seconds,
            "scheduling": self.scheduling,
        }

    @property
    def seconds(self) -> float:
        return math.fsum(self.parts.values())

    @property
    def limit(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What :func:`plan_fit` gives: the cost of a fit on so many machines.

    Attributes
    ----------
    workload, machines, speeds
        What it was computed from.
    memory : dict
        Bytes that a machine needs: for its rows, their state, the centers and the sums.
    in_memory : bool
        Whether the rows of a machine stay in its memory; else each iteration reads them.
    possible : bool
        Whether everything but the rows fits.
    first, later : IterationCost
        An iteration in which all rows move, and one of those in which few do.
    fewest : int or None
        Machines from which on the rows stay in memory.
    useful : int
        Machines of which twice as many would save less than a fifth of a later iteration.
    choices : list of (int, float, float, bool)
        For numbers of machines: seconds of a first and of a later iteration, and whether rows stay
        in memory.
    """

    workload: Workload
    machines: Machines
    speeds: Speeds
    memory: dict[str, float]
    in_memory: bool
    possible: bool
    first: IterationCost
    later: IterationCost
    fewest: int | None = None
    useful: int = 1
    choices: list[tuple[int, float, float, bool]] = field(default_factory=list)


def make_plan(work: Workload, machines: Machines, speeds: Speeds, moved: float) -> Plan:
    """The cost on these machines, and on fewer and more; `moved`: share of the rows, later."""
    plan = _cost(work, machines, speeds, moved)
    doubled = [1 << power for power in range(MOST_MACHINES.bit_length())]
    costs = {n: _cost(work, replace(machines, number=n), speeds, moved) for n in doubled}
    useful = next(
        n for n in doubled
        if 2 * n > MOST_MACHINES or costs[2 * n].later.seconds > WORTH * costs[n].later.seconds
    )  # fmt: skip
    around = {machines.number, *(n for n in doubled if abs(math.log2(n / machines.number)) < 2.5)}
    choices = []
    for n in sorted(around):
        one = _cost(work, replace(machines, number=n), speeds, moved)
        choices.append((n, one.first.seconds, one.later.seconds, one.in_memory))
    return replace(
        plan, fewest=_fewest(work, machines, speeds, moved), useful=useful, choices=choices
    )


def _fewest(work: Workload, machines: Machines, speeds: Speeds, moved: float) -> int | None:
    """The fewest machines whose memory holds the rows, or None where no number of them does."""
    low, high = 0, MOST_MACHINES
    if not _cost(work, replace(machines, number=high), speeds, moved).in_memory:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _cost(work, replace(machines, number=middle), speeds, moved).in_memory:
            high = middle
        else:
            low = middle
    return high


def _cost(work: Workload, machines: Machines, speeds: Speeds, moved: float) -> Plan:
    rows = work.rows / machines.number
    of_rows = rows * (work.entries * (4 + work.value_bytes) + ROW_BYTES)
    centers = work.clusters * work.center_entries
    memory = {
        "rows": of_rows,
        "state": rows * STATE_BYTES,
        "centers": centers * (CENTER_ENTRY_BYTES + INDEX_ENTRY_BYTES),
        "sums": centers * SUM_ENTRY_BYTES,
    }
    rest = math.fsum(memory.values()) - of_rows
    in_memory = rest + of_rows <= machines.memory
    disk = 0.0 if in_memory else of_rows / speeds.disk

    def iteration(share: float, scans: float) -> IterationCost:
        entries = rows * work.entries
        products = entries * work.clusters * scans
        # A row that moves leaves one sum for another; at first it has none to leave.
        changes = 2 * share if share < 1 else 1.0
        return IterationCost(
            scan=products / (speeds.scan * machines.cores),
            disk=disk,
            update=changes * entries / (speeds.update * machines.cores),
            sums=_sums_in(work, machines, changes),
            merged=_sums_out(work, machines, changes),
            scheduling=TASK_SECONDS * 2 * machines.number,
        )

    return Plan(
        workload=work,
        machines=machines,
        speeds=speeds,
        memory=memory,
        in_memory=in_memory,
        possible=rest <= machines.memory,
        first=iteration(1.0, 1.0),
        later=iteration(moved, speeds.later_share),
    )


def _levels(number: int) -> list[int]:
    """How many children a node has on each level of the tree, from the leaves up."""
    levels = []
    while number > 1:
        levels.append(min(FAN, number))
        number = math.ceil(number / FAN)
    return levels


def _sum_bytes(work: Workload, rows: float) -> float:
    """Of the sums of so many rows that changed."""
    return SUM_ENTRY_BYTES * work.clusters * work.columns_of(rows / work.clusters)


def _sums_out(work: Workload, machines: Machines, changes: float) -> Exchange:
    """The sums of all rows that changed, to every machine."""
    if machines.number == 1:
        return Exchange(bytes=0.0, tree_seconds=0.0, sharded_seconds=0.0)
    n_bytes = _sum_bytes(work, changes * work.rows)
    return Exchange(
        bytes=n_bytes,
        tree_seconds=sum(_levels(machines.number)) * n_bytes / machines.network,
        sharded_seconds=n_bytes / machines.network,
    )


def _sums_in(work: Workload, machines: Machines, changes: float) -> Exchange:
    """The sums of the rows that changed, which overlap the more, the more machines are merged."""
    if machines.number == 1:
        return Exchange(bytes=0.0, tree_seconds=0.0, sharded_seconds=0.0)
    changed = changes * work.rows / machines.number  # of a machine
    merged, tree = 1.0, 0.0
    for fan in _levels(machines.number):
        tree += fan * _sum_bytes(work, changed * min(merged, machines.number)) / machines.network
        merged *= fan
    own = _sum_bytes(work, changed)
    return Exchange(bytes=own, tree_seconds=tree, sharded_seconds=own / machines.network)
