"""Partitions that compete for the same nodes are one pool."""

from __future__ import annotations

import pytest

from mirage.calibration.site.site_accounts import Pool, busiest_pool, pool_remarks, pools
from mirage.errors import ConfigurationError
from mirage.slurm.records import Machine, Node, SlurmPartition
from mirage.trace.table import JobTable

LINEAR = {"selecttype": "select/linear"}


def partition(name: str, *nodes: str, whole: bool = True) -> SlurmPartition:
    return SlurmPartition(name, False, 3600, 3600, nodes, whole_nodes=whole)


def machine(*partitions: SlurmPartition) -> Machine:
    names = dict.fromkeys(node for one in partitions for node in one.nodes)
    return Machine(tuple(Node(name, "idle", True, 4, 0, ()) for name in names), partitions)


def jobs(*rows: tuple[str, int, int]) -> JobTable:
    """Partition, run time, nodes."""
    names, run_s, nodes = zip(*rows)
    n = len(rows)
    return JobTable.build(
        range(n), submit_s=[0] * n, start_s=[5] * n, end_s=[5 + s for s in run_s], nodes=nodes, partition=names
    )


def test_partitions_with_a_node_in_common_are_one_pool() -> None:
    found = pools(machine(partition("a", "n1", "n2"), partition("b", "n3"), partition("c", "n2", "n4")), {})
    assert [(pool.partitions, pool.nodes, pool.alike) for pool in found] == [
        (("b",), 1, True),
        (("a", "c"), 3, False),
    ]


def test_a_chain_of_partitions_is_one_pool() -> None:
    found = pools(machine(partition("a", "n1"), partition("b", "n2"), partition("ab", "n1", "n2")), {})
    assert [pool.partitions for pool in found] == [("a", "b", "ab")]


def test_partitions_of_the_same_nodes_are_alike() -> None:
    (found,) = pools(machine(partition("short", "n1", "n2"), partition("long", "n2", "n1")), {})
    assert found.alike


def test_one_partition_with_jobs_that_share_nodes_makes_the_pool_shared() -> None:
    both = machine(partition("a", "n1"), partition("b", "n1", whole=False))
    assert [pool.whole_nodes for pool in pools(both, {})] == [False]
    assert [pool.whole_nodes for pool in pools(both, LINEAR)] == [True]


def test_the_busiest_pool_by_node_hours_is_taken_among_those_of_whole_nodes() -> None:
    site = machine(partition("a", "n1"), partition("b", "n2"), partition("shared", "n3", whole=False))
    table = jobs(("a", 100, 1), ("b", 60, 2), ("shared", 9999, 9), ("gone", 9999, 9))
    assert busiest_pool(site, {}, table).partitions == ("b",)


def test_without_a_pool_of_whole_nodes_it_refuses() -> None:
    with pytest.raises(ConfigurationError, match="whole nodes only"):
        busiest_pool(machine(partition("a", "n1", whole=False)), {}, jobs(("a", 1, 1)))


def test_a_job_of_several_partitions_is_of_the_first_and_one_of_none_of_no_pool() -> None:
    pool = Pool(("a",), 1, True, True)
    assert pool.has(jobs(("a,b", 1, 1), ("b,a", 1, 1), ("", 1, 1), ("a", 1, 1))).tolist() == [True, False, False, True]


def test_what_is_not_distinguished_is_reported() -> None:
    table = jobs(("a", 1, 1), ("b", 1, 1), ("gone", 1, 1))
    left, mixed = pool_remarks(Pool(("a", "c"), 3, True, False), table)
    assert left == "only a, c: 2 of 3 jobs ran on other nodes, or in partitions that are gone"
    assert mixed == "partitions a, c are one pool, not distinguished, though they do not have the same nodes"
    assert list(pool_remarks(Pool(("a", "b", "gone"), 3, True, True), table)) == [
        "partitions a, b, gone are one pool, not distinguished"
    ]
