"""An agent on another machine, with Slurm's commands through ssh."""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.model import ChainState
from mirage.job_state import JobState
from tests.support.killed_chain import Chain
from tests.support.ssh_server import SshServer, kill_all, ssh_server
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

KILLS = int(os.environ.get("MIRAGE_SOAK_KILLS", "6"))

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SERVICE = """#!/bin/bash
#SBATCH --nodes=1 --output=/dev/null
trap 'exit 0' USR2
echo "$MIRAGE_LINK $PWD $ONLY_THERE ${ONLY_HERE-absent} $SLURM_JOB_NAME $#:$1:$2" >> service.log
while true; do sleep 600 & wait $!; done
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="mssh-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def cluster(private_cluster: Any) -> Any:
    return private_cluster(nodes=3, min_job_age_s=36_000)


@pytest.fixture
def server(cluster: Any, short_folder: Path) -> Iterator[SshServer]:
    with ssh_server(short_folder / "sshd", {**cluster.environment, "ONLY_THERE": "there"}) as found:
        yield found


def elsewhere(server: SshServer, folder: Path) -> dict[str, str]:
    """Variables of a machine without Slurm, on which ``ssh cluster`` reaches the server."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server.config} "$@"\n')
    (programs / "ssh").chmod(0o755)
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "SLURM_CONF": "/nowhere/slurm.conf", "MIRAGE_SSH": "cluster"}


def test_chains_are_managed_from_elsewhere_and_a_lost_connection_ends_no_link(
    cluster: Any, server: SshServer, short_folder: Path, tmp_path: Path
) -> None:
    shell = Shell(cluster, tmp_path, short_folder / "home", **elsewhere(server, short_folder), ONLY_HERE="here")
    shell.script("serve it.sh", SERVICE)
    job = shell.submit(
        "serve", "-t", "10", "--policy", "reactive", "-D", str(tmp_path), "serve it.sh", "a b", "it's $x"
    )
    agent = shell.agent("--ssh", "cluster")
    shell.until(lambda: bool(shell.log()), 60, "the first link runs")
    assert shell.log() == [f"1 {tmp_path} there absent serve it.sh 2:a b:it's $x"]
    shell.until(lambda: 2 in shell.found("serve"), 60, "the second waits")
    assert len(server.masters()) == 1, "all commands share a connection"

    server.end_connections()
    shell.until(lambda: len(server.masters()) == 1, 60, "a killed connection is opened again")

    server.end()
    server.end_connections()
    log = tmp_path / "agent.log"
    blind = lambda: log.read_text().count('"outage"') > log.read_text().count('"outage-over"')  # noqa: E731
    shell.until(blind, 60, "the agent is blind, and reports it")
    cluster.run("scancel", str(job))
    shell.until(lambda: shell.jobs("serve")[2] == [JobState.RUNNING], 30, "Slurm itself starts the next link")
    row = shell.row("serve")
    assert (row["link"], row["state"]) == (1, "active"), "nothing is concluded from silence"
    assert row["outage_since"]

    server.start()
    started = lambda: '"event": "started", "chain": "serve", "link": 2' in log.read_text()  # noqa: E731
    shell.until(started, 120, "the connection is back, and the second link is known")
    terminate(agent)
    assert {link: len(jobs) for link, jobs in shell.found("serve").items()} == {1: 1, 2: 1}, "every link once"
    shell.mirage("chain", "stop", "serve")
    shell.until(lambda: shell.jobs("serve")[2] == [JobState.CANCELLED], 30, "its jobs are cancelled from here")


@pytest.mark.timeout(60 * max(KILLS, 10))
def test_random_kills(cluster: Any, server: SshServer, short_folder: Path, tmp_path: Path) -> None:
    """Agent, master of ssh and session of sshd are killed at random instants."""
    dice = random.Random(20261127)
    chain = Chain(cluster, tmp_path, "elsewhere", 8, {"chdir": str(tmp_path)})
    chain.environment |= {**elsewhere(server, short_folder), "MIRAGE_HOME": str(short_folder / "home")}
    agent, deaths = chain.agent(), Counter[str]()
    chain.wait_for(lambda: chain.started() > 0, 60, "the first link runs")
    while deaths.total() < KILLS:
        victim = dice.choice(("agent", "master", "session"))
        time.sleep(dice.uniform(0.3, 3.0))
        assert agent.poll() is None, (tmp_path / "agent.log").read_text()[-3000:]
        if victim == "agent":
            agent.kill()
            agent.wait()
            agent = chain.agent()
            deaths["agent"] += 1
        else:
            deaths[victim] += min(kill_all(server.masters() if victim == "master" else server.sessions()), 1)
        assert chain.violations() == []
        print(f"{dict(deaths)}, {chain.started()} links started", flush=True)
    agent.kill()
    agent.wait()
    started = chain.started()
    chain.store.change_chain(chain.id, state=ChainState.ENDING, why="the soak is over")
    chain.finish()
    output = (tmp_path / "service.log").read_text().splitlines()
    up = [line.split()[0] for line in output if line.split()[1] == "up"]
    print(f"soak: {dict(deaths)}, {started} links started, {len(chain.jobs())} jobs")
    assert len(up) == len(set(up)), "no link runs twice"
    assert started >= max(KILLS // 20, 1)
