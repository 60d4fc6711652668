"""Configurations of clusters, by hand."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup, gpu_cluster
from mirage.schedule.rounds.configurations import (
    Configurations,
    JobColumns,
    OfferedConfigurations,
    configurations,
    refuse_too_large,
    server_kinds,
)
from mirage.schedule.scheduler_contract import ActiveJobs, Held
from tests.support.column_types import wrong_types


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


def test_columns_of_jobs_are_in_order_of_their_ids() -> None:
    """Three jobs, of which the second and the third of the view hold GPUs."""
    order = np.array([2, 0, 1])
    columns = {f.name: np.arange(3.0) + 10 * k for k, f in enumerate(fields(ActiveJobs))}
    columns |= {"id": np.array([5, 9, 2]), "held": np.array([0, 4, 3])}
    held = Held(np.array([0, 0, 2, 3]), np.array([6, 7, 8]), np.array([1, 3, 3]))
    view: Any = SimpleNamespace(jobs=ActiveJobs(**columns), held=held)
    jobs = JobColumns(view)
    public = {name: column for name, column in vars(jobs).items() if not name.startswith("_")}
    assert public.pop("first_server").tolist() == [8, 0, 6]
    for name, column in public.items():
        assert column.tolist() == columns[name][order].tolist(), name
    assert {"id", "model", "status", "gpus", "min_gpus", "max_gpus", "pool", "batch", "restart_s"} <= public.keys()
    assert [jobs.places(k) for k in range(3)] == [{8: 3}, {}, {6: 1, 7: 3}]


def test_kinds_of_servers_are_counted() -> None:
    kinds, kind_of, count = server_kinds(np.array([1, 0, 1, 1]), np.array([4, 8, 4, 2]), np.array([0, 0, 0, 0]))
    assert kinds.tolist() == [[0, 1, 1], [8, 2, 4], [0, 0, 0]]
    assert (kind_of.tolist(), count.tolist()) == ([2, 0, 2, 1], [1, 1, 2])


def test_sizes_that_jobs_insist_on_are_shapes_too_and_none_is_too_large() -> None:
    cluster = GpuCluster((ServerGroup("a", "t", 4, 4),))
    assert _of(cluster, sizes=(3, 6, 99)).gpus.tolist() == [1, 2, 3, 4, 6, 8, 12, 16]
    assert _of(cluster, most_gpus=8).gpus.tolist() == [1, 2, 4, 8]
    assert _of(cluster, most_gpus=8, sizes=(13,)).gpus.tolist() == [1, 2, 4, 8, 13]
    assert _of(cluster, sizes=(16, 17)).gpus.tolist() == [1, 2, 4, 8, 12, 16]
    assert _of(cluster, most_gpus=11).gpus.tolist() == [1, 2, 4, 8]
    assert _of(cluster, most_gpus=1).gpus.tolist() == [1, 2, 4], "a whole server in any case"
    odd = _of(GpuCluster((ServerGroup("a", "t", 2, 6),)), sizes=(7,))
    assert list(zip(odd.servers, odd.gpus)) == [(1, 1), (1, 2), (1, 4), (1, 6), (2, 7), (2, 12)]
    assert wrong_types(odd) == {}


def test_servers_of_one_type_that_differ_are_kinds_of_their_own() -> None:
    cluster = GpuCluster(
        (ServerGroup("a", "t", 1, 2), ServerGroup("b", "t", 1, 4), ServerGroup("c", "t", 1, 4, "other"))
    )
    shapes = _of(cluster)
    assert sorted(zip(shapes.gpus_per_server, shapes.pool)) == [(2, 0), (4, 0), (4, 1)]
    assert sorted(shapes.capacity) == [2, 4, 4]
    assert [int(shapes.gpus_per_server[kind]) for kind in shapes.kind_of] == [2, 4, 4]
    assert [int(shapes.pool[kind]) for kind in shapes.kind_of] == [0, 0, 1]
    assert len(shapes) == 2 + 3 + 3


def test_shapes_are_found_by_kind_and_gpus() -> None:
    shapes = _of(gpu_cluster("sia64"))
    found = shapes.find(np.array([0, 2, -1, 1, 2]), np.array([8, 24, 0, 3, 1]))
    assert found.tolist() == [3, 18, -1, -1, 13]
    assert found.dtype == np.int64
    assert shapes.find(np.array([2, 0]), np.array([25, 24])).tolist() == [-1, 7]
    assert shapes.find(np.array([-1]), np.array([4])).tolist() == [-1]


def test_an_offer_changes_with_a_new_size_or_another_pool_only() -> None:
    cluster = GpuCluster((ServerGroup("a", "t", 4, 4),))
    offered = OfferedConfigurations(64)

    def offer(*sizes: int, pool: int = 0, model: int = -1, least: int = 1) -> Configurations:
        n = len(sizes)
        jobs: Any = SimpleNamespace(gpus=np.array(sizes), model=np.full(n, model), min_gpus=np.full(n, least))
        pools = np.full(len(cluster.pool_of), pool)
        servers: Any = SimpleNamespace(gpu_type=cluster.gpu_type_of, gpus=cluster.gpus_of, pool=pools)
        return offered.offer(jobs, servers)

    first = offer(3, 6)
    assert first.gpus.tolist() == [1, 2, 3, 4, 6, 8, 12, 16]
    assert offer(3, 6) is offer(6) is first, "the sizes of all jobs so far, or some of them"
    larger = offer(5)
    assert larger.gpus.tolist() == [1, 2, 3, 4, 5, 6, 8, 12, 16]
    assert offer(7, model=0) is larger, "a measured job runs on any number of GPUs"
    least = offer(7, model=0, least=7)
    assert least.gpus.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 12, 16]
    other = offer(5, pool=1)
    assert other is not least
    assert other.pool.tolist() == [1]
    assert offer(3, pool=1) is other


def test_a_job_that_fits_only_into_another_pool_is_refused() -> None:
    pools = np.array([0, 1])
    servers: Any = SimpleNamespace(pool=pools, home=pools)

    def refuse(pool: int, needed: int) -> None:
        jobs: Any = SimpleNamespace(pool=np.array([pool]), id=np.array([7]))
        refuse_too_large(jobs, np.array([needed]), servers, np.array([8, 4]), pools, "Sia")

    refuse(0, 8)
    refuse(-1, 8)
    refuse(1, 4)
    for pool, needed, most in ((1, 5, 4), (0, 9, 8), (-1, 9, 8)):
        with pytest.raises(ConfigurationError) as refused:
            refuse(pool, needed)
        assert str(refused.value) == (
            f"job 7 (counted from 0) needs {needed} GPUs; Sia runs a job on servers of one GPU type, one size and one "
            f"pool, and those it may use have {most}: leave the job out, or make the servers of each type identical"
        )


def test_no_job_is_refused_while_a_server_is_lent_and_of_several_the_first_is_named() -> None:
    lent: Any = SimpleNamespace(pool=np.array([0, 0]), home=np.array([0, 1]))
    back: Any = SimpleNamespace(pool=np.array([0, 1]), home=np.array([0, 1]))
    jobs: Any = SimpleNamespace(pool=np.array([0, 1, 1]), id=np.array([3, 4, 5]))
    needed, capacity, pools = np.array([1, 9, 9]), np.array([8, 4]), np.array([0, 1])
    refuse_too_large(jobs, needed, lent, capacity, pools, "Gavel")
    with pytest.raises(ConfigurationError, match=r"^job 4 .* needs 9 GPUs; Gavel runs"):
        refuse_too_large(jobs, needed, back, capacity, pools, "Gavel")
