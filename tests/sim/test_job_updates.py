"""Changes of single jobs by scontrol: the effect of each, and that the books balance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import PlanInfeasible
from mirage.policy.plan import Cancel, Plan
from mirage.sim import job_updates as alter
from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition
from mirage.sim.kernel.arrays import (
    AFTER_OK,
    BY_ITSELF,
    BY_LIMIT,
    BY_PREEMPTION,
    CANCELLED,
    ENDED,
    HELD,
    NEVER_S,
    PENDING,
    RUNNING,
)
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.audit import audit
from tests.support.clusters import Case, cases, grouped, pools, shared


def empty(cluster: Cluster, discipline: str = "slurm", **wanted: object) -> Simulation:
    """A simulation without jobs but the injected ones."""
    table = JobTable.build([], **{name: [] for name in ("submit_s", "elapsed_s", "limit_s", "nodes")})
    return Simulation(cluster, workload(table, cluster), discipline, SlurmSettings(**wanted), begin_s=0)


def put(sim: Simulation, **request: int) -> int:
    return sim.inject(watched=False, **request)


def runs(sim: Simulation) -> list[tuple[int, int, int, int]]:
    return [(int(s.id), int(s.start_s), int(s.end_s), int(s.why)) for s in sim.segments()]


@pytest.fixture
def sim() -> Simulation:
    return empty(Cluster.pool(2))


def test_a_released_job_competes_at_once_and_its_age_begins_then(sim: Simulation) -> None:
    first = put(sim, nodes=2, limit_s=1000)
    second = put(sim, nodes=1, limit_s=100, after=first)
    other = put(sim, nodes=2, limit_s=100)
    sim.advance(10)
    assert [sim.state.fate[job] for job in (first, second, other)] == [RUNNING, HELD, PENDING]
    alter.wait_for(sim, second)
    view = sim.view()
    assert view.pending.id.tolist() == [other, second]
    assert view.pending.eligible_s.tolist() == [0, 10]
    audit(sim)


def test_a_released_job_starts_in_the_same_second_where_there_is_room(sim: Simulation) -> None:
    first = put(sim, nodes=1, limit_s=1000)
    second = put(sim, nodes=1, limit_s=100, after=first)
    sim.advance(10)
    alter.wait_for(sim, second)
    sim.advance(10)
    assert sim.state.fate[second] == RUNNING


def test_a_job_can_be_held_and_released(sim: Simulation) -> None:
    first = put(sim, nodes=2, limit_s=50)
    second = put(sim, nodes=2, limit_s=50)
    sim.advance(1)
    alter.wait_for(sim, second, begin_s=NEVER_S)
    sim.advance(1_000)
    assert sim.state.fate[first] == CANCELLED or sim.state.fate[first] == ENDED
    assert sim.state.fate[second] == HELD
    alter.wait_for(sim, second)
    sim.advance(1_000)
    assert sim.state.fate[second] == RUNNING


@pytest.mark.parametrize("discipline", ["slurm", "mirage-2023"])
@pytest.mark.parametrize("waits_for", ["release", "begin", "dependency"])
def test_the_age_of_a_job_once_eligible_survives_any_wait(discipline: str, waits_for: str) -> None:
    sim = empty(Cluster.pool(2), discipline)
    first = put(sim, nodes=2, limit_s=6000, run_s=6000)
    mine = put(sim, nodes=2, limit_s=600, run_s=600)
    sim.advance(60)
    wanted = {"release": {"begin_s": NEVER_S}, "begin": {"begin_s": 3000}, "dependency": {"after": first}}[waits_for]
    alter.wait_for(sim, mine, **wanted)
    sim.advance(1200)
    other = put(sim, nodes=2, limit_s=600, run_s=600)
    never = put(sim, nodes=2, limit_s=600, run_s=600, begin_s=1800)
    sim.advance(4800)
    if waits_for == "release":
        alter.wait_for(sim, mine)
        sim.advance(4800)
    if waits_for != "dependency":
        assert dict(zip(sim.view().pending.id.tolist(), sim.view().pending.eligible_s.tolist())) == {
            mine: 0, other: 1200, never: 1800,
        }  # fmt: skip
    sim.run()
    assert [job for job, *_ in runs(sim)] == [first, mine, other, never]
    audit(sim)


@pytest.mark.parametrize(
    ("limits", "settings"), [((), {"age_survives_hold": False}), ((Limit("user", jobs=9),), {})], ids=["told", "limits"]
)
def test_where_holding_costs_a_job_its_age_it_counts_from_the_release(
    limits: tuple[Limit, ...], settings: dict[str, Any]
) -> None:
    sim = empty(replace(Cluster.pool(2), limits=limits), **settings)
    put(sim, nodes=2, limit_s=6000, run_s=6000)
    held, stays = (put(sim, nodes=2, limit_s=600, run_s=600) for _ in range(2))
    sim.advance(60)
    alter.wait_for(sim, held, begin_s=NEVER_S)
    assert sim.view().held.eligible_s.tolist() == [-1]
    sim.advance(90)
    for job in (held, stays):
        alter.wait_for(sim, job)
    assert sorted(sim.view().pending.eligible_s.tolist()) == [0, 90]


def test_a_requeued_job_s_age_begins_anew(sim: Simulation) -> None:
    first = put(sim, nodes=2, limit_s=1000, run_s=1000)
    sim.advance(10)
    alter.requeue(sim, first, 50)
    put(sim, nodes=2, limit_s=100, run_s=100)
    sim.advance(60)
    assert sim.view().pending.eligible_s.tolist() == [50]


def test_what_a_job_waits_for_can_be_changed(sim: Simulation) -> None:
    first = put(sim, nodes=1, limit_s=50, run_s=50)
    third = put(sim, nodes=1, limit_s=70, run_s=70)
    second = put(sim, nodes=1, limit_s=50, run_s=50, after=first)
    sim.advance(1)
    alter.wait_for(sim, second, after=third, after_kind=AFTER_OK)
    sim.run()
    assert runs(sim)[-1] == (second, 70, 120, BY_ITSELF)


def test_a_job_that_waits_for_nothing_retains_its_place(sim: Simulation) -> None:
    put(sim, nodes=2, limit_s=50)
    second, third = put(sim, nodes=2, limit_s=50), put(sim, nodes=2, limit_s=50)
    sim.advance(7)
    alter.wait_for(sim, second)
    assert sim.view().pending.id.tolist() == [second, third]
    assert sim.view().pending.eligible_s.tolist() == [0, 0]


def test_a_running_job_s_limit_can_be_lowered_and_others_start_by_it(sim: Simulation) -> None:
    first = put(sim, nodes=2, limit_s=1000, run_s=NEVER_S // 4)
    second = put(sim, nodes=2, limit_s=50)
    sim.advance(10)
    alter.change_limit(sim, first, 100)
    audit(sim)
    sim.run()
    assert runs(sim)[0] == (first, 0, 100, BY_LIMIT)
    assert runs(sim)[1][:2] == (second, 100)


def test_a_limit_that_is_over_ends_the_job_at_the_next_check(sim: Simulation) -> None:
    for check_s, ends_s in ((1, 40), (30, 60)):
        sim = empty(Cluster.pool(2), limit_check_s=check_s)
        job = put(sim, nodes=2, limit_s=1000, run_s=NEVER_S // 4)
        sim.advance(40)
        alter.change_limit(sim, job, 20)
        sim.run()
        assert runs(sim) == [(job, 0, ends_s, BY_LIMIT)]


def test_a_shorter_limit_lets_a_waiting_job_backfill(sim: Simulation) -> None:
    put(sim, nodes=1, limit_s=1000)
    put(sim, nodes=2, limit_s=50)
    small = put(sim, nodes=1, limit_s=5000)
    sim.advance(60)
    assert sim.state.fate[small] == PENDING
    alter.change_limit(sim, small, 300)
    sim.advance(120)
    assert sim.state.fate[small] == RUNNING


def test_a_job_ended_on_request_ends_with_the_given_result(sim: Simulation) -> None:
    first = put(sim, nodes=1, limit_s=1000, run_s=NEVER_S // 4)
    bad = put(sim, nodes=1, limit_s=1000, run_s=NEVER_S // 4)
    after_first = put(sim, nodes=1, limit_s=10, run_s=10, after=first, after_kind=AFTER_OK)
    after_bad = put(sim, nodes=1, limit_s=10, run_s=10, after=bad, after_kind=AFTER_OK)
    sim.advance(100)
    alter.end_at(sim, first, 160)
    alter.end_at(sim, bad, 170, failed=True)
    sim.run()
    assert runs(sim)[:2] == [(first, 0, 160, BY_ITSELF), (after_first, 160, 170, BY_ITSELF)] or runs(sim)[1][0] == bad
    assert {run[0]: run[2] for run in runs(sim)} == {first: 160, bad: 170, after_first: 170}
    assert sim.state.fate[after_bad] == HELD


def test_the_limit_comes_first_when_it_does(sim: Simulation) -> None:
    job = put(sim, nodes=1, limit_s=100, run_s=NEVER_S // 4)
    sim.advance(50)
    alter.end_at(sim, job, 150)
    sim.run()
    assert runs(sim) == [(job, 0, 100, BY_LIMIT)]


def test_a_requeued_job_begins_anew_after_its_hold_down(sim: Simulation) -> None:
    job = put(sim, nodes=1, limit_s=100, run_s=80)
    sim.advance(50)
    alter.requeue(sim, job, begin_s=50 + 121)
    audit(sim)
    assert sim.view().nodes.free[0, 0] == 2
    sim.run()
    assert runs(sim) == [(job, 0, 50, BY_PREEMPTION), (job, 171, 251, BY_ITSELF)]


def test_a_waiting_job_can_change_its_partition() -> None:
    groups = (NodeGroup("a", 1), NodeGroup("b", 2))
    partitions = (Partition("a", ("a",)), Partition("b", ("b",), max_limit_s=500))
    sim = empty(Cluster(groups, partitions))
    put(sim, nodes=1, limit_s=1000)
    small, large = put(sim, nodes=1, limit_s=500), put(sim, nodes=1, limit_s=1000)
    sim.advance(30)
    alter.change_partition(sim, small, 1)
    sim.advance(30)
    assert sim.state.fate[small] == RUNNING
    for wrong in (1, 2):
        with pytest.raises(PlanInfeasible, match="partition"):
            alter.change_partition(sim, large, wrong)
    assert sim.state.fate[large] == PENDING


def test_what_cannot_be_done_is_reported(sim: Simulation) -> None:
    job = put(sim, nodes=1, limit_s=100)
    sim.advance(1)
    with pytest.raises(PlanInfeasible, match="not waiting"):
        alter.wait_for(sim, job)
    with pytest.raises(PlanInfeasible, match="not waiting"):
        alter.change_partition(sim, job, 0)
    with pytest.raises(PlanInfeasible, match="limit of 0 s"):
        alter.change_limit(sim, job, 0)
    sim.apply(Plan((Cancel(job),)))
    for attempt in (
        lambda: alter.change_limit(sim, job, 10),
        lambda: alter.end_at(sim, job, 10),
        lambda: alter.requeue(sim, job, 10),
    ):
        with pytest.raises(PlanInfeasible, match=f"job {job}"):
            attempt()


@pytest.mark.slow
@pytest.mark.parametrize("discipline", ["fcfs", "easy", "conservative", "slurm"])
@settings(max_examples=40, deadline=None)
@given(
    case=cases(pools() | grouped() | shared(), waits=True),
    doings=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 30), st.integers(0, 200), st.integers(1, 60)), max_size=25
    ),
)
def test_the_books_balance_whatever_is_done(discipline: str, case: Case, doings: list[tuple[int, ...]]) -> None:
    sim = Simulation(case.cluster, case.jobs, discipline, SlurmSettings(weight_age=1000))
    for what, which, value, pause_s in doings:
        jobs, now_s = max(len(case.jobs.jobs), 1), sim.now_s
        job, other = which % jobs, value % jobs
        attempt = (
            lambda job=job: alter.wait_for(sim, job),
            lambda job=job, at=now_s + value: alter.wait_for(sim, job, begin_s=at),
            lambda job=job, other=other: alter.wait_for(sim, job, after=other),
            lambda job=job, limit_s=value: alter.change_limit(sim, job, limit_s),
            lambda job=job, at=now_s + value: alter.end_at(sim, job, at, failed=at % 2 == 0),
            lambda job=job, at=now_s + value: alter.requeue(sim, job, at),
            lambda job=job, to=value: alter.change_partition(sim, job, to % 3),
        )[what]
        try:
            attempt()
        except PlanInfeasible:
            pass  # refused whole: the audit sees that nothing has changed
        else:
            sim.advance(sim.now_s)
        audit(sim)
        sim.advance(sim.now_s + pause_s)
        audit(sim)
    while sim.step() < NEVER_S:
        audit(sim)
    segments = sim.segments()
    assert (segments.end_s >= segments.start_s).all()
    assert set(np.unique(sim.state.fate[: len(case.jobs.jobs)])) <= {HELD, ENDED, CANCELLED}
