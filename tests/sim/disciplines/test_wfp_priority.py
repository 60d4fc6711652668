"""WFP: scores of waiting jobs, and the order in which they start."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import HOUR_S
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

WFP3 = SlurmSettings(priority="wfp", weight_age=1000.0, weight_size=1000.0)
Waits = tuple[float, float, int]
"""Hours of submission and time limit, and nodes."""


def queue(settings: SlurmSettings, *waiting: Waits, full_h: float = 10.0) -> Simulation:
    """Jobs that wait for one that runs on all of eight nodes."""
    submit_h, limit_h, nodes = zip((0.0, full_h, 8), *waiting)
    table = JobTable.build(
        range(len(nodes)),
        submit_s=(np.array(submit_h) * HOUR_S).astype(int),
        elapsed_s=(np.array(limit_h) * HOUR_S).astype(int),
        limit_s=(np.array(limit_h) * HOUR_S).astype(int),
        nodes=nodes,
        user=["u"] * len(nodes),
    )
    cluster = Cluster.pool(8)
    return Simulation(cluster, workload(table, cluster), "slurm", settings)


def scores(settings: SlurmSettings, *waiting: Waits, at_h: float) -> dict[int, float]:
    """Job → its score, from the head of the queue on."""
    sim = queue(settings, *waiting)
    sim.advance(int(at_h * HOUR_S))
    pending = sim.view().pending
    return {int(job): float(score) for job, score in zip(pending.id, pending.priority)}


def test_the_score_is_nodes_times_the_cube_of_wait_over_limit() -> None:
    found = scores(WFP3, (1.0, 2.0, 2), (1.0, 8.0, 8), (3.0, 1.0, 8), at_h=9)
    assert found == pytest.approx({3: 8 * (6 / 1) ** 3, 1: 2 * (8 / 2) ** 3, 2: 8 * (8 / 8) ** 3})
    assert list(found) == [3, 1, 2]


def test_each_exponent_counts_for_its_own() -> None:
    settings = replace(WFP3, wfp_size=0.5, wfp_wait=2.0, wfp_limit=1.0)
    assert scores(settings, (1.0, 2.0, 4), at_h=9) == pytest.approx({1: 4**0.5 * 8**2 / 2})


def test_limits_beyond_the_bounds_count_as_these() -> None:
    settings = replace(WFP3, wfp_shortest_s=2 * HOUR_S, wfp_longest_s=4 * HOUR_S)
    found = scores(settings, (1.0, 1.0, 1), (1.0, 2.0, 1), (1.0, 4.0, 1), (1.0, 8.0, 1), at_h=9)
    assert found[1] == found[2] == pytest.approx(4.0**3)
    assert found[3] == found[4] == pytest.approx(2.0**3)


def test_jobs_start_in_the_order_of_their_scores() -> None:
    """The second came last and has the shortest limit; the multifactor priority prefers age."""
    waiting = ((1.0, 8.0, 8), (2.0, 1.0, 8), (3.0, 2.0, 8))
    starts = queue(WFP3, *waiting).run().start_s
    assert np.argsort(starts).tolist() == [0, 2, 3, 1]
    by_age = queue(SlurmSettings(weight_age=1000.0), *waiting).run().start_s
    assert np.argsort(by_age).tolist() == [0, 1, 2, 3]


def test_a_job_that_waits_passes_one_that_came_with_a_better_score() -> None:
    """After one hour the short job leads; the wide one overtakes after a long wait."""
    wide, short = (0.0, 4.0, 8), (8.0, 1.0, 1)
    assert list(scores(replace(WFP3), wide, short, at_h=9.0)) == [1, 2]
    assert list(scores(replace(WFP3, wfp_size=0.0, wfp_limit=6.0), wide, short, at_h=9.0)) == [2, 1]
