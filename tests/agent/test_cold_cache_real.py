"""The first decision on a login node that is busy, with nothing compiled yet."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from mirage.agent.settings import AgentSettings
from mirage.lab.real.ports import free_ports
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

BUSY = 4
"""Processes that compute beside the agent, on the same core as it and what it starts: other tests have the others."""

LONGEST_CYCLE_S = 5.0


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=2, min_job_age_s=36_000)


@contextmanager
def one_core() -> Iterator[None]:
    """Processes started in here run on one core permanently, and so do their children."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


def test_the_first_decision_comes_within_one_interval_though_nothing_is_compiled(cluster, tmp_path: Path) -> None:
    """A link of eight hours is decided about every five minutes.

    The simulator takes far longer to compile here.
    """
    shell = Shell(cluster, tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"), NUMBA_CACHE_DIR="")
    shell.submit("cold", "-t", "8:00:00", "--policy", "what-if", "serve.sh")
    port = free_ports(1)
    with one_core():
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
        AGENTS.extend(busy)
        agent = shell.agent("--metrics-port", str(port))
    try:
        interval_s = AgentSettings().interval_s(8 * 3600)
        decided = lambda: json.loads(shell.mirage("chain", "show", "cold", "--json"))["decisions"] > 0  # noqa: E731
        shell.until(decided, interval_s, "a decision")
        scraped = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    finally:
        for process in busy:
            process.kill()
            process.wait()
    longest_s = float(re.findall(r"^mirage_longest_cycle_seconds (\S+)$", scraped, re.MULTILINE)[0])
    assert 0 < longest_s <= LONGEST_CYCLE_S
    explained = shell.mirage("chain", "explain", "cold", "-n", "9")
    assert "fall-back for what-if" in explained
    assert "being compiled" in explained
    assert '"event": "compiling"' in (shell.folder / "agent.log").read_text()
    assert terminate(agent) == 0
    shell.mirage("chain", "stop", "cold")
