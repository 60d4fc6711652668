"""A Slurm job array as an executor."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, RequestNotSent, SlurmError, SlurmUnreachable
from mirage.process import cleanup_at_signals
from mirage.slurm.runner import Runner, SystemRunner, check_configured
from mirage.study.executors.executor import Piece, Result, Setup
from mirage.study.executors.remote_work import RemoteWork

LONGEST_S = 4 * HOUR_S
"""Time limit of a job by default."""

JOBS = 8

POLLS_PER_SQUEUE = 30
"""Number of polls for results between two calls of squeue."""


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
        runner: Runs sbatch, squeue and scancel.
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
            ConfigurationError: Slurm is not installed, or the folder cannot be written.
            SlurmError: sbatch refused the array, or a job failed; finished results stay.
        """
        if not pieces:
            return
        with cleanup_at_signals() as check:
            work = RemoteWork.create(self.folder, begin, setup, pieces, self.sleep, self.clock)
            try:
                watch = _Watch(work, self._submitted(work), min(self.jobs, work.n), self.runner)
            except BaseException:
                work.remove()
                raise

            def all_over() -> bool:
                check()
                return watch.all_over()

            try:
                yield from work.results(all_over)
            finally:
                work.abandon()
                watch.cancel()
        work.remove()

    def _submitted(self, work: RemoteWork) -> str:
        """Submits the array and returns its number.

        Raises:
            ConfigurationError: There is no Slurm here.
            SlurmError: sbatch refused the array.
        """
        parts = min(self.jobs, work.n)
        options = {
            "job-name": self.name,
            "time": str(LONGEST_S // 60),
            "nodes": "1",
            "output": f"{str(work.folder).replace('%', '%%')}/%A_%a.out",
            "open-mode": "append",
            **{key.replace("_", "-"): value for key, value in self.sbatch.items()},
            "array": f"0-{parts - 1}",
            "wrap": work.array_command(parts),
        }
        words = [f"--{key}={value}" for key, value in options.items()]
        try:
            done = self.runner.run(["sbatch", "--parsable", *words], environment=os.environ)
            check_configured(done, "sbatch")
        except RequestNotSent as error:
            raise ConfigurationError(f"no Slurm is found here ({error}); run this where sbatch and srun are") from error
        if done.status:
            raise SlurmError("the array was not submitted", done.stderr)
        return done.stdout.strip().partition(";")[0]


class _Watch:
    """Polls the jobs of an array, and squeue at longer intervals.

    A job without a result that is missing from squeue at two polls in a row was killed. Accounting is not used, as not
    every site has it.
    """

    def __init__(self, work: RemoteWork, array: str, parts: int, runner: Runner) -> None:
        self._work, self._array, self._runner = work, array, runner
        self._left = list(range(parts))
        self._polls = 0
        self._missed: set[int] = set()

    def all_over(self) -> bool:
        """Whether all jobs have ended.

        Raises:
            SlurmError: A job failed, or was killed.
        """
        errors = {part: self._work.error_of(part) for part in self._left}
        for part, error in errors.items():
            if error:
                raise self._failed(part, error)
        self._left = [part for part, error in errors.items() if error is None]
        self._polls += 1
        if self._left and self._polls % POLLS_PER_SQUEUE == 0:
            missing = self._left_queue()
            for part in self._left:
                if part in missing & self._missed and self._work.error_of(part) is None:
                    raise self._failed(part, "it ended without a result: killed, or out of time or memory")
            self._missed = missing
        return not self._left

    def cancel(self) -> None:
        """Cancels the jobs that have not ended."""
        running = [f"{self._array}_{part}" for part in self._left if self._work.error_of(part) is None]
        if running:
            with suppress(SlurmError):
                self._runner.run(["scancel", *running])

    def _left_queue(self) -> set[int]:
        """Parts with jobs that squeue no longer shows; none where squeue fails or is late."""
        try:
            listed = self._runner.run(["squeue", "-h", "-r", "-j", self._array, "-o", "%i"])
        except SlurmUnreachable:
            return set()
        if listed.status and "invalid job id" not in listed.stderr.lower():
            return set()
        shown = set(listed.stdout.split())
        return {part for part in self._left if f"{self._array}_{part}" not in shown}

    def _failed(self, part: int, why: str) -> SlurmError:
        job = f"{self._array}_{part}"
        return SlurmError(
            f"job {job} failed: {why}; its output is in {self._work.folder / job}.out. Run the same command again: "
            "finished work is stored"
        )
