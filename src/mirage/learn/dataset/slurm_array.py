"""Making shards on an array of Slurm jobs, through submitit."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, SlurmError
from mirage.learn.dataset.make import MadeShard, Work, shard_maker
from mirage.learn.dataset.recipe import Shard

LONGEST_S = 4 * HOUR_S
"""Time limit of a job where none is said."""

JOBS, POLL_S = 8, 2.0


@dataclass(frozen=True, slots=True)
class SlurmArray:
    """Deals shards to the jobs of an array; the data folder must be one that all nodes see.

    Attributes:
        jobs: How many jobs at most; each replays the trace once.
        sbatch: Further options of sbatch, by their long names: ``{"partition": "cpu", "time": "1:00:00"}``.
        sleep: Passes some seconds.
    """

    jobs: int = JOBS
    sbatch: Mapping[str, str] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, work: Work, shards: Sequence[Shard]) -> Iterator[MadeShard]:
        """Make shards; a job's are told of when it is done. Jobs that are not awaited to their end are cancelled.

        Raises:
            ConfigurationError: submitit is absent, or there is no Slurm.
            SlurmError: sbatch refused, or a job failed; shards that are finished stay.
        """
        if not shards:
            return
        folder = work.folder / ".slurm"
        executor = self._executor(str(folder))
        parts = [[shards[k] for k in part] for part in np.array_split(np.arange(len(shards)), self.jobs) if len(part)]
        try:
            jobs = executor.map_array(make_shards, [work] * len(parts), parts)
        except Exception as error:
            raise SlurmError(f"the array was not submitted: {error}") from error
        try:
            yield from self._as_they_end(list(jobs))
        finally:
            for job in jobs:
                if not job.done():
                    job.cancel()
        shutil.rmtree(folder, ignore_errors=True)

    def _executor(self, folder: str) -> Any:
        try:
            import submitit
        except ImportError as error:
            raise ConfigurationError(
                'an array of Slurm jobs needs submitit, which is absent; run: pip install "mirage-hpc[cluster]"'
            ) from error
        try:
            executor = submitit.SlurmExecutor(folder=folder)
        except RuntimeError as error:
            raise ConfigurationError(f"no Slurm is found here ({error}); run it where sbatch and srun are") from error
        executor.update_parameters(
            job_name="mirage-dataset",
            time=LONGEST_S // 60,
            array_parallelism=self.jobs,
            use_srun=False,
            additional_parameters=dict(self.sbatch),
        )
        return executor

    def _as_they_end(self, jobs: list[Any]) -> Iterator[MadeShard]:
        while jobs:
            ended = [job for job in jobs if job.done()]
            for job in ended:
                if (failed := job.exception()) is not None:
                    last = str(failed).strip().splitlines()[-1:] or [repr(failed)]
                    raise SlurmError(
                        f"job {job.job_id} failed: {last[0]}; see {job.paths.stderr}. Run the same command "
                        "again: finished shards are kept"
                    )
                yield from job.result()
            jobs = [job for job in jobs if job not in ended]
            if jobs and not ended:
                self.sleep(POLL_S)


def make_shards(work: Work, shards: Sequence[Shard]) -> list[MadeShard]:
    """What one job of the array does."""
    return list(map(shard_maker(work), shards))
