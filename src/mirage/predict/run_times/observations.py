"""Observations of run times: what jobs asked for, and how much of their limits they used."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats, Ints
from mirage.policy.view import Ended, Jobs, View

LEAST_USE = 1e-6
"""Uses of the limit are above 0, so that they have a logarithm."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What jobs asked for, n rows: the columns that squeue and sacct tell of every job.

    Attributes:
        name: Code of the folded job name; ``MISSING`` where there is none.
    """

    user: Ints
    name: Ints
    account: Ints
    limit_s: Ints
    nodes: Ints
    submit_s: Ints

    def __len__(self) -> int:
        return len(self.user)

    def __getitem__(self, rows: slice | Ints | NDArray[np.bool_]) -> Requests:
        return Requests(*(getattr(self, f.name)[rows] for f in fields(self)))

    def followed_by(self, other: Requests) -> Requests:
        """These rows and then the other's."""
        names = [f.name for f in fields(self)]
        return Requests(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass(frozen=True, slots=True)
class Observations:
    """What is known at a moment about uses of the limit, n rows: ended jobs in order of their end, then running ones.

    Attributes:
        use: In (0, 1]: of an ended job what it used, of a running one what it has used so far.
        ended: Whether a job has ended; of the others only that they use more (right-censoring).
        end_s: Of a running job ``now_s``.
    """

    requests: Requests
    use: Floats
    ended: NDArray[np.bool_]
    end_s: Ints
    now_s: int

    def __len__(self) -> int:
        return len(self.use)

    @classmethod
    def of(cls, ended: Requests, used: Floats, end_s: Ints, running: Requests, so_far: Floats, now_s: int) -> Self:
        """Ended and running jobs put together; uses are brought into (0, 1]."""
        return cls(
            ended.followed_by(running),
            np.clip(np.concatenate([used, so_far]), LEAST_USE, 1.0),
            np.arange(len(used) + len(so_far)) < len(used),
            np.concatenate([end_s, np.full(len(so_far), now_s)]),
            now_s,
        )


def share_of_limit(seconds: Ints | Floats, limit_s: Ints) -> Floats:
    """Run times as a share of their limits, in (0, 1]."""
    share: Floats = np.clip(seconds / np.maximum(limit_s, 1), LEAST_USE, 1.0)
    return share


def observed(view: View) -> Observations:
    """What a view tells about uses of the limit."""
    ended, running = view.ended, view.running
    return Observations.of(
        _requests(ended),
        share_of_limit(ended.end_s - ended.start_s, ended.limit_s),
        ended.end_s,
        _requests(running),
        share_of_limit(view.now_s - running.start_s, running.limit_s),
        view.now_s,
    )


def unfinished(view: View) -> tuple[Requests, Floats]:
    """The jobs whose run times are asked for, pending ones in queue order, then running ones; seconds run already."""
    pending, running = view.pending, view.running
    elapsed_s = np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)])
    return _requests(pending).followed_by(_requests(running)), elapsed_s


def _requests(jobs: Jobs | Ended) -> Requests:
    return Requests(jobs.user, jobs.name, jobs.account, jobs.limit_s, jobs.nodes, jobs.submit_s)
