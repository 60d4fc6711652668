"""Advice on a real slurmctld: it changes nothing, and its commands work."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from mirage.control.adviser import Adviser
from mirage.control.check_control import FENCE
from mirage.control.pools_file import Pools, read_pools
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob
from tests.support.forked_processes import mirage, start
from tests.support.user_shell import Shell
from tests.support.waiting import SLOWNESS, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

POOLS = """
scheduler = "aryl"
[owner]
nodes = ["n[3-4]"]
partitions = ["inference"]
[borrower]
nodes = ["n[1-2]"]
partition = "train"
[jobs]
comment = "mirage-control"
"""

JOB = "#!/bin/bash\n#SBATCH --output=/dev/null\ntrap 'touch $1.saved' USR1\nwhile true; do sleep 0.2; done\n"

CHANGES = ("REQUEST_CREATE_RESERVATION", "REQUEST_UPDATE_RESERVATION", "REQUEST_DELETE_RESERVATION",
           "REQUEST_UPDATE_JOB", "REQUEST_KILL_JOB", "REQUEST_CANCEL_JOB", "REQUEST_JOB_REQUEUE")  # fmt: skip


class Site:
    """A private cluster of two nodes of the borrower and two of the owner, with a fence."""

    def __init__(self, private_cluster: Any, folder: Path) -> None:
        partitions = ("PartitionName=inference Nodes=n[3-4]", "PartitionName=train Nodes=ALL")
        self.cluster = private_cluster(nodes=4, gpus=4, extra=(*partitions, "DebugFlags=Protocol"))
        self.shell, self.folder = Shell(self.cluster, folder), folder
        self.shell.script("job.sh", JOB)
        (folder / "pools.toml").write_text(POOLS)
        words = ("Nodes=n[3-4]", "StartTime=now", "Duration=infinite", "Users=root", "Flags=IGNORE_JOBS,OVERLAP")
        self.run("scontrol", "create", "reservation", f"ReservationName={FENCE}", *words)

    def run(self, *argv: str) -> str:
        return self.cluster.run(*argv)  # type: ignore[no-any-return]

    def submit(self, *words: str, partition: str = "train", comment: str = "mirage-control") -> int:
        """A job that saves on USR1 and never ends."""
        name = str(time.monotonic_ns())
        argv = ("sbatch", "--parsable", "-p", partition, f"--comment={comment}", "--mem=10", "-J", name, *words)
        return int(self.run(*argv, str(self.folder / "job.sh"), str(self.folder / name)))

    def job(self, number: int) -> QueuedJob:
        return next(job for job in self.shell.slurm.observe().jobs if job.id == number)

    def until_running(self, number: int, usual_s: float = 10) -> float:
        begun_s = time.monotonic()
        until(lambda: self.job(number).state is JobState.RUNNING, usual_s, lambda: self.run("squeue"))
        return time.monotonic() - begun_s

    def pools(self) -> Pools:
        return read_pools(self.folder / "pools.toml")

    def advise(self, adviser: Adviser) -> dict[str, Any]:
        """The steps of now, by verb and subject."""
        return {f"{step.verb} {step.subject}": step for step in adviser.advise(time.time()).steps}


def test_the_commands_of_the_advice_lend_a_node_and_take_it_back(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    adviser = Adviser(site.shell.slurm, site.pools())
    wide, small = site.submit("--gpus-per-node=4", "-N2", "-t", "30"), site.submit("--gpus=3", "-t", "40")
    site.until_running(wide)
    steps = site.advise(adviser)
    lend = steps["lend n3"]
    for command in lend.commands:
        site.run(*command)
    begin = site.advise(adviser)[f"start {small}"]
    assert begin.commands == (("scontrol", "update", f"JobId={small}", "ReservationName=mirage-loan-n3"),)
    site.run(*begin.commands[0])
    site.until_running(small)
    assert site.job(small).nodelist == "n3"

    service = site.submit(
        "--gpus-per-node=4", "-N2", "-t", "30", f"--reservation={FENCE}", partition="inference", comment=""
    )
    until(lambda: "Resources" in site.job(service).reason or site.job(service).priority > 0, 10, "the service waits")
    evict = site.advise(adviser)[f"preempt {small}"]
    warn, requeue, release = evict.commands
    site.run(*warn)
    until(lambda: any(tmp_path.glob("*.saved")), 10, "the job has saved")
    site.run(*requeue)
    site.run(*release)
    site.until_running(service)
    first_s = adviser.advise(time.time()).view.jobs[-1].submit_s  # type: ignore[union-attr]
    assert first_s < site.job(small).submit_s, "Slurm has a new submit time, the adviser the first one"
    assert site.job(small).state is JobState.PENDING
    for command in lend.undo:
        site.run(*command)
    assert "mirage-loan" not in site.run("scontrol", "show", "reservation")


def test_the_adviser_changes_nothing_and_ends_with_an_account(private_cluster: Any, tmp_path: Path) -> None:
    site = Site(private_cluster, tmp_path)
    for gpus in (1, 2, 3, 4, 4, 8):
        site.submit(f"--gpus={gpus}", "-t", str(20 - gpus))
    until(lambda: "RUNNING" in site.run("squeue", "-h", "-o", "%T"), 10, "a job runs")
    log, before = site.cluster.spec.log / "slurmctld.log", site.run("scontrol", "show", "reservation")
    at = log.stat().st_size
    checked = json.loads(site.shell.mirage("control", "check", "--config", "pools.toml", "--json"))
    assert {row["level"] for row in checked} == {"ok"}
    words = ("control", "run", "--config", "pools.toml", "--json", "--record", "views")
    process = start(
        mirage, *words, env=site.shell.environment, cwd=tmp_path, out=tmp_path / "out", err=tmp_path / "err"
    )
    until(lambda: any((tmp_path / "views").glob("*.json")), 20, lambda: (tmp_path / "err").read_text())
    until(lambda: (tmp_path / "out").read_text().count("\n") >= 1, 10, "the advice is printed")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SLOWNESS * 10) == 0
    *_, account = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert account["account"]["snapshots"] == 1
    site.shell.mirage("control", "replay", "views")
    received = log.read_text()[at:]
    assert CHANGES[0] in log.read_text()[:at], "the log shows changes"
    assert "REQUEST_JOB_INFO" in received, "the log shows requests"
    assert not [change for change in CHANGES if change in received]
    assert site.run("scontrol", "show", "reservation") == before

    site.cluster.kill_controller()
    failed = json.loads(site.shell.mirage("control", "run", "--config", "pools.toml", "--once", "--json", status=1))
    assert (failed["steps"], bool(failed["problem"])) == ([], True)
