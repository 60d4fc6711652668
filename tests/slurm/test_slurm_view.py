"""The view of a real cluster, from queues, machines and accounts written by hand."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.policy.view import MOST_ENDED, MOST_PENDING, Ended, View
from mirage.slurm.records import AccountedJob, Machine, Node, Queue, QueuedJob, SlurmPartition
from mirage.slurm.slurm_view import (
    MOST_TASKS,
    Names,
    array_tasks,
    ended_of,
    is_blocked,
    shares_nodes,
    throttled_tasks,
    view_of,
    waits_from_release,
)
from mirage.slurm.text import machine as machine_text
from mirage.slurm.text import scontrol as scontrol_text
from mirage.slurm_words.tres import tres_gpus

NOW_S = 1_795_000_000
GPUS, CPUS = 4, 32


def node(name: str, *partitions: str, usable: bool = True, gpus: int = GPUS, cpus: int = CPUS) -> Node:
    return Node(name, "idle" if usable else "down", usable, cpus, gpus, partitions)


def partition(name: str, *nodes: str, **given: Any) -> SlurmPartition:
    return SlurmPartition(**{"default": False, "max_time_s": 2 * DAY_S, "default_time_s": HOUR_S, **given},
                     name=name, nodes=nodes)  # fmt: skip


SHARED = Machine(
    (node("a1", "gpu", "all"), node("a2", "gpu", "all"), node("b1", "all", gpus=0, cpus=64)),
    (partition("gpu", "a1", "a2", priority_tier=5), partition("all", "a1", "a2", "b1", default_time_s=MISSING)),
)
WHOLE = replace(SHARED, partitions=tuple(replace(one, whole_nodes=True) for one in SHARED.partitions))


def waiting(number: int, **given: Any) -> QueuedJob:
    usual = {"user": "ada", "partition": "all", "qos": "normal", "priority": 100.0, "reason": "Priority",
             "limit_s": 600, "submit_s": NOW_S - 500, "eligible_s": NOW_S - 400}  # fmt: skip
    return QueuedJob(number, JobState.PENDING, **{**usual, **given})


def running(number: int, nodelist: str, **given: Any) -> QueuedJob:
    usual = {"user": "ada", "partition": "all", "qos": "normal", "limit_s": 900, "submit_s": NOW_S - 500,
             "eligible_s": NOW_S - 450, "start_s": NOW_S - 300, "nodelist": nodelist}  # fmt: skip
    return QueuedJob(number, JobState.RUNNING, **{**usual, **given})


def snapshot(*jobs: QueuedJob, machine: Machine = SHARED, ended: tuple[AccountedJob, ...] = (), **given: Any) -> View:
    names = given.pop("names", Names())
    return view_of(Queue(NOW_S, jobs), machine, ended_of(ended, names), names, **given)


def rows(columns: Any, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(getattr(columns, name).tolist() for name in names)))


# -- which jobs -------------------------------------------------------------------------------------------------------


def test_every_job_stands_where_it_belongs() -> None:
    view = snapshot(
        waiting(1), running(2, "a1"), waiting(3, reason="JobHeldUser"),
        replace(running(4, "a2"), state=JobState.SUSPENDED), replace(running(5, ""), state=JobState.COMPLETED),
        replace(waiting(6), state=JobState.UNKNOWN), waiting(7, partition="closed"), waiting(8, partition="gpu,all"),
    )  # fmt: skip
    assert view.now_s == NOW_S
    assert [set(some.id) for some in (view.pending, view.running, view.held)] == [{1, 8}, {2, 4}, {3}]
    assert view.pending.partition[view.pending.id == 8] == [0], "the first of several"
    assert view.chain is None
    assert view.phase_s == 0


def test_the_queue_is_in_slurm_s_order() -> None:
    jobs = [waiting(1, priority=10), waiting(2, priority=30), waiting(3, priority=20), waiting(4, priority=30),
            waiting(5, priority=5, partition="gpu"), waiting(6, priority=7, partition="gpu")]  # fmt: skip
    assert snapshot(*jobs).pending.id.tolist() == [6, 5, 2, 4, 3, 1], "by tier, by priority, as they came"


@pytest.mark.parametrize(
    ("given", "blocked"),
    [
        ({}, False),
        ({"reason": "Resources"}, False),
        ({"reason": ""}, False),
        ({"reason": "JobHeldUser", "priority": 0.0}, True),
        ({"reason": "JobHeldAdmin"}, True),
        ({"reason": "Dependency"}, True),
        ({"reason": "DependencyNeverSatisfied"}, True),
        ({"dependency": "afterany:7(unfulfilled)"}, True),
        ({"reason": "BeginTime"}, True),
        ({"reason": "QOSMaxJobsPerUserLimit"}, True),
        ({"reason": "QOSMaxGRESPerUser"}, True),
        ({"reason": "MaxGRESPerAccount"}, True),
        ({"reason": "AssocGrpCPULimit"}, True),
        ({"reason": "launch failed requeued held state"}, True),
        ({"reason": "Reservation"}, True),
        ({"reason": "BadConstraints"}, True),
        ({"reason": "InvalidQOS"}, True),
        ({"reason": "PartitionDown"}, True),
        ({"reason": "PartitionInactive"}, True),
        ({"priority": 0.0}, True),
        ({"priority": 1.0}, False),
        ({"eligible_s": MISSING}, True),
        ({"eligible_s": NOW_S}, False),
        ({"eligible_s": NOW_S + 1}, True),
        ({"eligible_s": MISSING, "array": "1-3"}, False),
        ({"eligible_s": MISSING, "array": "1-3", "reason": "JobHeldUser"}, True),
        ({"eligible_s": NOW_S + 1, "array": "1-3"}, True),
        ({"eligible_s": MISSING, "priority": 0.0, "array": "1-3", "reason": "JobHeldUser"}, True),
    ],
)
def test_what_does_not_compete_is_held(given: dict[str, Any], blocked: bool) -> None:
    job = waiting(1, **given)
    assert is_blocked(job, NOW_S) == blocked
    view = snapshot(job)
    assert (len(view.held) > 0, len(view.pending) > 0) == (blocked, not blocked)


def test_a_job_that_is_held_has_no_priority_no_age_and_no_nodes() -> None:
    (held,) = rows(snapshot(waiting(1, reason="BeginTime", eligible_s=NOW_S + 60, start_s=NOW_S + 60)).held,
                   "eligible_s", "start_s", "width", "done_s", "priority", "submit_s", "limit_s")  # fmt: skip
    assert held == (MISSING, MISSING, 0, 0.0, 0.0, NOW_S - 500, 600)


def test_age_counts_from_the_first_time_that_a_job_was_eligible() -> None:
    held = waiting(1, reason="JobHeldUser", priority=0.0, accrues_s=NOW_S - 450)
    released = waiting(2, eligible_s=NOW_S - 10, accrues_s=NOW_S - 460)
    view = snapshot(held, released)
    assert view.held.eligible_s.tolist() == [NOW_S - 450]
    assert view.pending.eligible_s.tolist() == [NOW_S - 460]


# -- columns ----------------------------------------------------------------------------------------------------------


def test_columns_of_a_pending_job() -> None:
    job = waiting(7, nodes=2, cpus=9, gpus=3, start_s=NOW_S + 50, priority=77.0)
    (found,) = rows(snapshot(job).pending, "id", "nodes", "gpus", "cpus", "limit_s", "submit_s", "eligible_s",
                    "start_s", "width", "done_s", "priority")  # fmt: skip
    assert found == (7, 2, 2, 5, 600, NOW_S - 500, NOW_S - 400, MISSING, 0, 0.0, 77.0), "counts a node, rounded up"


def test_columns_of_a_running_job() -> None:
    job = running(7, "a[1-2]", nodes=2, cpus=8, gpus=4, priority=3.0)
    (found,) = rows(snapshot(job).running, "id", "nodes", "gpus", "cpus", "limit_s", "submit_s", "eligible_s",
                    "start_s", "width", "done_s", "priority")  # fmt: skip
    assert found == (7, 2, 2, 4, 900, NOW_S - 500, NOW_S - 450, NOW_S - 300, 2, 300.0, 3.0)


@pytest.mark.parametrize(("start_s", "shown_s"), [(MISSING, NOW_S), (NOW_S + 5, NOW_S), (NOW_S - 1, NOW_S - 1), (0, 0)])
def test_a_job_that_runs_has_started_by_now(start_s: int, shown_s: int) -> None:
    (found,) = rows(snapshot(running(1, "a1", start_s=start_s)).running, "start_s", "done_s")
    assert found == (shown_s, float(NOW_S - shown_s))


@pytest.mark.parametrize(("priority", "shown"), [(0.0, 0.0), (1.0, 0.0), (2.0, 2.0), (4031.0, 4031.0)])
def test_slurm_s_least_priority_is_none(priority: float, shown: float) -> None:
    assert snapshot(running(1, "a1", priority=priority)).running.priority.tolist() == [shown]


def test_age_counts_from_the_submission_by_default() -> None:
    array = waiting(1, array="1-2", eligible_s=MISSING)
    assert snapshot(array).pending.eligible_s.tolist() == [NOW_S - 500] * 2
    assert snapshot(running(1, "a1", eligible_s=MISSING)).running.eligible_s.tolist() == [NOW_S - 500]
    assert snapshot(running(1, "a1", eligible_s=0)).running.eligible_s.tolist() == [0]


@pytest.mark.parametrize(
    ("partition_of", "limit_s", "shown_s"),
    [
        ("gpu", 60, 60),
        ("gpu", MISSING, HOUR_S),
        ("gpu", 0, HOUR_S),
        ("all", MISSING, 2 * DAY_S),
        ("all", UNLIMITED_S + 5, UNLIMITED_S),
    ],
)
def test_a_job_without_a_limit_has_that_of_its_partition(partition_of: str, limit_s: int, shown_s: int) -> None:
    view = snapshot(waiting(1, partition=partition_of, limit_s=limit_s))
    assert view.pending.limit_s.tolist() == [shown_s]


def test_a_job_that_takes_its_nodes_whole_has_no_counts() -> None:
    jobs = (waiting(1, gpus=4, cpus=9, nodes=2, whole_nodes=True), waiting(2, gpus=0, cpus=0))
    assert rows(snapshot(*jobs).pending, "id", "gpus", "cpus") == [(1, -1, -1), (2, 0, 1)]
    assert rows(snapshot(*jobs, machine=WHOLE).pending, "id", "gpus", "cpus") == [(1, -1, -1), (2, -1, -1)]


def test_a_partition_that_is_gone_retains_its_number_and_its_jobs_wait_for_no_tier() -> None:
    names = Names()
    snapshot(names=names)
    rest = Machine((SHARED.nodes[2],), (replace(SHARED.partitions[1], nodes=("b1",)),))
    jobs = (waiting(1, partition="gpu", priority=9), waiting(2, priority=10), waiting(3, partition="gpu", priority=11))
    view = snapshot(*jobs, machine=rest, names=names)
    assert rows(view.pending, "id", "partition") == [(3, 0), (2, 1), (1, 0)]
    assert view.pending.limit_s.tolist() == [600] * 3
    assert snapshot(replace(jobs[0], limit_s=0), machine=rest, names=names).pending.limit_s.tolist() == [DAY_S]
    assert view.nodes.allowed.tolist() == [[False], [True]]


def test_names_retain_their_numbers() -> None:
    names = Names()
    first = snapshot(waiting(1, user="eve", qos="low"), waiting(2, user="bob", qos="high"), names=names)
    second = snapshot(waiting(3, user="bob", qos="high"), waiting(4, user="zoe", qos="low"), names=names)
    assert first.pending.user.tolist() == [0, 1]
    assert second.pending.user.tolist() == [1, 2]
    assert (first.pending.qos.tolist(), second.pending.qos.tolist()) == ([0, 1], [1, 0])
    assert names.codes["partition"] == {"gpu": 0, "all": 1}


def test_keys_of_users_follow_from_their_names() -> None:
    jobs = (waiting(1, user="eve"), waiting(2, user="bob"), waiting(3, user="größe"))
    one, names = snapshot(*jobs), Names()
    snapshot(waiting(4, user="zoe"), names=names)
    other = snapshot(*reversed(jobs), names=names)
    assert one.pending.user.tolist() == [0, 1, 2]
    assert other.pending.user.tolist() == [1, 2, 3]
    assert one.keys_of(one.pending.user).tolist() == other.keys_of(other.pending.user)[::-1].tolist()
    assert len({*other.user_keys}) == 4
    assert one.keys_of(np.array([3, 70])).tolist() == [3, 70], "the code of a user without a key"
    assert replace(one, user_keys=()).keys_of(one.pending.user).tolist() == one.pending.user.tolist()


def test_nothing_in_a_view_can_be_changed() -> None:
    view = snapshot(waiting(1), running(2, "a1"), ended=(accounted(1),))
    for array in (view.pending.id, view.running.done_s, view.nodes.free, view.nodes.capacity, view.ended.end_s):
        assert not array.flags.writeable
    assert not view.nodes.allowed.flags.writeable


# -- arrays -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "count"),
    [
        ("7", 1), ("4-9", 6), ("4-9%4", 4), ("0-3%9", 4), ("1,3,5-7", 5), ("0-100:10", 11), ("1-4:0", 4), ("9-4", 1),
        ("", 1), ("1-3%0", 1), ("1-3%x", 3), (f"0-{MOST_TASKS}", MOST_TASKS), ("2-3,5%1", 1),
    ],
)  # fmt: skip
def test_tasks_of_an_array(array: str, count: int) -> None:
    assert array_tasks(array) == count


def test_tasks_that_wait_for_others_of_their_array_are_counted() -> None:
    limited = waiting(1, array="2-40%1", reason="JobArrayTaskLimit")
    competing, whole = waiting(2, array="0-9%4"), waiting(3, array="0-9")
    held = waiting(4, array="0-9%4", priority=0, reason="JobHeldUser")
    assert throttled_tasks(Queue(NOW_S, (limited, competing, whole, held, running(5, "a1")))) == 39 + 6


def test_an_array_that_waits_as_one_is_shown_as_the_jobs_it_will_be() -> None:
    view = snapshot(waiting(1, array="1-3", priority=9), waiting(2, priority=50))
    assert view.pending.id.tolist() == [2, 1, 1, 1]


def test_no_more_than_the_maximum_of_jobs_is_shown() -> None:
    many = [waiting(k, priority=1e6 - k) for k in range(1, MOST_PENDING + 3)]
    view = snapshot(*many)
    assert view.pending.id.tolist() == list(range(1, MOST_PENDING + 1))
    arrays = [waiting(k, array="1-600", priority=1e6 - k) for k in (1, 2)]
    assert snapshot(*arrays).pending.id.tolist() == [1] * 600 + [2] * (MOST_PENDING - 600)


# -- nodes ------------------------------------------------------------------------------------------------------------


def test_shared_nodes_are_rows_less_what_is_in_use() -> None:
    view = snapshot(running(1, "a[1-2]", nodes=2, gpus=3, cpus=9), running(2, "b1", cpus=4))
    assert not view.nodes.pools
    assert view.nodes.capacity.tolist() == [[4, 32], [4, 32], [0, 64]]
    assert view.nodes.free.tolist() == [[2, 27], [2, 27], [0, 60]]
    assert view.nodes.allowed.tolist() == [[True, True, False], [True, True, True]]
    assert view.nodes.total == 3


def test_a_whole_node_job_leaves_nothing_of_its_nodes() -> None:
    view = snapshot(running(1, "a1,b1", nodes=2, gpus=1, cpus=2, whole_nodes=True))
    assert view.nodes.free.tolist() == [[0, 0], [4, 32], [0, 0]]


def test_a_share_is_that_of_one_node_even_if_others_are_not_known() -> None:
    view = snapshot(running(1, "a1,n[98-99]", nodes=3, gpus=6, cpus=30))
    assert view.nodes.free.tolist()[0] == [2, 22]


def test_more_in_use_than_there_is_leaves_none() -> None:
    view = snapshot(running(1, "a1", gpus=9, cpus=99), running(2, "n99"), running(3, "a[2"))
    assert view.nodes.free.tolist() == [[0, 0], [4, 32], [0, 64]]


def test_nodes_that_are_down_stay_rows_without_capacity() -> None:
    machine = replace(SHARED, nodes=(*SHARED.nodes[:1], node("a2", "gpu", "all", usable=False), SHARED.nodes[2]))
    view = snapshot(running(1, "a[1-2]", nodes=2, gpus=2, cpus=2), machine=machine)
    assert view.nodes.capacity.tolist() == [[4, 32], [0, 0], [0, 64]]
    assert view.nodes.free.tolist() == [[3, 31], [0, 0], [0, 64]]
    assert view.nodes.allowed[0].tolist() == [True, True, False]
    assert view.nodes.total == 2


def test_whole_nodes_are_pools_by_the_partitions_that_may_use_them() -> None:
    nodes = (node("a1", "gpu", "all"), node("b1", "all"), node("a2", "all", "gpu"), node("c1", "elsewhere"),
             node("a3", "gpu", "all", usable=False))  # fmt: skip
    jobs = (running(1, "a2"), running(2, "a2"), running(3, "a3"), running(4, "b1"))
    view = snapshot(*jobs, machine=replace(WHOLE, nodes=nodes))
    assert view.nodes.pools
    assert view.nodes.capacity.tolist() == [[2, 0], [1, 0], [1, 0]]
    assert view.nodes.free.tolist() == [[1, 0], [0, 0], [1, 0]], "two jobs on one node take one node"
    assert view.nodes.allowed.tolist() == [[True, False, False], [True, True, False]]
    assert view.nodes.total == 4


def test_completing_nodes_of_a_pool_are_in_use_without_a_job() -> None:
    nodes = (node("a1", "gpu"), replace(node("a2", "gpu"), state="COMPLETING"), node("a3", "gpu"))
    view = snapshot(running(1, "a3"), machine=replace(WHOLE, nodes=nodes))
    assert (view.nodes.capacity.tolist(), view.nodes.free.tolist()) == ([[3, 0]], [[1, 0]])


def test_a_pool_that_is_down_as_a_whole_stays_a_row() -> None:
    nodes = tuple(replace(one, usable=one.name == "b1") for one in SHARED.nodes)
    view = snapshot(machine=replace(WHOLE, nodes=nodes))
    assert view.nodes.capacity.tolist() == [[0, 0], [1, 0]]


def test_a_machine_without_nodes() -> None:
    for machine in (Machine((), SHARED.partitions), Machine((), WHOLE.partitions)):
        view = snapshot(waiting(1), machine=machine)
        assert (view.nodes.total, view.nodes.capacity.shape, view.nodes.allowed.shape) == (0, (0, 2), (2, 0))


@pytest.mark.parametrize(
    ("machine", "options", "shared"),
    [
        (SHARED, {}, True),
        (SHARED, {"selecttype": "select/cons_tres"}, True),
        (SHARED, {"selecttype": "SELECT/linear"}, False),
        (WHOLE, {}, False),
        (replace(SHARED, partitions=(SHARED.partitions[0], WHOLE.partitions[1])), {}, True),
    ],
)
def test_the_machine_declares_whether_nodes_are_shared(machine: Machine, options: dict[str, str], shared: bool) -> None:
    assert shares_nodes(machine, options) == shared
    view = snapshot(waiting(1, gpus=1, cpus=1), machine=machine, options=options)
    assert view.nodes.pools != shared


# -- ended jobs -------------------------------------------------------------------------------------------------------


def accounted(number: int, **given: Any) -> AccountedJob:
    usual = {"user": "ada", "nodes": 2, "limit_s": 600, "submit_s": 10, "start_s": 20, "end_s": 50}
    return AccountedJob(number, JobState.COMPLETED, **{**usual, **given})


def test_ended_jobs_are_those_that_ran_in_order_of_their_end() -> None:
    ended = snapshot(ended=(
        accounted(1, end_s=70), accounted(2, user="bob", end_s=50, limit_s=MISSING), accounted(3, start_s=MISSING),
        accounted(4, end_s=MISSING), accounted(5, start_s=60, end_s=60), accounted(6, start_s=0, end_s=0),
        accounted(7, start_s=9, end_s=8),
    )).ended  # fmt: skip
    assert rows(ended, "user", "nodes", "limit_s", "submit_s", "start_s", "end_s") == [
        (0, 2, 600, 10, 0, 0), (1, 2, DAY_S, 10, 20, 50), (0, 2, 600, 10, 60, 60), (0, 2, 600, 10, 20, 70),
    ]  # fmt: skip


@pytest.mark.parametrize(("machine", "cpus"), [(SHARED, [24, 12, MISSING]), (WHOLE, [MISSING] * 3)])
def test_ended_jobs_show_their_cpus_a_node_where_nodes_are_shared(machine: Machine, cpus: list[int]) -> None:
    jobs = (accounted(1, cpus=24, nodes=1), accounted(2, cpus=23), accounted(3))
    assert snapshot(ended=jobs, machine=machine).ended.cpus.tolist() == cpus


def test_the_latest_ended_jobs_are_shown() -> None:
    many = tuple(accounted(k, end_s=100 + k) for k in range(MOST_ENDED + 5))
    ended = snapshot(ended=many[::-1]).ended
    assert ended.end_s.tolist() == [100 + k for k in range(5, MOST_ENDED + 5)]


# -- a real cluster ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["", "25.11"])
def test_what_is_free_is_what_a_real_slurm_reports_as_not_allocated(shared_data: Path, version: str) -> None:
    """Records of two versions: ``CPUAlloc`` and ``AllocTRES`` of nodes against their jobs."""
    folder = shared_data / "slurm-fixtures" / version
    expected = [machine_text.pairs(line) for line in (folder / "scontrol.show.node.o.txt").read_text().splitlines()]
    nodes = scontrol_text.read_nodes((folder / "scontrol.show.node.o.txt").read_text())
    jobs = scontrol_text.read_jobs((folder / "scontrol.show.job.o.txt").read_text())
    partitions = machine_text.read_partitions((folder / "scontrol.show.partition.o.txt").read_text())
    view = view_of(Queue(NOW_S, jobs), Machine(nodes, partitions), Ended.nothing(), Names())
    free = [
        [8 - max(tres_gpus(row["AllocTRES"]), 0), int(row["CPUTot"]) - int(row["CPUAlloc"])] for row in expected if row
    ]  # fmt: skip
    assert view.nodes.free.tolist() == free
    assert len(view.pending) + len(view.held) == sum(job.state is JobState.PENDING for job in jobs)
    tiers = {one.name: one.priority_tier for one in partitions}
    known = {job.id: (-tiers[job.partition.partition(",")[0]], -job.priority) for job in jobs}
    order = [known[number] for number in view.pending.id.tolist()]
    assert order == sorted(order)
    assert np.array_equal(np.unique(view.running.id), sorted(j.id for j in jobs if j.state is JobState.RUNNING))


def test_every_column_is_whole_numbers_but_work_done_and_priorities() -> None:
    view = snapshot(waiting(1), running(2, "a1"), waiting(3, reason="JobHeldUser"))
    for jobs in (view.pending, view.running, view.held):
        kinds = {field.name: getattr(jobs, field.name).dtype for field in fields(jobs)}
        assert {name for name, kind in kinds.items() if kind == np.float64} == {"done_s", "priority"}
        assert {kind for name, kind in kinds.items() if name not in ("done_s", "priority")} == {np.dtype(np.int64)}


# -- names and accounts -----------------------------------------------------------------------------------------------


def test_names_are_folded_and_codes_are_the_same_in_every_column_and_view() -> None:
    names = Names()
    ended = tuple(
        AccountedJob(k, JobState.COMPLETED, name=name, user="ada", account=account, submit_s=1, start_s=2, end_s=3 + k)
        for k, (name, account) in enumerate([("Train_17", "lab"), ("eval|2", "größe"), ("", ""), ("  ", "lab")])
    )
    queue = [waiting(1, name="train_18", account="größe"), running(2, "a1", name="eval|3", account="lab"),
             waiting(3, name="", account="", reason="JobHeldUser"), waiting(4, name="12", account="new")]  # fmt: skip
    first = snapshot(*queue, ended=ended, names=names)
    again = snapshot(*reversed(queue), ended=ended[:2], names=names)
    for view in (first, again):
        assert rows(view.running, "id", "name", "account") == [(2, code(names, "eval"), code(names, "lab", "account"))]
        assert sorted(rows(view.pending, "id", "name", "account")) == [
            (1, code(names, "train"), code(names, "größe", "account")),
            (4, code(names, "#"), code(names, "new", "account")),
        ]
        assert rows(view.held, "id", "name", "account") == [(3, MISSING, MISSING)]
    lab, large = code(names, "lab", "account"), code(names, "größe", "account")
    expected = [(code(names, "train"), lab), (code(names, "eval"), large), (MISSING, MISSING), (MISSING, lab)]
    assert rows(first.ended, "name", "account") == expected
    assert rows(again.ended, "name", "account") == expected[:2]
    assert len(set(names.codes["name"].values())) == 3


def code(names: Names, name: str, kind: str = "name") -> int:
    return names.codes[kind][name]


def test_a_wait_from_the_release_excludes_the_time_of_a_hold() -> None:
    waits = QueuedJob(1, JobState.PENDING, submit_s=10, eligible_s=90, start_s=100)
    runs = QueuedJob(2, JobState.RUNNING, submit_s=10, eligible_s=60, start_s=80)
    old = QueuedJob(3, JobState.RUNNING, submit_s=10, start_s=80)
    late = AccountedJob(4, JobState.COMPLETED, submit_s=10, eligible_s=75, start_s=70, end_s=99)  # of a later attempt
    queue, ended = waits_from_release(Queue(100, (waits, runs, old)), [late, replace(late, eligible_s=40)])
    assert [job.submit_s for job in queue.jobs] == [10, 60, 10]
    assert [job.submit_s for job in ended] == [70, 40]
