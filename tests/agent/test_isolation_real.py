"""Chains with problems on a real slurmctld do not affect a healthy one."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mirage.agent.store.schema import chains
from mirage.agent.store.sql_store import open_store
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(private_cluster) -> Any:
    return private_cluster(nodes=12, min_job_age_s=36_000)


@pytest.fixture
def shell(cluster, tmp_path: Path) -> Shell:
    return Shell(cluster, tmp_path)


def change_spec(shell: Shell, chain: str, **changes: Any) -> None:
    """Write into the store what ``mirage submit`` would refuse, as an old version might have."""
    with closing(open_store(f"sqlite:///{shell.environment['MIRAGE_HOME']}/store.db")) as store:
        found = store.chain(chain)
        with store.engine.begin() as connection:
            spec = connection.execute(sa.select(chains.c.spec).where(chains.c.id == found.id)).scalar_one()
            requested = {**spec["submission"], **changes.pop("submission", {})}
            connection.execute(
                chains.update().where(chains.c.id == found.id).values(spec={**spec, **changes, "submission": requested})
            )


def test_one_chain_s_trouble_is_its_own(shell: Shell) -> None:
    """Four problems at once: no directory, no such signal, a failing policy, a refusing site."""
    gone = shell.folder / "gone"
    gone.mkdir()
    short = ("-t", "2", "--policy", "lead:0.024", "serve.sh")
    for name in ("healthy", "signal", "refused"):
        shell.submit(name, *short)
    shell.submit("policy", "-t", "2", "--policy", "reactive", "serve.sh")
    lost = Shell(shell.cluster, gone, home=Path(shell.environment["MIRAGE_HOME"]))
    lost.submit("lost", *short)
    shutil.rmtree(gone)
    change_spec(shell, "signal", signal="NOSUCH", grace_s=5, slurm_warning_s=0)
    change_spec(shell, "policy", policy="lead:abc")
    change_spec(shell, "refused", submission={"options": {"partition": "nowhere", "time": "2"}})
    agent = shell.agent()
    shell.until(lambda: "2 checkpoint" in shell.log(), 150, "the healthy chain hands over from its second link")
    handed_over = {"signal-refused", "ended-by-us"}
    shell.until(lambda: handed_over <= set(shell.kinds("signal")), 60, "so does the chain whose signal is refused")
    why = {name: row["why"] for name, row in shell.rows().items()}
    assert why["healthy"] == ""
    assert "gone" in why["lost"]
    assert "lead takes hours" in why["policy"]
    assert "invalid partition specified: nowhere" in why["refused"]
    assert any("fall-back" in line for line in shell.mirage("chain", "explain", "policy", "-n", "9").splitlines())
    assert "refused" in shell.mirage("chain", "log", "refused")
    assert terminate(agent) == 0
    for name in ("healthy", "signal", "policy", "refused", "lost"):
        shell.mirage("chain", "stop", name)


def test_a_job_that_ends_at_once_is_slowed_down(shell: Shell) -> None:
    shell.script("nothing.sh", "#!/bin/sh\n#SBATCH -o /dev/null\nexit 0\n")
    shell.submit("nothing", "-t", "5", "--links", "90", "--policy", "reactive", "nothing.sh")
    agent = shell.agent()
    shell.until(lambda: "links end at once" in shell.row("nothing")["why"], 30, "the chain is slowed down")
    before = len(shell.found("nothing"))
    time.sleep(10)
    assert len(shell.found("nothing")) == before <= 2, "no job in ten seconds, of the sixty that are to pass"
    terminate(agent)
    shell.mirage("chain", "stop", "nothing")


def test_what_retains_a_link_waiting_is_reported_in_words(shell: Shell) -> None:
    shell.submit("held", "-t", "5", "--policy", "reactive", "-w", "n1", "serve.sh")
    shell.cluster.run("scontrol", "update", "PartitionName=main", "State=DOWN")
    try:
        job = shell.submit("down", "-t", "5", "--policy", "reactive", "serve.sh")
        agent = shell.agent()
        shell.until(lambda: "partition is down" in shell.row("down")["why"], 30, "the partition is down")
        shell.cluster.run("scontrol", "hold", str(job))
    finally:
        shell.cluster.run("scontrol", "update", "PartitionName=main", "State=UP")
    shell.until(lambda: "held by an administrator" in shell.row("down")["why"], 30, "an administrator holds it")
    assert "waits" in shell.kinds("down")
    shell.cluster.run("scontrol", "release", str(job))
    shell.until(lambda: shell.row("down")["link_state"] == "running", 30, "it runs")
    assert shell.row("down")["why"] == ""
    terminate(agent)
    for name in ("held", "down"):
        shell.mirage("chain", "stop", name)
