"""An agent on another machine, with Slurm's commands through ssh."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support.ssh_server import SshServer, ssh_server
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

SERVICE = """#!/bin/bash
#SBATCH --nodes=1 --output=/dev/null
trap 'exit 0' USR2
echo "$MIRAGE_LINK $PWD $ONLY_THERE ${ONLY_HERE-absent} $SLURM_JOB_NAME $#:$1:$2" >> service.log
while true; do sleep 0.2; done
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


def test_chains_are_managed_from_elsewhere_and_a_lost_connection_ends_no_link(
    cluster: Any, server: SshServer, short_folder: Path, tmp_path: Path
) -> None:
    programs = short_folder / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {server.config} "$@"\n')
    (programs / "ssh").chmod(0o755)
    shell = Shell(
        cluster, tmp_path, short_folder / "home", PATH=f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        SLURM_CONF="/nowhere/slurm.conf", MIRAGE_SSH="cluster", ONLY_HERE="here",
    )  # fmt: skip
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
