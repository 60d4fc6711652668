"""Passes on a real slurmctld: kill -9 at random, and turns with an agent."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.model import ChainState, LinkState
from tests.support.killed_chain import Chain
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "5"))


@pytest.fixture(scope="module")
def cluster(private_cluster: Any) -> Any:
    """A cluster that forgets no job while these tests run."""
    return private_cluster(nodes=4, min_job_age_s=36_000)


class Passes:
    """A chain of ``killed_chain`` and processes of ``mirage agent`` on its store."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.environment = {**chain.environment, "MIRAGE_HOME": str(chain.folder), "MIRAGE_STORE": chain.url}
        self.environment["MIRAGE_CALIBRATE_EVERY"] = "0"

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.chain.folder / "agent.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "mirage", "agent", *words],
                env=self.environment, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        AGENTS.append(process)
        return process

    def once(self) -> dict[str, Any]:
        process = self.begin("once", "--stay", "1s", "--json")
        printed, _ = process.communicate(timeout=300)
        assert process.returncode == 0, (self.chain.folder / "agent.log").read_text()[-2000:]
        facts: dict[str, Any] = json.loads(printed)
        return facts


@pytest.mark.timeout(60 * max(KILLS, 10))
def test_random_kills_of_passes(cluster: Any, tmp_path: Path) -> None:
    dice = random.Random(20261126)
    chain = Chain(cluster, tmp_path, "passes", 8, policy="lead:0.001")
    passes, deaths = Passes(chain), Counter[str]()
    passes.once()
    begun_s = time.monotonic()
    passes.once()
    usual_s = time.monotonic() - begun_s
    while deaths["killed"] < KILLS or chain.started() < max(KILLS // 20, 2):
        one = passes.begin("once", "--stay", "1s")
        time.sleep(dice.uniform(0.3, 1.1) * usual_s)
        if one.poll() is not None:
            deaths["over"] += 1
            usual_s *= 0.8  # the first passes may have met a busier machine
        else:
            deaths["killed"] += 1
        one.send_signal(signal.SIGKILL)
        one.wait()
        assert chain.violations() == []
        print(f"{deaths['killed']} kills, {chain.started()} links started", flush=True)
        if dice.random() < 0.3:
            passes.once()
    chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    chain.finish()
    print(f"in all {deaths['killed']} kills, {deaths['over']} too late, {chain.started()} links started")


@pytest.mark.soak
def test_a_chain_goes_from_an_agent_to_passes_and_back(cluster: Any, tmp_path: Path) -> None:
    chain = Chain(cluster, tmp_path, "turns", 3600, policy="lead:0.02", links=3)
    passes = Passes(chain)
    agent = passes.begin("run", "--poll", "1s")
    chain.wait_for(lambda: chain.started() >= 1, 60, "the agent has started the first link")
    refused = passes.begin("once")
    assert refused.wait(120) == 1
    assert f"(process {agent.pid})" in (tmp_path / "agent.log").read_text()
    agent.terminate()
    assert agent.wait(60) == 0

    def passes_until(started: int) -> None:
        chain.wait_for(lambda: passes.once()["chains"] == 1 and chain.started() >= started, 400, f"{started} links")

    passes_until(2)
    agent = passes.begin("run", "--poll", "1s")
    chain.wait_for(lambda: chain.started() >= 3, 400, "the agent has started the third link")
    agent.terminate()
    agent.wait(60)
    links = chain.store.links(chain.id)
    assert chain.violations() == []
    assert all(b.started_s <= a.ended_s for a, b in pairwise(links) if a.state is LinkState.ENDED)
