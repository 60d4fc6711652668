"""A simulation revived from a view has the state of the view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.sim.cluster import Cluster
from mirage.sim.contract.from_view import revive
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.kernel.event_loop import advance
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.workload.generate_workload import generate_workload
from mirage.trace.workload.workload_json import builtin_model

SETTINGS = SlurmSettings.lonestar6()


def busy(discipline: str, settings: SlurmSettings = SETTINGS) -> Simulation:
    """A cluster with a queue."""
    table = generate_workload(builtin_model("lonestar6-like"), days=14, seed=5, load=1.1)
    cluster = Cluster.pool(76)
    sim = Simulation(cluster, workload(table, cluster, refuse=False), discipline, settings)
    sim.advance(int(table.submit_s.min()) + 9 * DAY_S)
    return sim


@pytest.mark.parametrize("discipline", ["fcfs", "easy", "conservative", "slurm", "mirage-2023"])
def test_the_revived_cluster_stands_where_the_view_does(discipline: str) -> None:
    view = busy(discipline).view()
    _, state, _ = revive(view, discipline_spec(discipline), SETTINGS, 16, view.phase_s)
    assert len(view.pending) > 10
    assert state.clock[0].n_pending == len(view.pending)
    assert state.clock[0].n_running == len(view.running)
    assert state.free[0, 0] == view.nodes.free[0, 0]
    ends_s = np.sort(state.live.limit_end_s[state.running[: len(view.running)]])
    np.testing.assert_array_equal(ends_s, np.sort(view.running.start_s + view.running.limit_s))


def test_slurms_order_of_the_queue_holds_without_known_usage() -> None:
    sim = busy("slurm")
    view = sim.view()
    world, state, scratch = revive(view, discipline_spec("slurm"), SETTINGS, 16, view.phase_s)
    advance(world, state, scratch, discipline_spec("slurm").load(), view.now_s + SETTINGS.bf_interval_s)
    head = state.clock[0].queue_head
    slots = state.queue[head : head + state.clock[0].n_pending]
    compared = slots[slots < len(view.pending)]
    assert len(compared) > 10
    priority = view.pending.priority[compared]
    assert (np.diff(priority) <= 2.0).all()  # whole numbers, and a few seconds of age


def test_an_order_by_wfp_continues_as_the_cluster_s_own() -> None:
    """Its scores multiply: one that a view shows must not be added to what it would be anyway."""
    settings = replace(SETTINGS, priority="wfp")
    sim = busy("slurm", settings)
    view = sim.view()
    world, state, scratch = revive(view, discipline_spec("slurm"), settings, 16, view.phase_s)
    later_s = view.now_s + settings.calc_period_s
    advance(world, state, scratch, discipline_spec("slurm").load(), later_s)
    head = state.clock[0].queue_head
    slots = state.queue[head : head + state.clock[0].n_pending]
    compared = slots[slots < len(view.pending)]
    score = state.live.priority[compared]
    waited_h = (later_s - view.pending.eligible_s[compared]) / HOUR_S
    limit_h = view.pending.limit_s[compared] / HOUR_S
    assert len(compared) > 10
    assert (np.diff(score) <= 0).all()
    np.testing.assert_allclose(score, view.pending.nodes[compared] * (waited_h / limit_h) ** 3, rtol=0.2)


@pytest.mark.parametrize("discipline", ["easy", "conservative", "slurm"])
def test_with_true_run_times_it_continues_as_the_cluster_does(discipline: str) -> None:
    settings = replace(SETTINGS, weight_fairshare=0.0)  # usage goes on fading, which a view cannot show
    sim = busy(discipline, settings)
    view = sim.view()
    true_s = {int(job.id): int(min(job.run_s, job.limit_s)) for job in sim.world.jobs}
    world, state, scratch = revive(view, discipline_spec(discipline), settings, 16, view.phase_s)
    ids = np.concatenate([view.pending.id, view.running.id])
    for slot, job_id in enumerate(ids):
        job = state.live[slot]
        job.run_s = true_s[int(job_id)]
        if slot >= len(view.pending):
            job.end_s = job.start_s + job.run_s
    for k in range(int(state.clock[0].n_running)):  # the heap of ends, in the order of the running jobs
        entry = state.heap[k]
        entry.due = state.live[entry.slot].end_s
    order = np.argsort(state.heap.due[: int(state.clock[0].n_running)], kind="stable")
    state.heap[: len(order)] = state.heap[: len(order)][order]
    until_s = view.now_s + 2 * HOUR_S
    advance(world, state, scratch, discipline_spec(discipline).load(), until_s)
    alone = sim.fork()
    alone.state.clock[0].arrived = len(alone.world.jobs)  # nobody comes after the view
    alone.advance(until_s)
    started = {int(alone.state.live[s].id) for s in alone.state.running[: alone.state.clock[0].n_running]}
    ours = {int(ids[state.live[s].id]) for s in state.running[: state.clock[0].n_running]}
    assert len(ours) > 10
    assert ours == started
