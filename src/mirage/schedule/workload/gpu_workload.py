"""The reader of GPU workloads: it recognises each known format by its content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds.profiles import Profiles, no_profiles, read_profiles, types_in_profiles
from mirage.schedule.workload import gavel_trace, philly_csv, sia_csv
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.job_table import read_job_table
from mirage.schedule.workload.workload_names import workload_name
from mirage.schedule.workload.workload_rows import read_text, table_rows


@dataclass(frozen=True, slots=True)
class GpuWorkload:
    """A workload read from a file.

    Attributes:
        name: Folder and name of its file, without ending.
        jobs: The jobs.
        profiles: The speeds of their models.
        left_out: Number of jobs left out, by reason.
    """

    name: str
    jobs: GpuJobs
    profiles: Profiles
    left_out: Mapping[str, int] = field(default_factory=dict)


def read_any_profiles(path: str | os.PathLike[str] | None, cluster: GpuCluster) -> Profiles:
    """Speeds on a cluster, from a folder of profiles or Gavel's table (a JSON file).

    Without a path, no model is measured.

    Raises:
        ConfigurationError: The path does not exist, or has no usable profiles.
    """
    if path is None:
        return no_profiles(cluster)
    if _is_folder(path):
        return read_profiles(path, cluster)
    return gavel_trace.read_gavel_throughputs(path, cluster)


def unmeasured_types(path: str | os.PathLike[str], cluster: GpuCluster) -> tuple[str, ...]:
    """The GPU types of a cluster on which none of the profiles at a path was measured."""
    known = types_in_profiles(path) if _is_folder(path) else gavel_trace.types_in_throughputs(path)
    return tuple(gpu_type for gpu_type in cluster.gpu_types if gpu_type not in known)


def _is_folder(path: str | os.PathLike[str]) -> bool:
    if not Path(path).exists():
        raise ConfigurationError(
            f"{path}: no profiles: the path does not exist; give the folder with one sub-folder per model, or the JSON "
            "file of Gavel's throughputs"
        )
    return Path(path).is_dir()


def read_workload(path: str | os.PathLike[str], cluster: GpuCluster, profiles: Profiles) -> GpuWorkload:
    """A workload of Pollux and Sia, of Philly, of Gavel, or from any job table.

    Raises:
        TraceError: A line cannot be used; the message begins with ``file:line:``.
        ConfigurationError: The file cannot be read, or its jobs need profiles.
        UnknownName: A job's model has no profile.
    """
    file = os.fspath(path)
    kind = _kind(file)
    left_out: Mapping[str, int] = {}
    if kind == "sia":
        jobs = sia_csv.read_sia_csv(table_rows(file, read_text(file)), profiles, cluster)
    elif kind == "philly":
        jobs, left_out = philly_csv.read_philly_csv(table_rows(file, read_text(file)))
    elif kind == "gavel":
        rows = table_rows(file, read_text(file), gavel_trace.COLUMNS, "\t")
        jobs = gavel_trace.read_gavel_trace(rows, profiles, cluster)
    else:
        jobs, left_out = read_job_table(file)
    return GpuWorkload(workload_name(file), jobs, profiles, left_out)


def _kind(path: str) -> str:
    if path == "-" or not _is_text(path):
        return "table"
    head = read_text(path).split("\n", 1)[0].strip()
    columns = head.split(",")
    if set(sia_csv.HEADER) <= set(columns):
        return "sia"
    if set(philly_csv.HEADER) <= set(columns):
        return "philly"
    return "gavel" if len(head.split("\t")) == len(gavel_trace.COLUMNS) else "table"


def _is_text(path: str) -> bool:
    return path.removesuffix(".gz").endswith((".csv", ".trace", ".txt"))
