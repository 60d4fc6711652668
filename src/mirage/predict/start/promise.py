"""Promise: a reported prediction of a start, and its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mirage.duration import DAY_S, MINUTE_S
from mirage.job_state import MISSING, JobState
from mirage.policy.start_forecast import StartForecast
from mirage.predict.start.quantile_levels import HORIZON_S, LEVELS, forecast_of
from mirage.predict.start.widened_ranges import PLACES, kind_of
from mirage.slurm_words.states import ALIVE, cancelled_while_pending

SUBMITTED_WITHIN_S = 15 * MINUTE_S
"""A predicted script is matched with the job of its name and size that is submitted within this time."""

FORGOTTEN_S = 35 * DAY_S
"""A promise without an outcome for this long never gets one: accounting no longer has the job."""

OPEN, SETTLED, VOID = "open", "kept", "void"
"""No outcome yet; has one; will have none: cancelled before its start, or never submitted."""


class ObservedJob(Protocol):
    """A job as the queue or accounting reports it."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def state(self) -> JobState:
        """Its state."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def user(self) -> str:
        """Its user's name."""

    @property
    def partition(self) -> str:
        """Its partition, or several with commas between them."""

    @property
    def nodes(self) -> int:
        """Nodes requested or held."""

    @property
    def limit_s(self) -> int:
        """Its time limit."""

    @property
    def submit_s(self) -> int:
        """When it was submitted."""

    @property
    def start_s(self) -> int:
        """When it started; for a pending job, when Slurm expects it to start."""

    @property
    def end_s(self) -> int:
        """When it ended, or will end at the latest."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A prediction as it was reported.

    Attributes:
        cluster: The cluster, as ``mirage.slurm.backend.cluster_of`` names it.
        job: Number of the job; ``MISSING`` for a script that is not submitted yet.
        submit_s: When the job was submitted; ``MISSING`` for a script.
        waits_s: Shape (places,), ascending waits from ``made_s`` that represent the futures; in promises of an earlier
            version, shape (levels,), quantiles.
        reported_s: Shape (levels,), the reported quantiles of the wait.
        slurm_s: The wait that Slurm expected; None if it gave no estimate.
        state: ``open``, ``kept`` or ``void``.
        wait_s: The actual wait; None while it is not known.
        parts_s: Shape (parts, levels), the quantiles from the queue and from accounting that were blended; empty if
            only the queue was used.
    """

    cluster: str
    made_s: int
    job: int
    submit_s: int
    user: str
    name: str
    partition: str
    nodes: int
    limit_s: int
    waits_s: tuple[float, ...]
    reported_s: tuple[float, ...]
    slurm_s: float | None = None
    state: str = OPEN
    wait_s: float | None = None
    parts_s: tuple[tuple[float, ...], ...] = ()

    @property
    def kind(self) -> str:
        """Partition and size, by which promises are grouped."""
        return kind_of(self.partition, self.nodes)

    def forecast(self) -> StartForecast:
        """Returns the futures as one column."""
        waits_s = np.array(self.waits_s)
        if len(waits_s) == len(LEVELS):
            waits_s = np.interp((np.arange(PLACES) + 0.5) / PLACES, LEVELS, waits_s)
        return forecast_of(self.made_s, np.round(waits_s).astype(np.int64), HORIZON_S)

    def is_job(self, job: ObservedJob) -> bool:
        """Whether a job is the one that the promise is about."""
        if self.job != MISSING:
            return job.id == self.job and job.submit_s == self.submit_s
        return (
            (job.user, job.name, job.nodes, job.limit_s) == (self.user, self.name, self.nodes, self.limit_s)
            and bool(set(job.partition.split(",")) & set(self.partition.split(",")))
            and self.made_s <= job.submit_s <= self.made_s + SUBMITTED_WITHIN_S
        )


def outcome(promise: Promise, jobs: Iterable[ObservedJob], now_s: int) -> tuple[str, float | None, int] | None:
    """Returns new state, wait and job of a promise; None while the outcome is not known."""
    observed = [job for job in jobs if promise.is_job(job)]
    if promise.job == MISSING and observed:
        first = min(observed, key=lambda job: (job.submit_s, job.id)).id
        observed = [job for job in observed if job.id == first]
    for job in observed:
        if job.state is JobState.PENDING or job.start_s == MISSING:
            continue
        if cancelled_while_pending(job.state, job.start_s, job.end_s):
            return VOID, None, job.id
        since_s = promise.made_s if promise.job != MISSING else job.submit_s
        return SETTLED, float(max(job.start_s - since_s, 0)), job.id
    if any(job.state not in ALIVE for job in observed):
        return VOID, None, observed[0].id
    never_submitted = promise.job == MISSING and not observed and now_s > promise.made_s + 2 * SUBMITTED_WITHIN_S
    if never_submitted or now_s > promise.made_s + FORGOTTEN_S:
        return VOID, None, promise.job
    return None
