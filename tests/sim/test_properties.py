"""Properties of every cluster, workload and discipline, at every event."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.kernel.record_arrays import Records
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import CapacityChange, Cluster
from mirage.sim.kernel.arrays import BY_PREEMPTION, ENDED, FUTURE, HELD, NEVER_S, NO_JOB
from mirage.sim.kernel.job_lifecycle import FREED, REPLAN
from mirage.sim.simulation import Simulation, simulate
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.audit import audit, queue_of, running_of
from tests.support.clusters import (
    Case,
    cases,
    grouped,
    pools,
    shared,
    with_changes,
    with_limits,
    with_memory,
    with_reservations,
)

SLURM = SlurmSettings(weight_age=1000, weight_size=100, weight_fairshare=500, weight_partition=50, calc_period_s=60)
ANYWHERE = ["fcfs", "easy", "conservative", "slurm"]
KINDS = {
    "pool": pools(),
    "grouped": grouped(),
    "shared": shared(),
    "memory": with_memory(shared() | with_limits(shared()) | with_changes(shared()) | with_reservations(shared())),
    "limited": with_limits(pools() | grouped() | shared()),
    "changing": with_changes(pools() | grouped() | shared()),
    "reserved": with_reservations(with_limits(pools() | grouped() | shared())),
}
GRID = [(name, kind) for name in ANYWHERE for kind in KINDS] + [("srtf", "pool"), ("mirage-2023", "pool")]


def settings_of(case: Case) -> SlurmSettings:
    return replace(SLURM, turnover_s=case.turnover_s)


def simulation(case: Case, name: str) -> Simulation:
    return Simulation(case.cluster, case.jobs, name, settings_of(case))


def step_through(sim: Simulation) -> None:
    """Run to the end event by event, with the books audited at each."""
    while sim.step() < NEVER_S:
        audit(sim)
    audit(sim)


@pytest.mark.parametrize(("name", "kind"), GRID)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_books_balance_and_every_job_runs_once(name: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(KINDS[kind]))
    sim = simulation(case, name)
    step_through(sim)
    schedule = sim.schedule()
    check_schedule(schedule, case.cluster)
    if name != "srtf":
        assert len(schedule.segments) == len(case.jobs.jobs)
    if name == "mirage-2023":
        return  # run times are rounded up to minutes there
    lasted_s = np.bincount(
        schedule.segments.id, schedule.segments.end_s - schedule.segments.start_s, minlength=len(case.jobs.jobs)
    )
    jobs = case.jobs.jobs
    never_cut = jobs.run_s <= jobs.limit_s
    judged = never_cut if name == "srtf" else slice(None)  # after a preemption the limit begins anew
    np.testing.assert_array_equal(lasted_s[judged], np.minimum(jobs.run_s, jobs.limit_s)[judged])
    assert (lasted_s <= jobs.run_s).all()


@pytest.mark.parametrize("name", [*ANYWHERE, "srtf", "mirage-2023"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_no_node_has_another_job_before_its_turnover_is_over(name: str, data: st.DataObject) -> None:
    one_pool = name not in ANYWHERE
    case = data.draw(cases(pools() if one_pool else pools() | grouped() | shared()))
    schedule = simulation(case, name).run()
    if name == "mirage-2023":
        assert schedule.segments.tobytes() == simulate(case.cluster, case.jobs, name).segments.tobytes()
        return
    ended = schedule.segments.why != BY_PREEMPTION
    schedule.segments.end_s[ended] += case.turnover_s
    schedule.segments.limit_s[ended] += case.turnover_s
    check_schedule(replace(schedule, end_s=schedule.end_s + case.turnover_s), case.cluster)


@pytest.mark.parametrize("name", ANYWHERE)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_jobs_wait_for_each_other_and_for_their_time(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(pools() | grouped() | shared(), waits=True))
    sim = simulation(case, name)
    step_through(sim)
    check_schedule(sim.schedule(), case.cluster, complete=False)
    jobs, schedule, fate = case.jobs.jobs, sim.schedule(), sim.state.fate
    kinds = {1: "after", 2: "afterany", 3: "afterok"}
    for job in jobs:
        started_s = int(schedule.start_s[job.id])
        if fate[job.id] == HELD:  # only what waits for a failure, or for another that does, is left
            never = kinds[int(job.after_kind)] == "afterok" and fate[job.after] != ENDED
            assert never or fate[job.after] == HELD
            continue
        assert fate[job.id] not in (HELD, FUTURE)
        assert started_s >= max(job.submit_s, job.begin_s)
        match kinds.get(int(job.after_kind)):
            case "after":
                assert started_s >= schedule.start_s[job.after] >= 0
            case "afterany":
                assert started_s >= schedule.end_s[job.after] >= 0
            case "afterok":
                assert started_s >= schedule.end_s[job.after] >= 0
                other = jobs[job.after]
                assert other.failed == 0
                assert other.run_s <= other.limit_s


@pytest.mark.parametrize("kind", ["pool", "grouped", "shared", "shared with memory"])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_backfill_never_delays_the_head(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(with_memory(shared()) if kind == "shared with memory" else KINDS[kind]))
    sim = simulation(case, "easy")
    promised_s: dict[int, int] = {}
    while sim.step() < NEVER_S:
        if len(queue := queue_of(sim)):
            head = int(sim.state.live[queue[0]].id)
            promised_s.setdefault(head, int(sim.state.clock[0].shadow_s))
    starts_s = sim.schedule().start_s
    late = {job: (starts_s[job], by_s) for job, by_s in promised_s.items() if starts_s[job] > by_s}
    assert not late


@pytest.mark.parametrize("kind", ["pool", "grouped"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_conservative_starts_jobs_when_first_planned_if_limits_are_met(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(KINDS[kind]))
    case.jobs.jobs.run_s[:] = case.jobs.jobs.limit_s
    sim = simulation(case, "conservative")
    planned_s: dict[int, int] = {}
    while sim.step() < NEVER_S:
        for job in sim.state.live[queue_of(sim)]:
            if job.planned_s < NEVER_S:  # planned at all: nobody is behind the last job that could start now
                planned_s.setdefault(int(job.id), int(job.planned_s))
    starts_s = sim.schedule().start_s
    assert {job: int(starts_s[job]) for job in planned_s} == planned_s


@settings(max_examples=60, deadline=None)
@given(case=cases(shared() | with_memory(shared())))
def test_conservative_on_shared_nodes_never_delays_the_head(case: Case) -> None:
    sim = simulation(case, "conservative")
    promised_s: dict[int, int] = {}
    first = NO_JOB
    while sim.step() < NEVER_S:
        if not len(queue := queue_of(sim)):
            continue
        head = sim.state.live[queue[0]]
        if head.id != first:
            first, head.planned_s = head.id, NEVER_S  # what was planned behind others is no promise
        elif head.planned_s < NEVER_S:
            promised_s.setdefault(int(head.id), int(head.planned_s))
    starts_s = sim.schedule().start_s
    assert not {job: by_s for job, by_s in promised_s.items() if starts_s[job] > by_s}


# -- shortcuts change nothing -------------------------------------------------------------------------------------


def starts_with_full_passes(case: Case, name: str) -> np.ndarray:
    """A pass for which everything has changed."""
    sim = simulation(case, name)
    while True:
        sim.state.clock[0].ended_since |= FREED | REPLAN
        if sim.step() >= NEVER_S:
            return sim.schedule().start_s


@pytest.mark.parametrize("name", ["easy", "conservative"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_what_a_pass_reuses_from_the_last_changes_nothing(name: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(KINDS[kind], waits=data.draw(st.booleans())))
    np.testing.assert_array_equal(simulation(case, name).run().start_s, starts_with_full_passes(case, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["easy", "conservative"])
@settings(max_examples=500, deadline=None)
@given(data=st.data())
def test_what_a_pass_reuses_from_the_last_changes_nothing_on_long_queues(name: str, data: st.DataObject) -> None:
    clusters = pools() | grouped() | shared()
    case = data.draw(cases(clusters | with_limits(clusters), waits=data.draw(st.booleans()), max_jobs=60))
    np.testing.assert_array_equal(simulation(case, name).run().start_s, starts_with_full_passes(case, name))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_slurm_passes_left_out_change_nothing(kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(KINDS[kind], waits=data.draw(st.booleans())))
    every = replace(settings_of(case), every_pass=True)
    starts_s = Simulation(case.cluster, case.jobs, "slurm", every).run().start_s
    np.testing.assert_array_equal(simulation(case, "slurm").run().start_s, starts_s)


# -- determinism and symmetries -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), GRID)
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_same_input_same_schedule(name: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(KINDS[kind]))
    first, second = simulation(case, name).run(), simulation(case, name).run()
    assert first.segments.tobytes() == second.segments.tobytes()


@pytest.mark.parametrize("name", [*ANYWHERE, "srtf", "mirage-2023"])
@settings(max_examples=10, deadline=None)
@given(data=st.data(), days=st.integers(1, 20_000))
def test_a_schedule_moves_with_its_clock(name: str, data: st.DataObject, days: int) -> None:
    case = data.draw(cases(pools()))
    here = simulation(case, name).run()
    by_s = days * 86_400  # passes fall on the same seconds of a day
    table = case.jobs.table
    moved = workload(table.with_columns(submit_s=table.submit_s + by_s), case.cluster)
    there = Simulation(case.cluster, moved, name, settings_of(case)).run()
    np.testing.assert_array_equal(there.start_s - by_s, here.start_s)


@pytest.mark.parametrize("name", [*ANYWHERE, "srtf", "mirage-2023"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_jobs_are_called_does_not_matter(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(pools()))
    table = case.jobs.table
    renamed = table.with_columns(
        job_id=np.array([f"job-{9_999 - k}" for k in range(len(table))]),
        user=replace(table.user, names=tuple(f"user {name}" for name in table.user.names)),
    )
    here = simulation(case, name).run()
    there = Simulation(case.cluster, workload(renamed, case.cluster), name, settings_of(case)).run()
    np.testing.assert_array_equal(there.start_s, here.start_s)


@settings(max_examples=40, deadline=None)
@given(case=cases(pools()), more=st.integers(1, 3))
def test_one_more_node_delays_no_job_under_fcfs(case: Case, more: int) -> None:
    larger = Cluster.pool(case.cluster.nodes + more)
    assert (simulate(larger, case.jobs, "fcfs").start_s <= simulate(case.cluster, case.jobs, "fcfs").start_s).all()


# -- branches -----------------------------------------------------------------------------------------------------


def in_use(sim: Simulation) -> dict[str, bytes]:
    """The parts of the state that mean something, as bytes."""
    state = sim.state
    present = np.concatenate([queue_of(sim), running_of(sim)])
    parts: dict[str, Records] = {
        "clock": state.clock,
        "live": state.live[present],
        "queue": queue_of(sim),
        "running": running_of(sim),
        "free": state.free,
        "allowed": state.allowed,
        "fate": state.fate,
        "log": sim.segments(),
        "usage": state.usage,
        "counted": state.counted,
        "completing": state.completing[: state.clock[0].n_completing],
    }
    return {name: np.ascontiguousarray(part).tobytes() for name, part in parts.items()}


@pytest.mark.parametrize(("name", "kind"), GRID)
@settings(max_examples=6, deadline=None)
@given(data=st.data(), at_s=st.integers(0, 400))
def test_a_branch_goes_the_way_of_the_trunk_and_leaves_it_alone(
    name: str, kind: str, data: st.DataObject, at_s: int
) -> None:
    case = data.draw(cases(KINDS[kind], waits=name in ANYWHERE))
    straight = simulation(case, name).run()
    sim = simulation(case, name)
    sim.advance(at_s)
    before = in_use(sim)
    branch = sim.fork()
    branch.inject(nodes=1, limit_s=50)
    branch.run()
    assert in_use(sim) == before
    twin = sim.fork()
    assert twin.run().segments.tobytes() == straight.segments.tobytes()
    assert sim.run().segments.tobytes() == straight.segments.tobytes()


@pytest.mark.parametrize(("name", "kind"), GRID)
@settings(max_examples=6, deadline=None)
@given(data=st.data(), at_s=st.integers(0, 400))
def test_restoring_goes_back_completely(name: str, kind: str, data: st.DataObject, at_s: int) -> None:
    case = data.draw(cases(KINDS[kind]))
    sim = simulation(case, name)
    sim.advance(at_s)
    mark = sim.fork()
    marked = in_use(mark)
    branch = sim.fork()
    for _ in range(2):
        branch.inject(nodes=1, limit_s=50)
        branch.run()
        branch.restore(mark)
        assert in_use(mark) == marked
        audit(branch)
    assert branch.run().segments.tobytes() == sim.run().segments.tobytes()


# -- what will never start ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_job_the_machine_became_too_small_for_waits_and_time_ends(name: str) -> None:
    cluster = replace(Cluster.pool(4), changes=(CapacityChange(10, "node", -2),))
    table = JobTable.build([1, 2, 3], submit_s=[0, 20, 30], elapsed_s=[50] * 3, limit_s=[60] * 3, nodes=[2, 3, 1])
    schedule = simulate(cluster, workload(table, cluster), name)
    assert schedule.start_s.tolist()[:2] == [0, -1]
    check_schedule(schedule, cluster, complete=False)
