"""Inference demand: its announcements, and lent servers that inference takes by force."""

from math import inf

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.engine.measures import measures
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuAction, GpuLend, GpuPlan, GpuReturn, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import GpuJobs

CLUSTER = GpuCluster((ServerGroup("t", "v100", 1, 4, "training"), ServerGroup("i", "v100", 3, 4, "inference")))
TRAINING, INFERENCE = 0, 1
LENT = [GpuLend(1, TRAINING), GpuLend(2, TRAINING), GpuLend(3, TRAINING)]


class Script:
    """Gives plans at the calls of the engine, and records the views."""

    def __init__(self, plans: dict[float, list[GpuAction]]) -> None:
        self.plans, self.views = plans, dict[float, GpuView]()

    def decide(self, view: GpuView) -> GpuPlan:
        self.views[view.now_s] = view.copy()
        return GpuPlan(tuple(self.plans.pop(view.now_s, ())))


def play(
    jobs: GpuJobs, plans: dict[float, list[GpuAction]], demand: list[Demand], force_after_s: float = 0.0
) -> tuple[GpuLog, Script]:
    script = Script(plans)
    return GpuSimulation(CLUSTER, jobs, script, demand=demand, force_after_s=force_after_s).run(), script


def test_announcements_call_the_scheduler_and_may_err() -> None:
    jobs = GpuJobs.linear([0], [4], [200], pool=TRAINING)
    demand = [
        Demand(0, INFERENCE, 1),
        Demand(100, INFERENCE, 2, announced_s=40, announced=3),
        Demand(120, INFERENCE, 1, announced_s=70),
        Demand(150, INFERENCE, 0),
    ]
    _, script = play(jobs, {0: [GpuStart(0)]}, demand)
    found = {
        time_s: (int(s.wanted[INFERENCE]), int(s.wanted_soon[INFERENCE]), float(s.wanted_from_s[INFERENCE]))
        for time_s, s in ((time_s, view.servers) for time_s, view in script.views.items())
    }
    assert found == {
        0: (1, 1, inf),
        40: (1, 3, 100),
        70: (1, 3, 100),  # the next change first
        100: (2, 1, 120),
        120: (1, 1, inf),
        150: (0, 0, inf),
    }
    assert script.views[40].servers.wanted_soon[TRAINING] == 0


def test_inference_takes_the_servers_with_the_least_unsaved_work() -> None:
    """Three servers are lent; at 50 s it takes the idle one and that of the younger job."""
    jobs = GpuJobs.linear([0, 0, 30], [4, 4, 3], [100, 100, 100], pool=TRAINING)
    plans = {
        0: [*LENT, GpuStart(0, {0: 4}), GpuStart(1, {1: 4})],
        30: [GpuStart(2, {2: 3})],
        100: [GpuStart(2, {0: 3})],
    }
    log, script = play(jobs, plans, [Demand(50, INFERENCE, 2)])
    assert script.views[50].servers.pool.tolist()[1:] in ([TRAINING] * 3, [TRAINING, INFERENCE, INFERENCE])
    assert [(loan.server, loan.end_s, loan.breached) for loan in log.loans] == [(1, inf, 0), (2, 50, 1), (3, 50, 1)]
    assert (log.breaches, log.unmet_server_s) == (2, 0)
    assert log.rows.lost.tolist() == [0, 0, 20 * 3]
    assert log.rows.due_s.tolist() == [100, 100, 200]


def test_servers_returned_at_the_instant_of_the_demand_break_no_promise() -> None:
    jobs = GpuJobs.linear([0], [4], [100], pool=TRAINING)
    plans: dict[float, list[GpuAction]] = {0: [*LENT, GpuStart(0, {0: 4})], 50: [GpuReturn(2), GpuReturn(1)]}
    log, _ = play(jobs, plans, [Demand(50, INFERENCE, 2)])
    assert (log.breaches, log.unmet_server_s, log.loans.end_s.tolist()) == (0, 0, [50, 50, inf])


def test_servers_lent_before_the_first_submission_are_not_counted() -> None:
    jobs = GpuJobs.linear([7200], [4], [3600], pool=TRAINING)
    log, _ = play(
        jobs, {0: [*LENT], 7200: [GpuStart(0, {1: 4})]}, [Demand(0, INFERENCE, 0), Demand(9000, INFERENCE, 2)]
    )
    assert measures(log).lent_server_h == (1800 + 1800 + 3600) / 3600


def test_demand_is_unmet_until_inference_takes_servers() -> None:
    jobs = GpuJobs.linear([0], [4], [100], pool=TRAINING)
    plans: dict[float, list[GpuAction]] = {0: [*LENT, GpuStart(0, {1: 4})]}
    log, _ = play(jobs, plans, [Demand(40, INFERENCE, 3), Demand(60, INFERENCE, 2)], force_after_s=30)
    assert (log.breaches, log.unmet_server_s) == (2, 3 * 20 + 2 * 10)
    assert log.loans.end_s.tolist() == [inf, 70, 70]
    log, _ = play(jobs, {0: [*LENT, GpuStart(0, {1: 4})]}, [Demand(40, INFERENCE, 3)], force_after_s=inf)
    assert (log.breaches, log.unmet_server_s) == (0, 3 * 60)


def test_scheduler_is_called_on_servers_without_active_jobs() -> None:
    """It returns servers before its first job and after its last one."""

    class Careful:
        calls: list[tuple[float, int]] = []  # noqa: RUF012

        def decide(self, view: GpuView) -> GpuPlan:
            self.calls.append((view.now_s, len(view.jobs)))
            lent = np.flatnonzero((view.servers.pool != view.servers.home) & (view.servers.free == 4)).tolist()
            here = 3 - len(lent)
            wanted = max(view.servers.wanted[INFERENCE], view.servers.wanted_soon[INFERENCE])
            actions: list[GpuAction] = [GpuReturn(server) for server in lent[: max(wanted - here, 0)]]
            if view.now_s in (10, 60):
                actions += [GpuLend(3, TRAINING)]
            return GpuPlan((*actions, *(GpuStart(int(j)) for j in view.jobs.id[view.jobs.pending])))

    jobs = GpuJobs.linear([50], [2], [10], pool=TRAINING)
    demand = [
        Demand(10, INFERENCE, 2),
        Demand(20, INFERENCE, 3),
        Demand(30, INFERENCE, 1),
        Demand(90, INFERENCE, 3, 80),
    ]
    log = GpuSimulation(CLUSTER, jobs, Careful(), demand=demand).run()
    assert Careful.calls == [(10, 0), (20, 0), (30, 0), (50, 1), (80, 0), (90, 0)]
    assert (log.breaches, log.unmet_server_s) == (0, 0)
    assert [(loan.start_s, loan.end_s) for loan in log.loans] == [(10, 20)]


@pytest.mark.parametrize("changed", [{"announced_s": 60.0}, {"announced": 4}])
def test_announcements_that_cannot_be_are_refused(changed: dict[str, float]) -> None:
    jobs = GpuJobs.linear([0], [4], [100], pool=TRAINING)
    demand = [Demand(50, INFERENCE, 2, **changed)]  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="announce 0 to 3 servers, and not later than the change"):
        GpuSimulation(CLUSTER, jobs, Script({}), demand=demand)
