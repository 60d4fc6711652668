"""Limits on the number of jobs that gain age, against a real slurmctld 22.05.8."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mirage.errors import ClusterError, PlanInfeasible
from mirage.job_state import MISSING, JobState
from mirage.policy.plan import Cancel, Hold, Plan, Release
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.job_updates import queued_link, revise_queued_link, wait_for
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.associations import age_limits, associations
from mirage.sim.slurm_conf.qos import qos_table
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner
from mirage.trace.table import JobTable
from tests.support.waiting import until

ENFORCED = SlurmSettings(weight_age=1000, calc_period_s=1, age_survives_hold=False)
"""Slurm keeps limits where accounting enforces them, and there a hold costs a job its age."""


def simulation(limits: str, *submitted: tuple[str, str, str]) -> Simulation:
    """A node in use, and waiting jobs of (user, account, QOS) submitted in one second.

    Args:
        limits: What sacctmgr shows of the QOS, but for their priority and preemption.
    """
    head, *rows = limits.split()
    return limited_by(
        "\n".join([f"Name|Priority|Preempt|{head}", *(row.replace("|", "|0||", 1) for row in rows)]), "", *submitted
    )


def limited_by(qos: str, accounts: str, *submitted: tuple[str, str, str]) -> Simulation:
    """The same with what sacctmgr shows of QOS and of associations."""
    qos_rows, limits = qos_table(qos, ""), ()
    if accounts:
        limits = age_limits(associations(accounts, ""), {account for _, account, _ in submitted})
    cluster = replace(Cluster.pool(1), qos_factors=qos_rows.factors, limits=(*qos_rows.limits, *limits))
    n = len(submitted) + 1
    user, account, qos = zip(("other", "other", "free"), *submitted)
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
    ("limits", "submitted", "aged"),
    [
        ("MaxJobsAccruePU normal|1 low|1 free|", (ME, ME, MINE, LOW, LOW, YOU, YOU), [1, 4, 6]),
        ("MaxJobsAccruePA normal|2 low| free|", (ME, ME, MINE, YOU, YOURS), [1, 2, 3, 5]),
        ("GrpJobsAccrue normal|2 low| free|", (ME, MINE, YOU, LOW), [1, 2, 4]),
    ],
)
def test_which_jobs_are_counted_together(
    limits: str, submitted: tuple[tuple[str, str, str], ...], aged: list[int]
) -> None:
    assert sorted(ageing(simulation(limits, *submitted))) == aged


def test_places_go_by_submission_and_a_hold_costs_a_job_its_own() -> None:
    sim = simulation("MaxJobsAccruePU normal|2 free|", *[ME] * 6)
    assert ageing(sim) == {1: 1, 2: 1}
    sim.advance(90)
    sim.apply(Plan((Cancel(job=1),)))
    sim.advance(91)
    assert ageing(sim) == {2: 1, 3: 90}, "the next by submission has no age of before"
    revise_queued_link(sim, 2, Hold())
    sim.advance(400)
    assert ageing(sim) == {3: 90, 4: 91}
    revise_queued_link(sim, 2, Release())
    sim.advance(401)
    assert ageing(sim) == {3: 90, 4: 91}, "it waits for a place like any other"
    wait_for(sim, 3, after=0)
    sim.advance(500)
    assert ageing(sim) == {2: 401, 4: 91}, "and is the first of them, by its submission"


def test_a_job_without_age_starts_after_those_with_age_and_the_next_one_gains_it() -> None:
    """By its age it would be second; a view shows none, so a forecast gives it none."""
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
    assert str(Limit(ageing=3, qos=("low",))) == "3 jobs that gain age per user of QOS low"


NONE = "PU normal|"
WITHIN = {"root": "", "research": "root", "deep": "research", "serving": "root"}
R, S, D, L = ME, MINE, ("root", "deep", "normal"), LOW
N, ND, NS = YOU, ("nobody", "deep", "normal"), YOURS


def accounts(*declared: str) -> str:
    """Associations as sacctmgr shows them: ``MaxJobsAccrue`` of an account covers its parts.

    Args:
        declared: Limits, as ``deep GrpJobsAccrue=3`` or ``root@deep MaxJobsAccrue=2``.
    """
    own = {tuple(words.split("=")[0].split()): words.split("=")[1] for words in declared}

    def inherited(account: str) -> str:
        return own.get((account, "MaxJobsAccrue")) or (inherited(WITHIN[account]) if account else "")

    lines = ["Cluster|Account|ParentName|User|Partition|GrpJobsAccrue|MaxJobsAccrue"]
    for account, parent in WITHIN.items():
        lines.append(f"lab|{account}|{parent}|||{own.get((account, 'GrpJobsAccrue'), '')}|{inherited(account)}")
        for user in ("nobody", "root"):
            group, most = (own.get((f"{user}@{account}", name), "") for name in ("GrpJobsAccrue", "MaxJobsAccrue"))
            lines.append(f"lab|{account}||{user}||{group}|{most or inherited(account)}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("qos", "declared", "submitted", "aged"),
    [
        (NONE, ("root@research MaxJobsAccrue=1",), (R, R, S, S, D, D, L, N, N), [1, 3, 4, 5, 6, 8, 9]),
        (NONE, ("research MaxJobsAccrue=1",), (R, R, S, S, D, D, N, N, ND, ND), [1, 3, 4, 5, 7, 9]),
        (
            NONE,
            ("research MaxJobsAccrue=1", "root@research MaxJobsAccrue=2", "nobody@deep MaxJobsAccrue=2"),
            (R, R, R, D, D, N, N, ND, ND, ND),
            [1, 2, 4, 6, 8, 9],
        ),
        (NONE, ("root GrpJobsAccrue=2",), (D, R, S, N, NS), [1, 2]),
        (NONE, ("research GrpJobsAccrue=3", "deep GrpJobsAccrue=1"), (D, D, R, N, R, N), [1, 3, 4]),
        (NONE, ("research GrpJobsAccrue=1", "deep GrpJobsAccrue=3"), (D, D, R, N, R, N), [1, 2]),
        (NONE, ("root@research GrpJobsAccrue=2", "root@research MaxJobsAccrue=1"), (R, R, R, N), [1, 2, 4]),
        (NONE, ("root@research MaxJobsAccrue=2", "research GrpJobsAccrue=1"), (N, R, R, R, N), [1, 2, 3]),
        ("PU normal|3", ("root@research MaxJobsAccrue=2",), (L, L, L, R, R, R, R), [1, 2, 4, 5, 6]),
        ("PU normal|3", ("root@research MaxJobsAccrue=2",), (R, R, R, L), [1, 2, 3]),
        ("Grp normal|3", ("root GrpJobsAccrue=1",), (R, R, S, S, N, L, L), [1, 2, 3]),
        ("PU|PA normal|1|2", (), (R, R, R, N, N, S), [1, 2, 6]),
        ("PA|Grp normal|1|3", (), (R, R, S, S), [1, 2, 3]),
    ],
)
def test_of_several_limits_the_first_declared_decides_as_measured(
    qos: str, declared: tuple[str, ...], submitted: tuple[tuple[str, str, str], ...], aged: list[int]
) -> None:
    """Limits of the QOS first, then of the user in the account, then of the accounts."""
    kinds, row = qos.split()
    columns = {"PU": "MaxJobsAccruePU", "PA": "MaxJobsAccruePA", "Grp": "GrpJobsAccrue"}
    head = "|".join(["Name|Priority|Preempt", *(columns[kind] for kind in kinds.split("|"))])
    qos_rows = [head, row.replace("|", "|0||", 1), *(name + "|" * head.count("|") for name in ("low", "free"))]
    sim = limited_by("\n".join(qos_rows), accounts(*declared), *submitted)
    assert sorted(ageing(sim)) == aged


def test_limits_of_accounts_that_no_job_has_are_left_out() -> None:
    found = associations(
        accounts("research MaxJobsAccrue=1", "root@deep GrpJobsAccrue=4", "serving GrpJobsAccrue=2"), ""
    )
    assert age_limits(found, {"research"}) == (Limit(ageing=1, accounts=("research",)),)
    assert age_limits(found, {"deep", "none"}) == (
        Limit("all", ageing=4, users=("root",), accounts=("deep",)),
        Limit(ageing=1, accounts=("deep",)),
    )


def test_a_limit_on_jobs_that_run_names_no_users_and_no_accounts() -> None:
    for words in ({"users": ("ada",)}, {"accounts": ("research",)}):
        with pytest.raises(ClusterError, match="names users or accounts may only limit ageing"):
            Limit(jobs=3, **words)
    assert str(Limit(ageing=3, users=tuple("abcde"), accounts=("x",))) == (
        "3 jobs that gain age per user for a, b, c and 2 more in account x"
    )


@pytest.mark.slow
@pytest.mark.real_slurm
def test_a_real_slurm_gives_age_to_the_same_jobs(private_cluster: Callable[..., Any]) -> None:
    """Limits of QOS, users and nested accounts as sacctmgr reports them."""
    if os.geteuid() != 0:
        pytest.skip("submitting for a second user needs root")
    cluster = private_cluster(nodes=1, gpus=0, accounting=True)
    slurm, name = SlurmClient(SystemRunner(cluster.environment)), cluster.spec.cluster_name

    def account_manager(*orders: str) -> None:
        for order in orders:
            cluster.run("sacctmgr", "-i", *order.split())

    def submit(user: str, account: str, qos: str) -> int:
        words = (f"--uid={user}", f"--account={account}", f"--qos={qos}", "--exclusive", "-t30", "-D/", "-o/dev/null")
        return int(cluster.run("sbatch", "--parsable", *words, "--wrap=sleep 6000").split()[-1])

    def ages() -> set[int]:
        waiting = (job for job in slurm.observe().jobs if job.state is JobState.PENDING)
        return {job.id for job in waiting if job.accrues_s != MISSING}

    account_manager(
        "add account deep parent=research", "add user nobody account=research,serving,deep defaultaccount=research",
        "add user root account=deep", "modify user nobody set qos=low,normal,high",
        "modify user root where account=deep set qos=low,normal,high",
        "modify account research set GrpJobsAccrue=4", "modify account deep set GrpJobsAccrue=1",
        "modify user root where account=research set MaxJobsAccrue=2",
    )  # fmt: skip
    submit("root", "serving", "high")
    until(lambda: any(job.start_s > 0 for job in slurm.observe().jobs), 10, "the node is taken")
    for orders, submitted, aged in (
        ((), (R, R, R, D, D, N, N), [1, 2, 4, 6]),
        (("modify qos low set MaxJobsAccruePU=3 MaxJobsAccruePA=1",), (L, R, R, N), [1, 2, 4]),
    ):
        account_manager(*orders)
        jobs = [submit(*one) for one in submitted]
        sim = limited_by(slurm.qos(), slurm.associations(name), *submitted)
        assert sorted(ageing(sim)) == aged
        expected = {jobs[k - 1] for k in aged}
        until(partial(lambda expected: ages() == expected, expected), 10, lambda: f"{ages()} gather age")
        cluster.run("scancel", *map(str, jobs))
