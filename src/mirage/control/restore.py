"""The restoration of Slurm after a controller: loans, nice values, fence and lease."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from mirage.control.begun_evictions import warned_jobs
from mirage.control.executor_folder import RESTORED, append_row, read_journal, unrestored
from mirage.control.plan_executor import PlanExecutor
from mirage.control.verbs import FENCE, LEASE, LOAN, Verb, lost_loan, verb_from_json
from mirage.control.worker_jobs import main_job_of
from mirage.errors import SlurmRefused
from mirage.job_state import JobState
from mirage.real_time import wait_until
from mirage.slurm.gpu_snapshot import all_reservations
from mirage.slurm.text.gpu_queue import GpuQueueJob

_PATIENCE_S = 35.0
"""Real seconds in which a requeued job must leave its nodes: Slurm kills it after 30 s (KillWait)."""


def restore(executor: PlanExecutor) -> list[str]:
    """End all loans and undo the rest of the journal; returns what Slurm refused.

    Jobs that run on lent nodes go on there, outside of the loan: none is evicted. The loans are those that Slurm has.
    Nice values are restored from the journal, also of jobs that run: they may be requeued. What an earlier, complete
    restoration has undone is left alone: it may have been set again by its user. Jobs that wait get their former size;
    jobs that run retain the present one, as Slurm cannot change it. Released worker jobs that still wait are held
    again; those that run go on. The fence is removed if the controller made it. Jobs that the controller has requeued
    start without Slurm's delay.

    Raises:
        SlurmRefused: A controller with another folder acts: it would lend again.
        SlurmUnreachable: Slurm does not answer, or its answer cannot be read; run it again.
    """
    refused = []
    for verb in _undoing(executor):
        try:
            executor.send(verb)
        except SlurmRefused as error:
            refused.append(str(error))
    wait_until(lambda: not executor.release_requeued(), _PATIENCE_S, pause_s=0.5)
    late = executor.release_requeued()
    refused += [f"job {job} was requeued and has not left its nodes; repeat the command" for job in late]
    if not refused:
        append_row(executor.journal, {"time_s": executor.clock(), "verb": asdict(Verb(RESTORED)), "undo": None})
    return refused


def _undoing(executor: PlanExecutor) -> Iterator[Verb]:
    reservations = all_reservations(executor.slurm)
    executor.lease.check_is_alone(reservations)
    names = {one.name for one in reservations}
    jobs = {one.job.id: one for one in executor.jobs()}
    for one in jobs.values():
        if one.reservation.startswith(LOAN):
            yield Verb("leave", one.job.id, one.job.submit_s, task=one.task)
        elif lost_loan(one.job.reason, executor.pools.owner_nodes):
            yield Verb("unhold", one.job.id, one.job.submit_s, task=one.task)
    for node in executor.pools.owner_nodes:
        if LOAN + node in names:
            yield Verb("return", node=node)
    journal = read_journal(executor.journal)
    _report_warned(executor, journal, jobs)
    rows = unrestored(journal)
    yield from _holds(rows, jobs)
    restored: set[tuple[str, int]] = set()
    for row in rows:
        verb = verb_from_json(row["verb"])
        if verb.name not in ("nice", "size") or not row.get("undo") or (verb.name, verb.job) in restored:
            continue
        present = jobs.get(verb.job)
        if present is None or (present.job.submit_s != verb.submit_s and not present.restarts):
            continue  # it has ended, and perhaps its id was given to another job since
        restored.add((verb.name, verb.job))
        undo = replace(verb_from_json(row["undo"]), task=present.task)
        waits = present.job.state is JobState.PENDING
        if verb.name == "nice" and present.job.nice != undo.nice:
            yield undo
        unchanged = present.gpus_on_one_node if undo.per_node else present.gpus_per_job  # in how it requests its GPUs
        if verb.name == "size" and waits and unchanged and present.job.gpus != undo.gpus:
            yield undo
    fences = [row["verb"]["name"] for row in rows if row["verb"]["name"] in ("fence", "unfence")]
    if FENCE in names and fences[-1:] == ["fence"]:
        yield Verb("unfence")
    if LEASE in names:
        yield Verb("unlease")


def _holds(rows: Sequence[Mapping[str, Any]], jobs: Mapping[int, GpuQueueJob]) -> Iterator[Verb]:
    """The holds of worker jobs that the controller has released, and that still wait."""
    released = {row["verb"]["job"] for row in rows if row["verb"]["name"] == "unhold"}
    for number in released & set(jobs):
        job = jobs[number].job
        if main_job_of(job) and job.state is JobState.PENDING and job.priority > 0:
            yield Verb("hold", job.id, job.submit_s)


def _report_warned(executor: PlanExecutor, rows: Sequence[Mapping[str, Any]], jobs: Mapping[int, GpuQueueJob]) -> None:
    """Name jobs that have the signal and were not requeued: they may wait for that."""
    warned = warned_jobs(rows, executor.clock(), executor.pools.grace_s)
    for number, (_, verb) in warned.items():
        one = jobs.get(number)
        if one is not None and one.job.state is JobState.RUNNING and one.job.submit_s == verb.submit_s:
            outcome = f"job {number} was signalled and goes on; if it waits for a requeue: scontrol requeue {number}"
            executor.on_outcome({"time_s": executor.clock(), "what": "evict", "outcome": outcome, "detail": {}})
