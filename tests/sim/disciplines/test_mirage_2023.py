"""The compiled ``mirage-2023`` against a plan of the whole queue on random queues."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, MINUTE_S
from mirage.job_state import JobState
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import simulate
from mirage.sim.workload import workload
from mirage.trace.table import JobTable
from tests.support import textbook

SLOT_S, SLOTS = 600, 288


def first_that_fits(level: np.ndarray, nodes: int, slots: int) -> int | None:
    """The first of enough slots in a row with enough nodes; the last slot has no end."""
    full = np.flatnonzero(level < nodes)
    begins, ends = np.append(0, full + 1), np.append(full, SLOTS + slots)
    fits = begins[(begins + slots <= ends) & (begins < SLOTS)]
    return int(fits[0]) if len(fits) else None


def plan_all(machine: textbook.Machine) -> None:
    """Every job is given its place, and what lies in the first slot starts."""
    level = np.full(SLOTS, machine.free)
    for job in machine.running:
        level[-((machine.now_s - job.limit_end_s) // SLOT_S) :] += job.nodes
    for job in list(machine.queue):
        slots = -(-job.limit_s // SLOT_S)
        begins = first_that_fits(level, job.nodes, slots)
        if begins is not None:
            level[begins : begins + slots] -= job.nodes
        if begins == 0:
            machine.start(job)


def pass_of_2023(machine: textbook.Machine) -> None:
    machine.queue.sort(key=lambda job: 7000 * job.submit_s * machine.nodes - 100 * job.nodes * 7 * DAY_S)
    if machine.now_s % SLOT_S == 0:
        plan_all(machine)
    else:
        while machine.queue and machine.queue[0].nodes <= machine.free:
            machine.start(machine.queue[0])


def table(nodes: int, n: int, seed: int) -> JobTable:
    """Jobs on whole minutes, many alike, most of them short and few as long as a plan."""
    rng = np.random.default_rng(seed)
    limits_min = rng.choice([7, 30, 60, 90, 200, 600, 1440, 2870, 2880, 3000], 6)
    sizes = np.maximum(rng.integers(1, nodes, 6, endpoint=True) // rng.integers(1, nodes, 6, endpoint=True), 1)
    kind = np.minimum(rng.geometric(0.3, n), 6) - 1
    limit_min = limits_min[kind]
    submit_min = np.sort(rng.integers(0, rng.choice([3, 60, 600]), n))
    return JobTable.build(
        np.arange(n),
        submit_s=(submit_min - submit_min[0]) * MINUTE_S,
        elapsed_s=np.ceil(limit_min * rng.choice([0.01, 0.03, 0.2], n)).astype(np.int64) * MINUTE_S,
        limit_s=limit_min * MINUTE_S,
        nodes=sizes[kind],
        state=np.full(n, int(JobState.COMPLETED)),
    )


@pytest.mark.parametrize("seed", range(20))
def test_starts_are_those_of_a_plan_of_the_whole_queue(seed: int) -> None:
    cluster = Cluster.pool(4 + seed)
    jobs = workload(table(cluster.nodes, 80, seed), cluster)
    plain = [textbook.Job(int(j.submit_s), int(j.run_s), int(j.limit_s), int(j.nodes)) for j in jobs.jobs]
    starts_s = textbook.replay(plain, cluster.nodes, pass_of_2023, every_s=SLOT_S)
    np.testing.assert_array_equal(simulate(cluster, jobs, "mirage-2023").start_s, starts_s)
