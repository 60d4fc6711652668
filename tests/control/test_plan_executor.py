"""The executor: nothing outside of the allow-list is sent, whatever the plan."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control.allow_list import PLAN_FORMAT
from mirage.control.executor_folder import read_journal
from mirage.control.plan_executor import PlanExecutor
from mirage.control.restore import restore
from mirage.control.verbs import FENCE, PLAN_VERBS, VERBS
from mirage.errors import SlurmUnreachable
from mirage.slurm.runner import Completed
from tests.support.acting_cluster import ELASTIC, OWNED, SUBMITTED_S, WORDS, ActingCluster, of, plan
from tests.support.control_cluster import NOW_S, held, loan, pending, running


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
        of(8, "nice", nice=-(10**400)),
        of(10**400, "evict"),
        {"name": "lend", "node": "i1", "minutes": 10**400},
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
     {**plan(), "verbs": {"name": "evict"}}, {**plan(), "time_s": "now"}, plan(time_s=10**400)],
)  # fmt: skip
def test_no_plan_and_an_old_one_are_refused(executor: PlanExecutor, cluster: ActingCluster, bad: Any) -> None:
    cluster.now_s += 0.5
    assert executor.run_plan(bad) == 1
    assert cluster.ran == []


def test_commands_in_a_minute_are_bounded(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, replace(OWNED, commands_per_minute=2), tmp_path, cluster.clock)
    assert executor.run_plan(plan(*[{"name": "return", "node": "i2"}] * 5)) == 3
    cluster.now_s += 60
    assert executor.run_plan(plan(*[{"name": "return", "node": "i2"}] * 2, time_s=NOW_S + 60)) == 0
    cluster.now_s -= 600
    assert executor.run_plan(plan({"name": "return", "node": "i2"}, time_s=NOW_S - 540)) == 0, "the clock was set back"
    executor.close()


def test_nice_values_leave_commands_for_the_return_of_a_node(cluster: ActingCluster, tmp_path: Path) -> None:
    executor = PlanExecutor(cluster.slurm, replace(OWNED, commands_per_minute=9), tmp_path, cluster.clock)
    assert executor.run_plan(plan(*[of(8, "nice", nice=k) for k in range(12)])) == 5
    cluster.now_s += 59
    assert executor.run_plan(plan(*[{"name": "return", "node": "i2"}] * 3, time_s=NOW_S + 59)) == 1
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


HARMLESS = re.compile(
    r"scontrol create reservation ReservationName=mirage-loan-(i[123]) Nodes=\1 StartTime=now "
    r"Duration=([1-9]|[1-5]\d|60) "
    r"Users=ada,eve Flags=OVERLAP"
    r"|scontrol delete ReservationName=mirage-loan-i[123]"
    r"|scontrol update JobId=([78]|12) (ReservationName=(mirage-loan-i[123])?|Nice=-?\d+)"
    r"|scontrol requeue ([56]|11)|scontrol update JobId=([56]|11) (StartTime=uts\d+|ReservationName=)"
    r"|scontrol update JobId=1[12] TresPerJob=gres:gpu:a100:[3-6]"
    r"|scancel --signal=USR1 --full --state=RUNNING ([56]|11|15)"
    r"|scontrol requeue 15|scontrol update JobId=15 StartTime=uts\d+"
    r"|scontrol requeuehold 16|scontrol (release|uhold) 1[67]"
)
"""All commands that a plan may lead to on the cluster of these tests."""


@pytest.mark.parametrize("plans", [900, pytest.param(10_000, marks=pytest.mark.slow)])
def test_of_random_plans_nothing_else_is_sent(
    cluster: ActingCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plans: int
) -> None:
    dice = random.Random(7)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    values: list[Any] = [
        *range(19), -1, 2**31, 2**70, -90, SUBMITTED_S, NOW_S, True, None, 1.5, "i1", "i2", "i3", "t1", "i[1-3]",
        "i1,i2", "", "i1 Users=mallory", "i1;reboot", "$(reboot)", "../i1", "ALL", "\x00", "5,9", "5 9",
        [], {}, ["i1"], "i1\n",
    ]  # fmt: skip
    names = [*PLAN_VERBS, *PLAN_VERBS, *VERBS, "cancel", "update", "shutdown", "", 3, None]
    keys = ["job", "submit_s", "node", "nice", "minutes", "warns", "gpus", "users", "command", "name "]
    right: dict[str, list[Any]] = {
        "job": [*range(5, 19)], "submit_s": [SUBMITTED_S], "node": ["i1", "i2", "i3"], "nice": [-90, -9, 3, 50],
        "minutes": [1, 30, 60], "warns": [True, False], "gpus": [0, 2, 3, 4, 5, 6, 7],
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
    worker = {"tres_per_node": "gres:gpu:1", "Comment": "mirage-control worker-of=15"}
    cluster.jobs += [
        running(15, "t1"),
        running(16, "t1", **worker),
        held(17, **worker),
        held(18, Comment="worker-of=15"),
    ]
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


def test_commands_name_the_tasks_of_an_array_and_never_its_id(executor: PlanExecutor, cluster: ActingCluster) -> None:
    of_array = {"ArrayJobID": 20}
    cluster.jobs += [
        running(20, "t2", ArrayTaskID="2", **of_array), running(21, "t2", ArrayTaskID=3, **of_array),
        pending(30, ArrayTaskID="4-9%2", PriorityLong=90, Reservation="mirage-loan-i2"),
    ]  # fmt: skip
    verbs = (of(20, "evict"), of(30, "nice", nice=7), of(30, "leave"), of(21, "evict", warns=False))
    assert executor.run_plan(plan(*verbs)) == 0
    assert [" ".join(argv) for argv in cluster.sent] == [
        "scancel --signal=USR1 --full --state=RUNNING 20_2",
        "scontrol update JobId=30_[4-9] Nice=7",
        "scontrol update JobId=30_[4-9] ReservationName=",
        "scontrol requeue 20_3",
    ]
    cluster.jobs[-1] |= {"Nice": "7", "ArrayTaskID": "6-9%2"}
    cluster.sent.clear()
    restore(executor)
    assert ("scontrol", "update", "JobId=30_[6-9]", "Nice=0") in cluster.sent
    cluster.jobs[-1]["ArrayTaskID"] = "6,8,..."
    assert executor.run_plan(plan(of(30, "nice", nice=8))) == 1, "its tasks cannot be named"
