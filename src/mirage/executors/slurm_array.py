"""An array of Slurm jobs as an executor, through submitit."""

from __future__ import annotations

import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, SlurmError
from mirage.executors.executor import Made, Piece, Result, dealt
from mirage.slurm.runner import Runner, SystemRunner

LONGEST_S = 4 * HOUR_S
"""Time limit of a job where none is said."""

JOBS = 8

POLL_S, POLLS_A_LOOK = 2.0, 15
"""How often answers are looked for, and after how many times squeue is asked."""

_ERROR = re.compile(r"^[\w.]*(?:Error|Exception|Interrupt|Refused|Infeasible)\b.*", re.MULTILINE)
"""The last line of a traceback."""


@dataclass(frozen=True, slots=True)
class SlurmArray:
    """Deals pieces to the jobs of an array, the same number to each.

    Attributes:
        folder: Where jobs are told what to do, and answer; one that all nodes see. It is removed when all is done.
        name: Of the jobs, in squeue.
        jobs: How many at most.
        sbatch: Further options of sbatch, by their long names: ``{"partition": "cpu", "time": "1:00:00"}``.
        sleep: Passes some seconds.
        runner: Runs squeue.
    """

    folder: Path
    name: str = "mirage"
    jobs: int = JOBS
    sbatch: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    runner: Runner = field(default_factory=SystemRunner)

    def __call__(
        self, begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """As ``Executor`` says, job by job. Jobs that nobody waits for any more are cancelled.

        Raises:
            ConfigurationError: submitit is absent, or there is no Slurm.
            SlurmError: sbatch refused, or a job failed; what was finished stays.
        """
        if not pieces:
            return
        executor = self._executor()
        parts = dealt(pieces, self.jobs)
        try:
            jobs = executor.map_array(do_pieces, [begin] * len(parts), [made_of] * len(parts), parts)
        except Exception as error:
            raise SlurmError("the array was not submitted", str(error)) from error
        try:
            yield from self._as_they_end(list(jobs))
        finally:
            for job in jobs:
                if not _has_answered(job):
                    job.cancel()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _executor(self) -> Any:
        try:
            import submitit
        except ImportError as error:
            raise ConfigurationError(
                'an array of Slurm jobs needs submitit, which is absent; run: pip install "mirage-hpc[cluster]"'
            ) from error
        try:
            executor = submitit.SlurmExecutor(folder=str(self.folder))
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
        return executor

    def _as_they_end(self, jobs: list[Any]) -> Iterator[Any]:
        """Results of jobs, as they answer.

        A job that has left the queue without an answer at two looks was killed: accounting, which could tell, is not
        kept everywhere.
        """
        polls, missed = 0, set[str]()
        while jobs:
            answered = [job for job in jobs if _has_answered(job)]
            for job in answered:
                yield from _answer(job)
            jobs = [job for job in jobs if job not in answered]
            if not jobs or answered:
                continue
            self.sleep(POLL_S)
            polls += 1
            if polls % POLLS_A_LOOK == 0:
                left = self._left_queue(jobs)
                for job in jobs:
                    if job.job_id in left & missed and not _has_answered(job):
                        raise _failed(job, "it ended without an answer: killed, or out of time or memory")
                missed = left

    def _left_queue(self, jobs: list[Any]) -> set[str]:
        """The ids of jobs that squeue no longer shows; none where it cannot be asked."""
        array = jobs[0].job_id.partition("_")[0]
        told = self.runner.run(["squeue", "-h", "-r", "-j", array, "-o", "%i"])
        if told.status and "invalid job id" not in told.stderr.lower():
            return set()
        return {job.job_id for job in jobs} - set(told.stdout.split())


def _has_answered(job: Any) -> bool:
    return bool(job.paths.result_pickle.exists())


def _answer(job: Any) -> list[Any]:
    """Results of a job.

    Raises:
        SlurmError: It failed.
    """
    failed = job.exception()
    if failed is not None:
        raise _failed(job, (_ERROR.findall(str(failed)) or [str(failed)])[-1])
    results: list[Any] = job.result()
    return results


def _failed(job: Any, why: str) -> SlurmError:
    return SlurmError(
        f"job {job.job_id} failed: {why}; its output is in {job.paths.stderr}. Run the same command again: what is "
        "finished is kept"
    )


def do_pieces(
    begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
) -> list[Result]:
    """What one job of the array does."""
    return list(map(begin(made_of), pieces))
