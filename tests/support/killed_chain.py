"""A chain on a real cluster, agents that can be killed, and the invariants of both."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import ChainSpec, ChainState, LinkState
from mirage.agent.store.sql_store import SqlStore, open_store
from mirage.job_state import MISSING, JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob, Submission
from mirage.slurm.runner import SystemRunner
from tests.support import dying_agent
from tests.support.forked_processes import Process, start
from tests.support.started_agents import AGENTS
from tests.support.waiting import until

QUICK = {
    "poll_s": 1,
    "busy_poll_s": 1,
    "decide_s": 1,
    "settle_s": 4,
    "vanish_s": 5,
    "lease_s": 30,
    "early_s": 0,
    "first_retry_s": 1,
    "nap_s": 0.2,
}

SERVICE = """#!/bin/bash
trap 'echo "$MIRAGE_LINK checkpoint $(date +%s.%N)" >> service.log; exit 0' USR2
echo "$MIRAGE_LINK up $(date +%s.%N)" >> service.log
sleep {seconds} & wait $!
echo "$MIRAGE_LINK down $(date +%s.%N)" >> service.log
"""


class Chain:
    """One chain on the cluster, an agent that can be killed, and the cluster's records of it."""

    def __init__(
        self,
        cluster: Any,
        folder: Path,
        name: str,
        seconds: int,
        options: Mapping[str, str | None] | None = None,
        **spec: Any,
    ) -> None:
        self.environment = {**os.environ, **cluster.environment}
        self.folder, self.name, self.url = folder, name, f"sqlite:///{folder}/store.db"
        (folder / "service.sh").write_text(SERVICE.format(seconds=seconds))
        submission = Submission(
            str(folder / "service.sh"),
            {"time": "5", "output": "/dev/null", "job-name": name, **(options or {})},
            environment=self.environment,
            directory=str(folder),
        )
        spec = {"policy": "lead:24", "grace_s": 10, "least_life": 0.0, **spec}
        self.store: SqlStore = open_store(self.url)
        chain = self.store.add_chain(name, ChainSpec(submission, **spec), int(time.time()))
        self.id, self.key = chain.id, chain.key
        self.client = SlurmClient(SystemRunner(cluster.environment))

    def agent(self, point: str = "never", **settings: Any) -> Process:
        words, log = (self.url, point, json.dumps({**QUICK, **settings})), self.folder / "agent.log"
        AGENTS.append(start(dying_agent.main, *words, env=self.environment, cwd=self.folder, out=log, err=log))
        return AGENTS[-1]

    def jobs(self) -> dict[int, list[QueuedJob]]:
        """Every job of ours that has carried a tag of this chain, by link."""
        found: dict[int, list[QueuedJob]] = {}
        for job in self.client.observe().jobs:
            tag = parse_tag(job.comment)
            if tag is not None and tag.key == self.key and job.user == self.client.user:
                found.setdefault(tag.link, []).append(job)
        return found

    def wait_for(self, condition: Callable[[], bool], usual_s: float, what: str) -> None:
        log = self.folder / "agent.log"
        shown = lambda: f"{what}\n{self.store.links(self.id)}\n{log.read_text()[-3000:]}"  # noqa: E731
        until(condition, usual_s, shown, pause_s=0.5)

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
