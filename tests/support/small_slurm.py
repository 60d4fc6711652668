"""A simulated Slurm of four nodes with a few jobs, and its commands as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mirage.lab.commands.invocation import CommandOutput, Invocation
from mirage.lab.commands.server import answer
from mirage.lab.virtual.program import Program
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.records import QueuedJob, Submission
from mirage.trace.table import JobTable
from tests.support.faulty_slurm import FaultySlurm

BEGIN_S = 1_795_255_200
"""2026-11-21 10:00:00 UTC."""

FOUR_JOBS = {
    "submit_s": [0, 0, 10, 20], "elapsed_s": [300, 600, 600, 600], "limit_s": [600, 600, 1200, 1200],
    "nodes": [1, 2, 3, 1], "state": [5, 3, 3, 3], "user": ["ada", "bob", "ada", "bob"], "name": ["a", "b", "c", "d"],
}  # fmt: skip
"""Two run on three of four nodes; the third waits for room, the fourth behind it, or on the free node."""


def trace(**columns: Any) -> JobTable:
    """Jobs submitted at given seconds after ``BEGIN_S``."""
    shifted = [BEGIN_S + at_s for at_s in columns["submit_s"]]
    return JobTable.build(range(len(shifted)), **{**columns, "submit_s": shifted})


def small_slurm(
    cluster: Cluster | None = None,
    program: Program | Callable[[Submission], Program] | None = None,
    discipline: str = "fcfs",
    at_s: int = 0,
    **columns: Any,
) -> FaultySlurm:
    """A simulated Slurm some time after it began; without columns it has no job."""
    cluster = cluster or Cluster.pool(4)
    jobs = workload(trace(**columns) if columns else JobTable.build([]), cluster)
    programs = program if callable(program) else lambda _: program or Program(run_s=100)
    slurm = FaultySlurm(Simulation(cluster, jobs, discipline, begin_s=BEGIN_S), programs, requeue_hold_s=20)
    slurm.sleep(at_s)
    return slurm


def submit(slurm: FaultySlurm, script: Path | str, **options: str | None) -> int:
    """As sbatch of a minute on one node; underscores stand for dashes."""
    given = {"time": "1", "nodes": "1"} | {name.replace("_", "-"): value for name, value in options.items()}
    return slurm.submit(Submission(str(script), given))


def job_of(slurm: FaultySlurm, number: int) -> QueuedJob:
    """One job as the queue shows it."""
    (job,) = (job for job in slurm.observe().jobs if job.id == number)
    return job


def command(
    slurm: FaultySlurm,
    folder: Path,
    line: str | list[str],
    environment: Mapping[str, str] | None = None,
    script: str | None = None,
) -> CommandOutput:
    """What a command line prints; its name comes first."""
    name, *words = line.split() if isinstance(line, str) else line
    spool = folder / "spool"
    spool.mkdir(exist_ok=True)
    return answer(slurm, name, Invocation(words, str(folder), spool, environment or {}, script))
