"""Configurations of clusters, by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.rounds.configurations import (
    Configurations,
    OfferedConfigurations,
    configurations,
    refuse_too_large,
)


def _of(cluster: GpuCluster, most_gpus: int = 64, sizes: tuple[int, ...] = ()) -> Configurations:
    return configurations(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of, most_gpus, sizes)


def test_of_sias_cluster() -> None:
    shapes = _of(gpu_cluster("sia64"))
    by_kind = [list(zip(shapes.servers[shapes.kind == k], shapes.gpus[shapes.kind == k])) for k in range(3)]
    assert by_kind[0] == [(1, 1), (1, 2), (1, 4), (2, 8), (3, 12), (4, 16), (5, 20), (6, 24)]
    assert by_kind[1] == [(1, 1), (1, 2), (1, 4), (1, 8), (2, 16)]
    assert by_kind[2] == [(1, 1), (1, 2), (1, 4), (1, 8), (2, 16), (3, 24)]
    assert shapes.capacity.tolist() == [24, 16, 24]
    assert shapes.gpu_type.tolist() == [0, 1, 2]


def test_sizes_that_jobs_insist_on_are_shapes_too_and_none_is_too_large() -> None:
    cluster = GpuCluster((ServerGroup("a", "t", 4, 4),))
    assert _of(cluster, sizes=(3, 6, 99)).gpus.tolist() == [1, 2, 3, 4, 6, 8, 12, 16]
    assert _of(cluster, most_gpus=8).gpus.tolist() == [1, 2, 4, 8]
    assert _of(cluster, most_gpus=8, sizes=(13,)).gpus.tolist() == [1, 2, 4, 8, 13]


def test_servers_of_one_type_that_differ_are_kinds_of_their_own() -> None:
    cluster = GpuCluster(
        (ServerGroup("a", "t", 1, 2), ServerGroup("b", "t", 1, 4), ServerGroup("c", "t", 1, 4, "other"))
    )
    shapes = _of(cluster)
    assert sorted(zip(shapes.gpus_per_server, shapes.pool)) == [(2, 0), (4, 0), (4, 1)]
    assert sorted(shapes.capacity) == [2, 4, 4]


def test_shapes_are_found_by_kind_and_gpus() -> None:
    shapes = _of(gpu_cluster("sia64"))
    found = shapes.find(np.array([0, 2, -1, 1, 2]), np.array([8, 24, 0, 3, 1]))
    assert found.tolist() == [3, 18, -1, -1, 13]


def test_an_offer_changes_with_a_new_size_or_another_pool_only() -> None:
    cluster = GpuCluster((ServerGroup("a", "t", 4, 4),))
    offered = OfferedConfigurations(64)

    def offer(*sizes: int, pool: int = 0) -> Configurations:
        n = len(sizes)
        jobs: Any = SimpleNamespace(gpus=np.array(sizes), model=np.full(n, -1), min_gpus=np.ones(n, np.int64))
        pools = np.full(len(cluster.pool_of), pool)
        servers: Any = SimpleNamespace(gpu_type=cluster.gpu_type_of, gpus=cluster.gpus_of, pool=pools)
        return offered.offer(jobs, servers)

    first = offer(3, 6)
    assert first.gpus.tolist() == [1, 2, 3, 4, 6, 8, 12, 16]
    assert offer(3, 6) is offer(6) is first, "the sizes of all jobs so far, or some of them"
    larger = offer(5)
    assert larger.gpus.tolist() == [1, 2, 3, 4, 5, 6, 8, 12, 16]
    assert offer(5, pool=1) is not larger


def test_a_job_that_fits_only_into_another_pool_is_refused() -> None:
    pools = np.array([0, 1])
    servers: Any = SimpleNamespace(pool=pools, home=pools)

    def refuse(pool: int, needed: int) -> None:
        jobs: Any = SimpleNamespace(pool=np.array([pool]), id=np.array([7]))
        refuse_too_large(jobs, np.array([needed]), servers, np.array([8, 4]), pools, "Sia")

    refuse(0, 8)
    refuse(-1, 8)
    refuse(1, 4)
    with pytest.raises(ConfigurationError, match=r"job 7 .* needs 5 GPUs; Sia runs .* those it may use have 4"):
        refuse(1, 5)
