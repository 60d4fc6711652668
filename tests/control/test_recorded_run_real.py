"""A whole run on a real slurmctld: act, record, switch off, decide again, simulate."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mirage.control.executor_folder import read_journal
from mirage.control.run_record import read_run
from mirage.control.verbs import FENCE
from tests.support.control_site import (
    POOLS,
    Site,
    kernels_are_compiled,  # noqa: F401  a fixture for every test here
)
from tests.support.control_soak import FINITE
from tests.support.forked_processes import mirage, start
from tests.support.started_agents import AGENTS, no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.waiting import SLOWNESS, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

POLL_S = 6
SETTINGS = """grace = "1s"
[rates]
requests_per_minute = 60
commands_per_minute = 600
evictions_per_hour = 60
evictions_per_job_hour = 60
[costs]
restart = "0s"
save = "0s"
"""

BOUNDS = {
    "jobs": (0.0, 0.0),
    "mean_wait_s": (0.2, POLL_S),
    "mean_jct_s": (0.15, POLL_S),
    "makespan_s": (0.2, POLL_S),
    "preemptions": (0.0, 1.0),
    "loans": (0.0, 1.0),
}
"""How far a simulated metric may be from the real one: a share of it, and what a pass adds to so short a run."""


def test_a_recorded_run_is_decided_again_and_simulated(private_cluster: Any, tmp_path: Path) -> None:
    """Six jobs of one node for two nodes and a lent one, which its owner needs back once."""
    site = Site(private_cluster, tmp_path, cred_expire_s=120)
    site.shell.script("finite.sh", FINITE)
    pools = POOLS.replace('"aryl"', f'"aryl"\npoll = "{POLL_S}s"').replace("[borrower]", 'promise = "5m"\n[borrower]')
    (tmp_path / "pools.toml").write_text(f"{pools}{SETTINGS}")
    before = site.reservations()

    def submit(name: str, seconds: int, *words: str) -> int:
        argv = ("sbatch", "--parsable", "-t", "2", "-J", name, "--gpus-per-node=4", *words)
        return int(site.run(*argv, str(tmp_path / "finite.sh"), str(tmp_path / name), str(seconds)))

    def lines(name: str) -> list[str]:
        return (tmp_path / name).read_text().splitlines() if (tmp_path / name).exists() else []

    jobs = [f"train-{k}" for k in range(6)]
    numbers = [submit(name, 14, "-N1", "-p", "train", "--comment=mirage-control") for name in jobs]
    log = tmp_path / "log"
    words = ("control", "run", "--config", "pools.toml", "--act", "--state", "state", "--record", "record")
    controller = start(mirage, *words, env=site.shell.environment, cwd=tmp_path, out=log, err=log)
    AGENTS.append(controller)
    lent = lambda: [n for n in numbers if site.job(n).nodelist in ("n3", "n4")]  # noqa: E731
    until(lent, 20, log.read_text)
    submit("service", 6, "-N2", "-p", "inference", f"--reservation={FENCE}")
    queue = lambda: f"{site.run('squeue')}\n{log.read_text()}"  # noqa: E731
    until(lambda: lines("service"), 30, queue)
    until(lambda: all("end" in lines(name) for name in (*jobs, "service")), 60, queue, pause_s=1)
    time.sleep(POLL_S + 2)  # the record then has the end of the last job
    printed = site.shell.mirage("control", "off", "--config", "pools.toml", "--state", "state")
    assert printed.endswith("nothing of the controller is left in Slurm\n")
    assert controller.wait(SLOWNESS * 10) == 1
    assert site.reservations() == before
    verbs = Counter(row["verb"]["name"] for row in read_journal(tmp_path / "state" / "journal.jsonl"))
    assert min(verbs[name] for name in ("lend", "enter", "requeue", "release", "return")) >= 1, verbs

    assert read_run(tmp_path / "record")[0].backfills
    views = len(list((tmp_path / "record").glob("view-*.json")))
    assert site.shell.mirage("control", "replay", "record") == f"{views} views, 0 with another plan\n"
    simulate = ("control", "replay", "record", "--simulate", "--from-scratch")
    printed = site.shell.mirage(*simulate)
    print(printed)
    assert printed.splitlines()[0] == "aryl: 1 run, 0 jobs left out (never ran, or have not ended)"
    rows = {row["metric"]: row for row in json.loads(site.shell.mirage(*simulate, "--json"))["metrics"]}
    assert set(rows) == {*BOUNDS, "lent_node_h"}
    for metric, (share, absolute) in BOUNDS.items():
        real, simulated = rows[metric]["real"], rows[metric]["simulated"]
        assert abs(simulated - real) <= share * real + absolute, printed
