"""Brakes on chains on a real slurmctld: links in a day, and two wrong forecasts in a row."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SPEED, WAITED_S = 20, 400
"""The clock of the second test, and how long it makes links wait: beyond a fourth of their limit of ten minutes."""


HOPEFUL = """
from mirage.policy import Plan, Submit

class Hopeful:
    def __init__(self, parameter=""):
        pass

    def decide(self, view):
        return Plan((Submit(reason="hopeful"),), {"wait_p05_s": 0.0, "wait_p50_s": 0.0, "wait_p95_s": 0.0})
"""


def test_a_chain_uses_no_more_links_in_a_day_than_its_user_allows(private_cluster: Any, tmp_path: Path) -> None:
    shell = Shell(private_cluster(nodes=4, gpus=0, min_job_age_s=36_000), tmp_path)
    brakes = ("--least-life", "0", "--links-a-day", "2")
    shell.submit("burns", "-t", "1", "--policy", "lead:0.0138", "--grace", "10s", *brakes, "serve.sh")
    agent = shell.agent()
    shell.until(lambda: 2 in shell.jobs("burns"), 60, "the second link is submitted")
    shell.until(lambda: "(--links-a-day)" in shell.row("burns")["why"], 60, "a third one is not, and the user sees why")
    assert shell.row("burns")["state"] == "active", "while a link runs the chain is not paused"
    shell.until(lambda: shell.row("burns")["state"] == "paused", 120, "the chain is paused once none runs")
    assert set(shell.jobs("burns")) == {1, 2}
    assert "mirage chain resume burns" in shell.row("burns")["why"]
    shell.mirage("chain", "resume", "burns")
    shell.until(lambda: max(shell.jobs("burns")) > 2, 60, "the user allows as many again")
    terminate(agent)
    shell.mirage("chain", "stop", "burns")


def test_after_two_wrong_forecasts_the_chain_goes_by_its_own_waits(private_cluster: Any, tmp_path: Path) -> None:
    """No link starts: a reservation unknown to forecasts begins before any link could end."""
    cluster = private_cluster(nodes=2, gpus=0, speed=SPEED, cred_expire_s=600, min_job_age_s=360_000)
    shell = Shell(cluster, tmp_path, PYTHONPATH=f"{a_package(tmp_path)}:{os.environ.get('PYTHONPATH', '')}")
    shell.submit("misled", "-N1", "--exclusive", "-t", "10", "--grace", "1m", "--policy", "hopeful", "serve.sh")
    shell.until(lambda: JobState.RUNNING in shell.jobs("misled")[1], 30, "the first link runs")
    reserve(cluster, "create")
    agent = shell.agent("--poll", f"{SPEED}s", "--command-timeout", f"{SPEED}m", "--calibrate-every", "0")
    for wrong in (1, 2):
        shell.until(closed(cluster, lambda: waits_s(shell) > WAITED_S), 90, "the next one waits")
        agent.send_signal(signal.SIGSTOP)  # it must not release another link before the nodes are reserved again
        cluster.run("scontrol", "delete", "ReservationName=ahead")
        started = lambda: JobState.RUNNING in shell.jobs("misled")[wrong + 1]  # noqa: B023, E731
        shell.until(started, 60, "it starts")
        if wrong == 1:
            reserve(cluster, "create")
        agent.send_signal(signal.SIGCONT)
        shell.until(lambda: shell.kinds("misled").count("forecast-wrong") == wrong, 60, "it was wrong")  # noqa: B023
    explained = lambda: shell.mirage("chain", "explain", "misled", "-n", "999")  # noqa: E731
    shell.until(lambda: "own waits for hopeful" in explained(), 90, "own waits decide")
    terminate(agent)
    shell.mirage("chain", "stop", "misled")


def a_package(folder: Path) -> Path:
    """A package with a policy that expects every link to start at once, and submits so."""
    package, facts = folder / "package", folder / "package" / "hopeful-1.0.dist-info"
    facts.mkdir(parents=True)
    (package / "hopeful.py").write_text(HOPEFUL)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: hopeful\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[mirage.policies]\nhopeful = hopeful:Hopeful\n")
    return package


def reserve(cluster: Any, verb: str) -> None:
    """Reserve every node from five minutes ahead, whatever runs there now."""
    more = ("Duration=600", "Nodes=ALL", "Users=root", "Flags=IGNORE_JOBS") if verb == "create" else ()
    thing = ("reservation",) if verb == "create" else ()
    cluster.run("scontrol", verb, *thing, "ReservationName=ahead", "StartTime=now+5minutes", *more)


def closed(cluster: Any, condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, while the reservation recedes."""

    def answered() -> bool:
        reserve(cluster, "update")
        return condition()

    return answered


def waits_s(shell: Shell) -> int:
    """The wait of a released link so far, by the cluster's clock."""
    now_s = int(shell.cluster.run("date", "+%s"))
    waiting = [job for jobs in shell.found("misled").values() for job in jobs if job.state is JobState.PENDING]
    return max((now_s - job.eligible_s for job in waiting if not job.dependency and job.eligible_s > 0), default=0)
