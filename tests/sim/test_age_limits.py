"""Limits on how many waiting jobs gather age, beside what a real slurmctld 22.05.8 did with the same jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.errors import PlanInfeasible
from mirage.job_state import MISSING
from mirage.policy.plan import Cancel, Hold, Plan, Release
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.job_updates import queued_link, think_again, wait_for
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.qos import qos_table
from mirage.sim.slurm_conf.settings import SlurmSettings
from mirage.trace.table import JobTable

ENFORCED = SlurmSettings(weight_age=1000, calc_period_s=1, hold_keeps_age=False)
"""Slurm keeps limits where accounting enforces them, and there a hold costs a job its age."""


def simulation(limits: str, *asked: tuple[str, str, str]) -> Simulation:
    """A node that is taken, and jobs of (user, account, QOS) that wait for it, submitted in one second.

    Args:
        limits: What sacctmgr shows of the QOS, but for their priority and preemption.
    """
    head, *rows = limits.split()
    told = qos_table("\n".join([f"Name|Priority|Preempt|{head}", *(row.replace("|", "|0||", 1) for row in rows)]), "")
    cluster = replace(Cluster.pool(1), qos_factors=told.factors, limits=told.limits)
    n = len(asked) + 1
    user, account, qos = zip(("other", "other", "free"), *asked)
    table = JobTable.build(
        range(n), submit_s=[0] + [1] * (n - 1), elapsed_s=[9000] * n, limit_s=[9000] * n, nodes=[1] * n, user=user,
        account=account, qos=qos,
    )  # fmt: skip
    sim = Simulation(cluster, workload(table, cluster), "slurm", ENFORCED)
    sim.advance(1)
    return sim


def ageing(sim: Simulation) -> dict[int, int]:
    """Waiting job → since when its age counts."""
    found = {}
    for job in range(1, sim.state.clock[0].arrived):
        try:
            link = queued_link(sim, job)
        except PlanInfeasible:
            continue
        if link.accrues_s != MISSING:
            found[job] = link.accrues_s
    return found


ME, MINE = ("root", "research", "normal"), ("root", "serving", "normal")
LOW, YOU, YOURS = ("root", "research", "low"), ("nobody", "research", "normal"), ("nobody", "serving", "normal")


@pytest.mark.parametrize(
    ("limits", "asked", "aged"),
    [
        ("MaxJobsAccruePU normal|1 low|1 free|", (ME, ME, MINE, LOW, LOW, YOU, YOU), [1, 4, 6]),
        ("MaxJobsAccruePA normal|2 low| free|", (ME, ME, MINE, YOU, YOURS), [1, 2, 3, 5]),
        ("GrpJobsAccrue normal|2 low| free|", (ME, MINE, YOU, LOW), [1, 2, 4]),
    ],
)
def test_whose_jobs_are_counted_together(limits: str, asked: tuple[tuple[str, str, str], ...], aged: list[int]) -> None:
    assert sorted(ageing(simulation(limits, *asked))) == aged


def test_places_go_by_submission_and_a_hold_costs_a_job_its_own() -> None:
    sim = simulation("MaxJobsAccruePU normal|2 free|", *[ME] * 6)
    assert ageing(sim) == {1: 1, 2: 1}
    sim.advance(90)
    sim.apply(Plan((Cancel(job=1),)))
    sim.advance(91)
    assert ageing(sim) == {2: 1, 3: 90}, "the next by submission has no age of before"
    think_again(sim, 2, Hold())
    sim.advance(400)
    assert ageing(sim) == {3: 90, 4: 91}
    think_again(sim, 2, Release())
    sim.advance(401)
    assert ageing(sim) == {3: 90, 4: 91}, "it waits for a place like any other"
    wait_for(sim, 3, after=0)
    sim.advance(500)
    assert ageing(sim) == {2: 401, 4: 91}, "and is the first of them, by its submission"


def test_a_job_without_age_starts_behind_those_that_have_some_and_its_place_falls_to_the_next() -> None:
    """Alone it would have come second by its age; a view shows none, so a forecast gives it none."""
    cluster = replace(Cluster.pool(1), limits=(Limit(ageing=1),))
    table = JobTable.build(
        range(4), submit_s=[0, 1, 2, 300], elapsed_s=[1000] * 4, limit_s=[1000] * 4, nodes=[1] * 4,
        user=["a", "b", "b", "c"],
    )  # fmt: skip
    jobs = workload(table, cluster)
    assert simulate(cluster, jobs, "slurm", ENFORCED).start_s.tolist() == [0, 1000, 3000, 2000]
    assert simulate(Cluster.pool(1), jobs, "slurm", ENFORCED).start_s.tolist() == [0, 1000, 2000, 3000]
    sim = Simulation(cluster, jobs, "slurm", ENFORCED)
    sim.advance(900)
    pending = sim.view().pending
    assert dict(zip(pending.id.tolist(), pending.eligible_s.tolist())) == {1: 1, 2: 900, 3: 300}
    sim.advance(1500)
    assert queued_link(sim, 2).accrues_s == 1000


def test_a_limit_on_age_in_words() -> None:
    assert str(Limit(ageing=3, qos=("low",))) == "3 jobs that gather age per user of QOS low"
