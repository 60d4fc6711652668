"""A chain and a maintenance reservation on a real slurmctld."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob
from mirage.slurm.runner import SystemRunner
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

MAINT = "MAINT,IGNORE_JOBS"

SHORT = ("--policy", "dependency", "-n1", "-t", "60", "--grace", "10s", "--shortest-link", "1m")


def create(shell: Shell, name: str, begins_in_s: int, lasts_min: int, nodes: str = "ALL", flags: str = MAINT) -> int:
    """A reservation, also of nodes in use; when it begins, in seconds since 1970."""
    begins_s = int(time.time()) + begins_in_s
    shell.cluster.run(
        "scontrol", "create", "reservation", f"ReservationName={name}", f"Nodes={nodes}", "Users=root",
        f"StartTime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(begins_s))}", f"Duration={lasts_min}",
        f"Flags={flags}",
    )  # fmt: skip
    return begins_s


def delete(shell: Shell, name: str) -> None:
    shell.cluster.run("scontrol", "delete", f"ReservationName={name}")


def job_of(shell: Shell, chain: str, link: int = 1) -> QueuedJob:
    return shell.found(chain)[link][-1]


def test_links_end_before_a_maintenance_and_wait_for_its_end(private_cluster: Any, tmp_path: Path) -> None:
    shell = Shell(private_cluster(nodes=3, gpus=0, min_job_age_s=36_000), tmp_path)
    slurm = SlurmClient(SystemRunner(shell.cluster.environment))
    assert slurm.reservations() == ()
    begins_s = create(shell, "maint", 4 * 60, 60)
    shell.submit("fits", *SHORT, "serve.sh")
    shell.submit("long", *SHORT[:-1], "1h", "serve.sh")
    shell.until(lambda: "maintenance" in job_of(shell, "fits").reason, 30, "Slurm names the maintenance")
    (found,) = slurm.reservations()
    assert (found.name, found.start_s, found.nodes) == ("maint", begins_s, ("n1", "n2", "n3"))
    agent = shell.agent_with(poll_s=1, busy_poll_s=1, sight_s=4)

    shell.until(lambda: job_of(shell, "fits").state is JobState.RUNNING, 40, "a shortened link starts")
    link = job_of(shell, "fits")
    assert link.limit_s <= 3 * 60
    assert link.start_s + link.limit_s <= begins_s
    row = shell.row("fits")
    assert row["reserved"]["name"] == "maint"
    assert row["shortened"][0] == {"link": 1, "limit": link.limit_s, "usual": 3_600}
    assert shell.kinds("fits").count("reserved") == 1

    shell.until(lambda: shell.row("long")["reserved"] is not None, 20, "the other chain reports the reservation")
    waits = job_of(shell, "long")
    assert (waits.state, waits.limit_s) == (JobState.PENDING, 3_600)
    assert "no job can run from" in shell.mirage("chain", "show", "long")

    delete(shell, "maint")
    shell.until(
        lambda: job_of(shell, "long").state is JobState.RUNNING, 30, "it starts when the reservation is deleted"
    )
    assert job_of(shell, "long").limit_s == 3_600
    shell.until(lambda: shell.row("long")["reserved"] is None, 20, "the reservation is over")

    shell.until(lambda: 2 in shell.found("long"), 20, "the next link is held")
    create(shell, "half", 90 * 60, 60, "n1,n2")
    time.sleep(8)
    assert job_of(shell, "long", 2).limit_s == 3_600, "a third node is left"
    delete(shell, "half")
    shell.mirage("chain", "edit", "long", "--shortest-link", "5m")
    create(shell, "later", 90 * 60, 60)
    shell.until(lambda: job_of(shell, "long", 2).limit_s < 1_800, 30, "a link that waits is shortened")
    held = job_of(shell, "long", 2)
    assert held.dependency
    delete(shell, "later")
    shell.until(lambda: job_of(shell, "long", 2).limit_s == 3_600, 30, "it has its own limit again")
    kinds = shell.kinds("long")
    assert [kinds.count(kind) for kind in ("sized", "sized-back", "size-refused")] == [1, 1, 0]

    ends_s = create(shell, "ours", 14, 8, "n3", "IGNORE_JOBS") + 8 * 60
    shell.submit("inside", *SHORT, "--reservation=ours", "serve.sh")
    shell.until(lambda: job_of(shell, "inside").limit_s < 8 * 60, 30, "a link in a reservation ends before it does")
    shell.until(lambda: job_of(shell, "inside").state is JobState.RUNNING, 30, "it runs there")
    inside = job_of(shell, "inside")
    assert (inside.nodelist, shell.row("inside")["reserved"]) == ("n3", None)
    assert inside.start_s + inside.limit_s <= ends_s
    terminate(agent)
