"""Jobs that a scheduler of rounds can never place: each of its jobs stays on servers of one kind."""

from __future__ import annotations

import numpy as np

from mirage.errors import ConfigurationError
from mirage.job_state import Ints
from mirage.schedule.contract import Servers
from mirage.schedule.rounds.job_columns import JobColumns


def refuse_too_large(
    jobs: JobColumns, needed: Ints, servers: Servers, capacity: Ints, pool: Ints, scheduler: str
) -> None:
    """Refusal of a job that fits on no kind of server; none while servers are lent, as more may come back.

    Args:
        jobs: All active jobs.
        needed: The fewest GPUs on which the scheduler runs each.
        servers: All servers.
        capacity: GPUs of each kind.
        pool: Of each kind.
        scheduler: What it is called in the message.

    Raises:
        ConfigurationError: A job needs more GPUs than any kind has that it may use.
    """
    if not np.array_equal(servers.pool, servers.home):
        return
    may_use = (jobs.pool[:, None] < 0) | (jobs.pool[:, None] == pool)
    most = np.where(may_use, capacity, 0).max(axis=1)
    for k in np.flatnonzero(needed > most)[:1]:
        raise ConfigurationError(
            f"job {jobs.id[k]} (counted from 0) needs {needed[k]} GPUs; {scheduler} keeps a job on servers of "
            f"one GPU type, one size and one pool, and those it may use have {most[k]}: leave the job out, or make the "
            "servers of a type alike"
        )
