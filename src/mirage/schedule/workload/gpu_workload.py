"""The reader of GPU workloads: it recognises each known format by its content."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mirage.array_types import Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import ConfigurationError, TraceError, UnknownFormat
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.speeds.profiles import Profiles, no_profiles, read_profiles, types_in_profiles
from mirage.schedule.workload import gang_csv, gavel_trace, philly_csv, sia_csv
from mirage.schedule.workload.gpu_jobs import GpuJobs
from mirage.schedule.workload.workload_rows import read_text, table_rows
from mirage.trace.formats.decompress import read_bytes
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.read_trace import Trace, read_trace
from mirage.trace.table import JobTable


@dataclass(frozen=True, slots=True)
class GpuWorkload:
    """A workload read from a file.

    Attributes:
        path: Its file, as named in messages.
        jobs: The jobs.
        profiles: The speeds of their models.
        left_out: Number of jobs left out, by reason.
        notes: Remarks on the file.
    """

    path: str
    jobs: GpuJobs
    profiles: Profiles
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


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
    """The GPU types of a cluster that none of the profiles at a path measures.

    Empty if there are no profiles.
    """
    known = types_in_profiles(path) if _is_folder(path) else gavel_trace.types_in_throughputs(path)
    return tuple(gpu_type for gpu_type in cluster.gpu_types if known and gpu_type not in known)


def _is_folder(path: str | os.PathLike[str]) -> bool:
    if not Path(path).exists():
        raise ConfigurationError(
            f"{path}: no profiles: the path does not exist; give the folder with one sub-folder per model, or the JSON "
            "file of Gavel's throughputs"
        )
    return Path(path).is_dir()


def read_workload(
    path: str | os.PathLike[str], cluster: GpuCluster, profiles: Profiles, gpus_per_node: int | None = None
) -> GpuWorkload:
    """A workload of Pollux and Sia, of Philly, of Gavel, of gangs, or from any job table.

    Args:
        path: The file.
        cluster: The servers.
        profiles: The speeds of models.
        gpus_per_node: GPUs of a node, for a job table without GPUs.

    Raises:
        TraceError: A line cannot be used; the message begins with ``file:line:``.
        ConfigurationError: The file cannot be read, its jobs need profiles, or they have GPUs and ``gpus_per_node`` is
            given.
        UnknownName: A job's model has no profile.
    """
    file = os.fspath(path)
    kind = _kind(file)
    if gpus_per_node is not None and kind != "table":
        raise ConfigurationError(f"{file}: its jobs have GPUs; leave --gpus-per-node out")
    left_out: Mapping[str, int] = {}
    notes: tuple[str, ...] = ()
    if kind == "sia":
        jobs = sia_csv.read_sia_csv(table_rows(file, read_text(file)), profiles, cluster)
    elif kind == "philly":
        jobs, left_out = philly_csv.read_philly_csv(table_rows(file, read_text(file)), cluster)
    elif kind == "gangs":
        jobs = gang_csv.read_gang_csv(table_rows(file, read_text(file)), cluster)
    elif kind == "gavel":
        rows = table_rows(file, read_text(file), gavel_trace.COLUMNS, "\t")
        jobs = gavel_trace.read_gavel_trace(rows, profiles, cluster)
    else:
        jobs, left_out, notes = read_job_table(file, gpus_per_node)
    return GpuWorkload(file, jobs, profiles, left_out, notes)


def _kind(path: str) -> str:
    if path == "-":
        return "table"
    head = read_bytes(path, ReadTally(path)).split(b"\n", 1)[0].decode("utf-8-sig", errors="replace").strip()
    columns = [name.strip('"') for name in head.split(",")]
    if set(sia_csv.HEADER) <= set(columns):
        return "sia"
    if set(philly_csv.HEADER) <= set(columns):
        return "philly"
    if gang_csv.is_gang_header(columns):
        return "gangs"
    return "gavel" if len(head.split("\t")) == len(gavel_trace.COLUMNS) else "table"


class TableJobs(NamedTuple):
    """Jobs of a trace.

    Attributes:
        jobs: The jobs; time starts at the first one.
        left_out: Number of jobs left out, by reason.
        notes: Remarks of the reader, and on what counts as a GPU.
    """

    jobs: GpuJobs
    left_out: dict[str, int]
    notes: tuple[str, ...]


def read_job_table(path: str | os.PathLike[str], gpus_per_node: int | None = None) -> TableJobs:
    """Reads the jobs of a trace.

    A job requests its GPUs. If no job of the trace has GPUs, it requests ``gpus_per_node`` for every node, by default
    one, or one per CPU if no job has nodes. Its time limit is the run time that its user expects. Traces made by
    ``mirage trace generate`` also work.

    Args:
        path: The file.
        gpus_per_node: GPUs of a node, for a trace that does not record GPUs.

    Raises:
        TraceError: The file cannot be read, or no job has a run time.
        ConfigurationError: GPUs of a node are given, but the jobs have GPUs, or no nodes.
    """
    trace = _read(path)
    table = trace.table
    gpus, note = _gpus(table, path, gpus_per_node)
    reasons = {
        "no time of submission": table.submit_s < 0,
        "no run time": table.run_s <= 0,
        "no GPU": gpus <= 0,
    }
    if not len(table):
        raise TraceError(f"{path}: it has no jobs; check the command that wrote it")
    bad, left_out = np.zeros(len(table), np.bool_), {}
    for reason, where in reasons.items():  # each job counts once, by its first reason
        if count := int((where & ~bad).sum()):
            left_out[reason] = count
        bad |= where
    if bad.all():
        counts = ", ".join(f"{int(where.sum())} {reason}" for reason, where in reasons.items() if where.any())
        raise TraceError(
            f"{path}: none of its {len(table)} jobs can be run: {counts}; give a trace with run times and GPUs or nodes"
        )
    ran = table[~bad]
    limited = (ran.limit_s > 0) & (ran.limit_s < UNLIMITED_S)
    jobs = GpuJobs.linear(
        ran.submit_s - ran.submit_s.min(),
        gpus[~bad],
        ran.run_s,
        estimate_s=np.where(limited, ran.limit_s, np.nan),
        name=tuple(str(name) for name in ran.job_id),
    )
    return TableJobs(jobs, left_out, (*trace.report.complaints(), *note))


def _gpus(table: JobTable, path: str | os.PathLike[str], gpus_per_node: int | None) -> tuple[Ints, list[str]]:
    """Returns the GPUs of every job, and a remark if they are not those of the trace."""
    has_gpus, has_nodes = ((column > 0).any() for column in (table.gpus, table.nodes))
    if gpus_per_node is not None and (has_gpus or not has_nodes):
        why = "jobs have GPUs in the trace" if has_gpus else "no job of the trace has nodes"
        raise ConfigurationError(f"{path}: {why}; leave --gpus-per-node out")
    if has_gpus:
        return table.gpus, []
    if has_nodes:
        note = f"{path}: no job has GPUs in the trace: a node counts as one GPU (--gpus-per-node declares more)"
        return table.nodes * (gpus_per_node or 1), [note] if gpus_per_node is None else []
    if (table.cpus > 0).any():
        return table.cpus, [f"{path}: no job has GPUs or nodes in the trace: a CPU counts as one GPU"]
    return np.zeros(len(table), dtype=np.int64), []


def _read(path: str | os.PathLike[str]) -> Trace:
    try:
        return read_trace(path)
    except UnknownFormat as error:
        raise TraceError(
            f"{path}:1: this is not a workload: a CSV begins with {','.join(sia_csv.HEADER)}, "
            f"with {','.join(philly_csv.HEADER)}, or with {','.join(gang_csv.HEADER)}; "
            "'mirage trace convert --columns' makes a job table from any other file"
        ) from error
