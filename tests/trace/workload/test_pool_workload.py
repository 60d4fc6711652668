"""The pool workload has the character it promises, and queues as deep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirage.errors import ConfigurationError
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.workload.pool_workload import pool_workload


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 2_000), st.integers(1, 500), st.floats(0.1, 3), st.integers(0, 2**32))
def test_every_row_is_valid(jobs, processors, load, seed):
    t = pool_workload(jobs, processors, load, seed)
    assert len(t) == jobs
    assert (np.diff(t.submit_s, prepend=0) >= 0).all()
    assert ((t.elapsed_s >= 30) & (t.elapsed_s <= t.limit_s) & (t.limit_s <= 172_800)).all()
    assert ((t.nodes >= 1) & (t.nodes <= processors)).all()
    assert (t.limit_s % 60 == 0).all()


def test_the_promised_character():
    t = pool_workload(20_000)
    assert t.nodes.mean() == pytest.approx(6.0, rel=0.05)
    assert (t.nodes == 1).mean() == pytest.approx(0.45, abs=0.02)
    assert t.elapsed_s.mean() == pytest.approx(5450, rel=0.05)
    assert (t.elapsed_s / t.limit_s).mean() == pytest.approx(0.5, abs=0.02)
    assert np.diff(t.submit_s).mean() == pytest.approx(100, rel=0.06)
    assert float(t.elapsed_s @ t.nodes) / 352 / np.ptp(t.submit_s) == pytest.approx(0.9, rel=0.01)


def test_the_promised_queue():
    waits = []
    for seed in range(5):
        t, cluster = pool_workload(20_000, seed=seed), Cluster.pool(352)
        waits.append(Simulation(cluster, workload(t, cluster), "easy").run().wait_s.mean())
    assert 3_500 < np.median(waits) < 6_000


def test_same_seed_same_jobs():
    a, b, c = (pool_workload(100, seed=seed) for seed in (1, 1, 2))
    assert a.submit_s.tolist() == b.submit_s.tolist()
    assert a.elapsed_s.tolist() == b.elapsed_s.tolist()
    assert a.elapsed_s.tolist() != c.elapsed_s.tolist()


@pytest.mark.parametrize(("jobs", "processors", "load"), [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 101)])
def test_values_out_of_range(jobs, processors, load):
    with pytest.raises(ConfigurationError):
        pool_workload(jobs, processors, load)
