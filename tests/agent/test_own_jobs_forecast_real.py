"""Forecasts of a link with waiting low-priority jobs, compared with Slurm's own plan.

The jobs are of its own user or of another one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mirage.duration import MINUTE_S
from mirage.job_state import MISSING
from tests.support.second_user import OTHER, as_other_user, opened
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate, until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

BUSY_MIN, BULK_MIN, LINK_MIN, BULK_JOBS = 6, 10, 60, 80
"""The node that falls free first does so after six minutes; behind all bulk jobs a link waits for hours."""

LOWER = {"nice": "--nice=3000", "qos": "--qos=low"}
"""Means by which a bulk job has less priority than a link."""

LINK = ("--nodes=1", "--exclusive", f"--time={LINK_MIN}")


@dataclass
class Site:
    """A chain's first link and another user's shorter job on two nodes; bulk jobs wait."""

    shell: Shell

    def slurm_wait_s(self) -> int:
        """When Slurm plans to start a job like a link, submitted now."""
        job = int(self.shell.cluster.run("sbatch", "--parsable", "-D/", "-o/dev/null", *LINK, "--wrap=sleep 9999"))
        planned_s: list[int] = []

        def planned() -> bool:
            jobs = self.shell.slurm.observe().jobs
            planned_s[:] = [one.start_s - int(time.time()) for one in jobs if one.id == job and one.start_s != MISSING]
            return bool(planned_s)

        self.shell.until(planned, 30, "Slurm plans the start of a job like a link")
        self.shell.cluster.run("scancel", str(job))
        return planned_s[0]

    def decision(self) -> dict[str, Any]:
        """The first decision of ``what-if`` about the next link."""
        decisions: list[dict[str, Any]] = []

        def decided() -> bool:
            explained = json.loads(self.shell.mirage("chain", "explain", "train", "-n", "9", "--json"))
            decisions[:] = [one for one in explained if one["policy"] == "what-if" and "wait_p50_s" in one["estimate"]]
            return bool(decisions)

        log = self.shell.folder / "agent.log"
        until(decided, 60, lambda: f"what-if decides about the next link\n{log.read_text()[-2000:]}", 3.0)
        return decisions[0]


@pytest.fixture
def site(request: pytest.FixtureRequest, private_cluster: Any, tmp_path: Path) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("submitting for a second user needs root")
    owner, kind = request.param
    extra = ("PriorityWeightQOS=100000",)  # fair-share of a user who has used nothing weighs less
    cluster = opened(private_cluster(nodes=2, gpus=0, accounting=kind == "qos", min_job_age_s=36_000, extra=extra))
    if kind == "qos":
        cluster.run("sacctmgr", "-i", "add", "user", OTHER, "account=research")
        cluster.run("sacctmgr", "-i", "modify", "user", OTHER, "set", "qos=low,normal", "defaultqos=normal")
    shell = Shell(cluster, tmp_path)
    sbatch = "sbatch --parsable -D/ -o/dev/null -N1 --exclusive --wrap='sleep 9999'"
    as_other_user(cluster, tmp_path, "sh", "-c", f"{sbatch} -t{BUSY_MIN}")
    shell.submit("train", *LINK, "--policy", "what-if", "--links", "9", "serve.sh")
    shell.until(lambda: cluster.run("squeue", "-h", "-tR", "-o%i").count("\n") == 2, 30, "both nodes are in use")
    bulk = f"for _ in $(seq {BULK_JOBS}); do {sbatch} -Jbulk -t{BULK_MIN} {LOWER[kind]}; done"
    if owner == "own":
        cluster.run("sh", "-c", bulk)
    else:
        as_other_user(cluster, tmp_path, "sh", "-c", bulk)
    yield Site(shell)
    cluster.purge()


@pytest.mark.parametrize("site", [(o, k) for k in LOWER for o in ("own", "other")], indirect=True, ids="-".join)
def test_bulk_jobs_of_less_priority_do_not_move_the_forecast_of_a_link(site: Site) -> None:
    predicted = json.loads(site.shell.mirage("predict", "--json", *LINK, "serve.sh"))
    plan_s = site.slurm_wait_s()
    agent = site.shell.agent()
    decision = site.decision()
    terminate(agent)
    forecasts = {
        "mirage predict": predicted["wait"]["median"],
        "what-if": decision["estimate"]["wait_p50_s"],
    }
    reported = {
        **forecasts,
        "sbatch --test-only": predicted["slurm"]["wait"],
        "squeue": plan_s,
        "why": decision["reason"],
    }
    assert 0 < plan_s <= BUSY_MIN * MINUTE_S
    off = {name: wait_s for name, wait_s in forecasts.items() if not is_near(wait_s, plan_s)}
    assert not off, f"Slurm starts it in {plan_s} s; {reported}"
    assert not decision["submits"], f"an hour remains, and a link starts within {plan_s} s: {decision}"


def is_near(wait_s: float, plan_s: int) -> bool:
    """Whether a forecast is within a factor of two, and a minute, of what Slurm plans."""
    return plan_s / 2 - MINUTE_S <= wait_s <= 2 * plan_s + MINUTE_S
