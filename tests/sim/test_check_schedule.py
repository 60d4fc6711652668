"""The checker of schedules finds and names what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ContractBroken
from mirage.kernel.record_arrays import Records, records
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.kernel.arrays import SEGMENT
from mirage.sim.schedule import Schedule
from mirage.sim.simulation import simulate
from mirage.sim.workload import workload
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
    ("limit", "message"),
    [
        (Limit(jobs=1), "user 1 has 2 jobs at 0; the limit is 1 job per user"),
        (Limit(nodes=2), "user 1 has 3 nodes at 0"),
        (Limit("account", jobs=1), "account 0 has 2 jobs at 0; the limit is 1 job per account"),
        (Limit("all", nodes=2), "all has 3 nodes at 0; the limit is 2 nodes of all together"),
        (Limit("all", nodes=2, partitions=("batch",)), "all has 3 nodes at 0"),
        (Limit("all", gpus=5), "all has 6 GPUs at 0"),
    ],
)
def test_what_is_over_a_limit_is_found(limit: Limit, message: str) -> None:
    two_gpus = replace(POOL, groups=tuple(replace(group, gpus=2) for group in POOL.groups))
    with pytest.raises(ContractBroken, match=message):
        check_schedule(tampered(lambda segments: None), replace(two_gpus, limits=(limit,)))


def test_what_a_limit_does_not_count_may_be_more() -> None:
    cluster = replace(POOL, limits=(Limit(jobs=1, qos=("q",)),), qos_factors={"q": 1.0})
    check_schedule(tampered(lambda segments: None), cluster)


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


def test_memory_is_summed_where_all_nodes_declare_it() -> None:
    table = TABLE.with_columns(gpus=np.array([2, 1, 2]), cpus=np.array([2, 1, 2]), memory_mib=np.array([10, 5, 0]))
    roomy = Cluster((NodeGroup("a", 1, 4, 4, 10), NodeGroup("b", 1, 4, 4, 10)), shared_nodes=True)
    schedule = simulate(roomy, workload(table, roomy), "easy")
    check_schedule(schedule, roomy)
    tight = replace(roomy, groups=tuple(replace(group, memory_mib=7) for group in roomy.groups))
    with pytest.raises(ContractBroken, match=r"at 0 jobs start although 15 MiB are in use then and a, b have 14"):
        check_schedule(schedule, tight)
    check_schedule(schedule, replace(tight, groups=(tight.groups[0], replace(tight.groups[1], memory_mib=None))))


def test_nodes_that_left_may_be_held_until_they_fall_free() -> None:
    cluster = replace(POOL, changes=(CapacityChange(5, "node", -1),))
    schedule = simulate(cluster, workload(TABLE, cluster), "easy")
    check_schedule(schedule, cluster)
    gone = replace(POOL, changes=(CapacityChange(0, "node", -1),))
    with pytest.raises(ContractBroken, match="at 0 jobs start"):
        check_schedule(schedule, gone)


def hand_made(*stretches: tuple[int, int, int, int], **columns: list[int] | list[str]) -> Schedule:
    """A schedule of stretches (job, start, end, nodes), of jobs submitted at 0 by one user."""
    n = 1 + max(job for job, *_ in stretches)
    given = {"nodes": [1] * n, **columns}
    table = JobTable.build(range(n), submit_s=[0] * n, **given)
    segments = records(SEGMENT, len(stretches))
    for row, (job, start_s, end_s, width) in enumerate(stretches):
        for name, value in zip(("id", "start_s", "end_s", "width", "limit_s"), (job, start_s, end_s, width, 100)):
            segments[name][row] = value
    return Schedule.of(table, segments, 9)


@pytest.mark.parametrize(
    "stretches",
    [
        [(0, 0, 10, 3), (1, 10, 20, 3)],
        [(0, 0, 10, 3), (0, 10, 20, 3)],
        [(0, 0, 10, 2), (1, 0, 5, 1), (1, 5, 10, 1)],
        [(0, 5, 5, 3), (1, 0, 10, 3)],
        [(0, 0, 100, 3)],
    ],
)
def test_what_only_just_fits_is_accepted(stretches: list[tuple[int, int, int, int]]) -> None:
    check_schedule(hand_made(*stretches), replace(POOL, limits=(Limit(jobs=2, nodes=3),)))


def test_the_first_job_that_is_wrong_is_named_though_it_be_none_of_the_trace() -> None:
    schedule = hand_made((0, 0, 10, 1), (1, 0, 101, 1), (2, -1, 5, 1))
    less = Schedule.of(schedule.table[:1], schedule.segments, 3)
    for made, name in ((schedule, "job 2"), (less, "injected job 2")):
        with pytest.raises(ContractBroken, match=f"^{name} starts at -1, before it is submitted at 0$"):
            check_schedule(made, POOL)


GROUPS = (NodeGroup("a", 1), NodeGroup("b", 2), NodeGroup("c", 4), NodeGroup("d", 4))
PARTITIONS = (Partition("p", ("a",)), Partition("q", ("b",)), Partition("r", ("a", "b")), Partition("t", ("b", "c")))


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ("pqq", None),
        ("pp", "at 0 jobs start although 2 nodes are in use then and a have 1"),
        ("qqq", "at 0 jobs start although 3 nodes are in use then and b have 2"),
        ("rrrq", "at 0 jobs start although 4 nodes are in use then and a, b have 3"),
        ("pqqr", "at 0 jobs start although 4 nodes are in use then and a, b have 3"),
        ("rrrtttt", None),
        ("rrrttttt", "at 0 jobs start although 8 nodes are in use then and a, b, c have 7"),
        ("x", None),
        ("xx", "at 0 jobs start although 2 nodes are in use then and a have 1"),
    ],
)
def test_partitions_share_what_their_groups_have(partitions: str, message: str | None) -> None:
    """Jobs of an unknown partition run in the default one, which is the first."""
    schedule = hand_made(*[(job, 0, 10, 1) for job in range(len(partitions))], partition=list(partitions))
    cluster = Cluster(GROUPS, PARTITIONS)
    if message is None:
        check_schedule(schedule, cluster)
    else:
        with pytest.raises(ContractBroken) as broken:
            check_schedule(schedule, cluster)
        assert str(broken.value) == message


@pytest.mark.parametrize(
    ("gpus", "cpus", "message"),
    [
        ([4, 4], [8, 8], None),
        ([4, 5], [8, 8], "at 0 jobs start although 9 GPUs are in use then and gpu have 8"),
        ([1, 1], [9, 8], "at 0 jobs start although 17 CPUs are in use then and gpu have 16"),
        ([-1, 4], [1, 1], None),
        ([-1, 5], [1, 1], "at 0 jobs start although 9 GPUs are in use then and gpu have 8"),
        ([-1, 1], [-1, 9], "at 0 jobs start although 17 CPUs are in use then and gpu have 16"),
    ],
)
def test_a_job_that_names_no_gpus_takes_all_that_its_node_has(
    gpus: list[int], cpus: list[int], message: str | None
) -> None:
    schedule = hand_made((0, 0, 10, 1), (1, 0, 10, 1), gpus=gpus, cpus=cpus)
    if message is None:
        check_schedule(schedule, Cluster.gpu(2, 4, 8))
    else:
        with pytest.raises(ContractBroken) as broken:
            check_schedule(schedule, Cluster.gpu(2, 4, 8))
        assert str(broken.value) == message


@pytest.mark.parametrize(("start_s", "fits"), [(4, False), (5, True), (9, True), (10, False)])
def test_nodes_count_from_the_second_they_come_to_the_second_they_go(start_s: int, fits: bool) -> None:
    cluster = replace(POOL, changes=(CapacityChange(10, "node", -2), CapacityChange(5, "node", 2)))
    schedule = hand_made((0, start_s, start_s + 1, 5))
    if fits:
        check_schedule(schedule, cluster)
    else:
        with pytest.raises(
            ContractBroken, match=f"^at {start_s} jobs start although 5 nodes are in use then and node "
        ):
            check_schedule(schedule, cluster)


@pytest.mark.parametrize(
    ("reservation", "message"),
    [
        (Reservation(5, 15, "node", 1), "3 nodes are in use at 5, when a reservation begins that was always known, and "
         "node have 2 outside it"),
        (Reservation(15, 25, "node", 2), "at 20 jobs start although 2 nodes are in use then and node have 1"),
        (Reservation(5, 15, "node", 1, announced_s=3), "at 10 jobs start although 3 nodes are in use"),
    ],
)  # fmt: skip
def test_jobs_on_reserved_nodes_are_found(reservation: Reservation, message: str) -> None:
    """Three nodes are in use until 20, two until 40; jobs that run when it is announced stay."""
    table = TABLE.with_columns(submit_s=np.array([0, 0, 20]))
    schedule = simulate(POOL, workload(table, POOL), "easy")
    cluster = replace(POOL, reservations=(reservation,))
    if reservation.announced_s is not None:
        check_schedule(schedule, cluster)
        schedule = simulate(POOL, workload(TABLE.with_columns(nodes=np.array([1, 1, 1])), POOL), "easy")
    with pytest.raises(ContractBroken, match=message):
        check_schedule(schedule, cluster)
