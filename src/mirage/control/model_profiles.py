"""Models of jobs, and the measured speeds of these models on the nodes of the pools.

A job names its model in its comment, ``model=bert`` and perhaps ``batch=192``, or in its progress file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirage.control.pools_file import Pools
from mirage.control.progress_files import JobProgress
from mirage.errors import ConfigurationError, MirageError
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.schedulers.view_schedulers import REMEMBERING, check_view_scheduler
from mirage.schedule.speeds.profiles import Profiles, read_profiles
from mirage.slurm.records import QueuedJob
from mirage.slurm.text.gpu_nodes import GpuNode

_UNTYPED = "gpu"
"""The type of GPUs for which Slurm names none."""


class JobModel(NamedTuple):
    """The model of a job.

    Attributes:
        name: Its name; empty if it is not known.
        batch: The total batch size; 0 if it is not known.
    """

    name: str = ""
    batch: int = 0


def job_model(job: QueuedJob, progress: JobProgress | None) -> JobModel:
    """The model that a job declares, in its comment or else in its progress file."""
    words = dict(word.partition("=")[::2] for word in job.comment.replace(",", " ").split() if "=" in word)
    batch = words.get("batch", "")
    declared = int(batch) if batch.isascii() and batch.isdecimal() and len(batch) < 10 else 0
    known = progress or JobProgress(0.0, 0.0)
    return JobModel(words.get("model", known.model), declared or known.batch)


def check_scheduler(pools: Pools) -> None:
    """Check that the scheduler of the file can decide on its views.

    Raises:
        ConfigurationError: It cannot, or the file lacks the profiles that it needs.
    """
    try:
        check_view_scheduler(pools.scheduler)
    except MirageError as error:
        raise ConfigurationError(f"{pools.path}: {error}") from None
    if pools.scheduler in REMEMBERING and not pools.profiles:
        raise ConfigurationError(
            f"{pools.path}: the scheduler {pools.scheduler} needs measured speeds; give [profiles] folder"
        )


def profiles_of_nodes(pools: Pools, nodes: Sequence[GpuNode]) -> Profiles | None:
    """The measured speeds on the nodes of both pools; None without a folder of profiles.

    Args:
        pools: The settings.
        nodes: The nodes in the order of the settings.

    Raises:
        ConfigurationError: The folder has no profiles for these GPU types, or an unreadable file.
    """
    if not pools.profiles:
        return None
    kinds = dict[tuple[str, int], int]()
    for node in nodes:
        kind = node.gpu_type, max(node.gpus, 1)
        kinds[kind] = kinds.get(kind, 0) + 1
    measured = {gpu_type: gpu_type for gpu_type, _ in kinds}
    if _UNTYPED in measured:
        measured[_UNTYPED] = pools.profiles_gpu_type
    if "" in measured.values() or len(set(measured.values())) < len(measured):
        raise ConfigurationError(
            f"{pools.path}: Slurm reports GPUs without a type; give [profiles] gpu_type, the type of these GPUs, "
            "which no other node has"
        )
    groups = (
        ServerGroup(str(k), measured[gpu_type], count, gpus, speed=pools.gpu_speeds.get(gpu_type, 1.0))
        for k, ((gpu_type, gpus), count) in enumerate(kinds.items())
    )
    return read_profiles(pools.profiles, GpuCluster(tuple(groups)))
