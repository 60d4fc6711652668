"""Loans of servers in plans of several actions.

A plan names each server once, is one step in any order, and the amounts add up.
"""

from itertools import permutations
from math import inf

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuAction, GpuLend, GpuPlan, GpuResize, GpuReturn, GpuStart, GpuView
from mirage.schedule.workload.gpu_jobs import ANY_POOL, GpuJobs

CLUSTER = GpuCluster((ServerGroup("t", "v100", 1, 4, "training"), ServerGroup("i", "v100", 4, 4, "inference")))
TRAINING, INFERENCE = 0, 1
HOME = [TRAINING, *[INFERENCE] * 4]
END_S = 49
TWICE = "the plan names the job or the server twice"


class Script:
    """Gives plans at given times; records refusals and the pools of servers at each call."""

    def __init__(self, plans: dict[float, list[GpuAction]]) -> None:
        self.plans, self.times, self.refused, self.pools = plans, sorted(plans), {}, {}

    def decide(self, view: GpuView) -> GpuPlan:
        self.refused[view.now_s] = [(one.action, one.why) for one in view.refused]
        self.pools[view.now_s] = view.servers.pool.tolist()
        wake_s = min((time_s for time_s in self.times if time_s > view.now_s), default=None)
        return GpuPlan(tuple(self.plans.pop(view.now_s, ())), wake_s)


def play(
    plans: dict[float, list[GpuAction]], demand: list[Demand], force_after_s: float = inf
) -> tuple[GpuLog, Script]:
    jobs = GpuJobs.linear([0, 60], [4, 4], [100, 1], max_gpus=8, pool=TRAINING)
    script = Script({0: [], 20: [], **plans})
    simulation = GpuSimulation(CLUSTER, jobs, script, demand=demand, force_after_s=force_after_s)
    return simulation.run(until_s=END_S), script


def check_books(log: GpuLog, demand: list[Demand], pools: list[int]) -> None:
    """Loans on a server do not overlap, give its pool, and add up to the unmet demand."""
    lent = {}
    for loan in log.loans:
        assert loan.start_s >= lent.get(loan.server, (0, -inf))[1]
        lent[loan.server] = (loan.pool, loan.end_s)
    assert pools == [lent[s][0] if lent.get(s, (0, 0))[1] == inf else home for s, home in enumerate(HOME)]
    wanted = dict.fromkeys(range(END_S), 0)
    for change in sorted(demand, key=lambda change: change.time_s):
        wanted.update({second: change.servers for second in range(int(change.time_s), END_S)})
    of_inference = log.loans[log.loans.server > 0]
    there = [4 - sum(loan.start_s <= second < loan.end_s for loan in of_inference) for second in range(END_S)]
    assert log.unmet_server_s == sum(max(wanted[second] - there[second], 0) for second in range(END_S))


@pytest.mark.parametrize(
    ("before", "twice"),
    [
        ([GpuLend(1, TRAINING), GpuLend(2, TRAINING)], [GpuReturn(1), GpuReturn(1)]),
        ([GpuLend(1, TRAINING), GpuLend(2, TRAINING)], [GpuReturn(1), GpuLend(1, TRAINING, until_s=40)]),
        ([GpuLend(1, TRAINING), GpuLend(2, TRAINING)], [GpuLend(1, TRAINING, until_s=40), GpuReturn(1)]),
        ([GpuLend(2, TRAINING)], [GpuLend(1, TRAINING), GpuLend(1, TRAINING, until_s=40)]),
        ([GpuLend(2, TRAINING)], [GpuLend(1, TRAINING), GpuReturn(1)]),
    ],
)
def test_server_is_lent_or_given_back_once_in_a_plan(before: list[GpuAction], twice: list[GpuAction]) -> None:
    demand = [Demand(30, INFERENCE, 4)]
    log, script = play({0: before, 10: twice}, demand)
    assert script.refused[20][-1] == (twice[1], TWICE)
    check_books(log, demand, script.pools[20])


@pytest.mark.parametrize("there_is_room", [True, False])
def test_loans_are_one_step_in_any_order_and_a_change_of_size_without_room_undoes_none(there_is_room: bool) -> None:
    """Inference takes two of four servers: two can be lent only if the two lent return."""
    demand = [Demand(0, INFERENCE, 2)]
    before = [GpuLend(1, TRAINING), GpuLend(2, TRAINING), GpuStart(0, {0: 4})]
    wider = GpuResize(0, {0: 4, 3: 4} if there_is_room else {0: 5})
    moves = [GpuReturn(1), GpuReturn(2), GpuLend(3, TRAINING), GpuLend(4, TRAINING), wider]
    for plan in list(permutations(moves))[::5]:
        log, script = play({0: before, 10: list(plan)}, demand)
        assert script.refused[20] == ([] if there_is_room else [(wider, "the GPUs are not free")])
        assert script.pools[20] == [TRAINING, INFERENCE, INFERENCE, TRAINING, TRAINING]
        check_books(log, demand, script.pools[20])


def random_plan(rng: np.random.Generator) -> list[GpuAction]:
    def one() -> GpuAction:
        server = int(rng.integers(-1, 6))
        match int(rng.integers(4)):
            case 0:
                return GpuLend(server, int(rng.integers(2)), until_s=float(rng.choice([inf, rng.integers(0, 60)])))
            case 1:
                return GpuReturn(server)
            case 2:
                return GpuResize(0, {server: 4})
            case _:
                return GpuStart(0, {server: int(rng.integers(1, 6))})

    return [one() for _ in range(rng.integers(1, 8))]


@pytest.mark.parametrize("force_after_s", [0, 7, inf])
def test_books_of_random_plans_add_up(force_after_s: float) -> None:
    rng = np.random.default_rng(0)
    loans = 0
    for _ in range(60):
        plans = {float(at_s): random_plan(rng) for at_s in rng.choice(END_S, 12, replace=False)}
        demand = [Demand(float(at_s), INFERENCE, int(rng.integers(5))) for at_s in rng.choice(END_S, 3, replace=False)]
        log, script = play(plans | {END_S: []}, demand, force_after_s)
        check_books(log, demand, script.pools[END_S])
        loans += len(log.loans)
    assert loans > 60


def test_thousands_of_servers_return_at_once() -> None:
    n = 3000
    cluster = GpuCluster((ServerGroup("t", "v100", 1, 1, "training"), ServerGroup("i", "v100", n, 1, "inference")))
    lent = [GpuLend(server, TRAINING, until_s=50) for server in range(1, n + 1)]
    script = Script({0: [GpuStart(0), *lent], 60: []})
    log = GpuSimulation(cluster, GpuJobs.linear([0], [1], [100], pool=TRAINING), script).run()
    assert log.loans.end_s.tolist() == [50] * n
    assert log.rows.due_s[0] == 100


@pytest.mark.parametrize("pool", [ANY_POOL, INFERENCE])
def test_jobs_that_could_take_the_servers_of_inference_are_refused(pool: int) -> None:
    jobs = GpuJobs.linear([0], [4], [100], pool=pool)
    GpuSimulation(CLUSTER, jobs, Script({}), demand=[Demand(0, INFERENCE, 0)])
    with pytest.raises(ConfigurationError, match="may run in pool 'inference', from which inference takes 2 servers"):
        GpuSimulation(CLUSTER, jobs, Script({}), demand=[Demand(0, INFERENCE, 2)])
