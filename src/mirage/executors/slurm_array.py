"""A Slurm job array as an executor, through submitit."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, SlurmError
from mirage.executors.executor import Piece, Result, Setup, split_evenly
from mirage.executors.remote_work import RemoteWork, do_part
from mirage.slurm.runner import Runner, SystemRunner

LONGEST_S = 4 * HOUR_S
"""Time limit of a job by default."""

JOBS = 8

POLLS_PER_SQUEUE = 30
"""Number of polls for results between two calls of squeue."""

_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Refused|Infeasible)\b.*", re.MULTILINE)
"""The last line of a traceback."""


@dataclass(frozen=True, slots=True)
class SlurmArray:
    """Distributes pieces evenly over the jobs of an array.

    Attributes:
        folder: Holds the work and the results; all nodes must share it.
        name: Name of the jobs in squeue.
        jobs: Largest number of jobs.
        sbatch: Further options of sbatch, by their long names: ``{"partition": "cpu", "time": "1:00:00"}``.
        sleep: Sleeps for a number of seconds.
        clock: A monotonic clock, in seconds.
        runner: Runs squeue.
    """

    folder: Path
    name: str = "mirage"
    jobs: int = JOBS
    sbatch: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    runner: Runner = field(default_factory=SystemRunner)

    def __call__(
        self, begin: Callable[[Setup], Callable[[Piece], Result]], setup: Setup, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """Does pieces in jobs; see ``Executor``. If the caller stops waiting, jobs are cancelled.

        Raises:
            ConfigurationError: submitit or Slurm is not installed, or the folder cannot be written.
            SlurmError: sbatch refused the array, or a job failed; finished results stay.
        """
        if not pieces:
            return
        submitit_executor = _submitit_executor()
        work = RemoteWork.create(self.folder, begin, setup, pieces, self.sleep, self.clock)
        try:
            jobs = self._submitted(submitit_executor, work)
        except BaseException:
            work.remove()
            raise
        try:
            yield from work.results(_Watch(jobs, self.runner).all_over)
        finally:
            work.abandon()
            for job in jobs:
                if not _has_ended(job):
                    job.cancel()
        work.remove()

    def _submitted(self, submitit_executor: Callable[..., Any], work: RemoteWork) -> list[Any]:
        """Submits the array and returns its jobs."""
        try:
            executor = submitit_executor(folder=str(work.folder))
        except RuntimeError as error:
            raise ConfigurationError(f"no Slurm is found here ({error}); run this where sbatch and srun are") from error
        logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns where Slurm has no accounting
        executor.update_parameters(
            job_name=self.name,
            time=LONGEST_S // 60,
            array_parallelism=self.jobs,
            use_srun=False,
            additional_parameters=dict(self.sbatch),
        )
        parts = split_evenly(range(work.n), self.jobs)
        try:
            return list(executor.map_array(do_part, [str(work.folder)] * len(parts), parts))
        except Exception as error:
            raise SlurmError("the array was not submitted", str(error)) from error


class _Watch:
    """Polls the jobs of an array, and squeue at longer intervals.

    A job without a result that is missing from squeue at two polls in a row was killed. Accounting is not used, as not
    every site has it.
    """

    def __init__(self, jobs: Sequence[Any], runner: Runner) -> None:
        self._left = list(jobs)
        self._array = jobs[0].job_id.partition("_")[0]
        self._runner = runner
        self._polls = 0
        self._missed: set[str] = set()

    def all_over(self) -> bool:
        """Whether all jobs have ended.

        Raises:
            SlurmError: A job failed, or was killed.
        """
        ended = [job for job in self._left if _has_ended(job)]
        for job in ended:
            if (error := job.exception()) is not None:
                raise _failed(job, (_ERROR.findall(str(error)) or [str(error)])[-1])
        self._left = [job for job in self._left if job not in ended]
        self._polls += 1
        if self._left and self._polls % POLLS_PER_SQUEUE == 0:
            missing = self._left_queue()
            for job in self._left:
                if job.job_id in missing & self._missed and not _has_ended(job):
                    raise _failed(job, "it ended without a result: killed, or out of time or memory")
            self._missed = missing
        return not self._left

    def _left_queue(self) -> set[str]:
        """Ids of jobs that squeue no longer shows; none where squeue fails."""
        listed = self._runner.run(["squeue", "-h", "-r", "-j", self._array, "-o", "%i"])
        if listed.status and "invalid job id" not in listed.stderr.lower():
            return set()
        return {job.job_id for job in self._left} - set(listed.stdout.split())


def _submitit_executor() -> Callable[..., Any]:
    """The class of submitit's executor.

    Raises:
        ConfigurationError: submitit is not installed.
    """
    try:
        import submitit
    except ImportError as error:
        raise ConfigurationError(
            'an array of Slurm jobs needs submitit, which is not installed; run: pip install "mirage-hpc[cluster]"'
        ) from error
    executor_class: Callable[..., Any] = submitit.SlurmExecutor
    return executor_class


def _has_ended(job: Any) -> bool:
    """Whether a job has written a result or an error; a job that is killed writes neither."""
    return bool(job.paths.result_pickle.exists())


def _failed(job: Any, why: str) -> SlurmError:
    return SlurmError(
        f"job {job.job_id} failed: {why}; its output is in {job.paths.stderr}. Run the same command again: finished "
        "work is stored"
    )
