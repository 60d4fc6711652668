"""Invariants of all schedules of stages, on random graphs, clusters and schedulers."""

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from mirage.dag.compare.makespan_bound import makespan_bound_s
from mirage.dag.schedulers.stage_schedulers import SCHEDULERS, make_scheduler
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import ENVIRONMENTS, DagCluster
from mirage.dag.simulator.stage_decision import NOTHING, executors_of, stage_of
from mirage.dag.workload.dag_arrivals import DagArrivals
from mirage.dag.workload.templates import JobTemplate, StageProfile

NUMERIC = [name for name, spec in SCHEDULERS.items() if not spec.makes]
POLICIES = [*NUMERIC, "fifo:1", "fair:1", "capped:0:2", "weighted-fair:-1", "sjf:0.5", "sjf-critical-path:0.5"]
POLICIES += ["equal-finish:1"]


@some.composite
def durations(draw):
    return {
        level: np.array(draw(some.lists(some.integers(1, 9000), min_size=1, max_size=2)), np.int32)
        for level in draw(some.sampled_from([(5,), (5, 10)]))
    }


@some.composite
def templates(draw):
    n = draw(some.integers(1, 5))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(some.lists(some.sampled_from(pairs), unique=True)) if pairs else []
    stages = []
    for _ in range(n):
        first = draw(durations())
        empty = {level: np.zeros(0, np.int32) for level in first}
        fresh = draw(some.sampled_from([first, empty]))
        stages.append(StageProfile(draw(some.integers(1, 12)), fresh, first, draw(some.sampled_from([first, empty]))))
    return JobTemplate("made", tuple(edges), tuple(stages))


@some.composite
def episodes(draw):
    kinds = draw(some.lists(templates(), min_size=1, max_size=3))
    jobs = draw(some.integers(1, 6))
    gaps_ms = draw(some.lists(some.integers(0, 20_000), min_size=jobs, max_size=jobs))
    kind = draw(some.lists(some.integers(0, len(kinds) - 1), min_size=jobs, max_size=jobs))
    cluster = DagCluster(
        draw(some.integers(1, 9)),
        moving_s=draw(some.sampled_from([0.0, 2.0])),
        noise=draw(some.sampled_from([0.0, 0.3])),
        environment=draw(some.sampled_from(list(ENVIRONMENTS))),
    )
    return kinds, DagArrivals(np.cumsum(gaps_ms), np.array(kind)), cluster, draw(some.integers(0, 99))


def begun(episode):
    kinds, arrivals, cluster, seed = episode
    return DagSimulation(kinds, arrivals, cluster, seed=seed, log=True)


def check_books(simulation):
    """Executors are conserved, and every counter is what it counts."""
    world, state = simulation.world, simulation.state
    clock, jobs, stages, executors = state.clock[0], state.jobs, state.stages, state.executors
    assert clock.in_pool + jobs.local.sum() + jobs.moving.sum() == len(executors)
    assert (np.bincount(executors.job[executors.job >= 0], minlength=len(jobs)) == jobs.local).all()
    assert (stages.demand == stages.remaining - stages.moving - stages.committed).all()
    assert (stages.remaining + stages.running + stages.finished == world.stages.tasks).all()
    assert stages.running.sum() + jobs.moving.sum() == clock.n_heap
    saturated = stages.demand <= 0
    for stage, row in enumerate(world.stages):
        parents = world.parents[row.first_parent : row.first_parent + row.n_parents]
        assert stages[stage].waits_for == (~saturated[parents]).sum()
        assert stages[stage].runs_after == (stages.finished[parents] < world.stages.tasks[parents]).sum()
    is_open = ~saturated & (stages.waits_for == 0)
    assert (np.bincount(world.stages.job[is_open], minlength=len(jobs)) == jobs.open).all()
    work_ms = np.bincount(world.stages.job, stages.remaining * stages.last_ms, minlength=len(jobs))
    assert (work_ms == jobs.remaining_work_ms).all()


def check_runs(simulation):
    """Checks tasks: once, after parents, one at a time per executor, with time to move."""
    world, runs = simulation.world, simulation.runs
    tasks = [(stage, task) for stage, row in enumerate(world.stages) for task in range(row.tasks)]
    assert sorted(zip(runs.stage, runs.task)) == tasks
    end_ms = np.zeros(len(world.stages), np.int64)
    np.maximum.at(end_ms, runs.stage, runs.end_ms)
    of_executor = defaultdict(list)
    for run in runs:
        row = world.stages[run.stage]
        parents = world.parents[row.first_parent : row.first_parent + row.n_parents]
        assert run.start_ms >= max(end_ms[parents], default=0)
        comes_ms = 0 if of_executor[run.executor] else world.settings[0].moving_ms
        assert run.start_ms >= world.jobs[row.job].arrival_ms + comes_ms
        of_executor[run.executor].append(run)
    for mine in of_executor.values():
        for one, next_one in pairwise(mine):
            moved = world.stages[one.stage].job != world.stages[next_one.stage].job
            assert next_one.start_ms - one.end_ms >= world.settings[0].moving_ms * moved
    assert simulation.state.clock[0].running_ms == (runs.end_ms - runs.start_ms).sum()


@settings(max_examples=30)
@given(episodes(), some.sampled_from(POLICIES))
def test_every_schedule_is_one(episode, policy):
    simulation, scheduler = begun(episode), make_scheduler(policy)
    outcome = simulation.run(scheduler.decider, scheduler.parameters_for(0))
    check_runs(simulation)
    check_books(simulation)
    clock, on_the_way = simulation.state.clock[0], int(simulation.state.jobs.moving.sum())  # to a job that has ended
    assert clock.in_pool == len(simulation.state.executors) - on_the_way
    assert simulation.state.jobs.committed.sum() == simulation.state.stages.committed.sum() == 0
    assert -1e-9 <= outcome.idle_share <= 1
    assert 0 < makespan_bound_s(simulation.world) <= outcome.makespan_s
    assert simulation.state.clock[0].in_system_ms == pytest.approx(1000 * outcome.jct_s.sum())
    again = begun(episode)
    again.run(scheduler.decider, scheduler.parameters_for(0))
    assert (again.runs == simulation.runs).all()


@settings(max_examples=15)
@given(episodes(), some.sampled_from(POLICIES))
def test_the_books_balance_at_every_decision_and_nothing_that_is_claimed_is_left_idle(episode, policy):
    simulation, scheduler = begun(episode), make_scheduler(policy)
    parameters = scheduler.parameters_for(0)
    has_next = simulation.advance()
    while has_next:
        check_books(simulation)
        decided = scheduler.decider(simulation.world, simulation.state, parameters)
        if decided == NOTHING:
            assert not SCHEDULERS[policy.partition(":")[0]].work_conserving
            has_next = simulation.decide_nothing()
        else:
            has_next = simulation.decide(stage_of(decided), executors_of(decided))
    check_runs(simulation)


@settings(max_examples=15)
@given(episodes(), some.randoms(use_true_random=False))
def test_any_permitted_decision_leaves_consistent_counts(episode, random):
    simulation = begun(episode)
    world, state = simulation.world, simulation.state
    has_next, left = simulation.advance(), 300
    while has_next:
        left -= 1
        active = set(state.active[: state.clock[0].n_active].tolist())
        open_stages = [
            stage
            for stage, row in enumerate(state.stages)
            if world.stages[stage].job in active
            and row.demand > 0
            and row.waits_for == 0
            and row.picked_round != state.clock[0].round_number
        ]
        taking = [stage for stage in open_stages if _takes(simulation, int(world.stages[stage].job))]
        has_next = simulation.decide(random.choice(taking), random.randint(1, len(state.executors)))
        if left > 0:
            check_books(simulation)
    check_runs(simulation)


def _takes(simulation, job):
    row, clock = simulation.state.jobs[job], simulation.state.clock[0]
    return job == clock.source_job or row.local + row.moving + row.committed < len(simulation.state.executors)
