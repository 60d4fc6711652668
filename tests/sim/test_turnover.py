"""Turnover: nodes of an ended job are free only after ``turnover_s``, also in plans."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.policy.plan import Plan, Preempt, Resize, Start
from mirage.policy.view import View
from mirage.sim.check_schedule import check_schedule
from mirage.sim.cluster import Cluster, Limit, NodeGroup
from mirage.sim.contract.from_view import revive
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.job_updates import requeue
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support.audit import audit

ANYWHERE = ["fcfs", "easy", "conservative", "slurm"]
TWO_POOLS = Cluster((NodeGroup("a", 1), NodeGroup("b", 1)))
TURNOVER = SlurmSettings(turnover_s=20, bf_interval_s=1, bf_resolution_s=1)


def table(*rows: tuple[int, int, int, int], **columns: object) -> JobTable:
    """Jobs (submit_s, run_s, limit_s, nodes)."""
    numbers = dict(zip(("submit_s", "elapsed_s", "limit_s", "nodes"), zip(*rows)))
    return JobTable.build(range(len(rows)), **numbers, **{"user": ["u"] * len(rows), **columns})


def simulation(cluster: Cluster, jobs: JobTable, name: object = "easy", settings: object = TURNOVER) -> Simulation:
    return Simulation(cluster, workload(jobs, cluster), name, settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("groups", [(NodeGroup("a", 3, 2, 4),), (NodeGroup("a", 2, 2, 4), NodeGroup("b", 1, 2, 4))])
@pytest.mark.parametrize("shared", [False, True])
def test_nodes_come_free_later_and_the_segment_ends_when_the_job_does(
    name: str, groups: tuple[NodeGroup, ...], shared: bool
) -> None:
    jobs = table((0, 10, 30, 3), (0, 10, 30, 2), (0, 10, 30, 1))
    cluster = Cluster(groups, shared_nodes=shared)
    schedule = simulation(cluster, jobs, name).run()
    assert schedule.start_s.tolist() == [0, 30, 30]
    assert schedule.end_s.tolist() == [10, 40, 40]


@pytest.mark.parametrize("name", ["easy", "conservative", "slurm"])
def test_what_is_backfilled_must_have_left_its_nodes_before_the_head_needs_them(name: str) -> None:
    """The head starts on all nodes at 50 + 20; a job after it may hold a node for 69 s."""
    for limit_s, start_s in ((49, 1), (50, 190)):
        jobs = table((0, 50, 50, 2), (0, 100, 100, 3), (1, limit_s, limit_s, 1))
        schedule = simulation(Cluster.pool(3), jobs, name).run()
        assert schedule.start_s.tolist() == [0, 70, start_s], limit_s


@pytest.mark.parametrize("name", ["easy", "conservative", "slurm"])
@pytest.mark.parametrize(
    "cluster", [Cluster.pool(2), Cluster((NodeGroup("a", 1), NodeGroup("b", 1))), Cluster.gpu(2, 4)]
)
def test_plans_know_when_nodes_between_two_jobs_come_free(name: str, cluster: Cluster) -> None:
    """One node is used until 30, one until 100 + 20: a job may have the first from 30 to 120."""
    for limit_s, start_s in ((70, 30), (71, 180)):
        jobs = table((0, 10, 100, 1), (0, 100, 100, 1), (11, 40, 40, 2), (12, 9, limit_s, 1))
        schedule = simulation(cluster, jobs, name).run()
        assert schedule.start_s.tolist() == [0, 0, 120, start_s], limit_s


def test_a_limit_is_given_back_at_the_true_end() -> None:
    cluster = replace(Cluster.pool(2), limits=(Limit(jobs=1),))
    jobs = table((0, 10, 30, 1), (0, 10, 30, 1), (0, 10, 30, 1), user=["u", "u", "v"])
    for name in ANYWHERE:
        sim = simulation(cluster, jobs, name)
        assert sim.run().start_s.tolist() == [0, 30, 0]  # no node is free before
    three = replace(cluster, groups=(NodeGroup("node", 3),))
    for name in ANYWHERE:
        assert simulation(three, jobs, name).run().start_s.tolist() == [0, 10, 0]


def test_a_view_shows_a_completing_job_neither_running_nor_its_nodes_free() -> None:
    for cluster in (Cluster.pool(3), Cluster.gpu(3, 4)):
        sim = simulation(cluster, table((0, 10, 30, 2), (0, 100, 100, 1), gpus=[4, 1], cpus=[2, 1]))
        sim.advance(15)
        audit(sim)
        view = sim.view()
        assert (view.running.id.tolist(), view.ended.end_s.tolist()) == ([1], [10])
        assert view.nodes.capacity.sum(axis=0)[0] == (3 if view.nodes.pools else 12)
        assert view.nodes.free.sum(axis=0)[0] == (0 if view.nodes.pools else 12 - 1 - 4)
        sim.advance(30)
        assert sim.view().nodes.free.sum(axis=0)[0] == (2 if view.nodes.pools else 11)


def test_branches_carry_nodes_between_two_jobs_with_them() -> None:
    jobs = table(*((k, 10 + k % 7, 40, 1 + k % 3) for k in range(60)))
    for cluster in (Cluster.pool(4), Cluster.gpu(4, 2)):
        straight = simulation(cluster, jobs, "slurm").run().segments
        sim = simulation(cluster, jobs, "slurm")
        while not sim.state.clock[0].n_completing:
            sim.step()
        mark, now_s = sim.fork(), sim.now_s
        branch = mark.fork()
        branch.run_until_started(branch.inject(nodes=4, limit_s=60))
        branch.restore(mark)
        audit(branch)
        assert branch.state.clock[0].n_completing == mark.state.clock[0].n_completing > 0
        assert branch.now_s == now_s
        for other in (branch, mark, sim):
            other.grow()
            assert other.run().segments.tobytes() == straight.tobytes()


def test_all_nodes_may_be_between_two_jobs_when_there_are_many_more_than_jobs_had_room() -> None:
    """More nodes than slots: each ended job has an entry, and a step of the profile."""
    n = 700
    long = replace(TURNOVER, turnover_s=500, max_job_test=1000, default_queue_depth=1000)
    jobs = table(*((0, 10 + k % 300, 1000, 1) for k in range(n)), (1, 5, 5, n), (400, 1, 1, 1))
    for cluster in (Cluster.pool(n), Cluster((NodeGroup("a", n - 1), NodeGroup("b", 1)))):
        for name in ANYWHERE:
            sim = simulation(cluster, jobs, name, long)
            schedule = sim.run()
            audit(sim)
            assert schedule.start_s[n:].tolist() == [809, 1314], name


class Script:
    """Plans by second."""

    def __init__(self, plans: dict[int, Plan]) -> None:
        self.plans = plans

    def decide(self, view: View) -> Plan:
        return self.plans.pop(view.now_s, Plan())


def test_suspending_and_shrinking_have_their_own_cost_and_no_turnover() -> None:
    jobs = table((0, 100, 500, 2), (0, 10, 20, 1), (0, 10, 20, 1))
    script = Script({0: Plan((Start(job=0), Resize(job=0, nodes=1), Start(job=1)))})
    sim = simulation(Cluster.pool(2), jobs, script)
    sim.advance(0)
    sim.apply(Plan((Preempt(job=0), Start(job=2))))
    audit(sim)
    assert sorted(sim.view().running.id) == [1, 2]
    sim.advance(10)
    assert sim.view().nodes.free[0, 0] == 0
    sim.advance(30)
    audit(sim)
    assert sim.view().nodes.free[0, 0] == 2


def test_a_requeued_job_may_wait_for_the_nodes_that_it_left() -> None:
    sim = simulation(Cluster.pool(2), table((0, 50, 60, 2)), "slurm")
    sim.advance(5)
    requeue(sim, 0, begin_s=6)
    sim.advance(24)
    audit(sim)
    assert (sim.view().pending.id.tolist(), sim.view().nodes.free[0, 0]) == ([0], 0)
    assert sim.run().segments.start_s.tolist() == [0, 25]


def test_preemption_waits_for_nodes_in_turnover_and_displaces_no_job_for_them() -> None:
    cluster = Cluster(
        (NodeGroup("node", 2),), qos_factors={"low": 0.0, "high": 9.0}, qos_preempts={"high": ("low",)}
    )  # fmt: skip
    rows = ((0, 10, 90, 1), (0, 80, 90, 1), (15, 20, 30, 1), (40, 20, 30, 1))
    jobs = table(*rows, qos=["low", "low", "high", "high"])
    settings = replace(TURNOVER, weight_qos=1000, requeue_hold_s=100)
    schedule = simulation(cluster, jobs, "slurm", settings).run()
    spans = [(int(s.id), int(s.start_s), int(s.end_s)) for s in schedule.segments]
    # job 2 waits for the node that completes until 30; job 3 displaces job 1, and has its node 20 s later
    assert spans == [(0, 0, 10), (1, 0, 40), (2, 30, 50), (3, 60, 80), (1, 140, 220)]
    check_schedule(schedule, cluster)


def test_a_revived_simulation_continues_the_turnover() -> None:
    sim = simulation(Cluster.pool(2), table((0, 50, 50, 2), (1, 10, 20, 2)), "slurm")
    sim.advance(40)
    world, state, _ = revive(sim.view(), discipline_spec("slurm"), TURNOVER, 4, 0)
    assert world.settings[0].turnover_s == 20
    assert len(state.completing) >= 2
    minutes, _, _ = revive(sim.view(), discipline_spec("mirage-2023"), TURNOVER, 4, 0)
    assert minutes.settings[0].turnover_s == 0


def test_the_published_simulator_knows_no_turnover() -> None:
    jobs = table((0, 60, 600, 3), (0, 60, 600, 3))
    pair = [simulation(Cluster.pool(3), jobs, "mirage-2023", s).run() for s in (TURNOVER, SlurmSettings())]
    np.testing.assert_array_equal(pair[0].start_s, pair[1].start_s)
