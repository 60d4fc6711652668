"""What a controller reads of the GPUs that a job requests."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.slurm.gpu_snapshot import take_gpu_snapshot
from tests.support.control_cluster import NOW_S, ControlCluster, pending


@pytest.mark.parametrize(
    ("of_job", "of_node", "gpu_type", "per_job"),
    [
        ("gres:gpu:2", "N/A", "", True),
        ("gres/gpu:a100:2", "N/A", "a100", True),
        ("gres:gpu:4090:2", "N/A", "4090", True),
        ("gres:gpu:a100:2,gres:gpu:t4:2", "N/A", "a100", False),
        ("gres:gpu:2", "gres:gpu:1", "", False),
        ("N/A", "gres:gpu:t4:1", "t4", False),
        ("gres:shard:2", "N/A", "", False),
    ],
)
def test_only_gpus_of_one_type_for_the_whole_job_are_one_number(
    of_job: str, of_node: str, gpu_type: str, per_job: bool
) -> None:
    cluster = ControlCluster(jobs=[pending(5, tres_per_job=of_job, tres_per_node=of_node)])
    (one,) = take_gpu_snapshot(cluster.slurm, NOW_S).jobs
    assert (one.gpu_type, one.gpus_per_job) == (gpu_type, per_job)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, True),
        ({"tres_per_node": "gres/gpu:a100:2"}, True),
        ({"MaxNodes": 2}, False),
        ({"MaxNodes": 2, "NumNodes": 2}, False),
        ({"NumTasks": 2}, False),
        ({"tres_per_node": "gres:gpu:2,gres:shard:1"}, False),
        ({"tres_per_job": "gres:gpu:2"}, False),
        ({"tres_per_task": "gres:gpu:2"}, False),
        ({"tres_per_node": "N/A"}, False),
    ],
)
def test_gpus_per_node_are_one_number_for_one_task_on_one_node(cells: dict[str, Any], expected: bool) -> None:
    cluster = ControlCluster(jobs=[pending(5, **{"tres_per_node": "gres:gpu:2", **cells})])
    (one,) = take_gpu_snapshot(cluster.slurm, NOW_S).jobs
    assert one.gpus_on_one_node == expected


@pytest.mark.parametrize(
    ("requested", "gpus", "gpu_type"),
    [
        ({"tres_per_job": "gres:gpu:t4:6", "tres_per_task": "gres:gpu:t4:2", "NumTasks": 3}, 6, "t4"),
        ({"tres_per_task": "gres:gpu:2", "NumTasks": 5}, 10, ""),
        ({"tres_per_task": "gres/gpu:a100=3", "NumTasks": 2, "NumNodes": 2}, 6, "a100"),
        ({"tres_per_task": "gres:gpu:2", "NumTasks": 5, "tres_alloc": "cpu=5,gres/gpu=10"}, 10, ""),
        ({"tres_per_job": "gres:gpu:4", "tres_per_node": "gres:gpu:2", "NumNodes": 2, "NumTasks": 7}, 4, ""),
        ({"tres_per_socket": "gres:gpu:2", "tres_alloc": "cpu=5,gres/gpu=8"}, 8, ""),
    ],
)
def test_gpus_per_task_are_counted_and_slurm_cannot_change_them(
    requested: dict[str, Any], gpus: int, gpu_type: str
) -> None:
    cluster = ControlCluster(jobs=[pending(5, **{"tres_per_node": "N/A", **requested})])
    (one,) = take_gpu_snapshot(cluster.slurm, NOW_S).jobs
    assert (one.job.gpus, one.gpu_type, one.gpus_per_job, one.gpus_unknown) == (gpus, gpu_type, False, False)


def test_gpus_per_socket_are_not_counted() -> None:
    cluster = ControlCluster(jobs=[pending(5, tres_per_node="N/A", tres_per_socket="gres:gpu:t4:2")])
    (one,) = take_gpu_snapshot(cluster.slurm, NOW_S).jobs
    assert (one.job.gpus, one.gpu_type, one.gpus_per_job, one.gpus_unknown) == (0, "t4", False, True)
