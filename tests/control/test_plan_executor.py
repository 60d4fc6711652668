"""The executor: nothing outside of the allow-list is sent, whatever the plan."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import pwd
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control import executor_process, progress_files
from mirage.control.plan_executor import PLAN_FORMAT, RENEW_S, PlanExecutor, lock_holder, read_journal
from mirage.control.restore import restore
from mirage.control.verbs import FENCE, LEASE, PLAN_VERBS, VERBS
from mirage.errors import ConfigurationError, SlurmRefused, SlurmUnreachable
from mirage.slurm.runner import Completed
from tests.support.control_cluster import NOW_S, POOLS, ControlCluster, loan, pending, running
from tests.support.hanging_files import hanging

OWNED = replace(POOLS, owner_users=("bob",), commands_per_minute=600)


@dataclass
class ActingCluster(ControlCluster):
    """A cluster that also takes commands that change something.

    Attributes:
        sent: These commands.
        refusing: Words of commands that it refuses.
    """

    sent: list[tuple[str, ...]] = field(default_factory=list)
    refusing: str = "no such word"
    now_s: float = NOW_S

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        words: Any = tuple(argv)
        if words[0] == "scancel" or words[1] in ("update", "create", "delete", "requeue", "release"):
            self.sent.append(words)
            if self.refusing in " ".join(words):
                return Completed(1, "", "scontrol: error: Access/permission denied")
            if words[1] == "create":
                line = loan(words[4].partition("=")[2], name=words[3].partition("=")[2])
                start = words[5].removeprefix("StartTime=uts")
                self.reservations.append(
                    line.replace(f"StartTime={NOW_S - 60}", f"StartTime={start}", start.isdecimal())
                )
            if words[1:2] + words[3:] == ("update", "ReservationName="):
                next(job for job in self.jobs if f"JobId={job['JobID']}" == words[2])["Reservation"] = "(null)"
            if words[1] == "delete":
                name = words[2].partition("=")[2]
                self.reservations = [one for one in self.reservations if f"={name} " not in one]
            return Completed(0, "", "")
        return super().run(argv, **options)

    def clock(self) -> float:
        return self.now_s


@pytest.fixture
def cluster() -> ActingCluster:
    """Job 5 runs on t1, 6 on the lent i2; 7 and 8 wait; 9 and 10 do not take part."""
    jobs = [
        running(5, "t1"), running(6, "i2", Reservation="mirage-loan-i2", UserName="eve"),
        pending(7, PriorityLong=300, TimeLimit="30:00"),
        pending(8, PriorityLong=200, Reservation="mirage-loan-i2"), pending(9, Comment="", PriorityLong=900),
        pending(10, Partition="inference"),
    ]  # fmt: skip
    return ActingCluster(jobs=jobs, reservations=[loan("i2"), loan("i[1-3]", 9_000_000, name=FENCE)])


@pytest.fixture
def executor(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    made = PlanExecutor(cluster.slurm, OWNED, tmp_path / "state", cluster.clock)
    yield made
    made.close()


SUBMITTED_S = NOW_S - 600


def plan(*verbs: Mapping[str, Any], time_s: int = NOW_S) -> dict[str, Any]:
    return {"format": PLAN_FORMAT, "number": 1, "time_s": time_s, "verbs": list(verbs)}


def of(job: int, name: str, **operands: Any) -> dict[str, Any]:
    return {"name": name, "job": job, "submit_s": SUBMITTED_S, **operands}


def test_every_verb_of_a_plan_is_its_command(executor: PlanExecutor, cluster: ActingCluster) -> None:
    verbs = (
        {"name": "lend", "node": "i1", "minutes": 30},
        of(8, "leave"),
        of(7, "enter", node="i2"),
        {"name": "return", "node": "i2"},
        of(8, "nice", nice=-90),
        of(5, "evict", warns=False),
    )
    assert executor.run_plan(plan(*verbs)) == 0
    assert [" ".join(argv) for argv in cluster.sent] == [
        "scontrol create reservation ReservationName=mirage-loan-i1 Nodes=i1 StartTime=now Duration=30 Users=ada,eve "
        "Flags=OVERLAP",
        "scontrol update JobId=8 ReservationName=",
        "scontrol update JobId=7 ReservationName=mirage-loan-i2",
        "scontrol delete ReservationName=mirage-loan-i2",
        "scontrol update JobId=8 Nice=-90",
        "scontrol requeue 5",
    ]


def test_a_job_may_enter_a_loan_of_the_same_plan(executor: PlanExecutor, cluster: ActingCluster) -> None:
    lend = {"name": "lend", "node": "i1", "minutes": 30}
    cluster.jobs[2]["TimeLimit"] = "30:01"
    assert executor.run_plan(plan(lend, of(7, "enter", node="i1"))) == 1, "its limit is longer than the loan"
    cluster.jobs[2]["TimeLimit"] = "30:00"
    assert executor.run_plan(plan(lend, of(7, "enter", node="i1"))) == 0
    assert cluster.sent[-1] == ("scontrol", "update", "JobId=7", "ReservationName=mirage-loan-i1")


def test_a_job_is_released_only_if_its_loan_has_ended(executor: PlanExecutor, cluster: ActingCluster) -> None:
    assert executor.run_plan(plan(of(7, "unhold"))) == 1
    cluster.jobs[2] |= {"State": "RESV_DEL_HOLD", "Reason": "Reservation mirage-loan-i2 was deleted"}
    assert executor.run_plan(plan(of(7, "unhold"))) == 0
    assert cluster.sent == [("scontrol", "release", "7")]
    cluster.sent.clear()
    restore(executor)
    assert ("scontrol", "release", "7") in cluster.sent


def test_an_eviction_waits_for_the_checkpoint_and_leaves_the_loan(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    executor.pools = replace(executor.pools, evictions_per_job_hour=9)
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


@pytest.mark.parametrize(
    "verb",
    [
        of(9, "nice", nice=0),
        of(10, "evict"),
        of(99, "evict"),
        of(7, "evict"),
        of(5, "nice", nice=-5),
        of(5, "enter", node="i2"),
        {**of(5, "evict"), "submit_s": 1},
        of(8, "nice", nice=-101),
        of(8, "nice", nice=200),
        of(8, "nice", nice=2**40),
        of(7, "enter", node="t1"),
        of(7, "enter", node="i1"),
        of(8, "enter", node="i2"),
        of(7, "enter", node=""),
        of(7, "requeue"),
        of(5, "requeue"),
        of(5, "signal"),
        {"name": "lend", "node": "i1,i3", "minutes": 30},
        {"name": "lend", "node": "", "minutes": 30},
        {"name": "lend", "node": "t1", "minutes": 30},
        {"name": "lend", "node": "i1", "minutes": 61},
        {"name": "lend", "node": "i1", "minutes": 0},
        {"name": "lend", "node": "i1", "minutes": True},
        {"name": "lend", "node": "i1", "minutes": 30, "users": ["mallory"]},
        {"name": "return", "node": "fence"},
        {"name": "unfence"},
        {"name": "cancel", "job": 5},
        {"name": ["lend"]},
        "lend",
        None,
    ],
)
def test_what_is_not_allowed_is_refused_and_not_sent(executor: PlanExecutor, cluster: ActingCluster, verb: Any) -> None:
    assert executor.run_plan(plan(verb)) == 1
    assert cluster.sent == []


@pytest.mark.parametrize(
    "bad",
    [None, [], {}, {"format": PLAN_FORMAT}, plan(of(5, "evict"), time_s=NOW_S - 121),
     plan(of(5, "evict"), time_s=NOW_S + 5), {**plan(of(5, "evict")), "format": "other"},
     {**plan(), "verbs": {"name": "evict"}}, {**plan(), "time_s": "now"}],
)  # fmt: skip
def test_no_plan_and_an_old_one_are_refused(executor: PlanExecutor, cluster: ActingCluster, bad: Any) -> None:
    assert executor.run_plan(bad) == 1
    assert cluster.ran == []


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


ELASTIC = replace(OWNED, most_gpus=8)
WORDS = {"tres_per_job": "gres:gpu:a100:2", "tres_per_node": "N/A", "Comment": "mirage-control gpus=2-6"}


@pytest.fixture
def elastic(cluster: ActingCluster, tmp_path: Path) -> Iterator[PlanExecutor]:
    """An executor with elastic jobs: 11 runs, 12 waits."""
    cluster.jobs += [running(11, "t2", **WORDS), pending(12, PriorityLong=50, **WORDS)]
    made = PlanExecutor(cluster.slurm, ELASTIC, tmp_path / "elastic", cluster.clock)
    yield made
    made.close()


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
        cluster.now_s += 59
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


def test_the_lock_ends_before_a_thread_that_hangs(executor: PlanExecutor, tmp_path: Path) -> None:
    lock = tmp_path / "state" / "lock"
    descriptors = [int(link.name) for link in Path("/proc/self/fd").iterdir() if link.exists() and link.samefile(lock)]
    copies = [os.dup(descriptor) for descriptor in descriptors]
    assert len(copies) == 1
    executor.close()
    assert lock_holder(tmp_path / "state") is None
    executor._lock = copies[0]  # which the fixture closes


@pytest.mark.parametrize("state", ["gone", "other", "waits"])
def test_a_job_that_leaves_during_its_resize_is_not_requeued(
    elastic: PlanExecutor, cluster: ActingCluster, state: str
) -> None:
    elastic.pools = replace(elastic.pools, resizes_per_job_hour=1)
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


def test_commands_in_a_minute_are_bounded(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, replace(OWNED, commands_per_minute=2), tmp_path, cluster.clock)
    assert executor.run_plan(plan(*[{"name": "return", "node": "i2"}] * 5)) == 3
    cluster.now_s += 60
    assert executor.run_plan(plan({"name": "return", "node": "i2"}, time_s=NOW_S + 60)) == 0
    executor.close()


def test_a_verb_that_slurm_refuses_stops_no_other_and_silence_stops_all(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.refusing = "mirage-loan-i1"
    lends = [{"name": "lend", "node": node, "minutes": 30} for node in ("i1", "i3")]
    outcomes: list[str] = []
    executor.on_outcome = lambda outcome: outcomes.append(outcome["outcome"])
    assert executor.run_plan(plan(*lends)) == 1
    assert len(cluster.sent) == 2
    assert "Access/permission denied" in outcomes[0]
    cluster.status = 1
    with pytest.raises(SlurmUnreachable):
        executor.run_plan(plan(*lends))
    assert len(cluster.sent) == 2


def test_the_undo_is_on_disk_before_the_command_is_sent(executor: PlanExecutor, cluster: ActingCluster) -> None:
    known: list[int] = []
    original = cluster.run

    def run(argv: Sequence[str], **options: Any) -> Completed:
        known.append(len(read_journal(executor.journal)))
        return original(argv, **options)

    cluster.run = run  # type: ignore[method-assign]
    executor.run_plan(plan({"name": "lend", "node": "i1", "minutes": 30}, of(8, "nice", nice=-9)))
    assert known == [0, 0, 1, 2], "two queries, then each command after its row"
    rows = read_journal(executor.journal)
    assert (rows[0]["undo"]["name"], rows[0]["undo"]["node"], rows[1]["undo"]["nice"]) == ("return", "i1", 0)
    with executor.journal.open("a") as file:
        file.write('{"time_s": 1, "ver')
    assert len(read_journal(executor.journal)) == 2


def test_one_controller_by_folder_and_one_by_lease(cluster: ActingCluster, tmp_path: Path) -> None:
    first = PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    first.begin()
    assert lock_holder(tmp_path / "a") == os.getpid()
    with pytest.raises(ConfigurationError, match=f"process {os.getpid()}.*mirage control off"):
        PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    second = PlanExecutor(cluster.slurm, OWNED, tmp_path / "b", cluster.clock)
    for _ in range(20):
        with pytest.raises(SlurmRefused, match="another controller"):
            second.begin()
    second.close()
    first.close()
    assert lock_holder(tmp_path / "a") is None
    again = PlanExecutor(cluster.slurm, OWNED, tmp_path / "a", cluster.clock)
    again.begin()
    assert cluster.sent[-1] == ("scontrol", "update", f"ReservationName={LEASE}", "EndTime=now+5minutes")
    again.close()


def test_a_process_that_died_as_it_took_the_lease_is_followed_at_once(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    original = cluster.run

    def run(argv: Sequence[str], **options: Any) -> Completed:
        done = original(argv, **options)
        if f"ReservationName={LEASE}" in argv:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(cluster, "run", run)
        with pytest.raises(KeyboardInterrupt):
            cut.begin()
    cut.close()
    (lease,) = [line for line in cluster.reservations if LEASE in line]
    again = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    again.begin()
    assert cluster.sent[-1] == ("scontrol", "update", f"ReservationName={LEASE}", "EndTime=now+5minutes")
    cluster.reservations.append(re.sub("StartTime=.......", "StartTime=1234567", lease))
    cluster.reservations.remove(lease)
    with pytest.raises(SlurmRefused, match="another controller"):
        again.begin()
    again.close()


def test_a_lease_that_slurmctld_has_lost_is_taken_before_the_next_verb(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    executor.begin()
    lease = cluster.reservations.pop()
    assert executor.run_plan(plan(of(5, "evict", warns=False))) == 0
    assert [argv[3] for argv in cluster.sent if argv[1] == "create"] == [f"ReservationName={LEASE}"] * 2
    assert cluster.sent[2][1] == "requeue"
    cluster.reservations[-1:] = [re.sub("StartTime=.......", "StartTime=1234567", lease)]
    before = len(cluster.sent)
    with pytest.raises(SlurmRefused, match="another controller acts on this cluster"):
        executor.run_plan(plan({"name": "return", "node": "i2"}))
    cluster.now_s += RENEW_S
    with pytest.raises(SlurmRefused, match="another controller acts on this cluster"):
        executor.tick()
    assert len(cluster.sent) == before


def test_queries_of_the_holder_do_not_disturb_the_lock(cluster: ActingCluster, tmp_path: Path) -> None:
    PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock).close()
    with (tmp_path / "lock").open() as query:
        fcntl.flock(query, fcntl.LOCK_SH)
        assert lock_holder(tmp_path) is None, "a query is no controller"
        timer = threading.Timer(0.2, fcntl.flock, (query, fcntl.LOCK_UN))
        timer.start()
        PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock).close()
        timer.join()


def test_a_controller_that_has_just_ended_needs_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    holders = iter([process.pid, None])
    monkeypatch.setattr(executor_process, "lock_holder", lambda _: next(holders))
    executor_process.end_controller(tmp_path)
    assert list(holders) == [], "the lock is checked until it is free"


def test_an_executor_that_cannot_begin_shows_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").write_text("no folder")
    (tmp_path / "pools.toml").write_text(
        '[owner]\nnodes = ["i1"]\npartitions = ["inference"]\n[borrower]\nnodes = ["t1"]\npartition = "train"\n'
        '[jobs]\ncomment = "mirage-control"\n'
    )
    assert executor_process.start_executor(tmp_path / "pools.toml", tmp_path / "state") is None
    assert f"mirage: error: cannot write {tmp_path}/state: File exists; name another" in capfd.readouterr().err

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(executor_process, "run_executor", full)
    assert executor_process.start_executor(tmp_path / "pools.toml", tmp_path / "free") is None
    assert "OSError: [Errno 28] No space left on device" in capfd.readouterr().err


def test_the_lease_is_renewed_in_time(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.begin()
    before = len(cluster.sent)
    cluster.now_s += RENEW_S - 1
    executor.tick()
    assert len(cluster.sent) == before
    cluster.now_s += 1
    executor.tick()
    assert "EndTime" in cluster.sent[-1][-1]
    assert RENEW_S * 2 < 5 * 60


def test_nothing_is_sent_after_the_lease_has_ended(executor: PlanExecutor, cluster: ActingCluster) -> None:
    executor.begin()
    before = len(cluster.sent)
    cluster.now_s += 270
    assert executor.run_plan(None) == 1
    cluster.now_s += 1
    for act in (executor.tick, lambda: executor.run_plan(plan(of(5, "evict"), time_s=int(cluster.now_s)))):
        with pytest.raises(SlurmRefused, match="the lease has ended"):
            act()
    assert len(cluster.sent) == before


def test_the_fence_is_made_if_its_users_are_known(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.reservations = []
    without = PlanExecutor(cluster.slurm, POOLS, tmp_path / "a", cluster.clock)
    with pytest.raises(ConfigurationError, match=r"give .owner. users or accounts"):
        without.begin()
    without.close()
    assert cluster.sent == []
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path / "b", cluster.clock)
    executor.begin()
    assert " ".join(cluster.sent[-1]) == (
        f"scontrol create reservation ReservationName={FENCE} Nodes=i1,i2,i3 StartTime=now Duration=infinite Users=bob "
        "Flags=IGNORE_JOBS,OVERLAP"
    )
    executor.close()


def test_off_restores_loans_nices_fence_and_lease(cluster: ActingCluster, tmp_path: Path) -> None:
    cluster.reservations = [loan("i2")]
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    executor.begin()
    executor.run_plan(plan({"name": "lend", "node": "i1", "minutes": 30}, of(8, "nice", nice=-90)))
    executor.run_plan(plan(of(8, "nice", nice=-80)))
    cluster.jobs[3]["Nice"] = "-80"
    cluster.sent.clear()
    assert restore(executor) == []
    assert [" ".join(argv) for argv in cluster.sent] == [
        "scontrol update JobId=6 ReservationName=",
        "scontrol update JobId=8 ReservationName=",
        "scontrol delete ReservationName=mirage-loan-i1",
        "scontrol delete ReservationName=mirage-loan-i2",
        "scontrol update JobId=8 Nice=0",
        f"scontrol delete ReservationName={FENCE}",
        f"scontrol delete ReservationName={LEASE}",
    ]
    assert cluster.reservations == []
    cluster.jobs = [pending(7)]
    cluster.sent.clear()
    assert restore(executor) == []
    assert cluster.sent == [], "nothing is left to do"
    executor.close()


def test_off_restores_the_nice_value_of_a_job_that_runs_since(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    executor.run_plan(plan(of(8, "nice", nice=16)))
    cluster.jobs[3] = running(8, "t2", Nice=16)
    cluster.sent.clear()
    assert restore(executor) == []
    assert ("scontrol", "update", "JobId=8", "Nice=0") in cluster.sent
    executor.close()


def test_off_restores_the_nice_value_of_a_job_with_the_id_of_a_lost_one(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    cluster.jobs[3]["Nice"] = "7"
    executor.run_plan(plan(of(8, "nice", nice=-90)))
    cluster.jobs[3] |= {"Nice": "0", "SubmitTime": str(NOW_S - 5)}  # slurmctld has lost job 8
    executor.run_plan(plan({**of(8, "nice", nice=-80), "submit_s": NOW_S - 5}))
    cluster.jobs[3]["Nice"] = "-80"
    cluster.sent.clear()
    assert restore(executor) == []
    assert ("scontrol", "update", "JobId=8", "Nice=0") in cluster.sent
    executor.close()


def test_off_does_nothing_if_a_reservation_cannot_be_read(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, OWNED, tmp_path, cluster.clock)
    cluster.reservations = [loan("i2"), loan("i1").replace("EndTime", "End")]
    with pytest.raises(SlurmUnreachable, match="show reservation printed 1 records that cannot be read"):
        restore(executor)
    assert cluster.sent == []
    executor.close()


def test_off_leaves_a_fence_of_the_operator_and_reports_what_slurm_refuses(
    executor: PlanExecutor, cluster: ActingCluster
) -> None:
    cluster.refusing = "delete"
    assert len(restore(executor)) == 1
    assert not [argv for argv in cluster.sent if f"ReservationName={FENCE}" in argv]


HARMLESS = re.compile(
    r"scontrol create reservation ReservationName=mirage-loan-(i[123]) Nodes=\1 StartTime=now "
    r"Duration=([1-9]|[1-5]\d|60) "
    r"Users=ada,eve Flags=OVERLAP"
    r"|scontrol delete ReservationName=mirage-loan-i[123]"
    r"|scontrol update JobId=([78]|12) (ReservationName=(mirage-loan-i[123])?|Nice=-?\d+)"
    r"|scontrol requeue ([56]|11)|scontrol update JobId=([56]|11) (StartTime=uts\d+|ReservationName=)"
    r"|scontrol update JobId=1[12] TresPerJob=gres:gpu:a100:[3-6]"
    r"|scancel --signal=USR1 --full --state=RUNNING ([56]|11)"
)
"""All commands that a plan may lead to on the cluster of these tests."""


@pytest.mark.parametrize("plans", [900, pytest.param(10_000, marks=pytest.mark.slow)])
def test_of_random_plans_nothing_else_is_sent(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: int
) -> None:
    dice = random.Random(7)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    values: list[Any] = [
        *range(13), -1, 2**31, 2**70, -90, SUBMITTED_S, NOW_S, True, None, 1.5, "i1", "i2", "i3", "t1", "i[1-3]",
        "i1,i2", "", "i1 Users=mallory", "i1;reboot", "$(reboot)", "../i1", "ALL", "\x00", "5,9", "5 9",
        [], {}, ["i1"], "i1\n",
    ]  # fmt: skip
    names = [*PLAN_VERBS, *PLAN_VERBS, *VERBS, "cancel", "update", "shutdown", "", 3, None]
    keys = ["job", "submit_s", "node", "nice", "minutes", "warns", "gpus", "users", "command", "name "]
    right: dict[str, list[Any]] = {
        "job": [*range(5, 13)], "submit_s": [SUBMITTED_S], "node": ["i1", "i2", "i3"], "nice": [-90, -9, 3, 50],
        "minutes": [1, 30, 60], "warns": [True, False], "gpus": [0, 2, 3, 6, 7],
    }  # fmt: skip

    def verb() -> Any:
        if dice.random() < 0.05:
            return dice.choice(values)
        row = {"name": dice.choice(names)}
        for key in keys:
            if key in right and dice.random() < 0.7:
                row[key] = dice.choice(right[key])
            elif dice.random() < 0.12:
                row[key] = dice.choice(values)
        return row

    folder = tmp_path / "state"
    cluster.jobs += [running(11, "t2", **WORDS), pending(12, PriorityLong=50, **WORDS)]
    fresh = [dict(job) for job in cluster.jobs]
    pools = replace(ELASTIC, evictions_per_hour=1000, resizes_per_hour=1000, grace_s=0)
    executor = PlanExecutor(cluster.slurm, pools, folder, cluster.clock)
    for number in range(plans):
        made = plan(*(verb() for _ in range(dice.randrange(1, 3))), time_s=int(cluster.now_s))
        if dice.random() < 0.02:
            made[dice.choice(list(made))] = dice.choice(values)
        executor.run_plan(made)
        cluster.now_s += 1
        if number % 10 == 0:
            cluster.jobs = [dict(job) for job in fresh]
        if number % 100 == 0:
            cluster.now_s += 3600
            cluster.reservations = [loan("i2"), loan("i[1-3]", 9_000_000, name=FENCE)]
    executor.close()
    sent = [" ".join(argv) for argv in cluster.sent]
    assert len(sent) > plans / 20
    assert [command for command in sent if not HARMLESS.fullmatch(command)] == []
    kinds = {re.sub("[0-9]|=.*", "", command.removeprefix("scontrol update JobId=")) for command in sent}
    assert len(kinds) >= 7, "the plans reach all verbs"


def test_the_executor_contains_no_policy_and_no_network() -> None:
    script = (
        "import sys, mirage.control.executor_process\n"
        "print(*[m for m in sys.modules if m.startswith(('mirage.schedule', 'mirage.sim', 'mirage.policy', 'numpy',"
        " 'numba', 'socket', 'ssl', 'http', 'urllib.request', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_plan_file_survives_json(executor: PlanExecutor) -> None:
    assert executor.run_plan(json.loads(json.dumps(plan({"name": "return", "node": "i2"})))) == 0
