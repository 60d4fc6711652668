"""The site's calibration on a real Slurm, started by an agent on eight weeks of accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirage.calibration import fit_mechanisms
from mirage.calibration.site.calibration_files import REFUSED, CalibrationAttempt, CalibrationFiles
from mirage.calibration.site.stored_choices import read_choices, store_choices
from mirage.cli import cli_context as cli_context
from mirage.cli import main
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.job_state import JobState
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.policy.policy_choice import PolicyChoice
from mirage.provision.evaluation import site_choice
from mirage.sim.slurm_conf.cluster_file import read_cluster_file
from mirage.slurm.backend import cluster_of
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import AccountedJob
from mirage.slurm.runner import SystemRunner
from mirage.slurm.text.sacct import HISTORY_FIELDS
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

calibration.NICE, calibration.DAY_S = 0, 10
raise SystemExit(main(["agent", "run", "--poll", "2s", "--calibrate-every", "1h", "--log-json"]))
"""
"""An agent that calibrates within ten seconds and lets nobody go first: a busy machine would never let it end."""
POLICIES = ("reactive", "lead:2", "lead:11")
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
    """A job of the trace in slurmdbd's table: one in ten of root, others of daemon and bin."""
    user = 1 + job.id % 2 if job.id % 10 else 0
    times_s = ",".join(str(at_s + shift_s) for at_s in (job.submit_s, job.submit_s, job.start_s, job.end_s))
    return (
        f"({job.id},{user},'main',{times_s},{ENDED},{job.nodes},{job.limit_s // MINUTE_S},500,"
        f"0,0,1,1,'x',0,0,0,0,0,'1=1,4={job.nodes}')"
    )


def test_accounts_of_weeks_are_gathered_fitted_and_judged(
    lab: PrivateCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    simulated = site_slurm(days=84, jobs=1050)
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

    monkeypatch.setattr(site_choice.AutoParameters, "members", POLICIES)
    store_choices(place, [PolicyChoice("lead:11", "an earlier evaluation", 1, 12 * HOUR_S, 0.1)])
    assert main(["calibrate", "--site", "--choose-for", "1,12h,0.1"]) == 0
    (choice,) = read_choices(place)
    assert f"auto uses {choice.policy} for links of 1 node and 12:00:00: in " in capsys.readouterr().err
    evaluated = own_evaluation(lab, place, tmp_path / "sacct.txt", capsys)
    cost = {row["policy"]: row["cost"] for row in evaluated["rows"] if row["load"] == "all"}
    better = [one["policy"] for one in evaluated["differences"] if (one["load"], one["verdict"]) == ("all", "better")]
    assert choice.policy == min(better, key=cost.__getitem__)
    main(["doctor"])
    assert choice.reason in capsys.readouterr().out


def own_evaluation(
    lab: PrivateCluster, place: CalibrationFiles, dump: Path, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """A user's evaluation of these policies, on the accounts as ``sacct`` prints them."""
    words = ["sacct", "--allusers", "--duplicates", "--parsable2", "--allocations", "--starttime=2020-01-01"]
    begin = datetime.fromtimestamp(cli_context.clock() - 70 * DAY_S, UTC)
    dump.write_text(lab.run(*words, f"--format={','.join(HISTORY_FIELDS)}"))
    options = ["--link-nodes", "1", "--link-limit", "12h", "--link-user", "user:root", "--hand-over", "5"]
    options += [
        "--policies",
        ",".join(POLICIES),
        "--against",
        "lead:11",
        "--interruption-cost",
        "0.1",
        "--every",
        "60h",
    ]
    options += ["--start", begin.date().isoformat()]
    assert main(["evaluate", str(dump), "--cluster", str(place.file), *options, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report
