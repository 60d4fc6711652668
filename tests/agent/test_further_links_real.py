"""Further links while one waits too long, on a real slurmctld with a fast clock."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob
from mirage.slurm_words.states import ALIVE
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

WORK = """#!/bin/bash
#SBATCH -o /dev/null --exclusive
echo "$MIRAGE_CHAIN $MIRAGE_LINK starts" >> service.log
while true; do sleep 5; done
"""


@pytest.fixture
def shell(private_cluster: Any, tmp_path: Path) -> Shell:
    slurm = private_cluster(nodes=1, gpus=0, speed=20, cred_expire_s=600, min_job_age_s=360_000)
    shell = Shell(slurm, tmp_path)
    shell.script("work.sh", WORK)
    return shell


def blocked(shell: Shell, *words: str) -> int:
    """A chain with links of three minutes, and the job that has its node."""
    line = ("sbatch", "--parsable", "-D/", "-o/dev/null", "--exclusive", "-t300", "--wrap=sleep 99999")
    blocker = int(subprocess.check_output(line, env=shell.environment))
    shell.submit("train", "-t", "3", "--policy", "hold", "--grace", "10s", *words, "work.sh")
    return blocker


def competing(shell: Shell) -> list[int]:
    """The links that compete for nodes, in the order of their submission."""
    jobs = [(links[0], number) for number, links in shell.found("train").items()]
    return [number for job, number in sorted(jobs, key=lambda pair: pair[0].id) if _competes(job)]


def _competes(job: QueuedJob) -> bool:
    return job.state is JobState.PENDING and not job.dependency


def each_ran_once(shell: Shell, *links: int) -> None:
    """The links ran one after the other, each once."""
    found = shell.found("train")
    assert [len(found[link]) for link in links] == [1] * len(links)
    ran = [found[link][0] for link in links]
    assert all(before.end_s <= after.start_s for before, after in pairwise(ran))
    assert shell.log() == [f"train {link} starts" for link in links]


def test_one_link_per_limit_competes_and_they_run_in_order(shell: Shell) -> None:
    blocker = blocked(shell, "--links", "4")
    agent = shell.agent()
    shell.until(lambda: competing(shell) == [1, 2, 3], 120, "three links compete")
    submitted_s = [shell.found("train")[link][0].submit_s for link in (1, 2, 3)]
    apart_s = [after_s - before_s for before_s, after_s in pairwise(submitted_s)]
    assert min(apart_s) >= 120, f"a limit lies between two of them: {apart_s}"
    shell.cluster.run("scancel", str(blocker))
    shell.until(lambda: shell.row("train")["state"] == "done", 240, "all four links have run")
    terminate(agent)
    each_ran_once(shell, 1, 2, 3, 4)
    assert shell.kinds("train").count("submitted") == 4


def test_without_the_agent_slurm_starts_them_one_after_the_other(shell: Shell) -> None:
    blocker = blocked(shell)
    agent = shell.agent()
    shell.until(lambda: competing(shell) == [1, 2, 3], 120, "three links compete")
    agent.kill()
    agent.wait()
    shell.cluster.run("scancel", str(blocker))
    shell.until(lambda: shell.found("train")[3][0].state not in ALIVE, 180, "three links have run")
    each_ran_once(shell, 1, 2, 3)
    shell.mirage("chain", "stop", "train")


def test_their_maximum_can_be_edited_and_a_stop_cancels_all_of_them(shell: Shell) -> None:
    blocked(shell, "--waiting-links", "2")
    agent = shell.agent()
    shell.until(lambda: competing(shell) == [1, 2], 120, "two links compete")
    shell.mirage("chain", "edit", "train", "--waiting-links", "3")
    shell.until(lambda: competing(shell) == [1, 2, 3], 120, "three links compete")
    shell.mirage("chain", "stop", "train")
    shell.until(lambda: shell.row("train")["state"] == "done", 60, "the chain has ended")
    terminate(agent)
    assert {state for states in shell.jobs("train").values() for state in states} == {JobState.CANCELLED}
    assert shell.log() == []
