"""Names of nodes, and which of them a job has."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.lab.virtual.node_names import hostlist
from mirage.sim.cluster import CapacityChange, Cluster, NodeGroup, Partition, Reservation
from mirage.slurm_words.hostlist import expand_hosts
from tests.support.small_slurm import BEGIN_S, job_of, small_slurm, submit


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["n7"], "n7"),
        (["n2", "n1"], "n[1-2]"),
        (["n1", "n3", "n5"], "n[1,3,5]"),
        (["n10", "n9", "n2", "n1", "n3", "n12"], "n[1-3,9-10,12]"),
    ],
)
def test_host_lists(names: list[str], text: str) -> None:
    assert hostlist(names) == text
    assert sorted(expand_hosts(text)) == sorted(names)


def test_groups_are_numbered_one_after_another() -> None:
    node_names = small_slurm(Cluster((NodeGroup("a", 2), NodeGroup("b", 3)))).showing.node_names
    places = ["n1", "n2", "n3", "n4", "n5"]
    assert [name for names in node_names.names for name in names] == places
    assert [len(node_names.names[node_names.bin_of[name]]) for name in places] == [2, 2, 3, 3, 3]


def test_names_stay_while_a_job_runs_and_the_lowest_free_ones_are_given_out(folder: Path) -> None:
    slurm = small_slurm(at_s=1)
    first, second = submit(slurm, folder / "job.sh", nodes="2"), submit(slurm, folder / "job.sh", time="2")
    slurm.sleep(1)
    assert (job_of(slurm, first).nodelist, job_of(slurm, second).nodelist) == ("n[1-2]", "n3")
    slurm.cancel(first)
    slurm.sleep(1)
    third, fourth = (submit(slurm, folder / "job.sh", nodes=nodes) for nodes in ("1", "2"))
    slurm.sleep(1)
    assert [job_of(slurm, job).nodelist for job in (second, third, fourth)] == ["n3", "n1", "n[2,4]"]
    assert slurm.showing.node_names.in_use() == {"n1", "n2", "n3", "n4"}


def states(cluster: Cluster, at_s: int, **jobs: list[int]) -> list[str]:
    slurm = small_slurm(cluster, at_s=at_s, **jobs)
    return [node.state for node in slurm.machine().nodes]


ONE_JOB = {"submit_s": [0], "elapsed_s": [100], "limit_s": [100], "nodes": [3]}


@pytest.mark.parametrize(
    ("at_s", "found"),
    [
        (5, ["allocated", "allocated", "allocated", "idle", "down"]),
        (20, ["allocated", "allocated", "draining", "down", "down"]),
        (101, ["idle", "idle", "down", "down", "down"]),
        (201, ["idle", "idle", "idle", "idle", "idle"]),
    ],
)
def test_nodes_that_come_and_go(at_s: int, found: list[str]) -> None:
    """Four nodes, two from second 10, five from second 200: the last idle ones leave first."""
    changes = (CapacityChange(BEGIN_S + 10, "node", -2), CapacityChange(BEGIN_S + 200, "node", 3))
    assert states(Cluster((NodeGroup("node", 4),), changes=changes), at_s, **ONE_JOB) == found


@pytest.mark.parametrize(
    ("at_s", "found"),
    [
        (5, ["allocated", "allocated", "allocated", "idle", "idle"]),
        (15, ["allocated", "allocated", "allocated", "down", "maint"]),
        (25, ["allocated", "allocated", "draining", "maint", "maint"]),
        (101, ["idle", "idle", "maint", "maint", "down"]),
        (201, ["idle", "idle", "idle", "idle", "down"]),
    ],
)
def test_reserved_nodes_that_are_idle_are_in_maintenance(at_s: int, found: list[str]) -> None:
    """One node is down from second 10; of two reserved ones, one is idle from second 100."""
    cluster = Cluster(
        (NodeGroup("node", 5),),
        changes=(CapacityChange(BEGIN_S + 10, "node", -1),),
        reservations=(
            Reservation(BEGIN_S + 12, BEGIN_S + 150, "node", 1),
            Reservation(BEGIN_S + 20, BEGIN_S + 200, "node", 1, BEGIN_S + 15),
        ),
    )
    assert sorted(states(cluster, at_s, **ONE_JOB)) == sorted(found)


def test_shared_nodes_are_mixed_until_they_are_full(folder: Path) -> None:
    slurm = small_slurm(Cluster((NodeGroup("node", 3, 4, 8),), (Partition("main"),), True), at_s=1)
    requests = [{"gpus": "4", "cpus_per_task": "8"}, {"gpus": "1", "cpus_per_task": "1"}]
    numbers = [submit(slurm, folder / "job.sh", **one) for one in requests]
    slurm.sleep(1)
    hosts = [job_of(slurm, number).nodelist for number in numbers]
    assert hosts == ["n1", "n2"]
    assert [(node.name, node.state) for node in slurm.machine().nodes] == [
        ("n1", "allocated"), ("n2", "mixed"), ("n3", "idle")
    ]  # fmt: skip
