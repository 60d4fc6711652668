"""A store lost under a chain on a real slurmctld: the chain continues, one job per link."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.agent.chain.tag import parse_tag
from mirage.agent.store.chain_file import read_chain_files
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner
from tests.support.forked_processes import Process, mirage, run_mirage, start
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import terminate, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SERVICE = """#!/bin/bash
#SBATCH --nodes=1 --output=/dev/null
trap 'echo "$MIRAGE_LINK left" >> service.log; exit 0' USR2
echo "$MIRAGE_LINK up" >> service.log
sleep 120 & wait $!
"""


class Shell:
    """A user with one chain, ``serve``, of links that follow each other as fast as they can."""

    def __init__(self, cluster, folder: Path, *, links: int) -> None:
        self.folder, self.home = folder, folder / "home"
        self.environment = {**os.environ, **cluster.environment, "MIRAGE_HOME": str(self.home), "MIRAGE_STORE": ""}
        self.slurm = SlurmClient(SystemRunner(cluster.environment))
        self.links = links
        (folder / "serve.sh").write_text(SERVICE)
        words = ["--chain", "serve", "--policy", "lead:0.08", "--links", str(links), "--grace", "5s"]
        self.mirage("submit", "-t", "5", *words, "--no-agent", "serve.sh")
        (stored,), _ = read_chain_files(self.home)
        self.store = stored.store

    def mirage(self, *words: str, status: int = 0) -> str:
        done = run_mirage(*words, env=self.environment, cwd=self.folder)
        assert done.returncode == status, f"mirage {' '.join(words)}: {done.stdout}{done.stderr}"
        self.stderr = done.stderr
        return done.stdout

    def agent(self) -> Process:
        log, words = self.folder / "agent.log", ("agent", "run", "--poll", "1s")
        AGENTS.append(start(mirage, *words, env=self.environment, cwd=Path("/"), out=log, err=log))
        return AGENTS[-1]

    def until(self, condition: Callable[[], bool], usual_s: float, what: str) -> None:
        until(condition, usual_s, lambda: f"{what}\n{(self.folder / 'agent.log').read_text()[-3000:]}")

    def up(self) -> list[int]:
        path = self.folder / "service.log"
        return [int(line.split()[0]) for line in path.read_text().splitlines() if "up" in line] if path.exists() else []

    def jobs(self) -> dict[int, list[tuple[int, JobState]]]:
        found: dict[int, list[tuple[int, JobState]]] = {}
        for job in self.slurm.observe().jobs:
            tag = parse_tag(job.comment)
            if tag is not None and (tag.chain, tag.store) == ("serve", self.store):
                found.setdefault(tag.link, []).append((job.id, job.state))
        return found

    def kill_in_the_middle(self, agent: Process, link: int) -> None:
        """Kill the agent while a link runs and the next one waits."""
        self.until(lambda: link in self.up() and link + 1 in self.jobs(), 150, f"link {link} runs and {link + 1} waits")
        agent.send_signal(signal.SIGKILL)
        agent.wait()

    def finish(self) -> None:
        """Let an agent run the rest of the chain: every link is one job, and ran once."""
        agent = self.agent()
        self.until(lambda: self.links in self.up(), 240, f"link {self.links} runs")
        self.mirage("chain", "stop", "serve")
        self.until(lambda: json.loads(self.mirage("chain", "list", "--json"))[0]["state"] == "done", 60, "it ends")
        assert terminate(agent) == 0
        assert self.up() == list(range(1, self.links + 1))
        jobs = self.jobs()
        assert sorted(jobs) == list(range(1, self.links + 1))
        assert {len(found) for found in jobs.values()} == {1}
        shown = json.loads(self.mirage("chain", "show", "serve", "--json"))["links"]
        assert [(link["number"], link["job"]) for link in shown] == [
            (n, found[0][0]) for n, found in sorted(jobs.items())
        ]


@pytest.fixture(scope="module")
def cluster(private_cluster) -> object:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=4, gpus=0, min_job_age_s=36_000)


def lose(shell: Shell, pattern: str) -> None:
    for left in shell.home.glob(pattern):
        left.unlink()


def test_a_deleted_store_and_no_backup(cluster, tmp_path: Path) -> None:
    shell = Shell(cluster, tmp_path, links=5)
    shell.kill_in_the_middle(shell.agent(), 2)
    lose(shell, "store.db*")
    shell.mirage("chain", "list", status=1)
    assert "the files of its chains (serve) show that there was one; `mirage agent recover` restores it" in shell.stderr
    alive = {n: found[0][0] for n, found in shell.jobs().items() if found[0][1] in (JobState.PENDING, JobState.RUNNING)}
    recovered = json.loads(shell.mirage("agent", "recover", "--json"))
    assert recovered["backup"] is None
    (chain,) = recovered["chains"]
    assert (chain["chain"], chain["state"]) == ("serve", "active")
    assert alive.keys() >= {2, 3}
    assert chain["jobs"] == {str(number): job for number, job in alive.items()}
    shell.finish()


def test_a_damaged_store_and_a_backup_from_before_the_last_links(cluster, tmp_path: Path) -> None:
    shell = Shell(cluster, tmp_path, links=6)
    agent = shell.agent()
    shell.until((shell.home / "store.db.backup-1").exists, 30, "there is a backup")
    shell.kill_in_the_middle(agent, 3)
    lose(shell, "store.db-*")
    (shell.home / "store.db").write_bytes(b"rubbish" * 4_000)
    shell.mirage("chain", "list", status=1)
    assert "its newest sound backup is" in shell.stderr
    output = shell.mirage("agent", "recover")
    assert output.startswith("serve  active  ")
    assert "store.db.damaged-1" in shell.stderr
    shell.finish()
    assert (shell.home / "store.db.damaged-1").read_bytes() == b"rubbish" * 4_000


def test_an_agent_with_a_deleted_store_ends_and_harms_nothing(cluster, tmp_path: Path) -> None:
    """Nor does the one that follows it: what runs and what waits is left as it is."""
    shell = Shell(cluster, tmp_path, links=4)
    agent = shell.agent()
    shell.until(lambda: 2 in shell.up() and 3 in shell.jobs(), 150, "link 2 runs and 3 waits")
    lose(shell, "store.db*")
    assert agent.wait(120) == 1
    log = (tmp_path / "agent.log").read_text()
    assert "was deleted or moved; where it was deleted, `mirage agent recover` restores it" in log
    assert list(shell.home.glob("store.db*")) == []
    shell.mirage("agent", "run", status=1)
    assert "is gone, but" in shell.stderr
    assert not [found for found in shell.jobs().values() if JobState.CANCELLED in dict(found).values()]
    shell.mirage("agent", "recover")
    shell.mirage("agent", "recover", status=1)
    assert "is sound, so there is nothing to recover" in shell.stderr
    shell.finish()
