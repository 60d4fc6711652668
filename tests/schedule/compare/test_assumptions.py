"""Assumptions by name: what they change in jobs, clusters, demand and schedulers."""

import numpy as np
import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.compare.inference_demand import DailyDemand
from mirage.schedule.gpu_cluster import gpu_cluster
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, ANY_POOL, GpuJobs

ARYL = gpu_cluster("aryl7704")
N = 4000
_RNG = np.random.default_rng(0)
JOBS = GpuJobs.linear(np.arange(N), _RNG.choice([1, 2, 8, 64], N), _RNG.lognormal(7, 1.5, N), pool=0)


def test_shares_of_elastic_and_fungible_jobs() -> None:
    jobs = Assumptions.of(["elastic_gpu_time=0.36", "elastic_max=4", "fungible=0.21"]).jobs(JOBS, ARYL, seed=1)
    elastic = jobs.max_gpus > jobs.gpus
    assert set((jobs.max_gpus / jobs.gpus).tolist()) == {1.0, 4.0}
    assert jobs.work[elastic].sum() / jobs.work.sum() == pytest.approx(0.36, abs=0.002)
    assert set(jobs.types.tolist()) == {ALL_TYPES, 1}
    assert (jobs.types == ALL_TYPES).mean() == pytest.approx(0.21, abs=0.001)
    other = Assumptions.of(["elastic_gpu_time=0.36", "fungible=0.21"]).jobs(JOBS, ARYL, seed=2)
    assert (other.max_gpus > other.gpus).tolist() != elastic.tolist()
    half = Assumptions.of(["elastic-jobs=0.5"]).jobs(JOBS, ARYL, seed=1)
    assert ((half.max_gpus == 2 * half.gpus).sum(), (half.types == ALL_TYPES).all()) == (N // 2, True)
    none = Assumptions().jobs(JOBS, ARYL, seed=1)
    assert none is JOBS


def test_jobs_of_any_pool_stay_on_the_types_that_they_name() -> None:
    jobs = GpuJobs.linear([0, 1], [1, 1], [10, 10], pool=ANY_POOL, types=[2, ALL_TYPES])
    assert Assumptions(fungible=0.0).jobs(jobs, ARYL, seed=1).types.tolist() == [2, ALL_TYPES]


def test_assumptions_of_the_cluster_the_demand_and_schedulers() -> None:
    given = Assumptions.of(["t4_per_v100=3", "headroom=0.1", "demand_low=0.2", "notice_s=60", "announce_error=0.05"])
    assert given.cluster(ARYL).gpus_for_one().tolist() == [1, 3]
    assert Assumptions().cluster(ARYL) is ARYL
    assert given.of_schedulers == {"headroom": 0.1}
    assert given.daily_demand() == DailyDemand(low=0.2, notice_s=60, error=0.05)
    with pytest.raises(ConfigurationError, match="t4_per_v100 needs GPUs of type t4; the cluster has gpu"):
        given.cluster(gpu_cluster("philly7704"))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["elastic_max=2"], "elastic_max needs a share of elastic jobs"),
        (["elastic_jobs=0.1", "elastic_gpu_time=0.1"], "are two shares of elastic jobs; give one"),
        (["fungible=2"], "fungible is 2.0; give a share from 0 to 1"),
        (["headroom=-1"], "headroom is -1.0; give a share from 0 to 1"),
        (["interval_s=0"], "interval_s is 0.0; give a number of seconds above 0"),
        (["fungible=much"], "assumption 'fungible=much': give each key once, as fungible=NUMBER"),
        (["fungible=0.1", "fungible=0.2"], "give each key once"),
        (["fungible"], "give each key once"),
        (["t4_per_v100=1.5"], r"t4_per_v100 is 1\.5; give a whole number"),
        (["elastic_jobs=0.1", "elastic_max=0.5"], r"elastic_max is 0\.5"),
    ],
)
def test_assumptions_that_cannot_be_are_refused(pairs: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Assumptions.of(pairs)


def test_unknown_assumption_lists_the_known() -> None:
    with pytest.raises(UnknownName, match=r"unknown assumption 'elastic_share'.*announce_error.*elastic_jobs"):
        Assumptions.of(["elastic_share=1"])
