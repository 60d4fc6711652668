"""Job states, and the value of a missing integer, used by all packages."""

from __future__ import annotations

from enum import IntEnum

MISSING = -1
"""The value of an integer that is absent from the trace, and the code of a missing label."""


class JobState(IntEnum):
    """State of one attempt to run a job: Slurm's base states, ``UNKNOWN`` for all others."""

    UNKNOWN = -1
    PENDING = 0
    RUNNING = 1
    SUSPENDED = 2
    COMPLETED = 3
    CANCELLED = 4
    FAILED = 5
    TIMEOUT = 6
    NODE_FAIL = 7
    PREEMPTED = 8
    BOOT_FAIL = 9
    DEADLINE = 10
    OUT_OF_MEMORY = 11
    REQUEUED = 12


UNFINISHED = frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED})
"""States of an attempt that has not ended. A requeued attempt has ended; the job itself is pending again."""
