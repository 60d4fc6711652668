"""Sizes of elastic jobs: a resize and its limits, also after the death of a controller."""

from __future__ import annotations

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control.executor_folder import read_journal
from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from tests.support.acting_cluster import ELASTIC, WORDS, ActingCluster, of, plan
from tests.support.control_cluster import NOW_S, pending, running


def test_a_job_that_waits_gets_its_size_at_once(elastic: PlanExecutor, cluster: ActingCluster) -> None:
    assert elastic.run_plan(plan(of(12, "size", gpus=6))) == 0
    assert cluster.sent == [("scontrol", "update", "JobId=12", "TresPerJob=gres:gpu:a100:6")]
    assert [row["undo"]["gpus"] for row in read_journal(elastic.journal)] == [2]


def test_a_job_that_runs_gets_its_size_between_its_requeue_and_the_end_of_its_hold_down(
    elastic: PlanExecutor, cluster: ActingCluster
) -> None:
    assert elastic.run_plan(plan(of(11, "resize", gpus=4))) == 0
    assert elastic.run_plan(plan(of(11, "resize", gpus=4), of(11, "evict"))) == 2, "it is leaving already"
    cluster.now_s += 60
    elastic.finish_evictions()
    cluster.now_s += 2
    cluster.jobs[-2] |= {"State": "COMPLETING", "RestartCnt": "1"}
    elastic.finish_evictions()
    assert len(cluster.sent) == 2, "it has not left its node"
    requeued(cluster)
    cluster.now_s += 2
    elastic.finish_evictions()
    assert [" ".join(argv) for argv in cluster.sent] == [
        "scancel --signal=USR1 --full --state=RUNNING 11", "scontrol requeue 11", *(" ".join(argv) for argv in SIZED),
    ]  # fmt: skip


SIZED = (
    ("scontrol", "update", "JobId=11", "TresPerJob=gres:gpu:a100:4"),
    ("scontrol", "update", "JobId=11", f"StartTime=uts{NOW_S + 21}"),
)


def requeued(cluster: ActingCluster) -> None:
    """Job 11 has left its node, and Slurm delays its start."""
    cluster.jobs = [job for job in cluster.jobs if job["JobID"] != "11"]
    delayed = {"SubmitTime": NOW_S + 20, "EligibleTime": NOW_S + 2000, "RestartCnt": 1}
    cluster.jobs.append(pending(11, **{**delayed, **WORDS}))


@pytest.mark.parametrize("by", ["off", "the next controller"])
@pytest.mark.parametrize("dies_after", ["signal", "requeue"])
def test_a_resize_continues_after_the_death_of_its_controller(
    cluster: ActingCluster, tmp_path: Path, dies_after: str, by: str
) -> None:
    cluster.jobs += [running(11, "t2", **WORDS)]
    dies = PlanExecutor(cluster.slurm, ELASTIC, tmp_path, cluster.clock)
    dies.run_plan(plan(of(11, "resize", gpus=4, warns=dies_after == "signal")))
    dies.close()
    cluster.sent.clear()
    if dies_after == "requeue":
        requeued(cluster)
    cluster.now_s += 61
    after = PlanExecutor(cluster.slurm, ELASTIC, tmp_path, cluster.clock)
    if by == "off":
        assert restore(after) == []
        assert [argv for argv in cluster.sent if argv[2:3] == ("JobId=11",)] == [*SIZED[1:]] * (dies_after == "requeue")
    else:
        after.begin()
        after.tick()
        if dies_after == "signal":
            assert ("scontrol", "requeue", "11") in cluster.sent
            requeued(cluster)
            cluster.now_s += 2
            after.tick()
        assert tuple(argv for argv in cluster.sent if argv[2:3] == ("JobId=11",)) == SIZED
        assert after.run_plan(plan(of(11, "evict", gpus=4))) == 1
    after.close()


def test_gpus_per_node_of_a_job_on_one_node_are_its_size(cluster: ActingCluster, tmp_path: Path) -> None:
    words = {**WORDS, "tres_per_job": "N/A", "tres_per_node": "gres:gpu:a100:2"}
    cluster.jobs += [running(11, "t2", **words), pending(12, PriorityLong=50, **words)]
    cluster.jobs += [pending(13, **{**words, "MaxNodes": 2}), pending(14, **{**words, "NumTasks": 2})]
    executor = PlanExecutor(cluster.slurm, ELASTIC, tmp_path, cluster.clock)
    assert executor.run_plan(plan(*(of(job, "size", gpus=4) for job in (12, 13, 14)))) == 2
    assert cluster.sent == [("scontrol", "update", "JobId=12", "TresPerNode=gres:gpu:a100:4")]
    assert executor.run_plan(plan(of(12, "size", gpus=3, per_node=False))) == 1, "a plan cannot name it"
    executor.run_plan(plan(of(11, "resize", gpus=4, warns=False)))
    requeued(cluster)
    cluster.jobs[-1] |= {"tres-per-job": "N/A", "tres-per-node": "gres:gpu:a100:2"}
    cluster.now_s += 2
    executor.finish_evictions()
    assert cluster.sent[-2] == ("scontrol", "update", "JobId=11", "TresPerNode=gres:gpu:a100:4")
    next(job for job in cluster.jobs if job["JobID"] == "12")["tres-per-node"] = "gres:gpu:a100:4"
    cluster.jobs[-1]["tres-per-node"] = "gres:gpu:a100:4"
    cluster.jobs[-1] |= {"tres-per-job": "gres:gpu:a100:4", "tres-per-node": "N/A"}  # its user has changed that
    cluster.sent.clear()
    assert restore(executor) == []
    sizes = [argv[2:] for argv in cluster.sent if "TresPer" in argv[-1]]
    assert sizes == [("JobId=12", "TresPerNode=gres:gpu:a100:2")]
    executor.close()


def test_an_eviction_with_a_size_counts_as_an_eviction(elastic: PlanExecutor, cluster: ActingCluster) -> None:
    assert elastic.run_plan(plan(of(11, "evict", gpus=4, warns=False))) == 0
    requeued(cluster)
    cluster.now_s += 21
    elastic.finish_evictions()
    assert cluster.sent == [("scontrol", "requeue", "11"), SIZED[1]]
    cluster.jobs[-1] |= {"State": "RUNNING", "NodeList": "t2"}
    later = {"name": "evict", "job": 11, "submit_s": NOW_S + 20}
    assert elastic.run_plan(plan(later)) == 1, "one eviction of a job in an hour"


def test_a_job_that_has_saved_is_requeued_before_its_grace_is_over(cluster: ActingCluster, tmp_path: Path) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    cluster.jobs += [running(11, "t2", UserName=me, **WORDS)]
    pools = replace(ELASTIC, progress_file=f"{tmp_path}/{{job}}.json")
    executor = PlanExecutor(cluster.slurm, pools, tmp_path / "state", cluster.clock)

    def progress(step: int, saved: int) -> None:
        (tmp_path / "11.json").write_text(json.dumps({"step": step, "steps": 100, "saved_step": saved}))
        cluster.now_s += 1
        executor.finish_evictions()

    progress(40, 40)
    executor.run_plan(plan(of(11, "resize", gpus=4)))
    for step, saved in ((40, 40), (52, 40)):
        progress(step, saved)
        assert len(cluster.sent) == 1, "it has not answered"
    progress(60, 52)
    assert cluster.sent[1] == ("scontrol", "requeue", "11")
    executor.close()


@pytest.mark.parametrize("state", ["gone", "other", "waits"])
def test_a_job_that_leaves_during_its_resize_is_not_requeued(
    elastic: PlanExecutor, cluster: ActingCluster, state: str
) -> None:
    elastic.allowed.pools = replace(elastic.pools, resizes_per_job_hour=1)
    elastic.run_plan(plan(of(11, "resize", gpus=4)))
    del cluster.jobs[-2]
    if state == "other":  # slurmctld has lost the job and given its id away
        cluster.jobs.append(running(11, "t2", SubmitTime=NOW_S + 3, **WORDS))
    if state == "waits":  # it has requeued itself
        requeued(cluster)
    cluster.now_s += 60
    elastic.finish_evictions()
    cluster.now_s += 2
    elastic.finish_evictions()
    assert cluster.sent[1:] == ([*SIZED] if state == "waits" else [])
    cluster.jobs = [running(11, "t2", SubmitTime=NOW_S + 20, RestartCnt=1, **WORDS)]
    again = {"name": "resize", "job": 11, "submit_s": NOW_S + 20, "gpus": 3}
    assert elastic.run_plan(plan(again, time_s=int(cluster.now_s))) == 1, "the signal was one resize in an hour"


@pytest.mark.parametrize(
    "verb",
    [
        of(12, "size", gpus=1), of(12, "size", gpus=7), of(12, "size", gpus=2), of(12, "size"),
        of(12, "resize", gpus=4), of(11, "size", gpus=4), of(11, "resize", gpus=7), of(11, "resize", gpus=2**40),
        of(8, "size", gpus=2), of(5, "resize", gpus=2), of(9, "size", gpus=2), of(11, "resize", gpus="4"),
        of(12, "size", gpus=4, gpu_type="h100"), {**of(12, "size", gpus=4), "submit_s": 1},
    ],
)  # fmt: skip
def test_no_other_size_and_no_other_job_is_changed(
    elastic: PlanExecutor, cluster: ActingCluster, verb: dict[str, Any]
) -> None:
    assert elastic.run_plan(plan(verb)) == 1
    assert cluster.sent == []


def test_a_job_in_a_reservation_does_not_change_its_size_while_it_runs(
    elastic: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.jobs += [running(13, "i2", Reservation="mirage-loan-i2", **WORDS)]
    assert elastic.run_plan(plan(of(13, "resize", gpus=4))) == 1
    assert cluster.sent == []


def test_resizes_have_a_budget_of_their_own_that_outlasts_the_process(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.jobs += [running(k, "t2", **WORDS) for k in (11, 12)]
    pools = replace(ELASTIC, resizes_per_hour=2, resizes_per_job_hour=1, evictions_per_hour=1)
    first = PlanExecutor(cluster.slurm, pools, tmp_path, cluster.clock)
    assert first.run_plan(plan(of(11, "resize", gpus=4, warns=False))) == 0
    first.close()
    cluster.jobs[-2] = running(11, "t2", **WORDS)
    second = PlanExecutor(cluster.slurm, pools, tmp_path, cluster.clock)
    assert second.run_plan(plan(of(11, "resize", gpus=4, warns=False))) == 1, "once per job"
    assert second.run_plan(plan(of(12, "resize", gpus=4), of(5, "evict"))) == 0
    cluster.jobs.append(running(13, "t2", **WORDS))
    assert second.run_plan(plan(of(13, "resize", gpus=4))) == 1, "two in an hour"
    second.close()


def test_off_restores_the_size_of_jobs_that_wait(elastic: PlanExecutor, cluster: ActingCluster) -> None:
    elastic.run_plan(plan(of(12, "size", gpus=4)))
    cluster.jobs[-1]["tres-per-job"] = "gres:gpu:a100:4"
    elastic.run_plan(plan(of(12, "size", gpus=6), of(11, "resize", gpus=3, warns=False)))
    cluster.jobs[-1]["tres-per-job"] = "gres:gpu:a100:6"
    cluster.jobs[-2] = running(11, "t2", RestartCnt=1, **{**WORDS, "tres_per_job": "gres:gpu:a100:3"})
    cluster.sent.clear()
    assert restore(elastic) == []
    sizes = [argv for argv in cluster.sent if "TresPerJob" in argv[-1]]
    assert sizes == [("scontrol", "update", "JobId=12", "TresPerJob=gres:gpu:a100:2")]
