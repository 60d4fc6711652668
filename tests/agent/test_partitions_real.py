"""Chains of several partitions on a real slurmctld."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

PARTITIONS = ("PartitionName=one Nodes=n1 MaxTime=30 State=UP", "PartitionName=none MaxTime=30 State=UP")


def test_links_run_in_any_of_several_partitions(private_cluster: Any, tmp_path: Path) -> None:
    shell = Shell(private_cluster(nodes=2, gpus=0, min_job_age_s=36_000, extra=PARTITIONS), tmp_path)
    words = ("-n1", "-t", "10", "--exclusive", "--policy", "lead:0.01", "serve.sh")
    shell.mirage("submit", "--dry-run", "-p", "one,main", *words)
    assert "Job" in shell.stderr
    shell.mirage("submit", "--dry-run", "-p", "none,one", *words, status=1)
    assert "no nodes of partition none; leave it out of -p none,one" in shell.stderr
    assert "is UP" in shell.cluster.run("scontrol", "ping")

    shell.submit("serve", "-p", "one,main", *words)
    shell.submit("long", "-p", "one,main", "-t", "1:00:00", *words[3:])  # longer than one of them allows
    agent = shell.agent_with(poll_s=1, busy_poll_s=1, sight_s=5)
    shell.until(lambda: all_run(shell, "serve", "long"), 40, "both run, each in a partition of its own")
    assert {job.partition for chain in ("serve", "long") for job in shell.found(chain)[1]} == {"one", "main"}
    shell.until(lambda: 2 in shell.found("serve"), 30, "the next link is held")
    assert sorted(shell.found("serve")[2][-1].partition.split(",")) == ["main", "one"]
    shell.slurm.cancel(shell.found("serve")[1][-1].id)
    shell.until(lambda: shell.found("serve")[2][-1].state is JobState.RUNNING, 40, "the next link takes its place")
    assert "partition" not in shell.row("serve")["why"]  # that the cancelled link ended at once may be reported
    checked = shell.mirage("doctor")
    assert "one 00:30:00" in checked
    terminate(agent)


def all_run(shell: Shell, *chains: str) -> bool:
    return all(shell.found(chain)[1][-1].state is JobState.RUNNING for chain in chains)
