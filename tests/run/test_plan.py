"""The cost model against sums done by hand."""

import math

import pytest

from sparsecluster.run.plan import Machines, Speeds, Workload, make_plan

SPEEDS = Speeds(scan=1e9, later_share=0.1, update=1e6, disk=1e8)


def plan(number=4, *, memory=1e12, network=1e6, clusters=10, growth=0.5, moved=0.02):
    work = Workload(rows=40_000, entries=25, columns=500, clusters=clusters, growth=growth)
    machines = Machines(number=number, cores=2, memory=memory, network=network)
    return make_plan(work, machines, SPEEDS, moved)


def test_parts_of_an_iteration_are_those_computed_by_hand():
    found = plan()
    # 10,000 rows of 25 entries on each of 4 machines, against 10 centers, on 2 cores.
    assert found.first.scan == pytest.approx(10_000 * 25 * 10 / 2e9)
    assert found.later.scan == pytest.approx(found.first.scan / 10)
    assert found.first.update == pytest.approx(10_000 * 25 / 2e6)
    assert found.later.update == pytest.approx(2 * 0.02 * 10_000 * 25 / 2e6)
    # A cluster has the columns of 4,000 rows: 25 * 63, of which there are only 500.
    assert found.first.merged.bytes == 10 * 500 * 20
    assert found.first.merged.sharded_seconds == pytest.approx(0.1)
    assert found.first.merged.tree_seconds == pytest.approx(4 * 0.1)
    # Of 160 rows of a cluster that moved on all machines: 25 * sqrt(160) columns.
    assert found.later.merged.bytes == pytest.approx(20 * 10 * 25 * math.sqrt(160))
    # Of 40 rows of a cluster that moved on a machine: 25 * sqrt(40) columns.
    assert found.later.sums.bytes == pytest.approx(20 * 10 * 25 * math.sqrt(40))
    assert found.first.seconds == pytest.approx(math.fsum(found.first.parts.values()))


def test_memory_is_that_of_rows_state_centers_and_sums():
    memory = plan().memory
    assert memory["rows"] == 10_000 * (25 * 8 + 16)
    assert memory["state"] == 10_000 * 24
    assert memory["centers"] == 10 * 500 * 20
    assert memory["sums"] == 10 * 500 * 20


def test_rows_that_do_not_fit_are_read_while_others_are_scanned():
    rows = 10_000 * (25 * 8 + 16)
    tight = plan(memory=rows)
    assert not tight.in_memory
    assert tight.possible
    assert tight.first.disk == pytest.approx(rows / 1e8)
    assert "scan" not in tight.first.parts
    assert tight.first.parts["disk"] == tight.first.disk
    assert not plan(memory=100).possible


def test_fewest_machines_are_the_first_whose_memory_holds_the_rows():
    found = plan(memory=2e6)
    assert found.fewest > 1
    assert plan(found.fewest, memory=2e6).in_memory
    assert not plan(found.fewest - 1, memory=2e6).in_memory
    assert plan(memory=1e5).fewest is None


def test_one_machine_sends_nothing():
    found = plan(1)
    assert found.first.merged.seconds == found.first.sums.seconds == 0


def test_twice_the_useful_machines_hardly_help():
    found = plan()
    useful, doubled = (plan(n).later.seconds for n in (found.useful, 2 * found.useful))
    assert doubled > 0.8 * useful
    if found.useful > 1:
        assert useful <= 0.8 * plan(found.useful // 2).later.seconds


def test_what_limits_follows_the_network():
    assert plan(network=1e3).first.limit in ("sums out", "sums in")
    assert plan(network=1e12).first.limit in ("scan", "update")


@pytest.mark.parametrize("clusters", [1, 7, 40_000])
def test_sums_of_a_machine_never_exceed_those_of_all(clusters):
    found = plan(clusters=clusters)
    assert found.first.sums.bytes <= found.first.merged.bytes + 1e-6
