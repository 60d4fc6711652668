"""A light synthetic workload on a pool of processors, for benchmarks and known answers."""

from __future__ import annotations

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError
from mirage.job_state import JobState
from mirage.trace.table import JobTable

SIZES = (1, 2, 4, 8, 16, 32, 64)
SIZE_SHARES = (0.451, 0.121, 0.195, 0.1, 0.071, 0.042, 0.02)
"""Shares of jobs by processors; sizes that exceed the pool are cut down to it."""

RUN_MEDIAN_S, RUN_SIGMA, MIN_RUN_S = 1_800, 1.5, 30
"""Run times are log-normal: median and standard deviation of the logarithm."""

OVERESTIMATE = (1.1, 3.2)
"""Requested time divided by run time: uniform between these, rounded up to a minute."""

MIN_REQUEST_S, MAX_REQUEST_S = 3 * MINUTE_S, 2 * DAY_S

DAILY_SWING, PEAK_HOUR, WEEKEND = 0.6, 13.5, 0.58
"""The rate of arrivals swings by 60 % over a day and peaks at 13:30; weekends have 58 % of it."""


def pool_workload(jobs: int, processors: int = 352, load: float = 0.9, seed: int = 0) -> JobTable:
    """Draws a workload of independent jobs that queues for over an hour on average.

    This holds under EASY on 352 processors.

    At the defaults and 20,000 jobs, it matches a reference workload with a known schedule in:
    mean size 6.0 processors (45 % single), mean run time 5,450 s (log-normal, median 1,800 s, none over 2
    days), mean run / requested 0.5, offered load 0.9, arrivals every 100 s on average with the swing of day
    and weekend (from Monday 0:00 at time 0), sizes and run times independent, no habits of users. The
    mean wait under EASY follows: 4,900 s (median over twelve seeds) against 4,569 s of the reference.
    Submissions may share a second.

    Args:
        jobs: Number of jobs.
        processors: Processors of the pool; each is a node of the table.
        load: Requested processors × run time, summed, divided by processors × span of submissions.
        seed: Of the random generator.

    Returns:
        Jobs in order of submission, from time 0; ``elapsed_s`` never exceeds ``limit_s``; nothing is
        scheduled.

    Raises:
        ConfigurationError: An argument is out of range.
    """
    if jobs < 1 or processors < 1 or not 0 < load <= 100:
        raise ConfigurationError(
            f"jobs {jobs}, processors {processors}, load {load:g}: jobs and processors must be at least 1, "
            "load above 0 and at most 100"
        )
    size_stream, run_stream, request_stream, arrival_stream, user_stream = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)
    )
    share = np.cumsum(SIZE_SHARES) / np.sum(SIZE_SHARES)
    size = np.minimum(np.array(SIZES)[np.searchsorted(share, size_stream.random(jobs))], processors)
    run = np.exp(np.log(RUN_MEDIAN_S) + RUN_SIGMA * run_stream.standard_normal(jobs))
    run_s = np.clip(np.rint(run), MIN_RUN_S, MAX_REQUEST_S).astype(np.int64)
    requested = run_s * request_stream.uniform(*OVERESTIMATE, jobs)
    limit_s = np.clip(np.ceil(requested / MINUTE_S).astype(np.int64) * MINUTE_S, MIN_REQUEST_S, MAX_REQUEST_S)
    submit_s = _arrivals(jobs, float(run_s @ size) / (load * processors), arrival_stream)
    return JobTable.build(
        np.arange(1, jobs + 1),
        submit_s=submit_s,
        eligible_s=submit_s,
        elapsed_s=run_s,
        limit_s=limit_s,
        nodes=size,
        cpus=size,
        state=np.where(run_s < limit_s, int(JobState.COMPLETED), int(JobState.TIMEOUT)),
        user=[f"user{u + 1:02d}" for u in user_stream.integers(0, 37, jobs)],
    )


def _arrivals(jobs: int, span_s: float, stream: np.random.Generator) -> Ints:
    """Draws whole seconds of a Poisson process with daily and weekly cycle over ``span_s``."""
    edge_s = np.arange(0, span_s + HOUR_S, HOUR_S)
    hour = edge_s[:-1] / HOUR_S + 0.5
    rate = 1 + DAILY_SWING * np.cos((hour - PEAK_HOUR) * (2 * np.pi / 24))
    rate = np.where(hour // 24 % 7 >= 5, WEEKEND, 1) * rate
    mean = np.concatenate([[0.0], np.cumsum(rate)])
    place = np.cumsum(stream.exponential(size=jobs))
    end = np.interp(span_s, edge_s, mean)
    submit_s = np.floor(np.interp(place * (end / place[-1]), mean, edge_s))
    return np.asarray(submit_s, dtype=np.int64)
