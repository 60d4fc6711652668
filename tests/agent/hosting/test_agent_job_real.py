"""A chain goes from an agent to passes, to agents in jobs, and back, on a real Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.hosting.agent_job import job_name
from mirage.agent.model import LinkState
from mirage.job_state import JobState
from tests.support.forked_processes import run_mirage
from tests.support.killed_chain import Chain
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=5, min_job_age_s=36_000)


class Hosts(Chain):
    """A chain, and ``mirage`` on its store."""

    def mirage(self, *words: str, status: int = 0) -> str:
        done = run_mirage(*words, env=self.hosting, cwd=self.folder)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def hosting(self) -> dict[str, str]:
        home = {"MIRAGE_HOME": str(self.folder), "MIRAGE_STORE": self.url, "MIRAGE_CALIBRATE_EVERY": "0"}
        return {**self.environment, **home}

    def agents(self) -> list[int]:
        """The agent's jobs that run."""
        name = job_name(self.store.identity().identity)
        return [job.id for job in self.client.observe().jobs if job.name == name and job.state is JobState.RUNNING]

    def passes_until(self, started: int) -> None:
        def one() -> bool:
            self.mirage("agent", "once", "--stay", "1s")
            return self.started() >= started

        self.wait_for(one, 300, f"passes have started link {started}")


@pytest.mark.soak
def test_a_chain_goes_through_all_ways_without_a_gap(cluster: Any, tmp_path: Path) -> None:
    chain = Hosts(cluster, tmp_path, "ways", 3600, policy="lead:0.03", options={"time": "3"})
    resident = subprocess.Popen(
        [sys.executable, "-m", "mirage", "agent", "run", "--poll", "2s"], env=chain.hosting, stderr=-3
    )
    AGENTS.append(resident)
    chain.wait_for(lambda: chain.started() >= 2, 300, "the agent has started the second link")
    resident.terminate()
    assert resident.wait(60) == 0
    chain.passes_until(3)
    assert "Submitted batch job" in chain.mirage("agent", "start", "--in-job", "-t", "5")
    chain.wait_for(lambda: len(chain.agents()) == 1, 60, "the agent's job runs")
    first = chain.agents()
    started = chain.started()
    chain.wait_for(lambda: chain.agents() not in ([], first) and len(chain.agents()) == 1, 400, "its successor runs")
    chain.wait_for(lambda: chain.started() > started, 300, "agents in jobs have started another link")
    chain.mirage("agent", "install", "--job", "--remove")
    chain.wait_for(lambda: not chain.agents(), 60, "the agent's jobs have ended")
    chain.passes_until(chain.started() + 1)
    links = chain.store.links(chain.id)
    assert chain.violations() == []
    assert all(b.started_s <= a.ended_s for a, b in pairwise(links) if a.state is LinkState.ENDED), links
    assert json.loads((tmp_path / "agent.pass").read_text())["begun_s"]


def test_doctor_tries_whether_a_job_may_submit(cluster: Any, tmp_path: Path) -> None:
    chain = Hosts(cluster, tmp_path, "trial", 10)
    assert "works: compute nodes may submit jobs" in chain.mirage("doctor", "--in-job")
    assert "Slurm takes no partition nowhere" in chain.mirage("doctor", "--in-job", "-p", "nowhere", status=1)
