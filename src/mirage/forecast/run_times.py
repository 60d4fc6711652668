"""Run times of the visible jobs: what is drawn for each, and correlations in one future."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.forecast.chances_kernel import fill_chances
from mirage.policy.view import View

SHARED = 0.75
"""Share of draws that similar jobs of one user have in common: how often they end alike."""


@dataclass(frozen=True, slots=True)
class Uses:
    """For each job, the uses of the limit to draw from, all equally likely.

    Attributes:
        samples: Flat array of uses in (0, 1], sorted within each stretch.
        stretch: Shape (n, 2): first and last+1 of each job's; already restricted to uses above its elapsed time.
    """

    samples: Floats
    stretch: Ints


class RunTimes(Protocol):
    """A source of run times."""

    def uses(self, view: View) -> Uses:
        """Returns the possible uses of the limits of a view's pending, then running jobs."""
        ...


class TrueRunTimes:
    """The true run times of jobs: perfect knowledge, for upper bounds.

    Args:
        run_s: Shape (jobs,), by job id; a job with a higher id, a link, runs until its limit.
    """

    def __init__(self, run_s: Ints) -> None:
        self.run_s = run_s

    def uses(self, view: View) -> Uses:
        """Returns one use per job: its own."""
        ids = np.concatenate([view.pending.id, view.running.id])
        limit_s = np.concatenate([view.pending.limit_s, view.running.limit_s])
        known = ids < len(self.run_s)
        run_s = np.where(known, self.run_s[np.where(known, ids, 0)], limit_s)
        row = np.arange(len(ids))
        return Uses((run_s + 0.5) / np.maximum(limit_s, 1), np.stack([row, row + 1], axis=1))


def chances(view: View, futures: int, seed: int) -> Floats:
    """Returns uniform numbers, shape (futures, jobs), partly shared by similar jobs of a user.

    A job has the same number in the same future of every view: futures are consistent from one decision to the next,
    and from one process to the next.
    """
    ids = np.concatenate([view.pending.id, view.running.id]).astype(np.uint64)
    user = view.keys_of(np.concatenate([view.pending.user, view.running.user]))
    limit_s = np.concatenate([view.pending.limit_s, view.running.limit_s]).astype(np.uint64)
    found = np.empty((futures, len(ids)))
    fill_chances(np.uint64((seed * 8) & 0xFFFFFFFFFFFFFFFF), ids, user, limit_s, SHARED, found)
    return found
