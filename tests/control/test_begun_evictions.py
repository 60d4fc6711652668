"""Evictions: from the signal to the release, also after the death of a controller."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pwd
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control import progress_files
from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from mirage.errors import SlurmUnreachable
from mirage.slurm.runner import Completed
from tests.support.acting_cluster import ELASTIC, OWNED, WORDS, ActingCluster, of, plan
from tests.support.control_cluster import NOW_S, pending, running
from tests.support.hanging_files import hanging
from tests.support.waiting import until


def test_an_eviction_waits_for_the_checkpoint_and_leaves_the_loan(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    executor.allowed.pools = replace(executor.pools, evictions_per_job_hour=9)
    assert executor.run_plan(plan(of(6, "evict"))) == 0
    assert cluster.sent == [("scancel", "--signal=USR1", "--full", "--state=RUNNING", "6")]
    assert executor.run_plan(plan(of(6, "evict"))) == 1, "it is leaving already"
    cluster.now_s += 59
    executor.finish_evictions()
    assert len(cluster.sent) == 1
    cluster.now_s += 1
    executor.finish_evictions()
    assert cluster.sent[1:] == [REQUEUE, LEAVE]


REQUEUE = ("scontrol", "requeue", "6")
LEAVE = ("scontrol", "update", "JobId=6", "ReservationName=")
LEFT_S = NOW_S + 1
RELEASE = ("scontrol", "update", "JobId=6", f"StartTime=uts{LEFT_S + 1}")
"""Its node refuses a start in the second in which it has left."""


def leaves(cluster: ActingCluster, **cells: object) -> None:
    """Job 6 leaves its node after a requeue; only then Slurm delays its start."""
    delayed = {"EligibleTime": NOW_S + 2000, "SubmitTime": LEFT_S, "Reason": "BeginTime"}
    cluster.jobs[1] = pending(6, **{"UserName": "eve", "RestartCnt": 1, **delayed, **cells})


def completes(cluster: ActingCluster) -> None:
    cluster.jobs[1] |= {"State": "COMPLETING", "RestartCnt": "1", "Reservation": "(null)"}


def test_a_requeued_job_is_released_after_it_has_left_its_node(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.run_plan(plan(of(6, "evict", warns=False)))
    completes(cluster)
    queries = len(cluster.ran)
    for _ in range(40):
        cluster.now_s += 0.25
        executor.tick()
    assert cluster.sent == [REQUEUE, LEAVE], "a release would have no effect yet"
    assert 8 <= len(cluster.ran) - queries <= 14, "about one query a second"
    leaves(cluster)
    cluster.now_s += 1
    executor.tick()
    assert cluster.sent == [REQUEUE, LEAVE, RELEASE]
    cluster.now_s += 100
    executor.tick()
    assert len(cluster.sent) == 3


def test_the_queries_follow_the_pauses_of_slurmd(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.run_plan(plan(of(6, "evict", warns=False)))
    completes(cluster)
    queried_s = []
    for _ in range(200):
        queries = len(cluster.ran)
        pause_s = executor.tick()
        if len(cluster.ran) > queries:
            queried_s.append(round(cluster.now_s - NOW_S, 2))
        cluster.now_s += min(pause_s, 1.0)
    assert queried_s[:8] == [0.1, 0.25, 0.75, 0.9, 1.75, 2.75, 3.75, 4.75], "slurmd pauses until 0.17, 0.67, 1.67 s …"
    assert queried_s[-2:] == [round(queried_s[-1] - 10, 2), queried_s[-1]], "after a minute every ten seconds"
    leaves(cluster)
    cluster.now_s += 10
    assert executor.tick() == math.inf


def test_a_query_for_one_job_releases_others_that_have_left(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.jobs[1]["Reservation"] = "(null)"
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path / "state", cluster.clock)
    executor.run_plan(plan(of(6, "evict", warns=False)))
    completes(cluster)
    cluster.now_s += 0.25
    executor.tick()
    leaves(cluster)
    cluster.now_s += 0.3
    executor.run_plan(plan(of(5, "evict", warns=False)))
    assert cluster.sent[-2:] == [("scontrol", "requeue", "5"), RELEASE], "before its own query is due"
    executor.close()


def test_a_requeued_job_is_released_when_slurm_answers_again(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.run_plan(plan(of(6, "evict", warns=False)))
    leaves(cluster)
    cluster.now_s, cluster.status = cluster.now_s + 1, 1
    with pytest.raises(SlurmUnreachable):
        executor.tick()
    cluster.now_s, cluster.status = cluster.now_s + 1, 0
    executor.tick()
    assert cluster.sent == [REQUEUE, LEAVE, RELEASE]


@pytest.mark.parametrize("by", ["off", "the next controller"])
@pytest.mark.parametrize("last", [REQUEUE, LEAVE, RELEASE])
def test_what_a_controller_has_requeued_is_released_after_its_death(
    cluster: ActingCluster, tmp_path: Path, last: tuple[str, ...], by: str
) -> None:
    """The process dies before it sends the last command, which is in its journal."""
    dies = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    original = cluster.run

    def run(argv: Sequence[str], **options: Any) -> Completed:
        if tuple(argv) == last:
            raise KeyboardInterrupt
        return original(argv, **options)

    cluster.run = run  # type: ignore[method-assign]
    with contextlib.suppress(KeyboardInterrupt):
        dies.run_plan(plan(of(6, "evict", warns=False)))
        leaves(cluster)
        cluster.now_s += 1
        dies.tick()
        pytest.fail("it does not die")
    dies.close()
    cluster.run = original  # type: ignore[method-assign]
    if last != REQUEUE:
        leaves(cluster, Reservation="mirage-loan-i2" if last == LEAVE else "(null)")
    cluster.sent.clear()
    cluster.now_s += 2
    after = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    if by == "off":
        assert restore(after) == []
    else:
        after.begin()
        after.tick()
    sent = [argv for argv in cluster.sent if argv in (REQUEUE, LEAVE, RELEASE)]
    running_in_loan = [LEAVE] if by == "off" else [REQUEUE, LEAVE]
    assert sent == {REQUEUE: running_in_loan, LEAVE: [LEAVE, RELEASE], RELEASE: [RELEASE]}[last]
    after.close()


def test_a_job_is_not_released_for_an_eviction_of_long_ago(cluster: ActingCluster, tmp_path: Path) -> None:
    first = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    first.run_plan(plan(of(6, "evict", warns=False)))
    first.close()
    for later_s, cells in ((901, {}), (2, {"RestartCnt": 0})):
        cluster.now_s = NOW_S + later_s
        leaves(cluster, **cells)  # the user has set a time, or it is another job after a crash of slurmctld
        cluster.sent.clear()
        after = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
        after.begin()
        after.tick()
        assert RELEASE not in cluster.sent
        after.close()


def test_the_next_controller_requeues_what_has_the_signal_and_off_does_not(
    cluster: ActingCluster, tmp_path: Path
) -> None:
    dies = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    dies.run_plan(plan(of(6, "evict")))
    dies.close()
    outcomes: list[str] = []
    for later_s, requeues in ((361, False), (30, False), (60, True)):
        cluster.sent.clear()
        cluster.now_s = NOW_S + later_s
        off = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
        off.on_outcome = lambda outcome: outcomes.append(outcome["outcome"])
        assert restore(off) == []
        assert REQUEUE not in cluster.sent, "off evicts no job"
        off.close()
        after = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
        after.begin()
        after.tick()
        assert (REQUEUE in cluster.sent) == requeues
        after.close()
    assert sum("scontrol requeue 6" in outcome for outcome in outcomes) == 2


def test_a_job_that_leaves_within_the_grace_is_not_requeued(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.run_plan(plan(of(6, "evict")))
    cluster.jobs[1] = pending(6, RestartCnt=1, SubmitTime=NOW_S + 20)
    cluster.now_s += 60
    executor.finish_evictions()
    assert [argv[0] for argv in cluster.sent] == ["scancel"]


def test_budgets_of_evictions_outlast_the_process(cluster: ActingCluster, tmp_path: Path) -> None:
    first = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    assert first.run_plan(plan(of(5, "evict", warns=False))) == 0
    first.close()
    cluster.jobs[0] = running(5, "t1")
    second = PlanExecutor(cluster.slurm, replace(OWNED, evictions_per_hour=1), tmp_path, cluster.clock)
    assert second.run_plan(plan(of(5, "evict", warns=False), of(6, "evict"))) == 2
    cluster.now_s += 3600
    assert second.run_plan(plan(of(5, "evict", warns=False), time_s=NOW_S + 3600)) == 0
    second.close()


def test_a_file_system_that_hangs_stops_nothing_and_the_grace_decides(cluster: ActingCluster, tmp_path: Path) -> None:
    me = pwd.getpwuid(os.getuid()).pw_name
    cluster.jobs += [running(11, "t2", UserName=me, **WORDS), running(12, "t2", UserName=me, **WORDS)]
    pools = replace(ELASTIC, progress_file=f"{tmp_path}/{{job}}.json")
    executor = PlanExecutor(cluster.slurm, pools, tmp_path / "state", cluster.clock)
    executor.begin()
    saved = {"step": 1, "steps": 9, "saved_step": 1}
    with hanging(tmp_path / "11.json"):
        assert executor.run_plan(plan(of(11, "evict"), {"name": "return", "node": "i2"}, of(12, "evict"))) == 0
        (tmp_path / "12.json").write_text(json.dumps(saved))
        cluster.now_s += 1
        executor.tick()
        assert cluster.sent[-1] == ("scontrol", "requeue", "12"), "it has saved"
        os.close(os.open(tmp_path / "11.json", os.O_RDWR))  # the file system answers again
        until(lambda: "progress" not in {thread.name for thread in threading.enumerate()}, 5, "the reading ends")
        (tmp_path / "11.json").unlink()
        (tmp_path / "11.json").write_text(json.dumps(saved))
        cluster.now_s += 58
        executor.tick()
        assert ("scontrol", "requeue", "11") not in cluster.sent, "it may have saved before the signal"
        cluster.now_s += 1
        executor.tick()
        assert ("scontrol", "requeue", "11") in cluster.sent
    assert ("scontrol", "delete", "ReservationName=mirage-loan-i2") in cluster.sent
    executor.close()


def test_a_progress_file_is_read_more_seldom_the_longer_its_job_saves(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[float] = []
    monkeypatch.setattr(progress_files, "read_progress_file", lambda *_: readings.append(cluster.now_s))
    executor = PlanExecutor(cluster.slurm, replace(OWNED, progress_file="{job}"), tmp_path, cluster.clock)
    executor.run_plan(plan(of(5, "evict")))
    readings.clear()
    for tenth in range(1, 590):
        cluster.now_s = NOW_S + tenth / 10
        executor.tick()
    late = [after - before for before, after in itertools.pairwise(readings)]
    assert max(late[:10]) < 0.11, "a save of a second is noticed at once"
    assert min(late[-40:]) > 0.99
    assert len(readings) < 90
    executor.close()
