"""A training job that takes over: it waits until the job before it has left.

The rule is: never two trainers. Both sides read it from Slurm alone, so it holds without an agent, without common
files, and with either side killed at any instant:

1. A job writes its ready mark into its own comment, and only then reads the queue.
2. It trains once no earlier job of its chain runs, is suspended, or is completing.
3. It does not train if a later job of its chain runs and has a ready mark. A requeued job that starts again is in the
   queue as running before it reads the queue, so either 2 finds it, or it finds the mark by 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mirage.agent.chain.tag import GRACE, Tag, parse_tag, tag_of_this_job
from mirage.agent.failure.training_progress import MOST_FILES, SAVED, STEP, matching_files, read_progress
from mirage.duration import MINUTE_S
from mirage.errors import MirageError, SlurmRefused, SlurmUnreachable, reason
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import Queue, QueuedJob

Answer = TypeVar("Answer")

MOST_OVERLAP_S = 2_700
"""Default of the longest wait, seconds: sites cancel jobs with idle GPUs, one known site after 120 minutes."""

SIGNAL_AFTER_S = 120
"""Least default time after which the job itself signals the earlier one: an agent that lives has done so by then."""

EVERY_S = 5
"""Default real seconds between two queries, which are of the earlier jobs only."""

_TRAINS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN})
"""States of a job whose processes may write."""


@dataclass(frozen=True, slots=True)
class CheckpointMarker:
    """A checkpoint by its path, or by its step in a progress file.

    Attributes:
        text: The path, or the step.
        version: What a newer checkpoint changes: the time of its last change in ns, or the step.
    """

    text: str
    version: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The result of a take-over.

    Attributes:
        previous: Jobs that were waited for, as last observed; empty where none ran.
        waited_s: Real seconds from the ready mark on.
        signalled: Whether this job has signalled them, as no agent had made them leave.
    """

    previous: tuple[QueuedJob, ...]
    waited_s: float
    signalled: bool


@dataclass(slots=True)
class TakeOver:
    """The wait of one job for the jobs before it in its chain.

    Args:
        job: This job.
        tag: Its tag, as its environment has it: the comment counts where it has one.
        signal: Signal for the earlier jobs, and whether it goes to their batch shells alone.
        most_s: Longest wait.
        signal_after_s: Time from the ready mark until the earlier jobs are signalled by this one; infinite for never.
        every_s: Time between two queries.
        ready_file: In a chain without an agent, the file by which a job reports that it is ready; its jobs have no tag.
            A job that starts again after a later one leaves before its script runs.
        clock: Seconds since 1970 on the cluster's clock.
        real_s: Real seconds.
        report: Receives one line for people.
    """

    slurm: SlurmClient
    job: int
    tag: Tag | None
    signal: tuple[str, bool]
    clock: Callable[[], float]
    real_s: Callable[[], float]
    sleep: Callable[[float], object]
    report: Callable[[str], None]
    most_s: float = MOST_OVERLAP_S
    signal_after_s: float = SIGNAL_AFTER_S
    every_s: float = EVERY_S
    ready_file: str = ""
    _begun_s: float = 0.0
    _blind: str = ""
    _previous: tuple[QueuedJob, ...] = ()
    _signalled: bool = False

    def run(self) -> TakenOver:
        """Waits, and returns once this job may train.

        Raises:
            MirageError: This job must not train: an earlier one still runs after the longest wait, a later one has
                taken over, or this is no job of a chain.
        """
        self._begun_s = self.real_s()
        self._answered(self._get_ready)
        self._begun_s = self.real_s()
        while True:
            previous = self._answered(self._earlier_jobs)
            if not previous:
                return TakenOver(self._previous, self.real_s() - self._begun_s, self._signalled)
            if previous != self._previous:
                self.report(f"ready; waits until {_named(previous)} has left")
            self._previous = previous
            self._wait_for(previous)

    def _get_ready(self) -> None:
        """Writes the ready mark into the comment of this job, or makes the file."""
        if self.ready_file:
            try:
                Path(self.ready_file).touch()
            except OSError as error:
                raise MirageError(f"cannot write {self.ready_file}: {error.strerror}") from error
            return
        jobs = self.slurm.observe().jobs
        own = next((one for one in jobs if one.id == self.job), None)
        self.tag = tag_of_this_job(own, self.tag, jobs).with_marks(ready_s=int(self.clock()))
        self.slurm.update(self.job, {"Comment": str(self.tag)})

    def _earlier_jobs(self) -> tuple[QueuedJob, ...]:
        """The earlier jobs of the chain that may still write.

        Raises:
            MirageError: A later job has taken over.
        """
        if not self.ready_file:
            return self._in_queue(self.slurm.observe())
        return tuple(filter(_may_write, self.slurm.observe_jobs(jobs_before(Path(self.ready_file)))))

    def _in_queue(self, queue: Queue) -> tuple[QueuedJob, ...]:
        """The earlier jobs in a queue, by their tags."""
        assert self.tag is not None
        own = next((one for one in queue.jobs if one.id == self.job), None)
        earlier: list[QueuedJob] = []
        for job in queue.jobs:
            tag = parse_tag(job.comment)
            if tag is None or (tag.store, tag.key) != (self.tag.store, self.tag.key) or job.id == self.job:
                continue
            if (own is not None and job.user != own.user) or not _may_write(job):
                continue
            if tag.link > self.tag.link and tag.ready_s >= job.start_s >= 0 and not job.completing:
                raise MirageError(
                    f"link {tag.link} of chain {tag.chain} has taken over: job {job.id} is ready and runs"
                )
            if tag.link < self.tag.link:
                earlier.append(replace(job, comment=""))
        return tuple(earlier)

    def _wait_for(self, previous: tuple[QueuedJob, ...]) -> None:
        """Waits until none of some jobs may write; the whole queue is read again after that."""
        numbers = [job.id for job in previous]
        while True:
            waited_s = self.real_s() - self._begun_s
            if waited_s >= self.signal_after_s and not self._signalled:
                self._signal(numbers)
            if waited_s >= self.most_s:
                raise MirageError(
                    f"{_named(previous)} still runs after {self.most_s / 60:.0f} min (--max-overlap): this job must "
                    "not train; let it leave, so that its nodes are not idle"
                )
            self.sleep(self.every_s)
            jobs = self._answered(lambda: self.slurm.observe_jobs(numbers))
            if not any(map(_may_write, jobs)):
                return

    def _signal(self, numbers: list[int]) -> None:
        """Signals the earlier jobs, once: the agent has not made them leave."""
        name, to_batch_shell = self.signal
        try:
            self.slurm.signal(numbers, name, to_batch_shell=to_batch_shell)
            self.report(f"no agent has made them leave: {name} to job {', '.join(map(str, numbers))}")
        except SlurmRefused as error:  # one of them has just ended
            self.report(f"{name} was refused: {error}")
        except SlurmUnreachable as error:
            self.report(f"{name} could not be sent: {error}")
            return
        self._signalled = True

    def _answered(self, question: Callable[[], Answer]) -> Answer:
        """The answer to a question; silence is never "it has left".

        Raises:
            MirageError: Slurm gives no answer for the longest wait.
        """
        while True:
            try:
                answer = question()
            except SlurmUnreachable as error:
                if not self._blind:
                    self._blind = str(error)
                    self.report(f"Slurm does not answer: {error}; this job waits")
                if self.real_s() - self._begun_s >= self.most_s:
                    raise MirageError(
                        f"Slurm has not answered for {self.most_s / 60:.0f} min (--max-overlap): whether an earlier "
                        "job still trains is unknown, so this job must not train"
                    ) from error
                self.sleep(self.every_s)
                continue
            if self._blind:
                self._blind = ""
                self.report("Slurm answers again")
            return answer


def signal_after_s(environment: Mapping[str, str], most_s: int) -> int:
    """Default time after which a job itself signals the earlier one.

    That one may save for its grace; a second signal would end a batch script that waits for the save. Without an agent,
    it must be signalled before the longest wait ``most_s`` is over.
    """
    grace = environment.get(GRACE, "")
    after_grace_s = int(grace) + MINUTE_S if grace.isdecimal() else 0
    return max(min(after_grace_s, most_s - 2 * MINUTE_S), SIGNAL_AFTER_S)


def jobs_before(ready_file: Path) -> list[int]:
    """The jobs of the earlier links of a chain without an agent.

    Args:
        ready_file: ``ready.N`` of this link, in the folder of the chain, where ``link.K`` begins with ``job=NUMBER``.

    Raises:
        MirageError: The folder cannot be read.
    """
    found = []
    try:
        for path in ready_file.parent.glob("link.*"):
            if path.suffix[1:].isdecimal() and int(path.suffix[1:]) < int(ready_file.suffix[1:]):
                number = re.match(r"job=(\d+)\b", path.read_text())
                found += [int(number[1])] if number is not None else []
    except (OSError, ValueError) as error:
        raise MirageError(
            f"the jobs before this one cannot be found in {ready_file.parent}: {reason(error)}"
        ) from error
    return sorted(found)


def newest_checkpoint(pattern: str, directory: str, *, only_steps: bool = False) -> CheckpointMarker | None:
    """The checkpoint that was changed last; None where there is none.

    Args:
        pattern: Path of a file or a folder, with ``*``, ``?`` and ``**`` as in a shell. Temporary names, such as
            ``step_11.tmp``, are left out. A file with steps of ``mirage.hooks`` stands for its highest saved one, or
            for no checkpoint without one.
        directory: The folder of a relative path.
        only_steps: Whether only saved steps count: the pattern is a progress file, which may be empty as yet.
    """
    newest: CheckpointMarker | None = None
    for path in matching_files(pattern, directory):
        try:
            inside = islice(path.iterdir(), MOST_FILES) if path.is_dir() else ()
            changed_ns = max(one.stat().st_mtime_ns for one in (path, *inside))
            known = read_progress(escape(str(path.absolute())), "/") if path.is_file() else None
        except OSError:  # a trainer has just removed it
            continue
        if known is not None and known.kind == SAVED:
            found = CheckpointMarker(str(known.value), known.value)
        elif only_steps or (known is not None and known.kind == STEP):
            continue
        else:
            found = CheckpointMarker(str(path), changed_ns)
        if newest is None or found.version > newest.version:
            newest = found
    return newest


def _may_write(job: QueuedJob) -> bool:
    """Whether processes of a job may still run."""
    return job.state in _TRAINS or job.completing


def _named(jobs: Sequence[QueuedJob]) -> str:
    numbers = ", ".join(str(job.id) for job in jobs)
    return f"job {numbers}" if len(jobs) == 1 else f"one of the jobs {numbers}"
