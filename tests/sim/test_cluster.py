"""Simulated clusters: what they are made of, and what cannot be one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from mirage.errors import ClusterError, ConfigurationError
from mirage.sim.cluster import UNDECLARED, CapacityChange, Cluster, NodeGroup, Partition, Reservation

LEFT, RIGHT = NodeGroup("left", 2, 4, 64), NodeGroup("right", 3, 0, 32)


def test_a_pool_is_one_group_of_whole_nodes() -> None:
    assert Cluster.pool(5) == Cluster((NodeGroup("node", 5, 0, 1),), (UNDECLARED,))
    assert Cluster.pool(5).nodes == 5


def test_gpu_nodes_are_shared_and_have_64_cores_by_default() -> None:
    assert Cluster.gpu(2, 8) == Cluster((NodeGroup("gpu", 2, 8, 64),), shared_nodes=True)
    assert Cluster.gpu(2, 8, 16).groups == (NodeGroup("gpu", 2, 8, 16),)


def test_a_partition_covers_the_groups_it_names_in_the_cluster_s_order_or_all() -> None:
    cluster = Cluster(
        (LEFT, RIGHT), (Partition("any"), Partition("one", ("right",)), Partition("b", ("right", "left")))
    )
    assert [cluster.groups_of(partition) for partition in cluster.partitions] == [
        (LEFT, RIGHT), (RIGHT,), (LEFT, RIGHT),
    ]  # fmt: skip
    assert cluster.nodes == 5


def test_whole_nodes_are_a_bin_a_group_and_shared_ones_a_bin_a_node() -> None:
    assert Cluster((LEFT, RIGHT)).bins() == [(LEFT, 2), (RIGHT, 3)]
    assert Cluster((LEFT, RIGHT), shared_nodes=True).bins() == [(LEFT, 1)] * 2 + [(RIGHT, 1)] * 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"groups": (NodeGroup("node", 40.0),)},  # type: ignore[arg-type]
            "a cluster needs node groups of at least one whole node each, but group 'node' has 40.0 nodes",
        ),
        ({"groups": ()}, "a cluster needs node groups of at least one whole node each, but there is none"),
        (
            {"groups": (LEFT, NodeGroup("none", 0))},
            "a cluster needs node groups of at least one whole node each, but group 'none' has 0 nodes",
        ),
        ({"partitions": ()}, "a cluster needs at least one partition"),
        ({"groups": (LEFT, RIGHT, LEFT)}, "two node groups have the name left; rename one"),
        ({"partitions": (Partition("a"), Partition("a"))}, "two partitions have the name a; rename one"),
        (
            {"partitions": (Partition("a"), Partition("b", ("left", "middle")))},
            "there is no node group 'middle'; the groups are left, right",
        ),
        ({"changes": (CapacityChange(5, "middle", 1),)}, "there is no node group 'middle'; the groups are left, right"),
        (
            {"qos_factors": {"low": 1.0}, "qos_preempts": {"high": ("low",)}},
            "no QOS 'high' to preempt or be preempted; there are ['low']",
        ),
        (
            {"qos_factors": {"low": 1.0, "high": 9.0}, "qos_preempts": {"high": ("low", "idle")}},
            "no QOS 'idle' to preempt or be preempted; there are ['high', 'low']",
        ),
        (
            {"groups": (LEFT, NodeGroup("bare", 1, 0, 0)), "shared_nodes": True},
            "jobs share nodes, and a node has neither GPUs nor CPUs; correct its CPUs",
        ),
        ({"qos_factors": {"low": float("nan")}}, "the factor of QOS 'low' is nan; give a finite number"),
        (
            {"changes": (CapacityChange(9, "left", -1), CapacityChange(5, "left", -2))},
            "group 'left' would have -1 nodes from 1970-01-01T00:00:09Z on; changes must leave it 0 or more",
        ),
        (
            {"changes": (CapacityChange(5, "right", 1),), "shared_nodes": True},
            "group 'right' would have 4 nodes from 1970-01-01T00:00:05Z on; changes must leave it 0 or more, and at "
            "most 3, its count, as its nodes are shared",
        ),
    ],
)
def test_what_cannot_be_a_cluster_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ClusterError) as refused:
        Cluster(**{"groups": (LEFT, RIGHT), **changed})
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ([(5, "left", -2), (9, "left", 2)], True),
        ([(9, "left", 2), (5, "left", -2)], True),
        ([(5, "left", 9), (6, "right", -3)], False),
        ([(5, "left", -2), (5, "left", 2)], True),
    ],
)
def test_nodes_may_all_go_and_come_back_and_pools_may_grow(changes: list[tuple[int, str, int]], shared: bool) -> None:
    made = tuple(CapacityChange(*change) for change in changes)
    assert Cluster((LEFT, RIGHT), changes=made, shared_nodes=shared).changes == made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cluster.gpu(4, -1), "a node of group 'gpu' has -1 GPUs and 64 CPUs; give 0 or more of each"),
        (lambda: NodeGroup("node", 4, cpus=-4), "has 0 GPUs and -4 CPUs"),
        (lambda: Partition("p", groups="ab"), "partition 'p' needs a tuple of the names of its node groups, got 'ab'"),
        (lambda: Partition("p", max_limit_s=timedelta(hours=1)), "max_limit_s is .*; give a whole number"),
        (lambda: Reservation(datetime(2023, 3, 9), 9, "left", 1), "start_s is .*; give a whole number"),
    ],
)
def test_a_part_of_a_cluster_that_cannot_be_is_refused_when_it_is_made(make: Any, message: str) -> None:
    with pytest.raises((ClusterError, ConfigurationError), match=message):
        make()


def test_nodes_that_are_not_shared_need_nothing_to_share() -> None:
    assert Cluster((NodeGroup("bare", 1, 0, 0),)).nodes == 1
