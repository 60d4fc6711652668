"""The policy ``holds`` in an agent on a real slurmctld, on a clock twenty times as fast."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import MISSING, JobState
from mirage.provision.compile_simulator import compile_ahead
from mirage.provision.policies.lead_rules import SOON_S
from mirage.slurm.records import QueuedJob
from tests.support.second_user import OTHER, opened
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PARTITIONS = (
    "PartitionName=left Nodes=n[1-2] MaxTime=INFINITE",
    "PartitionName=urgent Nodes=n[1-2] MaxTime=INFINITE PriorityJobFactor=100",
    "PartitionName=right Nodes=n[3-4] MaxTime=INFINITE",
)
"""Two chains, each with two nodes and with other jobs of its own, go on side by side."""

BY_AGE = (
    "PriorityWeightAge=1000000", "PriorityWeightFairshare=0", "PriorityWeightQOS=0", "PriorityWeightPartition=9000000",
    "PriorityWeightJobSize=0",
)  # fmt: skip
"""In a partition age decides, 11 points a second; it needs slurmdbd, and no limits that are enforced."""

SERVE = """#!/bin/bash
#SBATCH -o /dev/null --exclusive -t 300
echo "$1 $MIRAGE_LINK starts" >> service.log
until test "$MIRAGE_LINK" = 1 -a -e "$1.over"; do sleep 20 & wait $!; done
"""


@pytest.fixture
def shell(private_cluster: Any, tmp_path: Path) -> Shell:
    if os.geteuid() != 0:
        pytest.skip("submitting for a second user needs root")
    for _ in compile_ahead(["engine", "what-if", "slurm"], processes=1):
        pass  # on this clock it would take hours
    slurm = private_cluster(
        nodes=4, gpus=0, speed=20, cred_expire_s=600, min_job_age_s=360_000, accounting=True, enforce="",
        extra=(*PARTITIONS, *BY_AGE),
    )  # fmt: skip
    shell = Shell(opened(slurm), tmp_path)
    shell.script("serve.sh", SERVE)
    return shell


class Side:
    """A chain on one of two nodes, and a shorter job of another user on the other one."""

    def __init__(self, shell: Shell, name: str, *words: str) -> None:
        self.shell, self.name = shell, name
        (self.other,) = self.others(290)
        shell.submit(name, "-p", name, "--policy", "holds", *words, "--links", "9", "serve.sh", name)

    def others(self, *minutes: int, partition: str = "") -> list[int]:
        """Jobs of another user with these limits, which do not end by themselves."""
        words = ("sbatch", "--parsable", f"--uid={OTHER}", "-D/", "-o/dev/null", "--exclusive", "--wrap=sleep 99999")
        clockless = {name: self.shell.environment[name] for name in ("SLURM_CONF", "PATH")}  # the clock is not theirs
        return [
            int(subprocess.check_output([*words, f"-p{partition or self.name}", f"-t{limit}"], env=clockless))
            for limit in minutes
        ]

    def first_ends(self) -> None:
        """Let the first link end by itself."""
        (self.shell.folder / f"{self.name}.over").touch()

    def cancel(self, *jobs: int) -> None:
        self.shell.cluster.run("scancel", *map(str, jobs))

    def link(self, number: int, shows: Callable[[QueuedJob], bool], what: str) -> QueuedJob:
        """The job of a link as soon as it shows this."""
        return self._observed(lambda: self.shell.found(self.name).get(number, []), shows, what)

    def job(self, number: int, shows: Callable[[QueuedJob], bool], what: str) -> QueuedJob:
        """A job as soon as it shows this."""
        return self._observed(lambda: [job for job in self.shell.slurm.observe().jobs if job.id == number], shows, what)

    def _observed(
        self, jobs: Callable[[], list[QueuedJob]], shows: Callable[[QueuedJob], bool], what: str
    ) -> QueuedJob:
        found: list[QueuedJob] = []

        def observed() -> bool:
            found[:] = jobs()
            return bool(found) and shows(found[0])

        try:
            self.shell.until(observed, 120, f"{self.name}: {what}")
        finally:
            print(what, found)
        return found[0]

    def outweighs(self, older: int, younger: int) -> None:
        """Wait until a job has the higher priority of two in Slurm, which differ only by age."""

        def does() -> bool:
            of = {job.id: job.priority for job in self.shell.slurm.observe().jobs}
            return of[older] > of[younger]

        self.shell.until(does, 15, f"{self.name}: job {older} has a higher priority than job {younger}")

    def revisions(self) -> list[str]:
        """What the policy itself made of queued links, in order."""
        output = json.loads(self.shell.mirage("chain", "explain", self.name, "-n", "99", "--json"))
        return [one["revision"] for one in output if one["policy"] == "holds" and one["revision"]]

    def continues(self) -> None:
        """Every link has one job and has run once, and there is a next one."""
        self.link(3, lambda job: job.state is JobState.PENDING, "a third link is in the queue")
        assert set(map(len, self.shell.jobs(self.name).values())) == {1}
        starts = [line for line in self.shell.log() if line.startswith(self.name) and line.endswith("starts")]
        assert starts == [f"{self.name} {link} starts" for link in (1, 2)]


def competes(job: QueuedJob) -> bool:
    return job.state is JobState.PENDING and not job.dependency and job.accrues_s != MISSING


def held(job: QueuedJob) -> bool:
    return job.state is JobState.PENDING and bool(job.dependency) and job.accrues_s != MISSING


def runs(job: QueuedJob) -> bool:
    return job.state is JobState.RUNNING


def test_it_holds_and_releases_as_the_queue_of_others_changes_and_a_held_link_retains_its_place(shell: Shell) -> None:
    left, right = Side(shell, "left"), Side(shell, "right", "--bank-age")
    crowd = left.others(500, 500)
    agent = shell.agent("--poll", "10s", "--command-timeout", "30m")

    first = left.link(2, competes, "behind a crowd it is submitted at once")
    left.cancel(*crowd)
    again = left.link(2, held, "without the crowd it would start too early, and is held")
    urgent = left.others(500, 500, partition="urgent")
    free = left.link(2, competes, "behind urgent jobs it is let go")
    assert {(job.id, job.accrues_s) for job in (first, again, free)} == {(first.id, first.accrues_s)}

    banked = right.link(2, held, "it was submitted only for its age, and is held")
    late = right.others(500, 500)
    right.cancel(right.other)
    right.job(late[0], runs, "another user's job goes first while it is held")
    right.outweighs(banked.id, late[1])
    right.first_ends()
    ran = right.link(2, runs, "as soon as the first link is over it is its turn")
    assert (ran.id, ran.accrues_s) == (banked.id, banked.accrues_s)
    right.job(late[1], competes, "it came before a job that has competed all the time")

    left.cancel(*urgent)
    left.first_ends()
    left.link(2, runs, "as soon as the first link is over it is its turn")
    for side in (left, right):
        side.continues()
    terminate(agent)
    assert left.revisions()[:2] == ["hold", "release"]
    assert right.revisions()[:1] == ["hold"]


def test_hold_holds_its_link_as_soon_as_slurm_counts_its_age(private_cluster: Any, tmp_path: Path) -> None:
    slurm = private_cluster(nodes=2, gpus=0, min_job_age_s=36_000, accounting=True, enforce="", extra=BY_AGE[:2])
    shell = Shell(slurm, tmp_path)
    shell.script("serve.sh", SERVE)
    shell.submit("serve", "--policy", "hold", "--links", "9", "serve.sh", "serve")
    shell.until(lambda: any(map(runs, shell.found("serve").get(1, []))), 30, "the first link runs")
    for _ in range(2):  # one runs, and one waits
        slurm.run("sbatch", "-o/dev/null", "--exclusive", "-t300", "--wrap=sleep 9999")
    agent = shell.agent()

    def second() -> list[QueuedJob]:
        return [job for job in shell.found("serve").get(2, []) if held(job)]

    shell.until(lambda: bool(second()), 300, "the second link is held, and has its age")
    shown = json.loads(shell.mirage("chain", "explain", "serve", "-n", "99", "--json"))
    made_s = {one["reason"]: one["time_s"] for one in reversed(shown)}
    print(made_s, second())
    released_s = next(time_s for reason, time_s in made_s.items() if reason.startswith("gathers-age; look-soon"))
    held_s = next(one["time_s"] for one in shown if one["revision"] == "hold")
    assert SOON_S <= held_s - released_s < 3 * SOON_S
    assert released_s <= second()[0].accrues_s <= held_s
    terminate(agent)
