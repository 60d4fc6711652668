"""Whole chains in one cluster."""

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.registry import make_policy
from mirage.provision.chain import Link
from mirage.provision.chain_run import run_chain
from mirage.sim.cluster import Cluster
from mirage.sim.jobs import workload
from mirage.sim.simulation import Simulation
from mirage.trace.table import JobTable

LINK = Link(1, 10 * HOUR_S)


def cluster_with(*jobs, nodes=1):
    """A simulation of jobs (submit, run) in hours, each on all nodes, that stands at 0."""
    table = JobTable.build(
        range(len(jobs) + 1),
        submit_s=[job[0] * HOUR_S for job in jobs] + [1000 * HOUR_S],
        elapsed_s=[job[1] * HOUR_S for job in jobs] + [1],
        limit_s=[job[1] * HOUR_S for job in jobs] + [1],
        nodes=[nodes] * (len(jobs) + 1),
    )
    cluster = Cluster.pool(nodes)
    return Simulation(cluster, workload(table, cluster), "fcfs", begin_s=0)


def chain(sim, policy, hours):
    return run_chain(sim, LINK, make_policy(policy), hours * HOUR_S)


def test_alone_on_a_machine_nothing_is_lost():
    run = chain(cluster_with(), "reactive", 35)
    assert [(r.submitted_s, r.started_s) for r in run.links] == [(k * 10 * HOUR_S, k * 10 * HOUR_S) for k in range(4)]
    assert (run.interruption_s, run.overlap_s, run.availability) == (0, 0, 1.0)
    assert [h.ended_s // HOUR_S for h in run.hand_overs] == [10, 20, 30]


def test_a_reactive_chain_waits_behind_others():
    run = chain(cluster_with((5, 3)), "reactive", 24)
    assert [(h.x_s, h.open) for h in run.hand_overs] == [(3 * HOUR_S, False), (0, False)]
    assert run.interruption_s == 3 * HOUR_S
    assert run.availability == pytest.approx(21 / 24)
    assert run.cost(Cost(2, 1)) == 6


def test_a_lead_asks_ahead_and_the_queue_decides():
    run = chain(cluster_with((5, 3)), "lead:6", 22)
    first, second = run.links[0], run.links[1]
    assert (first.ends_s - second.submitted_s, second.started_s) == (6 * HOUR_S, 10 * HOUR_S)


def test_too_early_on_two_nodes_is_overlap():
    run = chain(cluster_with(nodes=2), "lead:4", 15)
    assert [h.x_s for h in run.hand_overs] == [-4 * HOUR_S]
    assert run.overlap_s == 4 * HOUR_S
    assert run.wasted_node_h == 4


def test_an_interruption_still_open_at_the_horizon_counts_to_it():
    run = chain(cluster_with((5, 100)), "reactive", 30)
    assert [(h.x_s, h.open) for h in run.hand_overs] == [(20 * HOUR_S, True)]
    assert run.links[-1].started_s == MISSING


def test_a_chain_that_never_starts_was_never_alive():
    sim = cluster_with((0, 100))
    sim.advance(HOUR_S)
    run = run_chain(sim, LINK, make_policy("reactive"), 20 * HOUR_S)
    assert (run.hand_overs, run.availability, len(run.links)) == ((), 0.0, 1)


def test_every_decision_is_on_record():
    run = chain(cluster_with(), "lead:2", 12)
    of_first = [d for d in run.decisions if d.link == 0]
    assert [d.submits for d in of_first] == [False] * 15 + [True]
    assert (of_first[-1].remaining_s, of_first[-1].reason) == (2 * HOUR_S, "lead-reached")
    assert of_first[0].estimate["lead_s"] == 2 * HOUR_S


def test_the_links_do_not_depend_on_how_often_a_patient_policy_is_asked(busy_setting):
    runs = []
    for step_s in (HOUR_S, HOUR_S // 2):
        sim = busy_setting.simulation()
        sim.approach(10 * DAY_S)
        runs.append(run_chain(sim, LINK, make_policy("reactive"), 14 * DAY_S, step_s=step_s))
    assert runs[0].links == runs[1].links
