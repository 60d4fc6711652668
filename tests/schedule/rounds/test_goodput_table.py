"""Goodput and value of configurations, by hand for the linear law and for one model."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.rounds.configurations import Configurations, configurations
from mirage.schedule.rounds.goodput_table import BLIND, NOTHING, GoodputTable
from mirage.schedule.rounds.throughput_history import ThroughputHistory
from mirage.schedule.speeds.profiles import read_profiles
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds
from tests.support.toy_profiles import CLUSTER, write_profiles

TWO_TYPES = GpuCluster((ServerGroup("a", "slow", 1, 4), ServerGroup("b", "fast", 1, 4, "other")))
SLOW, FAST = 0, 1
N = NOTHING


def _shapes(cluster: GpuCluster) -> Configurations:
    return configurations(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of, 64)


def _table(speeds: Speeds, jobs: int, **options: Any) -> GoodputTable:
    history = ThroughputHistory(speeds, 2, jobs)
    given = {"most_gpus": 64, "bounded_by_user": True, "fairness": -0.5, "waiting": 1.1, "decimals": 2}
    return GoodputTable(history, **{**given, **options})


def _jobs(n: int, **columns: Any) -> Any:
    usual = {"model": -1, "min_gpus": 1, "max_gpus": 4, "pool": -1, "restarts": 0}
    return SimpleNamespace(
        id=np.arange(n), **{name: np.array(columns.get(name, np.full(n, of))) for name, of in usual.items()}
    )


def test_goodput_of_the_linear_law_by_hand() -> None:
    """The smallest goodput of a job counts as its smallest number of GPUs."""
    table, shapes = _table(linear_speeds(np.array([1.0, 2.0])), 6), _shapes(TWO_TYPES)
    assert list(zip(shapes.kind, shapes.gpus)) == [(0, 1), (0, 2), (0, 4), (1, 1), (1, 2), (1, 4)]
    jobs = _jobs(6, min_gpus=[1, 2, 2, 4, 2, 3], max_gpus=[4, 2, 4, 4, 3, 3], pool=[-1, -1, -1, -1, 1, 0])
    relative = table.relative_goodput(jobs, np.arange(6), np.zeros(6, np.int64), shapes)
    assert relative.tolist() == [
        [1, 2, 4, 2, 4, 8], [N, 2, N, N, 4, N], [N, 2, 4, N, 4, 8], [N, N, 4, N, N, 8], [N, N, N, N, 2, N], [N] * 6,
    ]  # fmt: skip


def _values(
    table: GoodputTable, shapes: Configurations, present: int, age_s: float, restart_s: float, **of: Any
) -> Any:
    jobs = _jobs(1, **of)
    found = table.configuration_values(
        jobs, np.zeros(1, np.int64), np.zeros(1, np.int64), shapes, np.array([present]), np.array([age_s]),
        np.array([restart_s]),
    )  # fmt: skip
    return found[0]


def test_a_job_without_gpus_has_the_values_of_its_goodput() -> None:
    shapes = _shapes(TWO_TYPES)
    speeds = linear_speeds(np.array([1.0, 2.0]))
    exact = 1.1 - np.array([1, 2, 4, 2, 4, 8]) ** -0.5
    assert _values(_table(speeds, 1), shapes, -1, 0.0, 50.0).tolist() == pytest.approx(
        [1.1 - 1, 1.1 - 0.71, 1.1 - 0.5, 1.1 - 0.71, 1.1 - 0.5, 1.1 - 0.35]
    )
    assert _values(_table(speeds, 1, decimals=None), shapes, -1, 0.0, 50.0).tolist() == pytest.approx(exact)
    assert _values(_table(speeds, 1, waiting=7.0), shapes, -1, 0.0, 50.0)[0] == pytest.approx(6)
    impossible = _values(_table(speeds, 1), shapes, -1, 0.0, 50.0, max_gpus=[1])
    assert impossible[1] == pytest.approx(1.1 - 100), "goodput of almost nothing"
    impossible = _values(_table(speeds, 1, fairness=-1.0), shapes, -1, 0.0, 50.0, max_gpus=[1])
    assert impossible[1] == pytest.approx(1.1 - 3000), "no cost is larger"


@pytest.mark.parametrize(
    ("age_s", "restarts", "restart_s", "share"),
    [
        (9.9, 0, 10.0, 1.0),
        (10.0, 0, 10.0, 0.5),
        (30.0, 0, 10.0, 0.75),
        (30.0, 2, 10.0, 0.25),
        (30.0, 3, 10.0, 1e-12),
        (0.0, 0, 0.0, 1e-12),
        (5.0, 4, 0.0, 1.0),
    ],
)
def test_a_restart_costs_a_share_of_the_age(age_s: float, restarts: int, restart_s: float, share: float) -> None:
    """The job is on two slow GPUs, and loses nothing there."""
    table, shapes = _table(linear_speeds(np.array([1.0, 2.0])), 1, decimals=None), _shapes(TWO_TYPES)
    value = _values(table, shapes, 1, age_s, restart_s, restarts=[restarts])
    moved = np.minimum(np.maximum(share * np.array([1, 2, 4, 2, 4, 8]), 1e-12) ** -0.5, 3000)
    moved[1] = 2**-0.5
    assert value.tolist() == pytest.approx((1.1 - moved).tolist())


@pytest.fixture
def measured(tmp_path: Path) -> Speeds:
    return read_profiles(write_profiles(tmp_path), CLUSTER).speeds


def _observe(table: GoodputTable, gpu_type: int, gpus: int, servers: int = 1) -> None:
    """The first job is measured on its GPUs, with its first batch on each."""
    ones = np.ones(1, np.int64)
    jobs: Any = SimpleNamespace(
        model=0 * ones, gpu_type=gpu_type * ones, servers=servers * ones, held=gpus * ones, batch=10 * gpus * ones,
        progress=np.zeros(1),
    )  # fmt: skip
    table._history.observe(jobs, np.zeros(1, np.int64), np.zeros(1, np.int64))


def _goodput(table: GoodputTable, **of: int) -> list[float]:
    given = [np.full(1, of.get(name, usual)) for name, usual in (("batch", 40), ("least", 1), ("most", 4))]
    return table.goodput(np.zeros(1, np.int64), np.zeros(1, np.int64), *given, _shapes(CLUSTER))[0].tolist()


def test_a_model_that_was_not_observed_is_offered_its_smallest_size(measured: Speeds) -> None:
    """On every type: with one GPU, on the slow type and on the fast one."""
    table = _table(measured, 1)
    shapes = _shapes(CLUSTER)
    assert list(zip(shapes.kind, shapes.gpus)) == [(0, 1), (0, 2), (0, 4), (1, 1), (1, 2), (1, 4)]
    assert _goodput(table) == [BLIND, 0, 0, BLIND, 0, 0]
    jobs = _jobs(1, model=[0], min_gpus=[1])
    rows = np.zeros(1, np.int64)
    assert table.relative_goodput(jobs, rows, np.array([40]), shapes).tolist() == [[1, N, N, 1, N, N]]
    table = _table(measured, 1)
    jobs = _jobs(1, model=[0], min_gpus=[2])
    assert table.relative_goodput(jobs, rows, np.array([40]), shapes).tolist() == [[N, 2, N, N, 2, N]]


def test_a_type_without_measurements_is_estimated_by_the_speed_of_one_gpu(measured: Speeds) -> None:
    """The fast type is twice as fast on one GPU.

    After one GPU a job may have two, after two it may have four.
    """
    table = _table(measured, 1)
    table._history.rows(np.zeros(1, np.int64))
    _observe(table, SLOW, 1)
    found = _goodput(table)
    assert found[0] > 0
    assert found[3:5] == pytest.approx([2 * found[0], 2 * found[1]])
    assert (found[2], found[5]) == (0, 0)
    _observe(table, SLOW, 2)
    found = _goodput(table)
    assert min(found) > 0
    assert found[3] == pytest.approx(2 * found[0])


def test_goodput_is_computed_again_for_new_shapes_and_for_more_jobs(measured: Speeds) -> None:
    table = _table(measured, 100)
    rows = table._history.rows(np.arange(100))
    n = len(rows)
    zeros, shapes = np.zeros(n, np.int64), _shapes(CLUSTER)
    found = table.goodput(rows, zeros, zeros + 40, zeros + 1, zeros + 4, shapes)
    assert found.tolist() == [[BLIND, 0, 0, BLIND, 0, 0]] * n
    fewer = configurations(np.array([1]), np.array([2]), np.array([0]), 64)
    assert table.goodput(rows, zeros, zeros + 40, zeros + 2, zeros + 4, fewer).tolist() == [[0, BLIND]] * n


def test_batches_above_the_users_count_only_if_they_may(measured: Speeds) -> None:
    """On two GPUs the largest batch of the model, 40, gains more than the smallest, 20."""
    found = {}
    for bounded in (True, False):
        for batch in (20, 40):
            table = _table(measured, 1, bounded_by_user=bounded)
            table._history.rows(np.zeros(1, np.int64))
            _observe(table, SLOW, 2)
            found[bounded, batch] = _goodput(table, batch=batch)[1]
    assert found[True, 20] < found[True, 40] == found[False, 40] == found[False, 20]


def test_the_batch_of_a_job_is_the_smallest_until_something_is_known(measured: Speeds) -> None:
    table = _table(measured, 1)
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    table._history.rows(zero)
    assert table.batches(zero, zero, zero, one, 3 * one).tolist() == [30]
    assert table.batches(zero, zero, zero, one, one).tolist() == [10]
    assert table.batches(zero, zero, zero, one, one).dtype == np.int64
    _observe(table, SLOW, 2)
    assert table.batches(zero, zero, zero, one, 2 * one)[0] > 20
    assert table.batches(zero, zero, one, one, 2 * one).tolist() == [20], "the other type is not known"


def test_no_job_gets_more_gpus_than_the_most_unless_it_needs_them(measured: Speeds) -> None:
    for least, most_gpus, sizes in ((1, 1, [1]), (1, 2, [1, 2]), (2, 1, [2])):
        table = _table(measured, 1, most_gpus=most_gpus)
        table._history.rows(np.zeros(1, np.int64))
        _observe(table, SLOW, 2)
        found = _goodput(table, least=least)
        assert [gpus for gpus, goodput in zip((1, 2, 4), found) if goodput > 0] == sizes
