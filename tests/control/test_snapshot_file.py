"""Snapshots of the executor: one serves the planner's decision and the checks of its plan."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.control.adviser import Adviser
from mirage.control.executor_folder import read_journal
from mirage.control.plan_executor import PlanExecutor
from mirage.control.snapshot_file import (
    SNAPSHOT,
    answer_request,
    begin_without_request,
    is_requested,
    request_snapshot,
)
from mirage.errors import ConfigurationError, SlurmUnreachable
from mirage.slurm.gpu_snapshot import GpuSnapshotSeries, nodes_after, take_gpu_snapshot
from tests.support.acting_cluster import OWNED, ActingCluster, of, plan, snapshot_of
from tests.support.control_cluster import NOW_S, running
from tests.support.waiting import until


def no_check() -> None:
    """The executor lives."""


def test_a_planner_gets_the_snapshot_that_it_requests_and_sends_nothing(
    executor: PlanExecutor, cluster: ActingCluster, tmp_path: Path
) -> None:
    begin_without_request(tmp_path)
    assert not is_requested(tmp_path)
    queries = len(cluster.ran)

    def answer() -> None:
        until(lambda: is_requested(tmp_path), 10, "the request")
        answer_request(tmp_path, GpuSnapshotSeries(cluster.slurm), NOW_S + 0.5, executor.observe)

    executor_process = threading.Thread(target=answer)
    executor_process.start()
    taken = request_snapshot(tmp_path, no_check)
    executor_process.join()
    assert taken.parsed() == snapshot_of(cluster)
    advice = Adviser(cluster.slurm, OWNED).advise(taken.time_s, taken.parsed)
    assert (advice.problem, advice.time_s) == ("", NOW_S)
    assert len(cluster.ran) - queries == 2 * 3, "of this test, and of the executor"
    assert (tmp_path / SNAPSHOT).stat().st_mode & 0o077 == 0


def test_a_snapshot_that_fails_is_a_problem_of_the_planner_only(
    executor: PlanExecutor, cluster: ActingCluster, tmp_path: Path
) -> None:
    cluster.status = 1
    answer_request(tmp_path, GpuSnapshotSeries(cluster.slurm), NOW_S, executor.observe)
    with pytest.raises(SlurmUnreachable, match="did not reach Slurm's controller"):
        read(tmp_path)
    cluster.status, cluster.nodes = 0, {}
    answer_request(tmp_path, GpuSnapshotSeries(cluster.slurm), NOW_S, executor.observe)
    with pytest.raises(SlurmUnreachable, match="sinfo reports no node"):
        read(tmp_path)


def read(folder: Path) -> None:
    """Read the file without a request."""
    text = (folder / SNAPSHOT).read_text()
    thread = threading.Timer(0.05, (folder / SNAPSHOT).write_text, (text,))
    thread.start()
    try:
        request_snapshot(folder, no_check).parsed()
    finally:
        thread.join()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": "other"}', '{"format": "mirage-control-snapshot-1", "text": 3}']
)
def test_another_file_is_no_snapshot(tmp_path: Path, text: str) -> None:
    (tmp_path / SNAPSHOT).write_text(text)
    with pytest.raises(ConfigurationError, match=r"cannot be read.*does another process write there"):
        read(tmp_path)


def test_a_planner_does_not_wait_for_an_executor_that_has_ended(tmp_path: Path) -> None:
    def check() -> None:
        raise ConfigurationError("the executor has ended")

    with pytest.raises(ConfigurationError, match="has ended"):
        request_snapshot(tmp_path, check)


def ran(cluster: ActingCluster) -> list[str]:
    """The programs of the queries since the last call."""
    found = [argv[0] for argv in cluster.ran]
    cluster.ran.clear()
    return found


def test_the_plan_of_a_snapshot_needs_no_query(executor: PlanExecutor, cluster: ActingCluster) -> None:
    verb = {"name": "return", "node": "i2"}
    executor.observe(snapshot_of(cluster))
    ran(cluster)
    assert executor.run_plan(plan(of(8, "nice", nice=-90), verb)) == 0
    assert (ran(cluster), len(cluster.sent)) == ([], 2)
    assert executor.run_plan(plan(verb)) == 0
    assert ran(cluster) == ["squeue", "scontrol"], "a snapshot serves one plan"


@pytest.mark.parametrize(("later_s", "plan_s"), [(11, 0), (9, 1), (9, -1)])
def test_an_old_snapshot_and_that_of_another_plan_do_not_count(
    executor: PlanExecutor, cluster: ActingCluster, later_s: int, plan_s: int
) -> None:
    executor.observe(snapshot_of(cluster))
    cluster.jobs[3]["SubmitTime"] = str(NOW_S + 3)  # its id is another job's now
    cluster.now_s += later_s
    ran(cluster)
    assert executor.run_plan(plan(of(8, "nice", nice=-90), time_s=NOW_S + plan_s)) == 1
    assert (ran(cluster), cluster.sent) == (["squeue", "scontrol"], [])


def test_jobs_of_other_partitions_and_ended_ones_of_a_snapshot_do_not_take_part(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.jobs[0] |= {"State": "COMPLETED"}
    cluster.jobs[3] |= {"Partition": "inference,other"}
    cluster.jobs[2] |= {"Partition": "other,train"}
    executor.observe(snapshot_of(cluster))
    verbs = (of(5, "evict"), of(8, "nice", nice=-90), of(7, "nice", nice=1))
    assert executor.run_plan(plan(*verbs)) == 2
    assert cluster.sent == [("scontrol", "update", "JobId=7", "Nice=1")]


SIGNAL = ("scancel", "--signal=USR1", "--full", "--state=RUNNING")


@pytest.fixture
def four(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    """Jobs 11 and 12 run, too; the budgets are large."""
    cluster.jobs += [running(k, "t2") for k in (11, 12)]
    made = PlanExecutor(cluster.slurm, replace(OWNED, commands_per_minute=5), tmp_path / "four", cluster.clock)
    yield made
    made.close()


def test_one_command_signals_all_jobs_of_a_plan(four: PlanExecutor, cluster: ActingCluster) -> None:
    nice = of(8, "nice", nice=-90)
    verbs = (of(5, "evict"), of(11, "evict"), of(5, "evict"), nice, of(12, "evict"), of(6, "evict"), of(7, "evict"))
    assert four.run_plan(plan(*verbs)) == 2, "job 5 is leaving already, job 7 waits"
    assert cluster.sent == [(*SIGNAL, "5", "11"), ("scontrol", "update", "JobId=8", "Nice=-90"), (*SIGNAL, "12", "6")]
    assert [row["verb"]["job"] for row in read_journal(four.journal)] == [5, 11, 8, 12, 6]
    cluster.now_s += 60
    four.finish_evictions()
    assert [argv[2] for argv in cluster.sent if argv[1] == "requeue"] == ["5", "11", "12", "6"]


def test_signals_that_are_not_sent_count_as_commands(four: PlanExecutor, cluster: ActingCluster) -> None:
    four.allowed.pools = replace(four.pools, commands_per_minute=2)
    assert four.run_plan(plan(of(5, "evict"), of(11, "evict"), of(12, "evict"))) == 1
    assert cluster.sent == [(*SIGNAL, "5", "11")]


def test_a_signal_that_slurm_refuses_begins_no_eviction(four: PlanExecutor, cluster: ActingCluster) -> None:
    cluster.refusing = "scancel"
    assert four.run_plan(plan(of(5, "evict"), of(11, "evict"), of(12, "evict", warns=False))) == 2
    assert cluster.sent == [(*SIGNAL, "5", "11"), ("scontrol", "requeue", "12")]
    cluster.now_s += 60
    four.finish_evictions()
    assert not {"5", "11"} & {argv[2] for argv in cluster.sent if argv[1] == "requeue"}


def test_a_signal_without_an_answer_begins_no_eviction_and_ends_the_plan(
    four: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.refusing, cluster.refusal = "scancel", "scancel: error: Socket timed out on send/recv operation"
    with pytest.raises(SlurmUnreachable):
        four.run_plan(plan(of(5, "evict"), of(8, "nice", nice=-90)))
    cluster.now_s += 60
    four.finish_evictions()
    assert cluster.sent == [(*SIGNAL, "5")]


def test_others_get_the_signal_if_a_job_has_ended(four: PlanExecutor, cluster: ActingCluster) -> None:
    cluster.refusal = "scancel: error: Kill job error on job id 5: Invalid job id specified"
    cluster.refusing = "scancel"
    assert four.run_plan(plan(of(5, "evict"), of(11, "evict"))) == 0
    cluster.jobs = [job for job in cluster.jobs if job["JobID"] != "5"]
    cluster.now_s += 60
    four.finish_evictions()
    assert cluster.sent[1:] == [("scontrol", "requeue", "11")]


def test_no_snapshot_is_taken_while_a_job_is_about_to_be_released(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    assert not executor.releases()
    executor.run_plan(plan(of(5, "evict", warns=False)))
    assert executor.releases()
    cluster.now_s += 2
    assert not executor.releases()


def test_a_planner_that_requests_too_often_waits(tmp_path: Path) -> None:
    from mirage.control.executor_process import _Requests

    requests = _Requests(tmp_path, 1000)
    (tmp_path / SNAPSHOT).unlink()
    assert requests.wants_snapshot()
    assert not requests.wants_snapshot()
    requests = _Requests(tmp_path, 0)
    assert not requests.wants_snapshot(), "no file is a request of a former planner"
    (tmp_path / "plan.json").write_text(json.dumps({"number": 3}))
    assert requests.new_plan() == {"number": 3}
    assert requests.new_plan() is None


def test_every_second_snapshot_has_no_sinfo_and_counts_gpus_by_the_jobs(cluster: ActingCluster) -> None:
    cluster.nodes["t1"] = ("allocated", "gpu:a100:8", "gpu:a100:6", "train*")
    cluster.nodes["t2"] = ("allocated+drain", "gpu:a100:8", "gpu:a100:0", "train*")
    cluster.jobs[0]["tres-alloc"] = "cpu=1,gres/gpu=4"
    series = GpuSnapshotSeries(cluster.slurm)
    first = {node.name: node for node in series.take(NOW_S).parsed().nodes}
    cluster.jobs[0] = running(
        5, "t2", tres_alloc="cpu=1,gres/gpu=3", StartTime=NOW_S + 5
    )  # requeued, and started there
    cluster.jobs.append(running(13, "t[1-2]", tres_alloc="cpu=1,gres/gpu=3"))
    ran(cluster)
    second = {node.name: node for node in series.take(NOW_S + 60).parsed().nodes}
    assert ran(cluster) == ["squeue", "scontrol"]
    assert {name: (node.state, node.used) for name, node in second.items() if name[0] == "t"} == {
        "t1": ("mixed", 6 - 4 + 2), "t2": ("allocated+drain", 3 + 1),
    }  # fmt: skip
    assert [second[name] for name in ("i1", "i2", "i3")] == [first[name] for name in ("i1", "i2", "i3")]
    series.take(NOW_S + 120)
    assert ran(cluster) == ["squeue", "sinfo", "scontrol"]
    cluster.status = 1
    with pytest.raises(SlurmUnreachable):
        series.take(NOW_S + 180)
    cluster.status = 0
    ran(cluster)
    series.take(NOW_S + 240)
    assert ran(cluster) == ["squeue", "sinfo", "scontrol"], "after a failure nothing is reused"


def test_gpus_in_use_stay_within_those_of_the_node(cluster: ActingCluster) -> None:
    cluster.jobs[0]["tres-alloc"] = "cpu=1,gres/gpu=4"
    snapshot = take_gpu_snapshot(cluster.slurm, NOW_S)
    used = {node.name: node.used for node in nodes_after(snapshot.nodes, snapshot.jobs, ())}
    assert set(used.values()) == {0}, "sinfo reported none before"
    many = [replace(one, job=replace(one.job, id=one.job.id + 100 * k)) for one in snapshot.jobs for k in range(4)]
    assert {node.name: node.used for node in nodes_after(snapshot.nodes, (), many)}["t1"] == 8
