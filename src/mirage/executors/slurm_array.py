"""An array of Slurm jobs as an executor, through submitit."""

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
from mirage.executors.answers import Answers, answer_part
from mirage.executors.executor import Made, Piece, Result, dealt
from mirage.slurm.runner import Runner, SystemRunner

LONGEST_S = 4 * HOUR_S
"""Time limit of a job where none is said."""

JOBS = 8

LOOKS_A_QUEUE = 30
"""After how many looks at answers squeue is asked."""

_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Refused|Infeasible)\b.*", re.MULTILINE)
"""The last line of a traceback."""


@dataclass(frozen=True, slots=True)
class SlurmArray:
    """Deals pieces to the jobs of an array, the same number to each.

    Attributes:
        folder: In which jobs are told what to do, and answer; one that all nodes see.
        name: Of the jobs, in squeue.
        jobs: How many at most.
        sbatch: Further options of sbatch, by their long names: ``{"partition": "cpu", "time": "1:00:00"}``.
        sleep: Passes some seconds.
        clock: Seconds that only grow.
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
        self, begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """As ``Executor`` says. Jobs that nobody waits for any more are cancelled.

        Raises:
            ConfigurationError: submitit is absent, there is no Slurm, or the folder cannot be written.
            SlurmError: sbatch refused, or a job failed; what was finished stays.
        """
        if not pieces:
            return
        submitit_executor = _submitit_executor()
        answers = Answers.asked(self.folder, begin, made_of, pieces, self.sleep, self.clock)
        try:
            jobs = self._submitted(submitit_executor, answers)
        except BaseException:
            answers.remove()
            raise
        try:
            yield from answers.gathered(_Watch(jobs, self.runner).all_over)
        finally:
            answers.abandon()
            for job in jobs:
                if not _has_ended(job):
                    job.cancel()
        answers.remove()

    def _submitted(self, submitit_executor: Callable[..., Any], answers: Answers) -> list[Any]:
        """The jobs, on their way."""
        try:
            executor = submitit_executor(folder=str(answers.folder))
        except RuntimeError as error:
            raise ConfigurationError(f"no Slurm is found here ({error}); run it where sbatch and srun are") from error
        logging.getLogger("submitit").setLevel(logging.ERROR)  # it warns of accounting that is not kept
        executor.update_parameters(
            job_name=self.name,
            time=LONGEST_S // 60,
            array_parallelism=self.jobs,
            use_srun=False,
            additional_parameters=dict(self.sbatch),
        )
        parts = dealt(range(answers.n), self.jobs)
        try:
            return list(executor.map_array(answer_part, [str(answers.folder)] * len(parts), parts))
        except Exception as error:
            raise SlurmError("the array was not submitted", str(error)) from error


class _Watch:
    """Looks at jobs of an array, and now and then at the queue.

    A job that has left the queue without a word at two looks was killed: accounting, which could tell, is not kept
    everywhere.
    """

    def __init__(self, jobs: Sequence[Any], runner: Runner) -> None:
        self._left = list(jobs)
        self._array = jobs[0].job_id.partition("_")[0]
        self._runner = runner
        self._looks = 0
        self._missed: set[str] = set()

    def all_over(self) -> bool:
        """Whether all have ended.

        Raises:
            SlurmError: One failed, or was killed.
        """
        ended = [job for job in self._left if _has_ended(job)]
        for job in ended:
            _check(job)
        self._left = [job for job in self._left if job not in ended]
        self._looks += 1
        if self._left and self._looks % LOOKS_A_QUEUE == 0:
            gone = self._left_queue()
            for job in self._left:
                if job.job_id in gone & self._missed and not _has_ended(job):
                    raise _failed(job, "it ended without an answer: killed, or out of time or memory")
            self._missed = gone
        return not self._left

    def _left_queue(self) -> set[str]:
        """The ids of jobs that squeue no longer shows; none where it cannot be asked."""
        told = self._runner.run(["squeue", "-h", "-r", "-j", self._array, "-o", "%i"])
        if told.status and "invalid job id" not in told.stderr.lower():
            return set()
        return {job.job_id for job in self._left} - set(told.stdout.split())


def _submitit_executor() -> Callable[..., Any]:
    """What makes submitit's executor.

    Raises:
        ConfigurationError: submitit is absent.
    """
    try:
        import submitit
    except ImportError as error:
        raise ConfigurationError(
            'an array of Slurm jobs needs submitit, which is absent; run: pip install "mirage-hpc[cluster]"'
        ) from error
    made: Callable[..., Any] = submitit.SlurmExecutor
    return made


def _has_ended(job: Any) -> bool:
    """Whether a job has come to its end, well or not; one that is killed leaves no word."""
    return bool(job.paths.result_pickle.exists())


def _check(job: Any) -> None:
    """See that a job that has ended did not fail.

    Raises:
        SlurmError: It did.
    """
    failed = job.exception()
    if failed is not None:
        raise _failed(job, (_ERROR.findall(str(failed)) or [str(failed)])[-1])


def _failed(job: Any, why: str) -> SlurmError:
    return SlurmError(
        f"job {job.job_id} failed: {why}; its output is in {job.paths.stderr}. Run the same command again: what is "
        "finished is kept"
    )
