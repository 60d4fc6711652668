"""Schedulers of stages against published and independently measured completion times.

How each is compared: arrivals are the very same, since they are drawn as in the published simulators; durations are
drawn from the same measurements by another generator, so that means agree within what durations make of them. Over
eight seeds of durations the standard deviation is 0.1 s of 63 s on the long stream.
"""

import numpy as np
import pytest

from mirage.dag.schedulers.stage_schedulers import make_scheduler
from mirage.dag.simulator.dag_simulation import DagSimulation
from mirage.dag.simulator.dag_world import DagCluster
from mirage.dag.workload.dag_arrivals import decima_arrivals, poisson_arrivals
from mirage.dag.workload.tpch import read_tpch


@pytest.fixture(scope="module")
def tpch(shared_data):
    return read_tpch(shared_data / "tpch" / "tpch_profiles.json.gz")


def mean_jct_s(templates, arrivals, policy, executors, seed, environment="spark-sched-sim"):
    scheduler = make_scheduler(policy)
    simulation = DagSimulation(templates, arrivals, DagCluster(executors, environment=environment), seed=seed)
    return simulation.run(scheduler.decider, scheduler.parameters_for(seed)).jct_s.mean()


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "within"), [("decima-2019", 0.005), ("spark-sched-sim", 0.012)])
def test_fair_on_the_stream_of_5001_jobs(tpch, environment, within):
    """Published is what the environment of 2019 makes of it; in the other one 63.2 s is right."""
    measured = mean_jct_s(tpch, decima_arrivals(5001, 10_000_000), "fair", 50, 0, environment)
    assert measured == pytest.approx(62.7, rel=within)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "executors", "jobs", "seeds", "published_s", "within"),
    [
        ("fair:1", 50, 200, range(4), 58.7, 0.007),
        ("fair:1", 10, 50, range(8), 1016.1, 0.005),
        ("fifo", 50, 200, range(4), 208.8, 0.008),
        ("fifo", 10, 50, range(8), 1389.9, 0.002),
        ("capped:0.25:1.5", 50, 200, range(100, 108), 54.9, 0.005),
        ("fair:1", 50, 200, range(100, 108), 65.8, 0.005),
        ("capped:0:2", 10, 50, range(100, 112), 520.0, 0.008),
        ("fair:1", 10, 50, range(100, 112), 972.0, 0.004),
    ],
)
def test_short_episodes(tpch, policy, executors, jobs, seeds, published_s, within):
    measured = [mean_jct_s(tpch, poisson_arrivals(jobs, seed), policy, executors, seed) for seed in seeds]
    assert np.mean(measured) == pytest.approx(published_s, rel=within)
