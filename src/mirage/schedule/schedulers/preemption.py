"""Ways to preempt: checkpoint on demand, next checkpoint, kill, or the cheaper for a job."""

from __future__ import annotations

from typing import Any, get_args

from mirage.errors import UnknownName
from mirage.kernel.compile import kernel
from mirage.schedule.engine.kernel.gpu_arrays import BOUNDARY, KILL, SAVE
from mirage.schedule.scheduler_contract import How

CHEAPER = "cheaper"

_JOB_BY_JOB = -1

_WAYS = {"save": SAVE, "kill": KILL, "boundary": BOUNDARY, CHEAPER: _JOB_BY_JOB}


def way_number(preempt: str) -> int:
    """The number of a way, for compiled schedulers.

    Raises:
        UnknownName: There is no such way.
    """
    if preempt not in _WAYS:
        raise UnknownName("way to preempt", preempt, _WAYS)
    return _WAYS[preempt]


def checked_way(preempt: str) -> How:
    """The way, checked to be one that schedulers in Python can use.

    Raises:
        UnknownName: There is no such way.
    """
    for how in get_args(How):
        if preempt == how:
            found: How = how
            return found
    raise UnknownName("way to preempt", preempt, get_args(How))


@kernel()
def way_for_job(job: Any, way: int) -> int:
    """The way to preempt one job; amounts must be up to date.

    With ``CHEAPER``, a job is killed if a save would cost more GPU-seconds than its unsaved work.
    """
    if way != _JOB_BY_JOB:
        return way
    return KILL if 0.0 < job.unsafe < job.held * job.save_s else SAVE
