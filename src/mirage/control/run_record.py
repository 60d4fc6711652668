"""The record of a run for a later simulation: settings, nodes, and jobs of both pools.

A folder of views has two more files. ``run.json`` has the settings. ``jobs.jsonl`` has a line for each change of a job
between two snapshots. Slurm reports a job for minutes after its end (``MinJobAge``), so that starts and ends are
Slurm's own, and not those of the snapshots.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.control.control_view import ControlView, FirstSubmissions
from mirage.control.pools_file import Pools
from mirage.control.worker_jobs import main_job_of
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING, UNFINISHED, JobState
from mirage.slurm.gpu_snapshot import GpuSnapshot
from mirage.slurm.text.gpu_queue import GpuQueueJob

RUN, JOBS = "run.json", "jobs.jsonl"
FORMAT = "mirage-control-run-2"


@dataclass(frozen=True, slots=True)
class RunNode:
    """A node of a run.

    Attributes:
        owner: Whether it belongs to the owner.
    """

    name: str
    gpus: int
    gpu_type: str
    speed: float
    owner: bool


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings of a run, as in the file of pools.

    Attributes:
        first_s: Time of the first snapshot, in seconds since 1970.
        progress: Whether the controller reads the progress files of jobs.
        backfills: Whether Slurm backfills (``SchedulerType=sched/backfill``).
        nodes: The nodes of both pools, those of the borrower first.
    """

    scheduler: str
    first_s: int
    poll_s: int
    grace_s: int
    promise_s: int
    restart_s: float
    evictions_per_hour: int
    evictions_per_job_hour: int
    progress: bool
    backfills: bool
    nodes: tuple[RunNode, ...]


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job at a snapshot, as Slurm reports it.

    Attributes:
        time_s: Time of the snapshot; all times are in seconds since 1970.
        first_s: First submission; ``submit_s`` is the last one.
        start_s: Start of the present or last attempt; ``MISSING`` for a job that waits.
        end_s: End of a job that has ended, otherwise ``MISSING``.
        owner: Whether it is a job of the owner; otherwise it takes part.
        lent: Nodes with a loan at this snapshot, in a row without a job (id 0).
    """

    time_s: int
    id: int
    first_s: int
    submit_s: int
    restarts: int
    start_s: int
    end_s: int
    nodes: int
    gpus: int
    limit_s: int
    owner: bool
    lent: tuple[str, ...] = ()


class RunRecord:
    """Writes the record of a run.

    Args:
        folder: The folder; its files are readable by their owner only.
        pools: The settings.
        options: Returns the options of ``scontrol show config``.
    """

    def __init__(self, folder: Path, pools: Pools, options: Callable[[], Mapping[str, str]]) -> None:
        self.folder, self.pools, self.options = folder, pools, options
        self._last: dict[int, JobRow] = {}
        self._is_begun = False

    def add(self, snapshot: GpuSnapshot, first: FirstSubmissions, view: ControlView) -> None:
        """Append what has changed since the last snapshot.

        Args:
            snapshot: The cluster.
            first: The first submissions of its jobs.
            view: The view of the snapshot, for its loans.

        Raises:
            ConfigurationError: A file cannot be written.
            SlurmError: No answer about Slurm's options, for the first snapshot.
        """
        if not self._is_begun:
            self._begin(snapshot)
        rows = [_row(one, snapshot.time_s, first, self.pools) for one in snapshot.jobs if self._is_recorded(one)]
        rows.append(JobRow(snapshot.time_s, 0, 0, 0, 0, 0, 0, 0, 0, 0, True, tuple(sorted(view.loans))))
        new = [row for row in rows if _without_time(row) != _without_time(self._last.get(row.id))]
        self._last = {row.id: row for row in rows}
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            with open(os.open(self.folder / JOBS, flags, 0o600), "a", encoding="utf-8") as file:
                file.writelines(json.dumps(asdict(row)) + "\n" for row in new)
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.folder / JOBS}: {error.strerror}") from error

    def _begin(self, snapshot: GpuSnapshot) -> None:
        pools, known = self.pools, {node.name: node for node in snapshot.nodes}
        nodes = tuple(
            RunNode(name, known[name].gpus, known[name].gpu_type, pools.gpu_speeds.get(known[name].gpu_type, 1.0),
                    name in pools.owner_nodes)
            for name in pools.nodes
        )  # fmt: skip
        settings = RunSettings(
            pools.scheduler, snapshot.time_s, pools.poll_s, pools.grace_s, pools.promise_s, pools.restart_s,
            pools.evictions_per_hour, pools.evictions_per_job_hour, bool(pools.progress_file),
            self.options().get("schedulertype") == "sched/backfill", nodes,
        )  # fmt: skip
        write_output(self.folder / RUN, json.dumps({"format": FORMAT, **asdict(settings)}) + "\n", 0o600)
        self._is_begun = True

    def _is_recorded(self, one: GpuQueueJob) -> bool:
        """Whether a job is one of the owner, or takes part, and is no worker job.

        A requeued job has left its nodes.
        """
        partitions = set(one.job.partition.split(","))
        return not (one.job.completing or main_job_of(one.job)) and (
            bool(partitions & set(self.pools.owner_partitions)) or self.pools.takes_part(one.job)
        )


def _row(one: GpuQueueJob, time_s: int, first: FirstSubmissions, pools: Pools) -> JobRow:
    job = one.job
    has_ended = job.state not in UNFINISHED and job.state is not JobState.UNKNOWN
    start_s = job.start_s if has_ended or job.state in (JobState.RUNNING, JobState.SUSPENDED) else MISSING
    return JobRow(
        time_s, job.id, first.of(job), job.submit_s, one.restarts, start_s, job.end_s if has_ended else MISSING,
        job.nodes, job.gpus, job.limit_s, not pools.takes_part(job),
    )  # fmt: skip


def _without_time(row: JobRow | None) -> Mapping[str, Any] | None:
    return None if row is None else {**asdict(row), "time_s": 0}


def read_run(folder: Path) -> tuple[RunSettings, Sequence[JobRow]]:
    """The record in a folder.

    Raises:
        ConfigurationError: It cannot be read, or is no record of a run.
    """
    try:
        declared = json.loads((folder / RUN).read_text(encoding="utf-8"))
        lines = (folder / JOBS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, RecursionError) as error:
        cause = f"{Path(error.filename).name}: {error.strerror}" if isinstance(error, OSError) else str(error)
        raise ConfigurationError(
            f"{folder} has no record of a run: {cause}; name a folder that mirage control run --record has written"
        ) from error
    try:
        if declared.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        nodes = tuple(RunNode(**node) for node in declared.pop("nodes"))
        rows = [json.loads(line) for line in lines]
        return RunSettings(nodes=nodes, **declared), [JobRow(**{**row, "lent": tuple(row["lent"])}) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(f"{folder} is no record of a run: {error}; record it again") from error
