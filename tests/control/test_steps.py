"""The commands of a plan: what an operator would run, and what undoes it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mirage.control.control_view import ControlJob, ControlView, FirstSubmissions, control_view
from mirage.control.steps import new_nices, steps_of_plan
from mirage.schedule.scheduler_contract import (
    GpuAction,
    GpuCancel,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuReturn,
    GpuStart,
)
from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running


@pytest.fixture
def view() -> ControlView:
    """Job 5 (number 0) runs, 6 to 8 wait; i2 is lent. Servers: t1, t2, i1, i2, i3."""
    waiting = [
        pending(k, SubmitTime=NOW_S - 100 + k, PriorityLong=p, TimeLimit="30:00")
        for k, p in ((6, 300), (7, 200), (8, 100))
    ]
    cluster = ControlCluster(jobs=[running(5, "t1"), *waiting], reservations=[loan("i2")])
    return control_view(take_gpu_snapshot(cluster.slurm, NOW_S), POOLS, FirstSubmissions())


def lines(view: ControlView, *actions: GpuAction, **changes: object) -> list[str]:
    pools = replace(POOLS, **changes)  # type: ignore[arg-type]
    return [step.line(pools) for step in steps_of_plan(GpuPlan(actions), view, pools)]


def test_jobs_in_slurms_order_need_no_command(view: ControlView) -> None:
    assert lines(view, GpuStart(1, {0: 4}, reason="head"), GpuStart(2, {1: 4}, reason="head")) == [
        "start 6: no command needed (head)",
        "start 7: no command needed (head)",
    ]


def test_a_job_that_goes_first_exchanges_priorities_with_those_before_it(view: ControlView) -> None:
    (step, *others) = steps_of_plan(GpuPlan((GpuStart(3, {0: 4}, reason="shortest"),)), view, POOLS)
    assert step.commands(POOLS) == (("scontrol", "update", "JobId=8", "Nice=-200"),)
    assert step.undo_commands(POOLS) == (("scontrol", "update", "JobId=8", "Nice=0"),)
    assert [one.line(POOLS) for one in others] == [
        "postpone 6: scontrol update JobId=6 Nice=100 (others-start-first)",
        "postpone 7: scontrol update JobId=7 Nice=100 (others-start-first)",
    ]


def test_a_start_on_a_lent_node_names_its_loan_and_only_one(view: ControlView) -> None:
    named = "scontrol update JobId=6 ReservationName=mirage-loan-i2"
    assert lines(view, GpuStart(1, {3: 4}, reason="r")) == [f"start 6: {named} (r)"]
    assert lines(replace(view, loans={"i2": NOW_S + 1799}), GpuStart(1, {3: 4}, reason="r")) == [
        "start 6: refused, its time limit is longer than the rest of the loan of i2 (r)"
    ]
    assert lines(view, GpuStart(1, {2: 4}, reason="r")) == ["start 6: refused, i1 has no loan (r)"]
    assert lines(view, GpuStart(1, {3: 2, 0: 2}, reason="r")) == [
        "start 6: refused, it would span i2 and other nodes, but a job runs in one reservation (r)"
    ]


def test_a_job_with_the_reservation_of_a_loan_leaves_it_for_its_own_pool(view: ControlView) -> None:
    jobs = (view.jobs[0], replace(view.jobs[1], reservation="mirage-loan-i2"), *view.jobs[2:])
    (step,) = steps_of_plan(GpuPlan((GpuStart(1, {0: 4}),)), replace(view, jobs=jobs), POOLS)
    assert step.commands(POOLS)[0][-1] == "ReservationName="
    assert step.undo_commands(POOLS)[0][-1] == "ReservationName=mirage-loan-i2"


def test_an_eviction_warns_then_requeues_then_ends_the_hold_down(view: ControlView) -> None:
    (step,) = steps_of_plan(GpuPlan((GpuPreempt(0, "save", reason="r"),)), view, POOLS)
    assert step.commands(POOLS) == (
        ("scancel", "--signal=USR1", "--full", "--state=RUNNING", "5"),
        ("scontrol", "requeue", "5"),
        ("scontrol", "update", "JobId=5", "StartTime=now+2"),
    )
    (step,) = steps_of_plan(GpuPlan((GpuPreempt(0, "kill"),)), view, POOLS)
    assert step.commands(POOLS)[0] == ("scontrol", "requeue", "5")


def test_a_loan_is_a_reservation_of_one_node_that_ends_by_itself(view: ControlView) -> None:
    (step,) = steps_of_plan(GpuPlan((GpuLend(2, 0, reason="lends-idle"),)), view, POOLS)
    assert step.commands(POOLS)[0] == (
        "scontrol", "create", "reservation", "ReservationName=mirage-loan-i1", "Nodes=i1", "StartTime=now",
        "Duration=60", "Users=ada", "Flags=OVERLAP",
    )  # fmt: skip
    assert step.undo_commands(POOLS) == (("scontrol", "delete", "ReservationName=mirage-loan-i1"),)
    (step,) = steps_of_plan(GpuPlan((GpuLend(2, 0, NOW_S + 150.0),)), view, POOLS)
    assert "Duration=2" in step.commands(POOLS)[0]
    assert "within a minute" in lines(view, GpuLend(2, 0, NOW_S + 30.0))[0]
    assert "only nodes of the owner" in lines(view, GpuLend(0, 1))[0]
    assert "no job takes part" in lines(replace(view, jobs=()), GpuLend(2, 0))[0]


def test_a_loan_of_a_node_that_the_owner_has_taken_back_is_returned(view: ControlView) -> None:
    taken = replace(view, taken_back=("i2",))
    assert lines(taken) == ["return i2: scontrol delete ReservationName=mirage-loan-i2 (owner-is-there)"]


def test_a_return_deletes_the_loan_if_there_is_one(view: ControlView) -> None:
    assert lines(view, GpuReturn(3, "back"), GpuReturn(4, "back")) == [
        "return i2: scontrol delete ReservationName=mirage-loan-i2 (back)",
        "return i3: no command needed (back)",
    ]


def test_jobs_leave_a_loan_before_they_wait_again_and_before_it_is_deleted(view: ControlView) -> None:
    jobs = tuple(replace(job, reservation="mirage-loan-i2") for job in view.jobs[:2]) + view.jobs[2:]
    lent = replace(view, jobs=jobs)
    evict, back = steps_of_plan(GpuPlan((GpuReturn(3), GpuPreempt(0))), lent, POOLS)
    assert evict.commands(POOLS)[-2:] == (
        ("scontrol", "update", "JobId=5", "ReservationName="),
        ("scontrol", "update", "JobId=5", "StartTime=now+2"),
    )
    assert back.commands(POOLS) == (
        ("scontrol", "update", "JobId=6", "ReservationName="),
        ("scontrol", "delete", "ReservationName=mirage-loan-i2"),
    )
    assert back.undo_commands(POOLS) == (("scontrol", "update", "JobId=6", "ReservationName=mirage-loan-i2"),)


def test_a_loan_is_closed_before_a_job_is_evicted_from_it() -> None:
    cluster = ControlCluster(jobs=[running(5, "i2"), pending(6, Reservation="mirage-loan-i2", TimeLimit="9:00")])
    cluster.reservations = [loan("i2")]
    cluster.nodes["i2"] = ("mixed", "gpu:t4:4", "gpu:t4:4", "inference train")
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), POOLS, FirstSubmissions())
    close, evict = steps_of_plan(GpuPlan((GpuPreempt([job.id for job in view.jobs].index(5)),)), view, POOLS)
    assert (close.kind, close.subject, evict.kind) == ("close", "i2", "preempt")
    assert close.commands(POOLS) == (("scontrol", "update", "JobId=6", "ReservationName="),)


def test_a_job_that_slurm_holds_since_its_loan_ended_is_released() -> None:
    cells = {"State": "RESV_DEL_HOLD", "PriorityLong": 0}
    reasons = [f"Reservation {name} was deleted" for name in ("mirage-loan-i2", "mirage-loan-x9", "weekly")]
    cluster = ControlCluster(jobs=[pending(6 + k, Reason=reason, **cells) for k, reason in enumerate(reasons)])
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), POOLS, FirstSubmissions())
    assert lines(view) == ["release 6: scontrol release 6 (its-loan-has-ended)"]


@pytest.mark.parametrize("ends_in_s", [60, -1])
def test_a_job_that_waits_for_a_loan_leaves_it_when_the_rest_is_too_short(ends_in_s: int) -> None:
    cluster = ControlCluster(jobs=[pending(6, Reservation="mirage-loan-i2", TimeLimit="9:00")])
    cluster.reservations = [loan("i2", ends_in_s)]
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), POOLS, FirstSubmissions())
    assert lines(view) == ["close i2: scontrol update JobId=6 ReservationName= (too-short-for-job)"]


def test_jobs_are_neither_cancelled_nor_resized_without_a_range_and_returns_come_first(view: ControlView) -> None:
    found = lines(view, GpuCancel(1), GpuStart(1, {0: 4}), GpuLend(2, 0), GpuResize(0, gpus=2), GpuReturn(3))
    assert [line.split()[0] for line in found] == ["resize", "return", "lend", "start", "other"]
    assert "refused, its size is from 4 to 4 GPUs" in found[0]
    assert "does not cancel jobs" in found[4]


def test_an_elastic_job_changes_its_size_within_its_range_and_on_its_own_pool() -> None:
    words = {"tres_per_job": "gres:gpu:3", "tres_per_node": "N/A", "Comment": "mirage-control gpus=2-6"}
    lent = running(6, "i2", Reservation="mirage-loan-i2", SubmitTime=NOW_S - 500, **words)
    cluster = ControlCluster(jobs=[running(5, "t1", **words), lent], reservations=[loan("i2")])
    pools = replace(POOLS, scheduler="aryl", most_gpus=8)
    view = control_view(take_gpu_snapshot(cluster.slurm, NOW_S), pools, FirstSubmissions())
    found = lines(view, GpuResize(0, {0: 2, 1: 2}, reason="r"))
    assert found == [
        "resize 5: scancel --signal=USR1 --full --state=RUNNING 5; scontrol requeue 5; "
        "scontrol update JobId=5 TresPerJob=gres:gpu:4; scontrol update JobId=5 StartTime=now+2 (r)"
    ]
    assert lines(view, GpuResize(0, {1: 3}, reason="moves"), GpuResize(0, batch=64)) == [], "Slurm has no such lever"
    refused = "a job on a lent node, here i2, does not change its size"
    assert lines(view, GpuResize(0, {0: 3, 3: 1})) == [f"resize 5: refused, {refused} ()"]
    assert lines(view, GpuResize(1, {3: 4})) == [f"resize 6: refused, {refused} ()"]
    assert "its size is from 2 to 6 GPUs" in lines(view, GpuResize(0, {0: 7}))[0]


@pytest.mark.parametrize("seed", range(30))
def test_new_priorities_are_in_order_and_never_above_the_places_that_these_jobs_had(seed: int) -> None:
    dice = random.Random(seed)
    jobs = [
        ControlJob(k, "ada", "", k, k, 0, dice.choice([5, 50, 50, 70, 900]) + dice.randrange(3), dice.randrange(9), 60,
                   "", dice.random() < 0.2)
        for k in range(12)
    ]  # fmt: skip
    waiting = [k for k, job in enumerate(jobs) if not job.running]
    first = dice.sample(waiting, min(3, len(waiting)))
    nices = new_nices(jobs, first)
    priority = {k: jobs[k].priority - (nices.get(k, jobs[k].nice) - jobs[k].nice) for k in waiting}
    order = sorted(waiting, key=lambda k: (-priority[k], k))
    assert order[: len(first)] == first
    rest = sorted(set(waiting) - set(first), key=lambda k: (-jobs[k].priority, k))
    assert order[len(first) :] == rest
    before = sorted((jobs[k].priority for k in waiting), reverse=True)
    after = sorted(priority.values(), reverse=True)
    assert all(new <= old for new, old in zip(after, before))


def test_advice_about_an_array_names_its_tasks() -> None:
    jobs = [running(5, "t1", ArrayTaskID=1), pending(6, ArrayTaskID="2-4%1", PriorityLong=200), pending(7), pending(8)]
    jobs[3]["ArrayTaskID"] = "0,2,..."
    view = control_view(take_gpu_snapshot(ControlCluster(jobs=jobs).slurm, NOW_S), POOLS, FirstSubmissions())
    assert lines(view, GpuPreempt(0, "kill"), GpuStart(2, {0: 4})) == [
        "preempt 5: scontrol requeue 5_1; scontrol update JobId=5_1 StartTime=now+2 ()",
        "start 7: scontrol update JobId=7 Nice=-100 ()",
        "postpone 6: scontrol update 'JobId=6_[2-4]' Nice=100 (others-start-first)",
    ]
    assert view.left_out == {"is an array with more tasks than squeue lists: no command can name them": 1}
