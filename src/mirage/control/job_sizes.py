"""Size ranges of elastic jobs, as the jobs declare them.

A job is elastic if it has worker jobs: its size is then its own, and that of the workers that run. It is also elastic
if its comment has a word ``gpus=2-8`` besides the word by which it takes part, and its size is one number in Slurm.
This is so with ``--gpus``: then Slurm chooses the nodes. It is also so for one task on one node with
``--gpus-per-node`` or ``--gres``. Its base is the smallest size. All else about the job's size is Slurm's own state, so
that a controller needs no memory of what it has changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from mirage.control.pools_file import Pools
from mirage.control.worker_jobs import running
from mirage.slurm.text.gpu_queue import GpuQueueJob

_WORD = "gpus="
_RANGE = re.compile(r"gpus=([1-9][0-9]{0,5})-([1-9][0-9]{0,5})")


class JobSizes(NamedTuple):
    """The numbers of GPUs that a job may have.

    Attributes:
        least: The smallest number.
        most: The largest number.
        rigid_why: Why a job that declares a range is not elastic; empty if it is, or declares none.
        one_node: Whether all its GPUs are on one node at each size.
        of_worker: GPUs of each of its worker jobs; 0 if a new size needs a requeue.
    """

    least: int
    most: int
    rigid_why: str = ""
    one_node: bool = False
    of_worker: int = 0

    @property
    def elastic(self) -> bool:
        """Whether the job may have several sizes."""
        return self.least < self.most


NO_SIZES = JobSizes(0, 0)


def job_sizes(one: GpuQueueJob, pools: Pools, workers: Sequence[GpuQueueJob] = ()) -> JobSizes:
    """The sizes that a job may have; the present one only if it is not elastic.

    Args:
        one: A job that takes part.
        pools: The settings.
        workers: Its worker jobs.
    """
    present = present_gpus(one, workers)
    words = [word for word in one.job.comment.replace(",", " ").split() if word.startswith(_WORD)]
    if workers:
        why = _why_rigid(one, pools, workers) or "it has a size range and workers" * bool(words)
        return JobSizes(present, present, why) if why else _sizes_by_workers(one, pools, workers)
    if not words:
        return JobSizes(present, present)
    found = _RANGE.fullmatch(words[0]) if len(words) == 1 else None
    least, most = (int(found[1]), int(found[2])) if found else (0, 0)
    most = min(most, pools.most_gpus)
    if found is None or int(found[1]) > int(found[2]):
        why = "its size range cannot be read: write one word such as gpus=2-8"
    elif not pools.most_gpus:
        why = "the file has no [jobs] most_gpus"
    elif not one.gpus_per_job and not one.gpus_on_one_node:
        why = (
            "it has a size range, but was not submitted with --gpus only, or as one task on one node with GPUs per node"
        )
    elif one.task:
        why = "it is an array"
    elif not least <= present <= most:
        why = f"its {present} GPUs are outside of its range or of [jobs] most_gpus"
    else:
        return JobSizes(least, most, one_node=one.gpus_on_one_node)
    return JobSizes(present, present, why)


def present_gpus(one: GpuQueueJob, workers: Sequence[GpuQueueJob]) -> int:
    """The GPUs that a job has or requests, with those of its workers that run."""
    return one.job.gpus + sum(worker.job.gpus for worker in running(workers))


def _sizes_by_workers(one: GpuQueueJob, pools: Pools, workers: Sequence[GpuQueueJob]) -> JobSizes:
    least, each = one.job.gpus, workers[0].job.gpus
    most = min(len(workers), max(pools.most_gpus - least, 0) // each)
    return JobSizes(least, least + each * most, of_worker=each)


def _why_rigid(one: GpuQueueJob, pools: Pools, workers: Sequence[GpuQueueJob]) -> str:
    """Why the workers of a job do not make it elastic; empty if they do."""
    if not pools.most_gpus:
        return "the file has no [jobs] most_gpus"
    if one.task or any(worker.task for worker in workers):
        return "it is an array, or a worker is"
    if len({(worker.job.gpus, worker.gpu_type) for worker in workers}) > 1 or not workers[0].job.gpus:
        return "its workers do not all request the same GPUs"
    return "its workers request another GPU type" if workers[0].gpu_type != one.gpu_type else ""
