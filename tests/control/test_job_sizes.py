"""Size ranges that jobs declare, and why a job with one is not elastic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.control.job_sizes import job_sizes
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob
from mirage.slurm.text.gpu_queue import GpuQueueJob
from tests.support.control_cluster import POOLS

ELASTIC = replace(POOLS, most_gpus=6)


def job(comment: str, gpus: int = 3, per_job: bool = True, array: str = "") -> GpuQueueJob:
    return GpuQueueJob(QueuedJob(7, 1, gpus=gpus, comment=comment), gpus_per_job=per_job, task=array)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "sizes", "why"),
    [
        (job("mirage-control"), (3, 3), ""),
        (job("mirage-control gpus=2-5"), (2, 5), ""),
        (job("mirage-control,gpus=2-9"), (2, 6), ""),
        (job("gpus=3-3"), (3, 3), ""),
        (job("gpus=4-8"), (3, 3), "its 3 GPUs are outside"),
        (job("gpus=2-8", gpus=7), (7, 7), "its 7 GPUs are outside"),
        (job("gpus=2-8 gpus=3-4"), (3, 3), "cannot be read"),
        (job("gpus=8-2"), (3, 3), "cannot be read"),
        (job("gpus=0-8"), (3, 3), "cannot be read"),
        (job("gpus=2-8;reboot"), (3, 3), "cannot be read"),
        (job("gpus=2-٨"), (3, 3), "cannot be read"),
        (job("gpus=2-8", per_job=False), (3, 3), "not submitted with --gpus only"),
        (replace(job("gpus=2-8", per_job=False), gpus_on_one_node=True), (2, 6), ""),
        (job("gpus=2-8", array="7_[4-9]"), (3, 3), "it is an array"),
    ],
)
def test_a_range_counts_only_if_slurm_can_change_the_size_by_one_number(
    one: GpuQueueJob, sizes: tuple[int, int], why: str
) -> None:
    found = job_sizes(one, ELASTIC)
    assert found[:2] == sizes
    assert why in found.rigid_why
    assert bool(why) == bool(found.rigid_why)
    assert found.elastic == (sizes[0] < sizes[1])
    assert found.one_node == (found.elastic and one.gpus_on_one_node)


def test_without_a_limit_of_the_operator_no_job_is_elastic() -> None:
    assert job_sizes(job("gpus=2-8"), POOLS)[:3] == (3, 3, "the file has no [jobs] most_gpus")
    assert job_sizes(job(""), POOLS, (worker(8),))[:3] == (3, 3, "the file has no [jobs] most_gpus")


def worker(number: int, gpus: int = 2, state: int = 0, task: str = "", gpu_type: str = "") -> GpuQueueJob:
    return GpuQueueJob(QueuedJob(number, JobState(state), gpus=gpus), task=task, gpu_type=gpu_type)


RUNS = int(JobState.RUNNING)


@pytest.mark.parametrize(
    ("comment", "workers", "sizes", "why"),
    [
        ("", (worker(8),), (3, 5), ""),
        ("", (worker(8), worker(9, state=RUNS)), (3, 5), ""),  # most_gpus is 6
        ("", (worker(8, gpus=1), worker(9, 1), worker(10, 1), worker(11, 1)), (3, 6), ""),
        ("", (worker(8, gpus=4),), (3, 3), ""),
        ("gpus=3-4", (worker(8, state=RUNS),), (5, 5), "it has a size range and workers"),
        ("", (worker(8, state=RUNS), worker(9, gpus=1)), (5, 5), "do not all request the same GPUs"),
        ("", (worker(8, gpus=0),), (3, 3), "do not all request the same GPUs"),
        ("", (worker(8, task="8_1"),), (3, 3), "it is an array"),
        ("", (worker(8, gpu_type="t4"),), (3, 3), "another GPU type"),
    ],
)
def test_a_job_grows_by_whole_workers(
    comment: str, workers: tuple[GpuQueueJob, ...], sizes: tuple[int, int], why: str
) -> None:
    found = job_sizes(job(comment, per_job=False), ELASTIC, workers)
    assert found[:2] == sizes
    assert why in found.rigid_why
    assert bool(why) == bool(found.rigid_why)
    assert found.of_worker == (0 if why else workers[0].job.gpus)
