"""A chain goes from an agent to passes, to agents in jobs, and back, on a real Slurm."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.hosting.agent_job import job_name
from mirage.agent.model import ChainState, LinkState
from mirage.duration import DAY_S
from mirage.job_state import MISSING, JobState
from tests.support.agentless_chain import SOON
from tests.support.forked_processes import run_mirage
from tests.support.killed_chain import Chain
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "4"))


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=12, min_job_age_s=36_000)


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

    def start_in_a_job(self) -> None:
        """Starts agents that poll every two seconds and replace one another without a pause."""
        self.mirage("agent", "start", "--in-job", "-t", "5")
        script = self.folder / "agent-job.sh"
        text = script.read_text()
        quick = text.replace("--begin=now+60 ", "").replace("run --standby", "run --standby --poll 2s")
        assert quick.count("--poll") == text.count("--begin=now") == 1
        script.write_text(quick)

    def processes(self) -> list[int]:
        """The processes of the agents in jobs."""
        home = f"MIRAGE_HOME={self.folder}"
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_agent(pid, home)]

    def log(self, word: str) -> list[float]:
        """The times of the lines of the script with a word."""
        rows = map(str.split, (self.folder / "service.log").read_text().splitlines())
        return [float(row[2]) for row in rows if row[1] == word]

    def passes_until(self, started: int) -> None:
        def one() -> bool:
            self.mirage("agent", "once", "--stay", "1s")
            return self.started() >= started

        self.wait_for(one, 300, f"passes have started link {started}")


def _is_agent(pid: int, variable: str) -> bool:
    """Whether a process is an agent in a job, with an environment variable."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return False
    return b"--standby" in words and variable in variables


@pytest.mark.timeout(60 * max(KILLS, 10))
def test_random_kills_of_agents_in_jobs(cluster: Any, tmp_path: Path) -> None:
    dice, kills = random.Random(20261129), 0
    chains = []
    for number in range(3):
        (tmp_path / str(number)).mkdir()
        chain = Hosts(
            cluster, tmp_path / str(number), f"kills-{number}", 3600, policy="lead:0.045", options={"time": "3"}
        )
        chains.append(chain)
        chain.start_in_a_job()
    while kills < KILLS or min(chain.started() for chain in chains) < max(KILLS // 20, 2):
        time.sleep(dice.uniform(0.5, 4))
        chain = dice.choice(chains)
        chain.wait_for(lambda chain=chain: bool(chain.processes()), 120, "an agent runs in a job")
        for pid in chain.processes():  # two while one replaces the other
            os.kill(pid, signal.SIGKILL)
            kills += 1
        assert [one.violations() for one in chains] == [[], [], []]
        print(f"{kills} kills, {[one.started() for one in chains]} links started", flush=True)
    for chain in chains:
        chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    for chain in chains:
        chain.wait_for(
            lambda chain=chain: chain.store.chain(chain.name).state is ChainState.DONE, 300, "all is wound up"
        )
        chain.mirage("agent", "install", "--job", "--remove")
        chain.wait_for(lambda chain=chain: not chain.agents(), 120, "the agent's jobs have ended")
        assert chain.violations() == []
    print(f"in all {kills} kills, {[one.started() for one in chains]} links started")


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
    (tmp_path / "always.tree").write_text(SOON.format(lead=DAY_S))
    tree = f"shell-tree:tree={tmp_path}/always.tree"
    alone = Path(json.loads(chain.mirage("chain", "edit", "ways", "--agentless", "--policy", tree, "--json"))["folder"])
    for copy in (alone / "link.sh", *tmp_path.glob("chains/ways/*/link.sh")):  # a pass every two seconds
        copy.write_text(copy.read_text().replace("every=300", "every=2"))
    chain.wait_for(lambda: chain.store.chain("ways").state is ChainState.ENDING, 300, "a job that decides runs")
    chain.wait_for(lambda: len(chain.log("up")) == len(chain.log("checkpoint")) + 1, 60, "the one before has left")
    chain.mirage("agent", "install", "--job", "--remove")
    chain.wait_for(lambda: not chain.agents(), 60, "the agent's jobs have ended")
    chain.wait_for(lambda: (alone / "link.3").exists(), 400, "two more jobs have run without an agent")
    third = (alone / "link.3").read_text().split()[0].partition("=")[2]
    chain.mirage("adopt", third, "--chain", "back", "--policy", "lead:0.03", "--no-agent")
    begun = len(chain.log("up"))

    def one() -> bool:
        chain.mirage("agent", "once", "--stay", "1s")
        return len(chain.log("up")) > begun

    chain.wait_for(one, 400, "passes have started a link again")
    up, left = chain.log("up"), chain.log("checkpoint")
    assert all(after <= before for before, after in zip(left, up[1:], strict=False)), "never without a link"
    chain.mirage("chain", "stop", "back")
    links = [link for link in chain.store.links(chain.id) if link.started_s != MISSING]
    assert chain.violations() == []
    assert all(b.started_s <= a.ended_s for a, b in pairwise(links) if a.state is LinkState.ENDED), links
    assert json.loads((tmp_path / "agent.pass").read_text())["begun_s"]


def test_doctor_tries_whether_a_job_may_submit(cluster: Any, tmp_path: Path) -> None:
    chain = Hosts(cluster, tmp_path, "trial", 10)
    assert "works: compute nodes may submit jobs" in chain.mirage("doctor", "--in-job")
    assert "Slurm takes no partition nowhere" in chain.mirage("doctor", "--in-job", "-p", "nowhere", status=1)
