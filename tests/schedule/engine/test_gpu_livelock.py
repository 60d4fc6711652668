"""Livelock: a simulation in which jobs always lose their GPUs without progress ends."""

from __future__ import annotations

from typing import Literal

import pytest

from mirage.errors import PlanInfeasible
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.engine.kernel.gpu_event_loop import MOST_WITHOUT_PROGRESS
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuAction, GpuPlan, GpuPreempt, GpuStart, GpuView
from mirage.schedule.schedulers.gavel import Gavel
from mirage.schedule.workload.gpu_jobs import GpuJobs

How = Literal["save", "kill"]
CLUSTER = GpuCluster((ServerGroup("a", "v100", 2, 1),))


class Exchanges:
    """Two jobs take turns of a second on the first server; a third has the second server."""

    round_s = 1.0

    def __init__(self, how: How) -> None:
        self.how = how

    def decide(self, view: GpuView) -> GpuPlan:
        actions: list[GpuAction] = []
        held = dict(zip(view.jobs.id.tolist(), view.jobs.held.tolist()))
        for job in (0, 1):
            if held.get(job):
                actions = [GpuPreempt(job, self.how)]
                if 1 - job in held:
                    actions.append(GpuStart(1 - job, {0: 1}))
        if not actions:
            actions += [GpuStart(job, {0: 1}) for job in held if job < 2][:1]
        if held.get(2) == 0:
            actions.append(GpuStart(2, {1: 1}))
        return GpuPlan(tuple(actions))


def simulation(how: How, run_s: list[float]) -> GpuSimulation:
    jobs = GpuJobs.linear([0.0] * len(run_s), [1] * len(run_s), run_s)
    return GpuSimulation(CLUSTER, jobs, Exchanges(how))


def test_jobs_that_lose_everything_in_each_turn_are_reported() -> None:
    times = MOST_WITHOUT_PROGRESS + 2 * 100 + 1
    with pytest.raises(PlanInfeasible) as livelock:
        simulation("kill", [50, 50]).run()
    assert str(livelock.value) == (
        f"at {times + 2} s Exchanges has removed jobs from their GPUs {times} times in a row before any of their work "
        "there was safe, and would continue indefinitely; let jobs stay longer than a restart takes (round_s), save "
        "before they leave (preempt=save), or write checkpoints"
    )


def test_turns_in_which_something_is_saved_may_be_any_number() -> None:
    turns = MOST_WITHOUT_PROGRESS // 2 + 150
    log = simulation("save", [turns, turns]).run()
    assert log.rows.due_s.max() == pytest.approx(2 * turns, abs=3)


def test_a_job_that_works_on_undisturbed_is_waited_for() -> None:
    run_s = MOST_WITHOUT_PROGRESS + 500
    world = simulation("kill", [50, 50, run_s])
    with pytest.raises(PlanInfeasible):
        world.run()
    assert world.now_s > run_s + MOST_WITHOUT_PROGRESS


@pytest.mark.parametrize("restart_s", [360, 720])
def test_gavel_ends_where_a_restart_lasts_a_whole_round(restart_s: float) -> None:
    jobs = GpuJobs.linear([0, 10, 20], [2, 2, 2], [1000, 1000, 1000])
    costs = LifeCosts.of(jobs, first_start_s=restart_s, restart_s=restart_s, rescale_s=restart_s)
    log = GpuSimulation(CLUSTER, jobs, Gavel(), costs=costs).run(until_s=50_000)
    assert log.rows.progress.tolist() == [2000] * 3
    # each turn is a restart, and as long again with work
    assert log.rows.restarts.sum() > 3
