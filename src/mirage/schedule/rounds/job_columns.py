"""Columns of a view for schedulers in rounds, in the same order in every round."""

from __future__ import annotations

import numpy as np

from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.schedule.scheduler_contract import GpuView, Servers


class JobColumns:
    """Columns of the active jobs as in ``ActiveJobs``, by id, and the first server of each."""

    def __init__(self, view: GpuView) -> None:
        jobs, held = view.jobs, view.held
        order = np.argsort(jobs.id, kind="stable")
        self._order, self._held = order, held
        self.id: Ints = jobs.id[order]
        self.model: Ints = jobs.model[order]
        self.status: Ints = jobs.status[order]
        self.gpus: Ints = jobs.gpus[order]
        self.min_gpus: Ints = jobs.min_gpus[order]
        self.max_gpus: Ints = jobs.max_gpus[order]
        self.pool: Ints = jobs.pool[order]
        self.batch: Ints = jobs.batch[order]
        self.held: Ints = jobs.held[order]
        self.servers: Ints = jobs.servers[order]
        self.gpu_type: Ints = jobs.gpu_type[order]
        self.restarts: Ints = jobs.restarts[order]
        self.submit_s: Floats = jobs.submit_s[order]
        self.progress: Floats = jobs.progress[order]
        self.paused_until_s: Floats = jobs.paused_until_s[order]
        self.restart_s: Floats = jobs.restart_s[order]
        self.attained_gpu_s: Floats = jobs.attained_gpu_s[order]
        first = held.first[:-1][order]
        sits = self.held > 0
        self.first_server: Ints = np.zeros(len(order), np.int64)
        self.first_server[sits] = held.server[first[sits]]

    def places(self, k: int) -> dict[int, int]:
        """Server → GPUs of the job at index k."""
        return self._held.of(int(self._order[k]))


def refuse_too_large(
    jobs: JobColumns, needed: Ints, servers: Servers, capacity: Ints, pool: Ints, scheduler: str
) -> None:
    """Refuse a job that fits on no kind of server.

    No job is refused while servers are lent, as servers may come back.

    Args:
        jobs: All active jobs.
        needed: Smallest number of GPUs on which the scheduler runs each job.
        servers: All servers.
        capacity: GPUs of each kind.
        pool: Pool of each kind.
        scheduler: Name of the scheduler in the message.

    Raises:
        ConfigurationError: A job needs more GPUs than any kind that it may use has.
    """
    if not np.array_equal(servers.pool, servers.home):
        return
    may_use = (jobs.pool[:, None] < 0) | (jobs.pool[:, None] == pool)
    most = np.where(may_use, capacity, 0).max(axis=1)
    for k in np.flatnonzero(needed > most)[:1]:
        raise ConfigurationError(
            f"job {jobs.id[k]} (counted from 0) needs {needed[k]} GPUs; {scheduler} runs a job on servers of "
            f"one GPU type, one size and one pool, and those it may use have {most[k]}: leave the job out, or make the "
            "servers of each type identical"
        )
