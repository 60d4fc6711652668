"""The checker of schedules finds what is wrong with one, and says what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ContractBroken
from mirage.sim.check import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster, NodeGroup, Partition
from mirage.sim.jobs import workload
from mirage.sim.kernel.arrays import Records
from mirage.sim.schedule import Schedule
from mirage.sim.simulation import simulate
from mirage.trace.table import JobTable

TABLE = JobTable.build(
    ["a", "b", "c"], submit_s=[0, 0, 10], elapsed_s=[20] * 3, limit_s=[30] * 3, nodes=[2, 1, 2], user=["u", "u", "v"]
)
POOL = Cluster.pool(3)


def tampered(change: Callable[[Records], None]) -> Schedule:
    schedule = simulate(POOL, workload(TABLE, POOL), "easy")
    segments = schedule.segments.copy().view(np.recarray)
    change(segments)
    return Schedule.of(schedule.table, segments, schedule.nodes)


def shift(row: int, **fields: int) -> Callable[[Records], None]:
    def change(segments: Records) -> None:
        for name, by in fields.items():
            segments[name][row] += by

    return change


def test_a_schedule_that_happened_is_accepted() -> None:
    check_schedule(tampered(lambda segments: None), POOL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shift(0, start_s=-5), "job a starts at -5, before it is submitted at 0"),
        (shift(0, end_s=-25), "job a ends at -5, before it starts at 0"),
        (shift(1, end_s=11), "job b runs from 0 to 31, longer than its limit of 30 s"),
        (shift(1, width=-1), "job b runs on 0 nodes"),
        (shift(2, start_s=-5, end_s=-5), "at 15 jobs start although 5 nodes are in use then and node have 3"),
        (shift(1, width=1), "at 0 jobs start although 4 nodes are in use then and node have 3"),
    ],
)
def test_what_cannot_be_is_found(change: Callable[[Records], None], message: str) -> None:
    with pytest.raises(ContractBroken, match=message):
        check_schedule(tampered(change), POOL)


def test_a_job_that_runs_twice_at_once_or_never_is_found() -> None:
    schedule = tampered(lambda segments: None)
    again = np.concatenate([schedule.segments, schedule.segments[1:2]]).view(np.recarray)
    with pytest.raises(ContractBroken, match="job b starts at 0 while it runs until 20"):
        check_schedule(Schedule.of(schedule.table, again, 3), Cluster.pool(9))
    less = Schedule.of(schedule.table, schedule.segments[:2], 3)
    with pytest.raises(ContractBroken, match=r"job c never ran \(1 such jobs in all\)"):
        check_schedule(less, POOL)
    check_schedule(less, POOL, complete=False)


@pytest.mark.parametrize(
    ("limits", "message"),
    [({"user_max_jobs": 1}, "user 1 has 2 jobs at 0; the limit is 1"), ({"user_max_nodes": 2}, "user 1 has 3 nodes")],
)
def test_a_user_over_a_limit_is_found(limits: dict[str, int], message: str) -> None:
    with pytest.raises(ContractBroken, match=message):
        check_schedule(tampered(lambda segments: None), replace(POOL, **limits))  # type: ignore[arg-type]


def test_a_partition_that_holds_more_than_its_groups_is_found() -> None:
    groups = (NodeGroup("left", 2), NodeGroup("right", 3))
    table = TABLE.with_columns(partition=replace(TABLE.partition, codes=np.zeros(3, np.int64), names=("p",)))
    wide = Cluster(groups, (Partition("p"),))
    schedule = simulate(wide, workload(table, wide), "easy")
    check_schedule(schedule, wide)
    narrow = Cluster(groups, (Partition("p", ("left",)), Partition("q")))
    with pytest.raises(ContractBroken, match="at 0 jobs start although 3 nodes are in use then and left have 2"):
        check_schedule(schedule, narrow)


def test_gpus_and_cpus_are_added_up_where_nodes_are_shared() -> None:
    table = TABLE.with_columns(gpus=np.array([2, 1, 2]), cpus=np.array([2, 1, 2]))
    cluster = Cluster.gpu(2, 2, 4)
    schedule = simulate(cluster, workload(table, cluster), "easy")
    check_schedule(schedule, cluster)
    with pytest.raises(ContractBroken, match=r"GPUs are in use then and gpu have 2"):
        check_schedule(schedule, Cluster.gpu(2, 1, 4))
    with pytest.raises(ContractBroken, match=r"CPUs are in use then and gpu have 2"):
        check_schedule(schedule, Cluster.gpu(2, 2, 1))


def test_nodes_that_left_may_be_held_until_they_fall_free() -> None:
    cluster = replace(POOL, changes=(CapacityChange(5, "node", -1),))
    schedule = simulate(cluster, workload(TABLE, cluster), "easy")
    check_schedule(schedule, cluster)
    gone = replace(POOL, changes=(CapacityChange(0, "node", -1),))
    with pytest.raises(ContractBroken, match="at 0 jobs start"):
        check_schedule(schedule, gone)
