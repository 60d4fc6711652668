"""kill -9 at every point that matters, on a real slurmctld: no link twice, none lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import ChainSpec, ChainState, LinkState
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.job_state import MISSING, JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner
from mirage.slurm.values import QueuedJob, Submission
from waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

QUICK = {
    "poll_s": 1,
    "busy_poll_s": 1,
    "decide_s": 1,
    "settle_s": 4,
    "vanish_s": 5,
    "lease_s": 30,
    "early_s": 0,
    "nap_s": 0.2,
}

SERVICE = """#!/bin/bash
trap 'echo "$MIRAGE_LINK checkpoint $(date +%s.%N)" >> service.log; exit 0' USR2
echo "$MIRAGE_LINK up $(date +%s.%N)" >> service.log
for k in $(seq {seconds}0); do sleep 0.1; done
echo "$MIRAGE_LINK down $(date +%s.%N)" >> service.log
"""


@pytest.fixture(scope="module")
def cluster(private_cluster) -> object:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=4, min_job_age_s=36_000)


class Chain:
    """One chain on the cluster, an agent that can be killed, and what the cluster says of it."""

    def __init__(self, cluster, folder: Path, name: str, seconds: int, **spec) -> None:
        self.environment = {**os.environ, **cluster.environment}
        self.folder, self.name, self.url = folder, name, f"sqlite:///{folder}/store.db"
        (folder / "service.sh").write_text(SERVICE.format(seconds=seconds))
        submission = Submission(
            str(folder / "service.sh"),
            {"time": "5", "output": "/dev/null", "job-name": name},
            environment=self.environment,
            directory=str(folder),
        )
        spec = {"policy": "lead:24", "grace_s": 10, **spec}
        self.store: SqlStore = open_store(self.url)
        chain = self.store.add_chain(name, ChainSpec(submission, **spec), int(time.time()))
        self.id, self.key = chain.id, chain.key
        self.client = SlurmClient(SystemRunner(cluster.environment))

    def agent(self, point: str = "never", **settings) -> subprocess.Popen[bytes]:
        program = Path(__file__).with_name("dying_agent.py")
        with (self.folder / "agent.log").open("ab") as log:
            agent = subprocess.Popen(
                [sys.executable, str(program), self.url, point, json.dumps({**QUICK, **settings})],
                env=self.environment, stdout=log, stderr=log,
            )  # fmt: skip
        AGENTS.append(agent)
        return agent

    def jobs(self) -> dict[int, list[QueuedJob]]:
        """Every job that ever carried a tag of this chain, by link."""
        found: dict[int, list[QueuedJob]] = {}
        for job in self.client.observe().jobs:
            tag = parse_tag(job.comment)
            if tag is not None and tag.key == self.key:
                found.setdefault(tag.link, []).append(job)
        return found

    def wait_for(self, condition: Callable[[], bool], usual_s: float, what: str) -> None:
        log = self.folder / "agent.log"
        until(condition, usual_s, lambda: f"{what}\n{self.store.links(self.id)}\n{log.read_text()[-3000:]}")

    def started(self) -> int:
        return sum(
            jobs[0].start_s != MISSING and jobs[0].state is not JobState.PENDING for jobs in self.jobs().values()
        )

    def violations(self) -> list[str]:
        """What must never be: a link twice, a gap in the numbers, a job the store does not know."""
        jobs, links = self.jobs(), {link.number: link for link in self.store.links(self.id)}
        wrong = [f"link {n} has jobs {[job.id for job in found]}" for n, found in jobs.items() if len(found) > 1]
        if sorted(jobs) != list(range(1, len(jobs) + 1)):
            wrong.append(f"links {sorted(jobs)} have jobs")
        for number, found in jobs.items():
            if number not in links:
                wrong.append(f"link {number} (job {found[0].id}) is not in the store")
            elif links[number].job not in (found[0].id, MISSING):
                wrong.append(f"link {number} is job {found[0].id}, the store says {links[number].job}")
        return wrong

    def finish(self) -> None:
        """Let a healthy agent wind the chain up, and check that nothing is left."""
        agent = self.agent()
        try:
            self.wait_for(lambda: self.store.chain(self.name).state is ChainState.DONE, 120, "the chain is wound up")
        finally:
            agent.kill()
            agent.wait()
        assert self.violations() == []
        alive = [
            job for found in self.jobs().values() for job in found if job.state in (JobState.PENDING, JobState.RUNNING)
        ]
        assert alive == []
        assert all(link.state is LinkState.ENDED for link in self.store.links(self.id))


POINTS = [
    "before:add_link",
    "after:add_link",
    "before:attempt",
    "after:attempt",
    "before:submit",
    "after:submit",
    "before:change_link=submitted",
    "after:change_link=submitted",
    "before:update",
    "after:update",
    "after:change_link=released",
    "before:change_link=started",
    "after:change_link=started",
    "after:change_link=ready",
    "before:signal",
    "after:signal",
    "after:change_link=signalled",
    "before:change_link=ended",
    "after:change_link=ended",
]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point_and_restarted(cluster, tmp_path: Path, point: str) -> None:
    chain = Chain(cluster, tmp_path, "crash-" + "".join(c if c.isalnum() else "-" for c in point), 6, links=3)
    doomed = chain.agent(point)
    assert doomed.wait(300) == -signal.SIGKILL
    assert chain.violations() == []
    chain.finish()
    assert len(chain.jobs()) == 3


def test_killed_before_the_end_of_a_link_that_does_not_leave(cluster, tmp_path: Path) -> None:
    chain = Chain(cluster, tmp_path, "stubborn", 40, links=2, signal="USR1", grace_s=2)  # USR1 is not trapped: it kills
    (tmp_path / "service.sh").write_text(
        SERVICE.format(seconds=20).replace("USR2", "TERM").replace("trap", "trap '' USR1; trap")
    )
    for point in ("before:cancel", "after:cancel"):
        assert chain.agent(point).wait(300) == -signal.SIGKILL
    chain.finish()
    assert len(chain.jobs()) == 2


KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "30"))


def test_random_kills(cluster, tmp_path: Path) -> None:
    """The soak: agents are killed at random, restarted at once; the chain goes on and nothing is ever doubled."""
    dice = random.Random(20261121)
    chain = Chain(cluster, tmp_path, "soak", 8)
    deaths: Counter[str] = Counter()
    for _ in range(KILLS):
        agent = chain.agent()
        time.sleep(dice.uniform(0.6, 2.6))
        deaths["early" if agent.poll() is not None else "killed"] += 1
        agent.send_signal(signal.SIGKILL)
        agent.wait()
        assert chain.violations() == []
    started = chain.started()
    chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    chain.finish()
    print(f"soak: {deaths['killed']} kills, {started} links started, {len(chain.jobs())} jobs")
    assert deaths == {"killed": KILLS}
    assert started >= KILLS // 20
