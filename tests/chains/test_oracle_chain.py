"""Hand-overs chosen in hindsight, on a node shared with a job of three hours."""

from __future__ import annotations

import pytest

from mirage.chains.oracle_chain import play_oracle
from mirage.duration import HOUR_S
from mirage.policy.cost import Cost
from mirage.provision.chain_record import ChainRun
from mirage.provision.link_size import LinkSize
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

LINK = LinkSize(1, 2 * HOUR_S)


def one_node(retains_age: bool, waiting_links: int) -> ChainRun:
    """A chain of eight hours; the job of others is submitted after half an hour."""
    other = JobTable.build([1], submit_s=[HOUR_S // 2], elapsed_s=[3 * HOUR_S], limit_s=[3 * HOUR_S], nodes=[1])
    machine = Cluster.pool(1)
    settings = SlurmSettings(weight_age=1_000.0, age_survives_hold=retains_age)
    sim = Simulation(machine, workload(other, machine), "slurm", settings, begin_s=0)
    return play_oracle(sim, LINK, Cost(3, 1), 8 * HOUR_S, waiting_links, step_s=HOUR_S // 2)


def hours(run: ChainRun) -> list[tuple[float, float]]:
    """When links began to compete, and when they started."""
    return [(link.submitted_s / HOUR_S, link.started_s / HOUR_S) for link in run.links]


def test_a_held_link_of_greater_age_starts_when_its_predecessor_ends() -> None:
    run = one_node(retains_age=True, waiting_links=3)
    assert hours(run) == [(0, 0), (2, 2), (4, 4), (6, 6)]
    assert [link.held_s for link in run.links] == [-1, 0, 0, 0]
    assert (run.interruption_s, run.overlap_s) == (0, 0)


def test_links_that_lose_their_age_when_held_compete_before_the_other_job_does() -> None:
    run = one_node(retains_age=False, waiting_links=3)
    assert hours(run) == [(0, 0), (0.5, 2), (0.5, 4), (0.5, 6)], "at the last moment, in the second of the other job"
    assert [link.held_s for link in run.links] == [-1] * 4
    assert run.interruption_s == 0


@pytest.mark.parametrize(("retains_age", "second"), [(True, (2, 2)), (False, (0.5, 2))])
def test_no_more_links_wait_than_may(retains_age: bool, second: tuple[float, float]) -> None:
    run = one_node(retains_age, waiting_links=1)
    assert hours(run) == [(0, 0), second, (4, 7)], "the third link is submitted after the other job"
    assert (run.interruption_s, run.hand_overs[1].interruption_s) == (3 * HOUR_S, 3 * HOUR_S)


@pytest.mark.parametrize(("cost", "starts_h"), [(Cost(3, 1), [0, 1.5]), (Cost(1, 1_000), [0, 4.5])])
def test_an_early_start_ends_the_link_before_it_after_its_grace_time(cost: Cost, starts_h: list[float]) -> None:
    """From 1.5 h on, a job waits for both nodes, and later links wait for this job."""
    others = JobTable.build([1, 2], submit_s=[0, 5_400], elapsed_s=[3_600, 9_000], limit_s=[3_600, 9_000], nodes=[1, 2])
    machine = Cluster.pool(2)
    settings = SlurmSettings(age_survives_hold=False)
    sim = Simulation(machine, workload(others, machine), "fcfs", settings, begin_s=0)
    run = play_oracle(sim, LINK, cost, 6 * HOUR_S, 1, step_s=HOUR_S // 4)
    assert [link.started_s / HOUR_S for link in run.started] == starts_h
    early = starts_h[1] < 2
    assert run.hand_overs[0].overlap_s == (120 if early else 0)
    assert run.links[0].ends_s == (1.5 * HOUR_S + 120 if early else 2 * HOUR_S)
    assert run.interruption_s == 2.5 * HOUR_S


def test_the_nodes_of_a_link_that_has_ended_are_free_for_others() -> None:
    """The second link starts before a job that then waits for the nodes of the first one."""
    others = JobTable.build(
        [1, 2, 3], submit_s=[0, 5_400, 5_460], elapsed_s=[3_600, 7_200, 36_000], limit_s=[3_600, 7_200, 36_000],
        nodes=[1, 1, 1],
    )  # fmt: skip
    machine = Cluster.pool(2)
    settings = SlurmSettings(age_survives_hold=False)
    sim = Simulation(machine, workload(others, machine), "fcfs", settings, begin_s=0)
    run = play_oracle(sim, LINK, Cost(3, 1), 5 * HOUR_S, 1, step_s=HOUR_S // 4)
    assert [link.started_s for link in run.links] == [0, 5_400, 5_400 + 120 + 7_200]
    assert run.interruption_s == 120
