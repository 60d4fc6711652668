"""Jobs that a scheduler in rounds cannot place, as it uses one kind of server per job."""

from __future__ import annotations

import numpy as np

from mirage.errors import ConfigurationError
from mirage.job_state import Ints
from mirage.schedule.rounds.job_columns import JobColumns
from mirage.schedule.scheduler_contract import Servers


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
