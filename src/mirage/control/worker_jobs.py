"""Worker jobs: an elastic job changes its size by them, without a requeue.

A worker job names its main job in its comment (``worker-of=17``), and its user submits it with ``sbatch --hold``. An
operator cannot submit jobs for others, but may release a held one, and may requeue one so that it is held again
(22.05.8). Slurm has no dependency that ends a worker with its main job: the controller cancels it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from mirage.control.verbs import Verb
from mirage.job_state import UNFINISHED, JobState
from mirage.slurm.records import QueuedJob
from mirage.slurm.text.gpu_queue import GpuQueueJob

_WORD = "worker-of="
UNREADABLE = -1

_HELD = ("JobHeldUser", "job requeued in held state")
"""Reasons of workers that may be released; an administrator's hold is not one."""


def main_job_of(job: QueuedJob) -> int:
    """The id of a worker's main job; 0 if it is no worker, −1 if its comment cannot be read."""
    ids = [word.removeprefix(_WORD) for word in job.comment.replace(",", " ").split() if word.startswith(_WORD)]
    if not ids:
        return 0
    readable = len(ids) == 1 and ids[0].isascii() and ids[0].isdecimal() and len(ids[0]) < 12
    return int(ids[0]) or UNREADABLE if readable else UNREADABLE


def workers_by_main(jobs: Sequence[GpuQueueJob]) -> Mapping[int, tuple[GpuQueueJob, ...]]:
    """The worker jobs that wait or run, by the id of their main job.

    Workers are in the order of their ids. A main job is one of the given jobs, of the same user, and no worker itself.

    Args:
        jobs: The jobs that take part.
    """
    users = {one.job.id: one.job.user for one in jobs if not main_job_of(one.job)}
    found: dict[int, tuple[GpuQueueJob, ...]] = {}
    for one in sorted(jobs, key=lambda one: one.job.id):
        main = main_job_of(one.job)
        if main and users.get(main) == one.job.user and not one.job.completing:
            found[main] = (*found.get(main, ()), one)
    return found


def running(workers: Iterable[GpuQueueJob]) -> list[GpuQueueJob]:
    """The workers that run."""
    return [one for one in workers if one.job.state is JobState.RUNNING]


def is_orphan(one: GpuQueueJob, unfinished: Container[int]) -> bool:
    """Whether a job is a worker, and its main job has ended.

    A main job is submitted first. A higher id than the worker's is thus a typing error.

    Args:
        one: The job.
        unfinished: Ids of all jobs that wait or run, also of those that do not take part.
    """
    main = main_job_of(one.job)
    return 0 < main < one.job.id and one.job.state in (JobState.PENDING, JobState.RUNNING) and main not in unfinished


def unfinished_ids(jobs: Iterable[GpuQueueJob]) -> frozenset[int]:
    """The ids of the jobs that have not ended."""
    return frozenset(one.job.id for one in jobs if one.job.state in UNFINISHED)


def worker_changes(workers: Sequence[GpuQueueJob], wanted: int) -> tuple[Verb, ...]:
    """The verbs after which a number of workers run.

    Workers with the highest ids leave first. Released workers that Slurm has not started are held again if they are
    not wanted.

    Args:
        workers: Those of one job.
        wanted: How many are to run; at least 0.
    """
    run = running(workers)
    released = [one for one in workers if one.job.state is JobState.PENDING and one.job.priority > 0]
    held = [one for one in workers if one.job.state is JobState.PENDING and one.job.reason.replace("_", " ") in _HELD]
    wait = max(wanted - len(run), 0)
    more = max(wait - len(released), 0)
    return (
        *(_of(one, "requeuehold") for one in run[wanted:]),
        *(_of(one, "hold") for one in released[wait:]),
        *(verb for one in held[:more] for verb in _start(one)),
    )


def _start(one: GpuQueueJob) -> Iterator[Verb]:
    """The verbs that let Slurm start a held worker, also one that was requeued a moment ago."""
    if one.restarts:
        yield _of(one, "release", one.job.submit_s + 1)
    yield _of(one, "unhold")


def _of(one: GpuQueueJob, name: str, start_s: int = 0) -> Verb:
    return Verb(name, one.job.id, one.job.submit_s, start_s=start_s)


def undo_of(change: Verb) -> Verb:
    """The verb that undoes one of ``worker_changes``."""
    return Verb("hold" if change.name in ("unhold", "release") else "unhold", change.job, change.submit_s)


def only_holds(changes: Sequence[Verb]) -> bool:
    """Whether workers that wait are held again, and nothing else happens."""
    return bool(changes) and all(change.name == "hold" for change in changes)
