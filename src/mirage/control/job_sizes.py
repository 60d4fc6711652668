"""Size ranges of elastic jobs, as the jobs declare them.

A job is elastic if its comment has a word ``gpus=2-8`` besides the word by which it takes part, and its size is one
number in Slurm. This is so with ``--gpus``: then Slurm chooses the nodes. It is also so for one task on one node with
``--gpus-per-node`` or ``--gres``. Its base is the smallest size. All else about the job's size is Slurm's own state, so
that a controller needs no memory of what it has changed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mirage.control.pools_file import Pools
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
    """

    least: int
    most: int
    rigid_why: str = ""
    one_node: bool = False

    @property
    def elastic(self) -> bool:
        """Whether the job may have several sizes."""
        return self.least < self.most


NO_SIZES = JobSizes(0, 0)


def job_sizes(one: GpuQueueJob, pools: Pools) -> JobSizes:
    """The sizes that a job may have; the present one only if it is not elastic.

    Args:
        one: A job that takes part.
        pools: The settings.
    """
    present = one.job.gpus
    words = [word for word in one.job.comment.replace(",", " ").split() if word.startswith(_WORD)]
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
