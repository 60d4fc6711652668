"""Worker jobs: the size of a job without a requeue, and no worker without its main job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.control.adviser import Adviser
from mirage.control.control_view import ControlView, FirstSubmissions, control_view
from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from mirage.control.run_record import read_run
from mirage.control.steps import steps_of_plan
from mirage.control.worker_jobs import main_job_of
from mirage.schedule.scheduler_contract import GpuAction, GpuPlan, GpuPreempt, GpuResize, GpuStart
from mirage.slurm.records import QueuedJob
from tests.support.acting_cluster import ELASTIC, SUBMITTED_S, ActingCluster, of, plan, snapshot_of
from tests.support.control_cluster import held, pending, running

ARYL = replace(ELASTIC, scheduler="aryl")
OF_11 = {"tres_per_node": "gres:gpu:a100:2", "Comment": "mirage-control worker-of=11"}
MAIN, RUNS = running(11, "t2", tres_per_node="gres:gpu:a100:2"), running(12, "t1", **OF_11)
WAITS, LEFT = held(13, **OF_11), held(14, **OF_11, Reason="job requeued in held state", RestartCnt=1)


@pytest.fixture
def cluster() -> ActingCluster:
    """Job 11 with a worker that runs, one that never ran, and one that has left."""
    return ActingCluster(jobs=[dict(job) for job in (MAIN, RUNS, WAITS, LEFT)])


@pytest.fixture
def executor(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    made = PlanExecutor(cluster.slurm, ARYL, tmp_path / "state", cluster.clock)
    yield made
    made.close()


def view_of(cluster: ActingCluster) -> ControlView:
    return control_view(snapshot_of(cluster), ARYL, FirstSubmissions())


def lines(cluster: ActingCluster, *actions: GpuAction) -> list[str]:
    return [step.line(ARYL) for step in steps_of_plan(GpuPlan(actions), view_of(cluster), ARYL)]


def sent(cluster: ActingCluster) -> list[str]:
    """The commands since the last call."""
    words = [" ".join(argv) for argv in cluster.sent]
    cluster.sent.clear()
    return words


@pytest.mark.parametrize(
    ("comment", "main"),
    [
        ("mirage-control", 0),
        ("mirage-control worker-of=17", 17),
        ("worker-of=17,mirage-control", 17),
        ("worker-of=0", -1),
        ("worker-of=", -1),
        ("worker-of=17_2", -1),
        ("worker-of=١٧", -1),
        ("worker-of=17 worker-of=18", -1),
    ],
)
def test_a_worker_names_one_job(comment: str, main: int) -> None:
    assert main_job_of(QueuedJob(1, 0, comment=comment)) == main  # type: ignore[arg-type]


def test_a_job_and_its_workers_are_one_job_of_the_view(cluster: ActingCluster) -> None:
    cluster.jobs += [
        held(20, **{**OF_11, "UserName": "eve"}), held(21, Comment="mirage-control worker-of=9"),
        held(22, Comment="mirage-control worker-of=x"), running(9, "t1", Comment=""),
        running(23, "t1", **OF_11, State="COMPLETING"), running(24, "elsewhere", **OF_11),
    ]  # fmt: skip
    view = view_of(cluster)
    (job,), jobs = view.jobs, view.view.jobs
    assert [one.job.id for one in job.workers] == [12, 13, 14]
    assert (job.id, job.gpus, jobs.held.tolist(), jobs.min_gpus.tolist(), jobs.max_gpus.tolist()) == (
        11, 4, [4], [2], [8],
    )  # fmt: skip
    assert view.view.held.of(0) == {1: 2, 0: 2}
    assert view.left_out == {"has not opted in": 1, "is a worker without a main job that takes part": 3}
    assert view.orphans == ()


def test_a_job_grows_and_shrinks_by_whole_workers(cluster: ActingCluster) -> None:
    assert lines(cluster, GpuResize(0, {0: 4, 1: 2}, reason="r")) == ["resize 11: scontrol release 13 (r)"]
    assert lines(cluster, GpuResize(0, {0: 6, 1: 3}, reason="r")) == [
        "resize 11: scontrol release 13; "
        f"scontrol update JobId=14 StartTime=uts{SUBMITTED_S + 1}; scontrol release 14 (r)"
    ]
    assert lines(cluster, GpuResize(0, {1: 3}, reason="r")) == ["resize 11: scontrol requeuehold 12 (r)"]
    assert lines(cluster, GpuResize(0, {1: 5}, reason="r")) == [], "half a worker changes nothing"
    assert lines(cluster, GpuResize(0, {1: 1}, reason="r")) == ["resize 11: refused, its size is from 2 to 8 GPUs (r)"]
    (step,) = steps_of_plan(GpuPlan((GpuResize(0, {1: 8}),)), view_of(cluster), ARYL)
    assert [" ".join(command) for command in step.undo_commands(ARYL)] == [
        "scontrol uhold 13", "scontrol uhold 14", "scontrol uhold 14",
    ]  # fmt: skip


def test_released_workers_that_slurm_has_not_started_are_held_again(cluster: ActingCluster) -> None:
    cluster.jobs[2] |= {"PriorityLong": "70", "Reason": "Resources"}
    assert lines(cluster) == ["resize 11: scontrol uhold 13 (its-workers-have-not-started)"]
    assert lines(cluster, GpuResize(0, {1: 6}, reason="r")) == [], "it starts without a command"
    assert lines(cluster, GpuResize(0, {1: 2}, reason="r")) == [
        "resize 11: scontrol requeuehold 12; scontrol uhold 13 (r)"
    ]


def test_a_job_that_waits_has_no_running_workers(cluster: ActingCluster) -> None:
    cluster.jobs[0] = pending(11, tres_per_node="gres:gpu:a100:2", RestartCnt=1)
    assert lines(cluster) == ["resize 11: scontrol requeuehold 12 (waits-small)"]
    assert lines(cluster, GpuStart(0, {0: 8}, reason="r")) == ["start 11: scontrol requeuehold 12 (r)"]
    cluster.jobs[0] |= {"Reason": "JobHeldUser", "PriorityLong": "0"}
    assert view_of(cluster).jobs == ()
    assert lines(cluster) == ["resize 11: scontrol requeuehold 12 (waits-small)"], "it does not compete"
    cluster.jobs[0] |= {"Reason": "Priority", "PriorityLong": "100"}
    cluster.jobs[1] = held(12, **OF_11)
    assert lines(cluster, GpuStart(0, {0: 8}, reason="r")) == ["start 11: no command needed (r)"]


def test_workers_leave_after_the_requeue_of_their_main_job(executor: PlanExecutor, cluster: ActingCluster) -> None:
    (step,) = steps_of_plan(GpuPlan((GpuPreempt(0, "save"),)), view_of(cluster), ARYL)
    commands = [" ".join(command) for command in step.commands(ARYL)]
    assert commands[1:3] == ["scontrol requeue 11", "scontrol requeuehold 12"]
    executor.run_plan(plan(of(11, "evict")))
    assert sent(cluster) == ["scancel --signal=USR1 --full --state=RUNNING 11"]
    executor.close()
    cluster.now_s += 61
    after = PlanExecutor(cluster.slurm, ARYL, executor.journal.parent, cluster.clock)  # the first one has died
    after.begin()
    sent(cluster)
    after.tick()
    assert sent(cluster) == ["scontrol requeue 11", "scontrol requeuehold 12"]
    executor._lock = after._lock  # closed at the end


def test_the_executor_itself_chooses_the_workers(executor: PlanExecutor, cluster: ActingCluster) -> None:
    assert executor.run_plan(plan(of(11, "resize", gpus=8))) == 0
    assert sent(cluster) == [
        "scontrol release 13", f"scontrol update JobId=14 StartTime=uts{SUBMITTED_S + 1}", "scontrol release 14",
    ]  # fmt: skip
    assert executor.run_plan(plan(of(11, "resize", gpus=2))) == 0
    assert sent(cluster) == ["scontrol requeuehold 12"]
    assert executor.run_plan(plan(of(11, "resize", gpus=6))) == 1, "two changes of a job in an hour"
    cluster.jobs[2] |= {"PriorityLong": "70", "Reason": "Resources"}
    assert executor.run_plan(plan(of(11, "resize", gpus=4))) == 0, "a hold is no change of size"
    assert sent(cluster) == ["scontrol uhold 13"]


def test_changes_of_size_count_after_the_death_of_a_controller(executor: PlanExecutor, cluster: ActingCluster) -> None:
    for gpus in (6, 2):
        assert executor.run_plan(plan(of(11, "resize", gpus=gpus))) == 0
    executor.close()
    after = PlanExecutor(cluster.slurm, ARYL, executor.journal.parent, cluster.clock)
    assert after.run_plan(plan(of(11, "resize", gpus=6))) == 1
    executor._lock = after._lock


@pytest.mark.parametrize(
    "verb",
    [
        of(11, "resize", gpus=1), of(11, "resize", gpus=10), of(11, "resize", gpus=4), of(11, "size", gpus=2),
        of(12, "evict"), of(12, "resize", gpus=4), of(13, "nice", nice=1), of(13, "size", gpus=4), of(13, "unhold"),
        of(13, "requeuehold"), of(12, "hold"), of(12, "end"), of(11, "end"), of(5, "end"),
        of(11, "resize", gpus=6, workers=[{"name": "end"}]),
    ],
)  # fmt: skip
def test_nothing_else_is_done_with_workers(
    executor: PlanExecutor, cluster: ActingCluster, verb: dict[str, object]
) -> None:
    executor.begin()
    cluster.sent.clear()
    executor.observe(snapshot_of(cluster))
    assert executor.run_plan(plan(verb)) == 1
    assert sent(cluster) == []


def test_more_workers_than_commands_in_a_minute_are_not_begun(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.allowed.pools = replace(ARYL, commands_per_minute=2)
    assert executor.run_plan(plan(of(11, "resize", gpus=8))) == 1
    assert executor.run_plan(plan(of(11, "resize", gpus=6))) == 0


def test_workers_end_with_their_main_job(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.begin()
    cluster.jobs[0] |= {"State": "SUSPENDED", "Comment": ""}
    assert view_of(cluster).orphans == (), "it has not ended, though it does not take part"
    del cluster.jobs[0]
    cluster.jobs += [pending(15), held(16, Comment="mirage-control worker-of=17")]
    assert lines(cluster) == [f"end {job}: scancel {job} (its-main-job-has-ended)" for job in (12, 13, 14)]
    ends = plan(*(of(job, "end") for job in (12, 13, 14, 15)))
    sent(cluster)
    assert executor.run_plan(ends) == 4, "without a snapshot of all jobs it is not known"
    executor.observe(snapshot_of(cluster))
    assert executor.run_plan(ends) == 1
    assert sent(cluster) == ["scancel 12", "scancel 13", "scancel 14"]


def test_components_of_heterogeneous_jobs_take_no_part(executor: PlanExecutor, cluster: ActingCluster) -> None:
    cluster.jobs = [running(82, "t1", HetJobID=82), pending(84, HetJobID=84), pending(85, HetJobID="0")]
    view = view_of(cluster)
    assert [job.id for job in view.jobs] == [85]
    assert [why.split(":")[0] for why in view.left_out] == ["is a component of a heterogeneous job"]
    assert executor.run_plan(plan(of(82, "evict"), of(84, "nice", nice=1))) == 2
    assert sent(cluster) == []


def test_workers_with_the_highest_ids_leave_first(cluster: ActingCluster) -> None:
    cluster.jobs[2] |= {"State": "RUNNING", "NodeList": "t1", "PriorityLong": "70"}
    assert lines(cluster, GpuResize(0, {1: 4}, reason="r")) == ["resize 11: scontrol requeuehold 13 (r)"]


def test_a_hold_is_no_resize_of_an_adviser_and_workers_are_not_recorded(cluster: ActingCluster, tmp_path: Path) -> None:
    adviser = Adviser(cluster.slurm, replace(ARYL, resizes_per_job_hour=0), tmp_path)
    cluster.nodes["t1"] = cluster.nodes["t2"] = ("allocated", "gpu:a100:8", "gpu:a100:8", "train")
    cluster.jobs[2] |= {"PriorityLong": "70", "Reason": "Resources"}
    (step,) = [step for step in adviser.advise(cluster.now_s).steps if step.kind == "resize"]
    assert (step.commands(ARYL), step.refused) == ((("scontrol", "uhold", "13"),), "")
    assert {row.id for row in read_run(tmp_path)[1]} == {0, 11}


def test_off_holds_released_workers_that_wait(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.run_plan(plan(of(11, "resize", gpus=8)))
    released = {"PriorityLong": "70", "Reason": "Resources"}
    cluster.jobs[2] |= released
    cluster.jobs[3] |= {"State": "RUNNING", "NodeList": "t2"}
    cluster.jobs += [pending(15, **{**OF_11, **released})]  # its user has released it
    sent(cluster)
    assert restore(executor) == []
    assert sent(cluster) == ["scontrol uhold 13"]
    cluster.jobs[2:] = [dict(WAITS), cluster.jobs[3]]
    executor.run_plan(plan(of(11, "resize", gpus=8)))
    assert sent(cluster) == ["scontrol release 13"]
    assert restore(executor) == [], "its user has held it again"
    assert sent(cluster) == []


def test_aryl_gives_free_gpus_by_workers_and_counts_one_resize(cluster: ActingCluster) -> None:
    advice = Adviser(cluster.slurm, ARYL).advise(cluster.now_s)
    (step,) = [step for step in advice.steps if step.kind == "resize"]
    assert step.commands(ARYL)[0] == ("scontrol", "release", "13")
    assert not step.refused
