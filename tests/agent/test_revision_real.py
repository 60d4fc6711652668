"""Revisions on a real slurmctld: hold, release, postpone, shorten, withdraw."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.model import ChainState
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import QueuedJob
from tests.support import fickle
from tests.support.killed_chain import Chain
from tests.support.second_user import OTHER, as_other_user, opened
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

ALONE = {"exclusive": None}
"""On a cluster of one node the next link waits for the present one."""


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=1, min_job_age_s=36_000)


@pytest.fixture
def word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file with the policy's next action."""
    return fickle.install(tmp_path, monkeypatch)


def newest(chain: Chain) -> QueuedJob:
    """The job of the last link."""
    jobs = chain.jobs()
    (job,) = jobs[max(jobs)]
    return job


class Thinking:
    """A chain with a running link and a competing one, and an agent with a scripted policy."""

    def __init__(self, cluster: Any, folder: Path, word: Path, name: str) -> None:
        self.chain, self.word = Chain(cluster, folder, name, 200, ALONE, policy=f"fickle:{word}"), word
        self.agent = self.chain.agent()
        self.chain.wait_for(lambda: len(self.chain.jobs()) == 2 and self.competes(), 30, "the second link competes")

    def competes(self) -> bool:
        """Whether the next link competes, and gathers age."""
        job = newest(self.chain)
        return job.state is JobState.PENDING and not job.dependency and job.accrues_s != MISSING

    def revises(self, revision: str, shows: Callable[[QueuedJob], bool]) -> QueuedJob:
        """The job of the last link once it shows the revision."""
        self.word.write_text(revision)
        self.chain.wait_for(lambda: shows(newest(self.chain)), 30, revision)
        self.word.write_text("wait")
        return newest(self.chain)

    def kill(self) -> None:
        self.agent.kill()
        self.agent.wait()

    def stop(self) -> None:
        self.kill()
        self.chain.store.change_chain(self.chain.id, state=ChainState.STOPPING, why="the test is over")
        self.chain.finish()


def test_a_link_retains_its_age_through_every_revision(cluster: Any, tmp_path: Path, word: Path) -> None:
    thinking = Thinking(cluster, tmp_path, word, "thinks")
    chain, first = thinking.chain, newest(thinking.chain)
    for _ in range(2):
        held = thinking.revises("hold", lambda job: bool(job.dependency))
        assert (held.dependency, held.accrues_s) == (f"afterany:{first.id - 1}(unfulfilled)", first.accrues_s)
        free = thinking.revises("release", lambda job: not job.dependency)
        assert (free.id, free.accrues_s) == (first.id, first.accrues_s)
    postponed = thinking.revises("postpone", lambda job: job.eligible_s > time.time() + 30)
    assert (postponed.id, postponed.accrues_s) == (first.id, first.accrues_s)
    thinking.revises("release", lambda job: 0 < job.eligible_s <= time.time())
    short = thinking.revises("shorten", lambda job: job.limit_s == 120)
    assert (short.id, short.dependency, short.accrues_s) == (first.id, "", first.accrues_s)
    chain.wait_for(lambda: chain.store.links(chain.id)[1].limit_s == 120, 10, "the store follows Slurm")
    anew = thinking.revises("withdraw", lambda job: job.id > first.id)
    chain.wait_for(thinking.competes, 30, "another competes")
    assert (anew.limit_s, newest(chain).accrues_s > first.accrues_s) == (300, True)
    revisions = {one.revision for one in chain.store.decisions(chain.id)}
    assert {"hold", "release", "postpone", "shorten", "withdraw"} <= revisions
    assert [job.state for job in chain.jobs()[1]] == [JobState.RUNNING]
    assert [job.state for job in chain.jobs()[2]] == [JobState.CANCELLED]
    assert chain.violations() == []
    thinking.stop()


def test_killed_during_a_withdrawal_with_another_user_s_copy_of_the_tag(
    cluster: Any, open_folder: Path, tmp_path: Path, word: Path
) -> None:
    """One next link in the end, and the other user's job is left alone."""
    thinking = Thinking(cluster, tmp_path, word, "dies")
    chain, second = thinking.chain, newest(thinking.chain)
    (open_folder / "own.sh").write_text("#!/bin/sh\nsleep 600\n")
    words = ("sbatch", "--parsable", "-t15", "-o/dev/null", f"--comment={second.comment}", "own.sh")
    copy = int(as_other_user(opened(cluster), open_folder, *words))
    thinking.kill()
    word.write_text("withdraw")
    assert chain.agent("after:cancel").wait(60) == -signal.SIGKILL
    word.write_text("wait")
    thinking.agent = chain.agent()
    chain.wait_for(lambda: newest(chain).id > copy and thinking.competes(), 30, "another link competes")
    states = {job.id: (job.user, job.state) for job in chain.client.observe().jobs}
    assert states[copy][0] == OTHER
    assert states[copy][1] in (JobState.PENDING, JobState.RUNNING)
    chain.client.cancel(copy)
    thinking.stop()


KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "6"))


def test_random_kills_of_an_agent_that_never_makes_up_its_mind(cluster: Any, tmp_path: Path, word: Path) -> None:
    """Links end after eight seconds; each ran to its own end, and none has two jobs."""
    dice = random.Random(20261122)
    chain = Chain(cluster, tmp_path, "torn", 8, ALONE, policy=f"fickle:{fickle.ALWAYS_NEW}")
    for _ in range(KILLS):
        agent = chain.agent()
        chain.wait_for(lambda agent=agent: f":{agent.pid}:" in str(chain.store.lease()), 10, "the agent is at work")
        time.sleep(dice.uniform(1.0, 4.0))
        assert agent.poll() is None, (tmp_path / "agent.log").read_text()[-3000:]
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        assert chain.violations() == []
    started = chain.started()
    chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    chain.finish()
    output = [line.split()[:2] for line in (tmp_path / "service.log").read_text().splitlines()]
    up = {link for link, what in output if what == "up"}
    over = {link for link, what in output if what != "up"}
    revisions = [one.revision for one in chain.store.decisions(chain.id) if one.revision]
    print(f"soak: {KILLS} kills, {started} links started, {len(chain.jobs())} jobs, {len(revisions)} revisions")
    assert up == over
    assert started >= max(KILLS // 20, 1)
    assert revisions
