"""Observations of run times: what jobs requested, and the share of their limits they used."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.policy.view import Ended, QueueJobs, View

LEAST_USE = 1e-6
"""Uses of the limit are above 0, so that their logarithm exists."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of jobs, n rows: the columns that squeue and sacct print for every job.

    Attributes:
        name: Code of the folded job name; ``MISSING`` without a name.
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
        """These rows, followed by the other's."""
        names = [f.name for f in fields(self)]
        return Requests(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass(frozen=True, slots=True)
class Observations:
    """Known uses of the limit at a given time, n rows.

    Ended jobs come first, in order of their end, then running ones.

    Attributes:
        use: In (0, 1]: the use of an ended job, or the use up to now of a running one.
        ended: Whether a job has ended; of the others it is only known that they use more (right-censoring).
        end_s: Of a running job, ``now_s``.
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
        """Combines ended and running jobs; uses are clipped to (0, 1]."""
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
    """Returns the uses of the limit that a view shows."""
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
    """Returns unfinished jobs, and the seconds they have run already.

    Pending jobs come first, in queue order, then running ones.

    """
    pending, running = view.pending, view.running
    elapsed_s = np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)])
    return _requests(pending).followed_by(_requests(running)), elapsed_s


def _requests(jobs: QueueJobs | Ended) -> Requests:
    return Requests(jobs.user, jobs.name, jobs.account, jobs.limit_s, jobs.nodes, jobs.submit_s)
