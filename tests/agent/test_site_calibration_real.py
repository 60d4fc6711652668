"""The site's calibration on a real Slurm, started by an agent on eight weeks of accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirage.calibration import fit_mechanisms
from mirage.calibration.site.calibration_files import REFUSED, CalibrationAttempt, CalibrationFiles
from mirage.cli import cli_context as cli_context
from mirage.cli import main
from mirage.duration import MINUTE_S
from mirage.job_state import JobState
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.slurm.backend import cluster_of
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import AccountedJob
from mirage.slurm.runner import SystemRunner
from tests.support.site_slurm import site_slurm
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import terminate, until

pytestmark = [pytest.mark.slow, pytest.mark.real_slurm]

COLUMNS = (
    "id_job,id_user,`partition`,time_submit,time_eligible,time_start,time_end,state,nodes_alloc,timelimit,priority,"
    "id_group,id_assoc,id_qos,cpus_req,job_name,id_resv,id_wckey,het_job_id,het_job_offset,state_reason_prev,tres_alloc"
)
AGENT = """
from mirage.agent.background import calibration
from mirage.cli import main

calibration.NICE = 0
raise SystemExit(main(["agent", "run", "--poll", "2s", "--calibrate-every", "10s", "--log-json"]))
"""
"""An agent that lets nobody go first: on a busy machine the other tests would never let the calibration end."""
ENDED = 3
"""Slurm's number of COMPLETED (slurm.h, enum job_states)."""


@pytest.fixture(scope="module")
def lab(private_cluster: Callable[..., Any]) -> PrivateCluster:
    """Four nodes that are given out whole, with accounting."""
    cluster: PrivateCluster = private_cluster(nodes=4, accounting=True)
    cluster.run("scontrol", "update", "PartitionName=main", "OverSubscribe=EXCLUSIVE")
    return cluster


def place_of(lab: PrivateCluster) -> CalibrationFiles:
    client = SlurmClient(SystemRunner(lab.environment))
    return CalibrationFiles(lab.spec.home / "calibration", cluster_of(client.configuration()))


def test_an_agent_starts_it_and_logs_its_refusal(lab: PrivateCluster, tmp_path: Path) -> None:
    place, log = place_of(lab), tmp_path / "log"
    words, environment = [sys.executable, "-c", AGENT], {**os.environ, **lab.user_environment}
    with log.open("wb") as out:
        agent = subprocess.Popen(words, env=environment, stdout=out, stderr=out)
    AGENTS.append(agent)

    def reported(event: str) -> list[dict[str, Any]]:
        lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
        return [line for line in lines if line["event"] == event]

    until(lambda: bool(reported("not calibrated")), 40, log.read_text)
    assert "accounts cover 0 days, but at least 42 are needed" in reported("not calibrated")[0]["detail"]
    attempt = place.attempt()
    assert isinstance(attempt, CalibrationAttempt)
    assert attempt.outcome == REFUSED
    assert not place.file.exists()
    assert terminate(agent) == 0


def row(job: AccountedJob, shift_s: int) -> str:
    """A job of the trace in slurmdbd's table, of a user on every system (daemon, bin, sys)."""
    times_s = ",".join(str(at_s + shift_s) for at_s in (job.submit_s, job.submit_s, job.start_s, job.end_s))
    return (
        f"({job.id},{1 + job.id % 3},'main',{times_s},{ENDED},{job.nodes},{job.limit_s // MINUTE_S},500,"
        f"0,0,1,1,'x',0,0,0,0,0,'1=1,4={job.nodes}')"
    )


def test_accounts_of_weeks_are_gathered_fitted_and_judged(
    lab: PrivateCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated = site_slurm(days=56, jobs=700)
    ended = [job for job in simulated.accounting(0) if job.state not in (JobState.PENDING, JobState.RUNNING)]
    shift_s = int(cli_context.clock()) - int(simulated.clock())
    table = f"{lab.spec.cluster_name}_job_table"
    orders = f"INSERT INTO {table} ({COLUMNS}) VALUES {','.join(row(job, shift_s) for job in ended)}"
    lab.run("mariadb", "--no-defaults", "-u", "root", "-S", f"{lab.spec.run}/mysql.sock", "slurm_acct", "-e", orders)
    for name, value in lab.user_environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fit_mechanisms, "choices", lambda *_: {"age": (0.0, 1000.0)})
    place = place_of(lab)

    assert main(["calibrate", "--site"]) == 0, capsys.readouterr().err
    stored = read_cluster_file(place.file)
    judged = stored.calibration["fidelity"]["all"]
    assert judged["fitted"]["jobs"] + judged["judged"]["jobs"] > 400
    assert stored.calibration["partitions"] == ["main"]
    assert stored.settings.bf_interval_s == 1, "as the controller says"
    assert stored.sources["qos"] == "sacctmgr show qos"
    capsys.readouterr()
    main(["doctor"])
    (line,) = (line for line in capsys.readouterr().out.splitlines() if " calibration " in line)
    assert f"rank correlation of single waits {judged['judged']['rank_correlation']:.2f}" in line
